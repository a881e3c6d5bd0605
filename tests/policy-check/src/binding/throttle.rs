//! `policy/rust/src/throttle.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::throttle::{Rule, Throttle};

const CORES: u64 = 8;

#[derive(Default)]
struct Binding {
    throttle: Option<Box<Throttle>>,
}

fn init(e: &Event) -> Option<Box<Throttle>> {
    let rule = match e.b {
        0 => Rule::Latency,
        1 => Rule::Rate,
        _ => return None,
    };
    let cores = u32::try_from(e.a).ok().filter(|_| e.a <= CORES)?;
    Throttle::new(cores, rule, e.c, u32::try_from(e.d).ok()?)
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(t) = &mut self.throttle else {
            if e.op == 0 {
                self.throttle = init(e);
            }
            return answer([self.throttle.is_some().into()]);
        };
        match e.op {
            1 => answer([t.report(e.id, e.a).into()]),
            2 => {
                let contended = t.monitor(e.a, e.b);
                answer([t.throttled().into(), t.requests(), t.most_requests(), contended.into()])
            }
            3 => answer([t.ran(e.id, e.a)]),
            4 if e.id < t.cpus() => {
                let all = (0..t.cpus()).filter(|&cpu| t.allowed(cpu)).count();
                answer([t.allowed(e.id).into(), all as u64])
            }
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
