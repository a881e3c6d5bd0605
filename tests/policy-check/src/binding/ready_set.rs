//! `policy/rust/src/ready_set.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::MAX_TASKS;
use solocore_policy::ready_set::ReadySet;

#[derive(Default)]
struct Binding {
    set: Option<ReadySet>,
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let out_of_range = (e.op == 1 || e.op == 2) && e.id as usize >= MAX_TASKS;
        if (e.op == 0) == self.set.is_some() || out_of_range {
            return Answer::default();
        }
        let set = self.set.get_or_insert_with(ReadySet::new);
        let done = match e.op {
            0 => true,
            1 => set.add(e.id),
            2 => set.remove(e.id),
            3 => true,
            _ => return Answer::default(),
        };
        answer([done.into(), set.first().unwrap_or(u32::MAX).into(), set.len() as u64])
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
