//! `policy/rust/src/admission.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::admission::{Admission, Response};

#[derive(Default)]
struct Binding {
    set: Option<Box<Admission>>,
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(set) = &mut self.set else {
            if e.op == 0 {
                self.set = Some(Box::default());
            }
            return answer([u64::from(e.op == 0)]);
        };
        match e.op {
            1 => {
                let deadline = (e.c != 0).then_some(e.c);
                answer([set.add(e.a, e.b, deadline).unwrap_or(u32::MAX).into()])
            }
            2 => answer([set.utilization()]),
            3 => answer([set.passes_rms().into()]),
            4 => answer([set.passes_hyperbolic().into()]),
            5 => match set.response(e.id) {
                Some(Response::Fits(ns)) => answer([1, ns]),
                Some(Response::Unknown) => answer([2]),
                Some(Response::Late) | None => Answer::default(),
            },
            6 => {
                set.clear();
                answer([1])
            }
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
