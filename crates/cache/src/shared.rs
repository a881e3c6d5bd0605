//! The shared cache: way masks, slices, three replacement policies.
//!
//! Rule: a line may be found in any way, but a miss takes a way of its mask (Intel CAT, PL310
//! lockdown by master). Of the mask's ways an empty one goes first, then: LRU, the least recently
//! used; tree pseudo-LRU, the leaf to which the bits point, a subtree without allowed ways being
//! passed over; random, any, from the seed. The cache is neither inclusive of the private caches
//! nor exclusive. A sliced cache spreads lines over slices by a hash: the XOR of all groups of
//! `log2(slices)` bits of the line number. Real hashes are not published; this one too gives every
//! slice the same share of any aligned block. Not covered: contention for tags and ports, adaptive
//! policies.

use crate::private::{Looked, NONE};
use crate::sets::{EMPTY, Sets};
use solocore_model::platform::Replacement;
use solocore_model::random::Random;

/// The cache.
#[derive(Clone, Debug)]
pub struct Shared {
    /// With the order of use, for LRU.
    sets: Sets,
    /// Tree pseudo-LRU: a bit for each inner node, the root at bit 1; 1 points right.
    trees: Vec<u64>,
    random: Random,
    policy: Replacement,
    ways: usize,
    set_bits: u32,
    slice_bits: u32,
}

impl Shared {
    /// An empty cache of `sets` in each slice (both powers of two) by `ways` up to 64.
    pub fn new(sets: u64, slices: u32, ways: u32, policy: Replacement, seed: u64) -> Self {
        let all = usize::try_from(sets).unwrap_or(usize::MAX) * slices as usize;
        Self {
            sets: Sets::new(all, ways as usize),
            trees: vec![0; if policy == Replacement::Plru { all } else { 0 }],
            random: Random::new(seed),
            policy,
            ways: ways as usize,
            set_bits: sets.trailing_zeros(),
            slice_bits: slices.trailing_zeros(),
        }
    }

