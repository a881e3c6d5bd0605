//! A private cache: set-associative, write-back, write-allocate, least recently used first.
//!
//! Rule: an entry packs tag and dirty bit in 32 bits, so that eight ways are two vector registers;
//! the order of use is kept beside them (`sets`). A line is in the cache from the moment it is
//! asked for; the arrival of its data is handled by the core (miss registers). The simulator's line
//! keys carry the treatment of their page, so an evicted line needs no look-up. Not covered:
//! other replacement policies.

use crate::sets::{EMPTY, Sets};

/// The key of no line.
pub const NONE: u64 = u64::MAX;

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The line was there.
    pub hit: bool,
    /// An evicted dirty line, or [`NONE`].
    pub victim: u64,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Private {
    sets: Sets,
    set_bits: u32,
    set_mask: u64,
}

impl Private {
    /// An empty cache of `sets` (a power of two) by `ways`; tags, keys above the set bits, must fit
    /// in 31 bits and not be all ones.
    pub fn new(sets: u64, ways: u32) -> Self {
        let count = usize::try_from(sets).unwrap_or(usize::MAX);
        Self {
            sets: Sets::new(count, ways as usize),
            set_bits: sets.trailing_zeros(),
            set_mask: sets - 1,
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "checked: tags have at most 31 bits")]
    fn tag(&self, key: u64) -> u32 {
        (key >> self.set_bits) as u32
    }

    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "sets are a power of two that fits in memory"
    )]
    fn set(&self, key: u64) -> usize {
        (key & self.set_mask) as usize
    }

    /// Accesses a line if it is there; otherwise changes nothing.
    #[inline(always)]
    pub fn hit(&mut self, key: u64, write: bool) -> bool {
        self.sets.hit(self.set(key), self.tag(key), write)
    }

    /// Is a line there? Nothing is changed.
    #[inline]
    #[must_use]
    pub fn holds(&self, key: u64) -> bool {
        self.sets.find(self.set(key), self.tag(key)).is_some()
    }

    /// Puts in a line that is not in the cache; returns an evicted dirty line, or [`NONE`].
    #[inline]
    pub fn insert(&mut self, key: u64, write: bool) -> u64 {
        let old = self.sets.insert(self.set(key), self.tag(key) << 1 | u32::from(write));
        let dirty = old != EMPTY && old & 1 == 1;
        if dirty { u64::from(old >> 1) << self.set_bits | (key & self.set_mask) } else { NONE }
    }

    /// Accesses a line; it is in the cache afterwards, dirty if `write`.
    #[inline]
    pub fn access(&mut self, key: u64, write: bool) -> Looked {
        let hit = self.hit(key, write);
        Looked { hit, victim: if hit { NONE } else { self.insert(key, write) } }
    }

    /// Takes a line out; true if it was dirty.
    pub fn remove(&mut self, key: u64) -> bool {
        let set = self.set(key);
        let Some(way) = self.sets.find(set, self.tag(key)) else { return false };
        self.sets.forget(set, way);
        self.sets.replace(set, way, EMPTY) & 1 == 1
    }

    /// Makes a line clean, if it is in the cache; true if it was dirty.
    pub fn clean(&mut self, key: u64) -> bool {
        let set = self.set(key);
        self.sets.find(set, self.tag(key)).is_some_and(|way| self.sets.clean(set, way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A set as a list of (line, dirty), most recent first.
    fn naive(sets: &mut [Vec<(u64, bool)>], ways: usize, key: u64, write: bool) -> Looked {
        let count = sets.len() as u64;
        let set = &mut sets[usize::try_from(key % count).unwrap()];
        if let Some(at) = set.iter().position(|e| e.0 == key) {
            let (_, dirty) = set.remove(at);
            set.insert(0, (key, dirty | write));
            return Looked { hit: true, victim: NONE };
        }
        set.insert(0, (key, write));
        let out = if set.len() > ways { set.pop() } else { None };
        Looked { hit: false, victim: out.filter(|e| e.1).map_or(NONE, |e| e.0) }
    }

    proptest! {
        #[test]
        fn contents_are_those_of_a_naive_cache(
            ways in 1u32..24, bits in 0u32..4, trace in prop::collection::vec((0u64..200, any::<bool>(), 0u8..20), 1..800),
        ) {
            let mut cache = Private::new(1 << bits, ways);
            let mut sets = vec![Vec::new(); 1 << bits];
            for (key, write, what) in trace {
                let set = &mut sets[usize::try_from(key % (1 << bits)).unwrap()];
                if what == 0 {
                    let at = set.iter().position(|e: &(u64, bool)| e.0 == key);
                    prop_assert_eq!(cache.remove(key), at.is_some_and(|at| set.remove(at).1));
                    continue;
                }
                if what == 1 {
                    let entry = set.iter_mut().find(|e| e.0 == key);
                    prop_assert_eq!(cache.clean(key), entry.is_some_and(|e| std::mem::replace(&mut e.1, false)));
                    continue;
                }
                let expect = naive(&mut sets, ways as usize, key, write);
                prop_assert_eq!(cache.access(key, write), expect);
            }
        }
    }
}
