//! Time tables: what level A runs at which offset of a major frame that repeats (mc2-os-isolation,
//! section 2: a table-driven cyclic executive per core).
//!
//! Looked up by walking along the table, frame by frame.

use crate::{Answer, Event, World};

const MAX_TASKS: usize = 4096;
const NONE: u64 = 0xffff_ffff;
const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const UNLIMITED: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Slot {
    start: u64,
    end: u64,
    id: u64,
}

struct Table {
    frame: u64,
    origin: u64,
    slots: Vec<Slot>,
}

impl Table {
    fn append(&mut self, slot: Slot) -> bool {
        let follows = self.slots.last().is_none_or(|last| last.end <= slot.start);
        // SC_NONE is the answer "nothing is active": no slot can be called so.
        let valid = follows && slot.start < slot.end && slot.end <= self.frame && slot.id < NONE;
        if valid && self.slots.len() < MAX_TASKS {
            self.slots.push(slot);
            return true;
        }
        false
    }

    fn lookup(&self, now: u64) -> [u64; 4] {
        let now = now.min(MAX_TIME);
        let number = now.saturating_sub(self.origin) / self.frame;
        // The frame of `now` and the one after it hold the next edge, if there is any.
        for frame in [number, number + 1] {
            let base = self.origin + frame * self.frame;
            for slot in &self.slots {
                if now < base + slot.start {
                    return [NONE, base + slot.start, 0, number];
                }
                if now < base + slot.end {
                    return [slot.id, base + slot.end, base + slot.start, number];
                }
            }
        }
        [NONE, UNLIMITED, 0, number]
    }
}

#[derive(Default)]
struct TimeTable {
    table: Option<Table>,
}

impl World for TimeTable {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut answer = Answer::default();
        let Some(table) = &mut self.table else {
            if event.op == 0 && (1..=MAX_SPAN).contains(&event.a) {
                let origin = event.now.min(MAX_TIME);
                self.table = Some(Table { frame: event.a, origin, slots: Vec::new() });
                answer.word[0] = 1;
            }
            return answer;
        };
        match event.op {
            1 => {
                let slot = Slot { start: event.a, end: event.b, id: event.c };
                answer.word[0] = u64::from(table.append(slot));
            }
            2 => answer.word[..4].copy_from_slice(&table.lookup(event.now)),
            _ => {}
        }
        answer
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(TimeTable::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frame 100 from 1000 on: [10, 20) is 7, [20, 30) is 8, [90, 100) is 9.
    fn example() -> Table {
        let mut table = Table { frame: 100, origin: 1000, slots: Vec::new() };
        for (start, end, id) in [(10, 20, 7), (20, 30, 8), (90, 100, 9)] {
            assert!(table.append(Slot { start, end, id }));
        }
        table
    }

    #[test]
    fn slots_and_gaps() {
        let table = example();
        assert_eq!(table.lookup(0), [NONE, 1010, 0, 0], "before the origin");
        assert_eq!(table.lookup(1010), [7, 1020, 1010, 0]);
        assert_eq!(table.lookup(1019), [7, 1020, 1010, 0]);
        assert_eq!(table.lookup(1020), [8, 1030, 1020, 0]);
        assert_eq!(table.lookup(1030), [NONE, 1090, 0, 0]);
        assert_eq!(table.lookup(1099), [9, 1100, 1090, 0]);
        assert_eq!(table.lookup(1100), [NONE, 1110, 0, 1]);
    }

    #[test]
    fn the_gap_runs_into_the_next_frame() {
        let mut table = Table { frame: 100, origin: 0, slots: Vec::new() };
        assert_eq!(table.lookup(250), [NONE, UNLIMITED, 0, 2]);
        assert!(table.append(Slot { start: 10, end: 20, id: 1 }));
        assert_eq!(table.lookup(250), [NONE, 310, 0, 2]);
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let mut table = example();
        assert!(!table.append(Slot { start: 99, end: 100, id: 1 }), "overlaps");
        let mut table = Table { frame: 100, origin: 0, slots: Vec::new() };
        assert!(!table.append(Slot { start: 5, end: 5, id: 1 }), "empty");
        assert!(!table.append(Slot { start: 5, end: 101, id: 1 }), "beyond the frame");
        for i in 0..100 {
            assert!(table.append(Slot { start: i, end: i + 1, id: i }));
        }
    }

    #[test]
    fn the_4097th_is_refused() {
        let mut table = Table { frame: 10_000, origin: 0, slots: Vec::new() };
        for i in 0..4096 {
            assert!(table.append(Slot { start: i, end: i + 1, id: i }));
        }
        assert!(!table.append(Slot { start: 4096, end: 4097, id: 1 }));
    }
}
