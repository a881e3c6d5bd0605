//! A priority queue of ids by key (any textbook's min-heap): the smallest key first, of equal keys
//! the lowest id.
//!
//! The queue holds each id once. Pushing what is there and removing what is not there is refused.

use crate::{Answer, Event, World};
use std::collections::{BTreeMap, BTreeSet};

const MAX_TASKS: u32 = 4096;
const NONE: u64 = 0xffff_ffff;
const UNLIMITED: u64 = u64::MAX;

#[derive(Default)]
struct Heap {
    ready: bool,
    order: BTreeSet<(u64, u32)>,
    key: BTreeMap<u32, u64>,
}

impl Heap {
    fn push(&mut self, id: u32, key: u64) -> bool {
        if id >= MAX_TASKS || self.key.contains_key(&id) {
            return false;
        }
        self.key.insert(id, key);
        self.order.insert((key, id))
    }

    fn remove(&mut self, id: u32) -> bool {
        match self.key.remove(&id) {
            Some(key) => self.order.remove(&(key, id)),
            None => false,
        }
    }

    /// Whether it was done, then the heap as it is afterwards: the top's id and key, the number of
    /// members, and whether `id` is one of them.
    fn look(&self, done: bool, id: u32) -> Answer {
        let (key, top) =
            self.order.first().map_or((UNLIMITED, NONE), |&(key, top)| (key, u64::from(top)));
        let there = u64::from(self.key.contains_key(&id));
        Answer { word: [u64::from(done), top, key, self.order.len() as u64, there, 0] }
    }
}

impl World for Heap {
    fn apply(&mut self, event: &Event) -> Answer {
        if event.op == 0 && !self.ready {
            self.ready = true;
            return Answer { word: [1, 0, 0, 0, 0, 0] };
        }
        if !self.ready {
            return Answer::default();
        }
        let done = match event.op {
            1 => self.push(event.id, event.a),
            2 => self.remove(event.id),
            3 => match self.order.first() {
                Some(&(_, id)) => self.remove(id),
                None => false,
            },
            // A look changes nothing.
            4 => false,
            _ => return Answer::default(),
        };
        self.look(done, event.id)
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Heap::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(world: &mut dyn World, op: u32, id: u32, key: u64) -> [u64; 5] {
        let word = world.apply(&Event { op, id, a: key, ..Event::default() }).word;
        [word[0], word[1], word[2], word[3], word[4]]
    }

    #[test]
    fn smallest_key_then_lowest_id() {
        let mut world = world();
        assert_eq!(ask(&mut *world, 1, 9, 5), [0; 5], "before init");
        assert_eq!(ask(&mut *world, 0, 0, 0), [1, 0, 0, 0, 0]);
        assert_eq!(ask(&mut *world, 4, 0, 0), [0, NONE, UNLIMITED, 0, 0]);
        assert_eq!(ask(&mut *world, 1, 9, 5), [1, 9, 5, 1, 1]);
        assert_eq!(ask(&mut *world, 1, 7, 5), [1, 7, 5, 2, 1]);
        assert_eq!(ask(&mut *world, 1, 8, 4), [1, 8, 4, 3, 1]);
        assert_eq!(ask(&mut *world, 1, 8, 1), [0, 8, 4, 3, 1], "it is there");
        assert_eq!(ask(&mut *world, 1, 4096, 1), [0, 8, 4, 3, 0], "there is no such id");
        assert_eq!(ask(&mut *world, 2, 7, 0), [1, 8, 4, 2, 0]);
        assert_eq!(ask(&mut *world, 3, 9, 0), [1, 9, 5, 1, 1], "8 is popped; 9 is there");
        assert_eq!(ask(&mut *world, 3, 9, 0), [1, NONE, UNLIMITED, 0, 0]);
        assert_eq!(ask(&mut *world, 3, 9, 0), [0, NONE, UNLIMITED, 0, 0]);
    }
}