    /// The set of a line, over all slices.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "sets fit in memory")]
    fn set(&self, key: u64) -> usize {
        let within = key & ((1 << self.set_bits) - 1);
        if self.slice_bits == 0 {
            return within as usize;
        }
        let mut slice = key;
        if self.slice_bits <= 2 {
            // Without a loop, for up to four slices.
            slice ^= slice >> 32;
            slice ^= slice >> 16;
            slice ^= slice >> 8;
            slice ^= slice >> 4;
            slice ^= slice >> 2;
            slice ^= if self.slice_bits == 1 { slice >> 1 } else { 0 };
        } else {
            let mut shift = self.slice_bits;
            while shift < u64::BITS {
                slice ^= slice >> shift;
                shift *= 2;
            }
        }
        let slice = slice & ((1 << self.slice_bits) - 1);
        (slice << self.set_bits | within) as usize
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "checked: tags have at most 31 bits")]
    fn tag(&self, key: u64) -> u32 {
        (key >> self.set_bits) as u32
    }

    /// Reads the set of a line without using it, so that the simulating CPU has it when the
    /// access comes.
    #[inline(always)]
    pub fn prepare(&self, key: u64) {
        self.sets.prepare(self.set(key));
    }

    /// Accesses a line. It is in the cache afterwards, dirty if `write`, unless it missed and
    /// `mask` is 0.
    #[inline]
    pub fn access(&mut self, key: u64, write: bool, mask: u64) -> Looked {
        let (set, tag) = (self.set(key), self.tag(key));
        if let Some(way) = self.sets.find(set, tag) {
            self.sets.mark(set, way, write);
            self.touch(set, way);
            return Looked { hit: true, victim: NONE };
        }
        if mask == 0 {
            return Looked { hit: false, victim: NONE };
        }
        let way = self.victim(set, mask);
        let old = self.sets.replace(set, way, tag << 1 | u32::from(write));
        self.touch(set, way);
        let dirty = old != EMPTY && old & 1 == 1;
        let within = key & ((1 << self.set_bits) - 1);
        Looked {
            hit: false,
            victim: if dirty { u64::from(old >> 1) << self.set_bits | within } else { NONE },
        }
    }

    /// A number for the place that a line has: below the number of ways of all sets. `None` if it
    /// is not there.
    #[must_use]
    pub fn place(&self, key: u64) -> Option<usize> {
        let set = self.set(key);
        Some(set * self.ways + self.sets.find(set, self.tag(key))?)
    }

    /// Takes a line out without writing it back; true if it was dirty.
    pub fn remove(&mut self, key: u64) -> bool {
        let (set, tag) = (self.set(key), self.tag(key));
        let Some(way) = self.sets.find(set, tag) else { return false };
        let dirty = self.sets.replace(set, way, EMPTY) & 1 == 1;
        if self.policy == Replacement::Lru {
            self.sets.forget(set, way);
        }
        dirty
    }

    /// A way becomes the most recent of its set.
    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        match self.policy {
            Replacement::Lru => self.sets.touch(set, way),
            Replacement::Plru => {
                let levels = tree_levels(self.ways);
                let mut node = 1usize;
                for level in (0..levels).rev() {
                    let right = way >> level & 1;
                    // Points away from the way.
                    let bit = 1u64 << node;
                    self.trees[set] =
                        if right == 1 { self.trees[set] & !bit } else { self.trees[set] | bit };
                    node = node << 1 | right;
                }
            }
            Replacement::Random => {}
        }
    }

    /// A way of `mask`, which is not 0.
    #[inline]
    fn victim(&mut self, set: usize, mask: u64) -> usize {
        if self.policy == Replacement::Lru {
            return self.sets.last_of(set, mask);
        }
        let entries = self.sets.entries(set);
        if let Some(way) = (0..self.ways).find(|&way| mask >> way & 1 == 1 && entries[way] == EMPTY)
        {
            return way;
        }
        if self.policy == Replacement::Plru {
            return plru(self.trees[set], tree_levels(self.ways), mask);
        }
        let mut rest = mask;
        for _ in 0..self.random.below(u64::from(mask.count_ones())) {
            rest &= rest - 1;
        }
        rest.trailing_zeros() as usize
    }
}

/// Levels of a tree over `ways` leaves; leaves beyond them are never in a mask.
fn tree_levels(ways: usize) -> u32 {
    ways.next_power_of_two().trailing_zeros()
}

