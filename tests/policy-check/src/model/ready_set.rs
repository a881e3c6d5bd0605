//! The ready tasks of one core with distinct priorities (any fixed-priority scheduler, Liu and
//! Layland 1973): a set of ranks, of which the lowest runs.
//!
//! Adding what is there and removing what is not there does nothing and answers that nothing was
//! done.

use crate::{Answer, Event, World};
use std::collections::BTreeSet;

const MAX_TASKS: u32 = 4096;
const NONE: u64 = 0xffff_ffff;

#[derive(Default)]
struct ReadySet {
    ready: bool,
    ranks: BTreeSet<u32>,
}

impl ReadySet {
    fn look(&self, done: bool) -> Answer {
        let first = self.ranks.first().map_or(NONE, |&rank| u64::from(rank));
        Answer { word: [u64::from(done), first, self.ranks.len() as u64, 0, 0, 0] }
    }
}

impl World for ReadySet {
    fn apply(&mut self, event: &Event) -> Answer {
        if event.op == 0 && !self.ready {
            self.ready = true;
            return self.look(true);
        }
        if !self.ready {
            return Answer::default();
        }
        match event.op {
            1 | 2 if event.id >= MAX_TASKS => Answer::default(),
            1 => {
                let done = self.ranks.insert(event.id);
                self.look(done)
            }
            2 => {
                let done = self.ranks.remove(&event.id);
                self.look(done)
            }
            3 => self.look(true),
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(ReadySet::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(world: &mut dyn World, op: u32, id: u32) -> [u64; 3] {
        let word = world.apply(&Event { op, id, ..Event::default() }).word;
        [word[0], word[1], word[2]]
    }

    #[test]
    fn the_lowest_rank_is_first() {
        let mut world = world();
        assert_eq!(ask(&mut *world, 1, 3), [0, 0, 0], "before init");
        assert_eq!(ask(&mut *world, 0, 0), [1, NONE, 0]);
        assert_eq!(ask(&mut *world, 1, 4095), [1, 4095, 1]);
        assert_eq!(ask(&mut *world, 1, 64), [1, 64, 2]);
        assert_eq!(ask(&mut *world, 1, 64), [0, 64, 2]);
        assert_eq!(ask(&mut *world, 1, 4096), [0, 0, 0]);
        assert_eq!(ask(&mut *world, 2, 64), [1, 4095, 1]);
        assert_eq!(ask(&mut *world, 2, 64), [0, 4095, 1]);
        assert_eq!(ask(&mut *world, 0, 0), [0, 0, 0], "a second init");
    }
}
