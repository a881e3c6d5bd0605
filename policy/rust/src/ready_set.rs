//! A set of ranks (`policy/include/solocore/ready_set.h`).

use crate::NONE;
use crate::raw;

/// The set of ready ranks, 0 to 4095 with 0 the highest priority. Every operation is O(1).
pub use crate::raw::sc_ready_set as ReadySet;

impl ReadySet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rank; false if it is out of range or already there.
    pub fn add(&mut self, rank: u32) -> bool {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_ready_add(self, rank) != 0 }
    }

    /// Removes a rank; false if it is not in the set.
    pub fn remove(&mut self, rank: u32) -> bool {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_ready_remove(self, rank) != 0 }
    }

    /// The first rank: the one to run.
    pub fn first(&self) -> Option<u32> {
        // SAFETY: `self` is a valid set.
        let rank = unsafe { raw::sc_ready_first(self) };
        (rank != NONE).then_some(rank)
    }

    /// The first rank from `from` on.
    pub fn next(&self, from: u32) -> Option<u32> {
        // SAFETY: `self` is a valid set.
        let rank = unsafe { raw::sc_ready_next(self, from) };
        (rank != NONE).then_some(rank)
    }

    /// Whether the rank is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_ready_contains(self, rank) != 0 }
    }

    /// Number of ranks.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    unsafe extern "C" {
        static sc_size_ready_set: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: a constant of the C side.
        assert_eq!(unsafe { sc_size_ready_set }, size_of::<ReadySet>() as u64);
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_set(ranks in prop::collection::vec(0u32..4200, 0..200), from in 0u32..4200) {
            let (mut set, mut expect) = (ReadySet::new(), BTreeSet::new());
            for rank in ranks {
                if rank % 3 == 0 {
                    prop_assert_eq!(set.remove(rank), expect.remove(&rank));
                } else {
                    prop_assert_eq!(set.add(rank), rank < 4096 && expect.insert(rank));
                }
            }
            prop_assert_eq!(set.first(), expect.first().copied());
            prop_assert_eq!(set.next(from), expect.range(from..).next().copied());
            prop_assert_eq!((set.len(), set.is_empty()), (expect.len(), expect.is_empty()));
            prop_assert_eq!(set.contains(from), expect.contains(&from));
        }
    }
}
