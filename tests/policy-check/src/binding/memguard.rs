//! `policy/rust/src/memguard.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::memguard::{Kind, MemGuard, MemGuardCore, Role, Sharing, Verdict};

const CORES: usize = 8;

#[derive(Default)]
struct Binding {
    shared: Option<MemGuard>,
    limit: usize,
    cores: [Option<MemGuardCore>; CORES],
}

fn kind(word: u64) -> Option<Kind> {
    match word {
        0 => Some(Kind::Read),
        1 => Some(Kind::Write),
        _ => None,
    }
}

fn verdict(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::Stop => 0,
        Verdict::Go => 1,
        Verdict::GoAll => 2,
    }
}

impl Binding {
    fn init(&mut self, e: &Event) -> Answer {
        let sharing = match e.c {
            0 => Sharing::None,
            1 => Sharing::Spare,
            2 => Sharing::Proportional,
            _ => return Answer::default(),
        };
        let Some(cores) = u32::try_from(e.d).ok().filter(|&n| n as usize <= CORES) else {
            return Answer::default();
        };
        self.shared = MemGuard::new(e.a, e.b, sharing, cores);
        self.limit = cores as usize;
        answer([self.shared.is_some().into()])
    }
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(g) = &mut self.shared else {
            return if e.op == 0 { self.init(e) } else { Answer::default() };
        };
        let id = e.id as usize;
        if e.op == 0 || id >= self.limit {
            return Answer::default();
        }
        if e.op == 1 {
            if self.cores[id].is_some() || e.c > 7 {
                return Answer::default();
            }
            let role = Role { hard: e.c & 1 != 0, predict: e.c & 2 != 0, reclaim: e.c & 4 != 0 };
            self.cores[id] = MemGuardCore::new(g, e.a, e.b, role, e.now);
            return answer([self.cores[id].is_some().into()]);
        }
        let Some(c) = &mut self.cores[id] else { return Answer::default() };
        match e.op {
            2 => {
                let Some(kind) = kind(e.a) else { return Answer::default() };
                let word = verdict(c.account(g, kind, e.b));
                answer([word, c.sample(kind), c.used(kind), c.budget(kind), c.throttled().into()])
            }
            3 => {
                let throttled = c.throttled();
                let began = c.replenish(g, e.now);
                let pools = g.pool(Kind::Read) << 32 | g.pool(Kind::Write);
                let freed = throttled && !c.throttled();
                answer([
                    began.into(),
                    freed.into(),
                    c.budget(Kind::Read),
                    c.budget(Kind::Write),
                    c.next_ns(),
                    pools,
                ])
            }
            4 => {
                let go = c.resume(g);
                answer([go.into(), c.sample(Kind::Read), c.sample(Kind::Write), c.round().into()])
            }
            5 => answer([kind(e.a).is_some_and(|kind| c.request(kind, e.b)).into()]),
            6 => {
                let [r, w] = [Kind::Read, Kind::Write];
                answer([
                    c.used(r),
                    c.used(w),
                    c.budget(r),
                    c.budget(w),
                    c.predicted(r),
                    c.predicted(w),
                ])
            }
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
