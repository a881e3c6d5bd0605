//! Memory bandwidth lock behind the Rust binding.

use crate::{Answer, Event, World};
use solocore_policy::bwlock::BwLock;

/// The largest world (`SC_WORLD_CPUS`).
const CPUS: u64 = 8;
/// `SC_NONE`: the core idles.
const NONE: u64 = 0xffff_ffff;

#[derive(Default)]
struct Binding(Option<BwLock>);

impl Binding {
    fn init(&mut self, e: &Event) -> Option<[u64; 6]> {
        if self.0.is_some() || e.d > CPUS {
            return None;
        }
        let cores = u32::try_from(e.d).ok()?;
        self.0 = Some(BwLock::new(e.a, e.b, e.c, cores, e.now)?);
        Some([1, 0, 0, 0, 0, 0])
    }
}

fn task(l: &mut BwLock, e: &Event) -> Option<[u64; 6]> {
    let ok = match e.op {
        1 => e.a <= 1 && l.add(e.id, e.a == 1),
        2 => l.lock(e.id),
        3 => l.unlock(e.id),
        _ => l.exit(e.id),
    };
    let (depth, holders) = (u64::from(l.depth(e.id)), l.holders());
    ok.then_some(match e.op {
        1 => [1, 0, 0, 0, 0, 0],
        8 => [1, holders, 0, 0, 0, 0],
        _ => [1, depth, holders, 0, 0, 0],
    })
}

fn core(l: &mut BwLock, e: &Event) -> Option<[u64; 6]> {
    let go = match e.op {
        4 if e.a == NONE => l.switch(e.id, None, e.b)?,
        4 => l.switch(e.id, Some(u32::try_from(e.a).ok()?), e.b)?,
        5 => l.account(e.id, e.a)?,
        6 => {
            let began = u64::from(l.tick(e.id, e.now)?);
            let go = u64::from(!l.throttled(e.id)?);
            return Some([
                go,
                began,
                l.used(e.id)?,
                l.budget(e.id)?,
                l.holders(),
                l.next_ns(e.id)?,
            ]);
        }
        _ => l.update(e.id)?,
    };
    let (go, used, budget, sample) =
        (u64::from(go), l.used(e.id)?, l.budget(e.id)?, l.sample(e.id)?);
    Some(if e.op == 4 {
        [1, go, budget, used, l.holders(), sample]
    } else {
        [go, sample, used, budget, 0, 0]
    })
}

impl World for Binding {
    fn apply(&mut self, event: &Event) -> Answer {
        let word = match (event.op, &mut self.0) {
            (0, _) => self.init(event),
            (1..=3 | 8, Some(lock)) => task(lock, event),
            (4..=7, Some(lock)) => core(lock, event),
            (9, Some(lock)) => lock.limit(event.a).then_some([1, 0, 0, 0, 0, 0]),
            _ => None,
        };
        Answer { word: word.unwrap_or_default() }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Binding>::default()
}
