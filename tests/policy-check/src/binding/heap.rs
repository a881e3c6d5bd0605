//! `policy/rust/src/heap.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::heap::Heap;

#[derive(Default)]
struct Binding {
    heap: Option<Box<Heap>>,
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(heap) = &mut self.heap else {
            if e.op == 0 {
                self.heap = Some(Heap::new());
            }
            return answer([u64::from(e.op == 0)]);
        };
        let done = match e.op {
            1 => heap.push(e.a, e.id),
            2 => heap.remove(e.id),
            3 => heap.top().is_some_and(|(_, id)| heap.remove(id)),
            4 => false,
            _ => return Answer::default(),
        };
        let (key, id) = heap.top().unwrap_or((u64::MAX, u32::MAX));
        answer([done.into(), id.into(), key, heap.len() as u64, heap.contains(e.id).into()])
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
