//! `policy/rust/src/levels.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::levels::{Level, Levels, State};

const CORES: u64 = 8;

#[derive(Default)]
struct Binding {
    levels: Option<Levels>,
}

fn state(state: State) -> u64 {
    match state {
        State::Idle => 1,
        State::Ready => 2,
        State::Suspended => 3,
    }
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(w) = &mut self.levels else {
            if e.op == 0 && e.a <= CORES {
                self.levels = u32::try_from(e.a).ok().and_then(|cores| Levels::new(cores, e.now));
            }
            return answer([self.levels.is_some().into()]);
        };
        match e.op {
            1 => {
                let levels = [Level::A, Level::B, Level::C, Level::D];
                let level = usize::try_from(e.a).ok().and_then(|at| levels.get(at).copied());
                let core = u32::try_from(e.b).unwrap_or(u32::MAX);
                answer([level.is_some_and(|level| w.add(e.id, level, core, e.c, e.d)).into()])
            }
            2 => answer([u32::try_from(e.c)
                .is_ok_and(|task| w.slot(e.id, e.a, e.b, task, e.d))
                .into()]),
            3 => w.release(e.id, e.now).map_or(Answer::default(), |s| answer([1, state(s)])),
            4 => answer([w.complete(e.id, e.now).into()]),
            5 => w.pick(e.id, e.now).map_or(Answer::default(), |choice| {
                let level = choice.level.map_or(4, |level| level as u64);
                answer([
                    choice.task.unwrap_or(u32::MAX).into(),
                    level,
                    choice.until_ns,
                    w.overruns(),
                ])
            }),
            6 => w.task(e.id).map_or(Answer::default(), |t| {
                let running = t.running().unwrap_or(u32::MAX).into();
                answer([state(t.state()), t.used_ns(), t.deadline_ns(), t.overruns(), running])
            }),
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
