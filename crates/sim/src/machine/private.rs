//! A private cache: set-associative, write-back, write-allocate, least recently used first.
//!
//! Rule: a set is an array in recency order; an entry packs tag and dirty bit in 32 bits, so that eight ways are two vector
//! registers. A hit on the most recent line costs a compare. A line is in the cache from the moment it is asked for; when its
//! data arrive is the core's business (miss registers). Line keys (`super::key`) carry how their page is treated, so an
//! evicted line needs no look-up.
//! Not covered: prefetchers, other replacement policies.

pub(super) const NONE: u64 = u64::MAX;
const EMPTY: u32 = u32::MAX;

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    pub hit: bool,
    /// A dirty line that had to leave, or [`NONE`].
    pub victim: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Private {
    /// `tag << 1 | dirty`, most recent first within a set.
    entries: Vec<u32>,
    ways: usize,
    set_bits: u32,
    set_mask: u64,
}

impl Private {
    /// An empty cache of `sets` (a power of two) by `ways`; tags must fit in 31 bits (`MachineConfig::check`).
    pub fn new(sets: u64, ways: u32) -> Self {
        let ways = ways as usize;
        let length = usize::try_from(sets).unwrap_or(usize::MAX) * ways;
        Self { entries: vec![EMPTY; length], ways, set_bits: sets.trailing_zeros(), set_mask: sets - 1 }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "checked: tags have at most 31 bits")]
    fn tag(&self, key: u64) -> u32 {
        (key >> self.set_bits) as u32
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "sets are a power of two that fits in memory")]
    fn base(&self, key: u64) -> usize {
        (key & self.set_mask) as usize * self.ways
    }

    /// The line of an entry of the set that `key` belongs to.
    #[inline(always)]
    fn key_of(&self, entry: u32, key: u64) -> u64 {
        u64::from(entry >> 1) << self.set_bits | (key & self.set_mask)
    }

    /// Accesses a line if it is the most recent of its set; otherwise changes nothing.
    #[inline(always)]
    pub fn front(&mut self, key: u64, write: bool) -> bool {
        let tag = self.tag(key);
        let base = self.base(key);
        let Some(first) = self.entries.get_mut(base) else { return false };
        let hit = *first >> 1 == tag;
        *first |= u32::from(hit & write);
        hit
    }

    /// Accesses a line; it is in the cache afterwards, dirty if `write`.
    #[inline(always)]
    pub fn access(&mut self, key: u64, write: bool) -> Looked {
        let (tag, base) = (self.tag(key), self.base(key));
        let set = &mut self.entries[base..base + self.ways];
        let fresh = tag << 1 | u32::from(write);
        // With the length known, search and move have no branches.
        let (hit, last) = match self.ways {
            2 => fixed::<2>(set, fresh),
            4 => fixed::<4>(set, fresh),
            8 => fixed::<8>(set, fresh),
            16 => fixed::<16>(set, fresh),
            _ => to_front(set, fresh),
        };
        let dirty = !hit && last != EMPTY && last & 1 == 1;
        Looked { hit, victim: if dirty { self.key_of(last, key) } else { NONE } }
    }

    /// Takes a line out; was it dirty?
    pub fn remove(&mut self, key: u64) -> bool {
        let (tag, base) = (self.tag(key), self.base(key));
        let set = &mut self.entries[base..base + self.ways];
        let Some(at) = set.iter().position(|&e| e != EMPTY && e >> 1 == tag) else { return false };
        let entry = set[at];
        set.copy_within(at + 1.., at);
        set[self.ways - 1] = EMPTY;
        entry & 1 == 1
    }

    /// Makes a line clean, if it is there; was it dirty?
    pub fn clean(&mut self, key: u64) -> bool {
        let (tag, base) = (self.tag(key), self.base(key));
        let found = self.entries[base..base + self.ways].iter_mut().find(|e| **e == tag << 1 | 1);
        found.map(|entry| *entry &= !1).is_some()
    }
}

/// [`to_front`] for a known length: all entries are compared and moved at once.
#[inline(always)]
fn fixed<const N: usize>(set: &mut [u32], fresh: u32) -> (bool, u32) {
    let Ok(set) = <&mut [u32; N]>::try_from(set) else { return (false, EMPTY) };
    let old = *set;
    let found = matches(&old, fresh >> 1);
    let at = found.trailing_zeros();
    let mut moved = old;
    for i in 1..N {
        moved[i] = if i as u32 <= at { old[i - 1] } else { old[i] };
    }
    let out = old[(at as usize).min(N - 1)];
    let hit = found != 0;
    moved[0] = if hit { out | (fresh & 1) } else { fresh };
    *set = moved;
    (hit, out)
}

/// A bit for each entry with this tag. Tags have 31 bits and not all of them set, so an empty entry never matches.
#[inline(always)]
pub(super) fn matches<const N: usize>(entries: &[u32; N], tag: u32) -> u32 {
    let mut found = 0;
    for (i, &entry) in entries.iter().enumerate() {
        found |= u32::from(entry >> 1 == tag) << i;
    }
    found
}

/// Moves the line to the front of its set, or puts it there; hit, and the entry that fell out or was there.
fn to_front(set: &mut [u32], fresh: u32) -> (bool, u32) {
    let last = set.len() - 1;
    let found = set.iter().position(|entry| entry >> 1 == fresh >> 1);
    let at = found.unwrap_or(last);
    let old = set[at];
    set.copy_within(..at, 1);
    set[0] = if found.is_some() { old | (fresh & 1) } else { fresh };
    (found.is_some(), old)
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
            ways in 1u32..20, bits in 0u32..4, trace in prop::collection::vec((0u64..200, any::<bool>(), 0u8..20), 1..800),
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
                let front = set.first().is_some_and(|e| e.0 == key);
                let expect = naive(&mut sets, ways as usize, key, write);
                if what < 12 && cache.front(key, write) {
                    prop_assert!(front);
                } else {
                    prop_assert_eq!(cache.access(key, write), expect);
                }
            }
        }
    }
}
