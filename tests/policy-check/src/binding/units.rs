//! `policy/rust/src/units.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::units;

#[derive(Default)]
struct Binding {
    ready: bool,
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        if !self.ready {
            self.ready = e.op == 0;
            return answer([self.ready.into()]);
        }
        match e.op {
            1 => answer([units::events(e.a, e.b, e.c)]),
            2 => answer([units::bandwidth(e.a, e.b, e.c), units::megabytes(e.a, e.b, e.c)]),
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
