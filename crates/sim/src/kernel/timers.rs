//! The kernel's timers: a fixed number of slots, each off or set to one time.
//!
//! Setting a slot again replaces its time, so that memory does not grow with the simulated time,
//! however often a scheduler sets its timer. Slots that are due at one time fire in the order of
//! their numbers.

/// Time of a slot that is off.
pub const NEVER: u64 = u64::MAX;

/// A binary heap over slots that knows the position of each.
pub struct Timers {
    /// Slots by heap position, earliest first.
    heap: Vec<u32>,
    /// By slot: (time, position in the heap; meaningless while off).
    slots: Vec<(u64, u32)>,
}

impl Timers {
    /// All off.
    pub fn new(slots: usize) -> Self {
        Self { heap: Vec::with_capacity(slots), slots: vec![(NEVER, 0); slots] }
    }

    /// The first time; [`NEVER`] if all are off.
    pub fn first_ps(&self) -> u64 {
        self.heap.first().map_or(NEVER, |&slot| self.slots[slot as usize].0)
    }

    /// Turns off the first slot that is due at `now_ps`.
    pub fn take_due(&mut self, now_ps: u64) -> Option<usize> {
        let slot = *self.heap.first()? as usize;
        if self.slots[slot].0 > now_ps {
            return None;
        }
        self.set(slot, NEVER);
        Some(slot)
    }

    /// Sets a slot, or turns it off ([`NEVER`]).
    pub fn set(&mut self, slot: usize, time_ps: u64) {
        let (old, at) = self.slots[slot];
        if old == time_ps {
            return;
        }
        self.slots[slot].0 = time_ps;
        let mut at = at as usize;
        if old == NEVER {
            at = self.heap.len();
            self.heap.push(u32::try_from(slot).unwrap_or(u32::MAX));
        } else if time_ps == NEVER {
            let last = self.heap.len() - 1;
            self.heap.swap_remove(at);
            if at == last {
                return;
            }
        }
        let at = self.up(at);
        self.down(at);
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let key = |at: usize| (self.slots[self.heap[at] as usize].0, self.heap[at]);
        key(a) < key(b)
    }

    fn note(&mut self, at: usize) {
        self.slots[self.heap[at] as usize].1 = u32::try_from(at).unwrap_or(u32::MAX);
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            self.note(at);
            at = (at - 1) / 2;
        }
        self.note(at);
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(child, least) {
                    least = child;
                }
            }
            if least == at {
                self.note(at);
                return;
            }
            self.heap.swap(at, least);
            self.note(at);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The timers agree with a list that is searched.
        #[test]
        fn fires_in_order_of_time_and_slot(sets in prop::collection::vec((0usize..12, prop::option::of(0u64..40)), 0..120)) {
            let mut timers = Timers::new(12);
            let mut model = [NEVER; 12];
            for (n, (slot, time)) in sets.into_iter().enumerate() {
                timers.set(slot, time.unwrap_or(NEVER));
                model[slot] = time.unwrap_or(NEVER);
                prop_assert_eq!(timers.first_ps(), *model.iter().min().unwrap());
                if n % 5 == 4 {
                    let now = 20;
                    let due = (0..12).filter(|&s| model[s] <= now).min_by_key(|&s| (model[s], s));
                    prop_assert_eq!(timers.take_due(now), due);
                    if let Some(slot) = due { model[slot] = NEVER; }
                }
            }
        }
    }
}
