//! LRU stacks: hits and write-backs for every associativity up to `ways`, from one pass.
//!
//! With a fixed number of sets, an LRU cache of `w` ways holds the top `w` of each set's stack. So
//! a read found at depth `d` hits exactly in the caches of at least `d` ways. For write-backs each
//! entry keeps `clean_below`: the caches of fewer ways have written the line back since its last
//! write. Moving a line from depth `d` to the front means that the caches of `clean_below..d` ways
//! had evicted it while dirty.

/// No cache holds the line dirty.
const CLEAN: u8 = u8::MAX;

/// `line << 8 | clean_below`: half the memory to search and move of two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const EMPTY: Self = Self(u64::MAX);

    fn new(line: u64, clean_below: u8) -> Self {
        Self(line << 8 | u64::from(clean_below))
    }

    fn line(self) -> u64 {
        self.0 >> 8
    }

    fn clean_below(self) -> u8 {
        self.0 as u8
    }
}

/// Effect of an access on the cache with all its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The line was there.
    pub hit: bool,
    /// A dirty line had to leave.
    pub wrote_back: bool,
}

/// The stacks of one cache.
#[derive(Clone, Debug)]
pub struct StackCache {
    entries: Vec<Entry>,
    ways: usize,
    set_mask: u64,
    reads: u64,
    read_hits_at: Vec<u64>,
    /// Differences: caches of `w` ways wrote back `sum(written_back[..=w])` lines.
    written_back: Vec<i64>,
}

impl StackCache {
    /// Empty stacks for `sets` (a power of two) by at most `ways` (64 or fewer).
    ///
    /// # Panics
    /// If the sizes are outside these limits.
    pub fn new(sets: u32, ways: u32) -> Self {
        assert!(sets.is_power_of_two() && (1..=64).contains(&ways));
        let ways = ways as usize;
        Self {
            entries: vec![Entry::EMPTY; sets as usize * ways],
            ways,
            set_mask: u64::from(sets) - 1,
            reads: 0,
            read_hits_at: vec![0; ways + 1],
            written_back: vec![0; ways + 2],
        }
    }

    /// A line is read (filled into a private cache) or written back into this cache.
    pub fn access(&mut self, line: u64, write: bool) -> Full {
        let base = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.entries[base..base + self.ways];
        self.reads += u64::from(!write);
        // One pass looks for the line and makes room at the front.
        let mut carried = Entry::new(line, if write { 1 } else { CLEAN });
        for at in 0..set.len() {
            let entry = std::mem::replace(&mut set[at], carried);
            if entry.line() == line {
                let (depth, clean_below) = (at + 1, entry.clean_below());
                charge(&mut self.written_back, clean_below, depth);
                if !write {
                    self.read_hits_at[depth] += 1;
                    if clean_below != CLEAN {
                        set[0] = Entry::new(line, clean_below.max(depth as u8));
                    }
                }
                return Full { hit: true, wrote_back: false };
            }
            carried = entry;
        }
        let wrote_back = charge(&mut self.written_back, carried.clean_below(), self.ways + 1);
        Full { hit: false, wrote_back }
    }

    /// Writes every dirty line back, as the next program on the machine would cause; returns the
    /// number of lines for the cache with all its ways.
    pub fn flush(&mut self) -> u64 {
        let mut count = 0;
        for entry in &mut self.entries {
            count += u64::from(charge(&mut self.written_back, entry.clean_below(), self.ways + 1));
            *entry = Entry::EMPTY;
        }
        count
    }

    /// DRAM accesses (reads and write-backs) with 1, 2, ... ways.
    pub fn transactions_by_ways(&self) -> Vec<u64> {
        let (mut misses, mut backs) = (self.reads, 0i64);
        (1..=self.ways)
            .map(|w| {
                misses -= self.read_hits_at[w];
                backs += self.written_back[w];
                misses + u64::try_from(backs).unwrap_or(0)
            })
            .collect()
    }
}

/// Counts a write-back in the caches of `from..to` ways; true if there were any.
fn charge(written_back: &mut [i64], from: u8, to: usize) -> bool {
    let from = usize::from(from);
    if from >= to {
        return false;
    }
    written_back[from] += 1;
    written_back[to] -= 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LruCache;

    /// One pass must equal `ways` separate caches, reads and write-backs alike.
    #[test]
    fn equals_separate_caches() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for case in 0..50u64 {
            let (sets, ways) = (1u32 << (case % 4), 1 + (case % 9) as u32);
            let mut stack = StackCache::new(sets, ways);
            let mut plain: Vec<LruCache> = (1..=ways).map(|w| LruCache::new(sets, w)).collect();
            let mut expect = vec![0u64; ways as usize];
            for _ in 0..3000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (line, write) = ((state >> 33) % 64, (state >> 60).is_multiple_of(3));
                let full = stack.access(line, write);
                for (w, cache) in plain.iter_mut().enumerate() {
                    let got = cache.access(line, write);
                    expect[w] +=
                        u64::from(!got.hit && !write) + u64::from(got.written_back.is_some());
                    if w + 1 == ways as usize {
                        assert_eq!(
                            (full.hit, full.wrote_back),
                            (got.hit, got.written_back.is_some())
                        );
                    }
                }
            }
            stack.flush();
            for (w, cache) in plain.iter_mut().enumerate() {
                expect[w] += cache.flush().len() as u64;
            }
            assert_eq!(stack.transactions_by_ways(), expect, "{sets} sets, {ways} ways");
        }
    }
}