/// Follows the bits to a leaf of `mask`.
fn plru(tree: u64, levels: u32, mask: u64) -> usize {
    let (mut node, mut way) = (1usize, 0usize);
    for level in (0..levels).rev() {
        let half = 1u32 << level;
        let leaves = u64::MAX >> (64 - half);
        let allowed = |right: usize| mask >> ((way << 1 | right) << level) & leaves != 0;
        let wanted = usize::from(tree >> node & 1 == 1);
        let right = if allowed(wanted) { wanted } else { 1 - wanted };
        node = node << 1 | right;
        way = way << 1 | right;
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy)]
    struct Line {
        key: u64,
        dirty: bool,
        used: u64,
    }

    /// Each set a list of ways; the least recently used of the mask goes.
    fn naive(set: &mut [Option<Line>], now: u64, key: u64, write: bool, mask: u64) -> Looked {
        if let Some(line) = set.iter_mut().flatten().find(|l| l.key == key) {
            (line.dirty, line.used) = (line.dirty | write, now);
            return Looked { hit: true, victim: NONE };
        }
        let ways = (0..set.len()).filter(|w| mask >> w & 1 == 1);
        let Some(way) = ways.min_by_key(|&w| set[w].map_or(0, |l| l.used)) else {
            return Looked { hit: false, victim: NONE };
        };
        let old = set[way].replace(Line { key, dirty: write, used: now });
        Looked { hit: false, victim: old.filter(|l| l.dirty).map_or(NONE, |l| l.key) }
    }

    proptest! {
        #[test]
        fn lru_is_that_of_a_naive_cache(
            ways in 1u32..=64, slices in 0u32..3, masks in prop::collection::vec(any::<u64>(), 1..4),
            trace in prop::collection::vec((0u64..600, any::<bool>(), 0u8..40), 1..1500),
        ) {
            let mut cache = Shared::new(2, 1 << slices, ways, Replacement::Lru, 1);
            let mut sets = vec![vec![None; ways as usize]; 2 << slices];
            for (now, (key, write, what)) in (1..).zip(trace) {
                let set = cache.set(key);
                if what == 39 {
                    cache.remove(key);
                    sets[set].iter_mut().filter(|l| l.is_some_and(|l: Line| l.key == key)).for_each(|l| *l = None);
                    continue;
                }
                let mask = masks[usize::from(what) % masks.len()] & (u64::MAX >> (64 - ways));
                let got = cache.access(key, write, mask);
                prop_assert_eq!(got, naive(&mut sets[set], now, key, write, mask));
                // The choice among several empty ways is free: the test follows it.
                let mut taken: Vec<Option<Line>> = vec![None; ways as usize];
                for (way, &entry) in cache.sets.entries(set).iter().enumerate() {
                    if entry != EMPTY {
                        let key = u64::from(entry >> 1) << 1 | (key & 1);
                        taken[way] = sets[set].iter().flatten().find(|l| l.key == key).copied();
                        prop_assert!(taken[way].is_some_and(|l| l.dirty == (entry & 1 == 1)));
                    }
                }
                sets[set] = taken;
            }
        }

        #[test]
        fn others_stay_in_their_mask_and_fill_empty_ways_first(
            ways in 1u32..=64, plru in any::<bool>(), masks in prop::collection::vec(any::<u64>(), 1..4),
            trace in prop::collection::vec((0u64..300, 0u8..40), 1..600),
        ) {
            let policy = if plru { Replacement::Plru } else { Replacement::Random };
            let mut cache = Shared::new(2, 1, ways, policy, 7);
            for (key, what) in trace {
                let mask = masks[usize::from(what) % masks.len()] & (u64::MAX >> (64 - ways));
                let set = cache.set(key);
                let before = cache.sets.entries(set).to_vec();
                let got = cache.access(key, false, mask);
                let after = cache.sets.entries(set);
                let changed: Vec<usize> = (0..ways as usize).filter(|&w| before[w] != after[w]).collect();
                prop_assert_eq!(changed.len(), usize::from(!got.hit && mask != 0));
                for way in changed {
                    prop_assert!(mask >> way & 1 == 1);
                    let empty = (0..ways as usize).any(|w| mask >> w & 1 == 1 && before[w] == EMPTY);
                    prop_assert_eq!(before[way] == EMPTY, empty);
                }
                prop_assert_eq!(cache.sets.find(cache.set(key), cache.tag(key)).is_some(), got.hit || mask != 0);
            }
        }
    }

    /// Four ways: after 0, 1, 2, 3 and a hit on 0 the tree points at 2.
    #[test]
    fn pseudo_lru_follows_its_tree() {
        let mut cache = Shared::new(1, 1, 4, Replacement::Plru, 1);
        (0..4).for_each(|key| assert!(!cache.access(key, true, 15).hit));
        assert!(cache.access(0, false, 15).hit);
        assert_eq!(cache.access(9, false, 15), Looked { hit: false, victim: 2 });
        // Now it points at way 1; way 3 is the only one allowed.
        assert_eq!(cache.access(10, false, 8), Looked { hit: false, victim: 3 });
    }

    #[test]
    fn slices_share_a_block_evenly() {
        let cache = Shared::new(64, 4, 2, Replacement::Lru, 1);
        let mut lines = vec![0; 256];
        (0..512u64).for_each(|key| lines[cache.set(key)] += 1);
        assert!(lines.iter().all(|&n| n == 2));
    }
}
