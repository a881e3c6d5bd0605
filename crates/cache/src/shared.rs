//! The shared cache: way masks, slices, three replacement policies.
//!
//! Rule: a line may be found in any way, but a miss takes a way of its mask (Intel CAT, PL310
//! lockdown by master). Of the mask's ways an empty one goes first, then: LRU, the least recently
//! used; tree pseudo-LRU, the leaf to which the bits point, a subtree without allowed ways being
//! passed over; random, any, from the seed. The cache is neither inclusive of the private caches
//! nor exclusive. A sliced cache spreads lines over slices by parities of address bits, as the
//! platform states them ([`Slices::functions`]). Where none are known, the hash is the XOR of all
//! groups of `log2(slices)` bits of the line number: it too gives every slice the same share of any
//! aligned block. Not covered: contention for tags and ports, adaptive policies.

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
    /// The slice of a line is the XOR of three entries, by the parts of its number.
    tables: Box<Tables>,
}

/// Bits of a line number that choose an entry of a table; three tables take a line number.
const ENTRY_BITS: u32 = 12;
const ENTRIES: usize = 1 << ENTRY_BITS;
type Tables = [[u8; ENTRIES]; 3];

/// The slices of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    /// Their number, a power of two up to 256.
    pub count: u32,
    /// For each bit of a slice's number, the bits of a physical address whose parity it is; empty:
    /// not known.
    pub functions: &'a [u64],
    /// Bytes of a line, a power of two.
    pub line: u64,
}

impl Slices<'_> {
    /// One slice.
    pub const ONE: Slices<'static> = Slices { count: 1, functions: &[], line: 64 };

    /// Masks of the line number whose parities are the bits of the slice.
    fn of_lines(&self) -> Vec<u64> {
        let bits = self.count.trailing_zeros();
        if self.functions.is_empty() {
            let every = |bit: u32| (bit..64).step_by(bits as usize).fold(0, |m, at| m | 1 << at);
            return (0..bits).map(every).collect();
        }
        self.functions.iter().map(|mask| mask >> self.line.trailing_zeros()).collect()
    }

    fn tables(&self) -> Box<Tables> {
        let masks = self.of_lines();
        let slice = |line: u64| {
            let bit = |(at, mask): (usize, &u64)| ((line & mask).count_ones() as u8 & 1) << at;
            masks.iter().enumerate().map(bit).fold(0, |slice, bit| slice | bit)
        };
        let mut tables = Box::new([[0; ENTRIES]; 3]);
        for (part, table) in (0..).zip(tables.iter_mut()) {
            for (entry, of) in (0u64..).zip(table.iter_mut()) {
                *of = slice(entry << (part * ENTRY_BITS));
            }
        }
        tables
    }
}

impl Shared {
    /// An empty cache of `sets` in each slice (a power of two) by `ways` up to 64. Line numbers
    /// have at most 36 bits.
    pub fn new(sets: u64, slices: Slices<'_>, ways: u32, policy: Replacement, seed: u64) -> Self {
        let all = usize::try_from(sets).unwrap_or(usize::MAX) * slices.count as usize;
        Self {
            sets: Sets::new(all, ways as usize),
            trees: vec![0; if policy == Replacement::Plru { all } else { 0 }],
            random: Random::new(seed),
            policy,
            ways: ways as usize,
            set_bits: sets.trailing_zeros(),
            slice_bits: slices.count.trailing_zeros(),
            tables: slices.tables(),
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
        let (low, rest) = (key as usize % ENTRIES, (key >> ENTRY_BITS) as usize);
        let (middle, high) = (rest % ENTRIES, rest >> ENTRY_BITS);
        let t = &*self.tables;
        let slice = u64::from(t[0][low] ^ t[1][middle] ^ t[2][high % ENTRIES]);
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
            let mut cache = Shared::new(2, unknown(1 << slices), ways, Replacement::Lru, 1);
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
            let mut cache = Shared::new(2, Slices::ONE, ways, policy, 7);
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
        let mut cache = Shared::new(1, Slices::ONE, 4, Replacement::Plru, 1);
        (0..4).for_each(|key| assert!(!cache.access(key, true, 15).hit));
        assert!(cache.access(0, false, 15).hit);
        assert_eq!(cache.access(9, false, 15), Looked { hit: false, victim: 2 });
        // Now it points at way 1; way 3 is the only one allowed.
        assert_eq!(cache.access(10, false, 8), Looked { hit: false, victim: 3 });
    }

    #[test]
    fn slices_share_a_block_evenly() {
        let published: &[u64] = &[0x1b_5f57_5440, 0x2e_b5fa_a880];
        for functions in [&[], published] {
            let slices = Slices { count: 4, functions, line: 64 };
            let cache = Shared::new(64, slices, 2, Replacement::Lru, 1);
            let mut lines = vec![0; 256];
            (0..512u64).for_each(|key| lines[cache.set(key)] += 1);
            assert!(lines.iter().all(|&n| n == 2), "{functions:?}");
        }
    }

    /// The parities of the address itself are the reference of the tables.
    #[test]
    fn a_slice_is_that_of_the_functions() {
        let functions = [0x1b_5f57_5440, 0x2e_b5fa_a880, 0x3c_ccc9_3100];
        let slices = Slices { count: 8, functions: &functions, line: 64 };
        let cache = Shared::new(64, slices, 2, Replacement::Lru, 1);
        let folded = Shared::new(64, unknown(4), 2, Replacement::Lru, 1);
        let mut address = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..10_000 {
            address = address.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = address >> 22;
            let bit = |m: &u64| (at & m).count_ones() as usize & 1;
            let slice = functions.iter().enumerate().map(|(i, m)| bit(m) << i).sum::<usize>();
            assert_eq!(cache.set(at >> 6) >> 6, slice, "{at:#x}");
            let groups = (0..18).fold(0, |slice, n| slice ^ (at >> 6 >> (2 * n) & 3) as usize);
            assert_eq!(folded.set(at >> 6) >> 6, groups, "{at:#x}");
        }
    }

    fn unknown(count: u32) -> Slices<'static> {
        Slices { count, functions: &[], line: 64 }
    }
}
