//! A plain set-associative LRU cache of line numbers with dirty bits (private second level, and the
//! ways of the simulator's shared cache).

const EMPTY: u64 = u64::MAX;

/// Set-associative, write-back, LRU.
#[derive(Clone, Debug)]
pub struct LruCache {
    /// `line << 1 | dirty`, in recency order within a set.
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

/// Result of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The line was there.
    pub hit: bool,
    /// A dirty line that had to leave.
    pub written_back: Option<u64>,
}

impl LruCache {
    /// An empty cache of `sets` (a power of two) by `ways`.
    ///
    /// # Panics
    /// If `sets` is not a power of two or `ways` is zero.
    pub fn new(sets: u32, ways: u32) -> Self {
        assert!(sets.is_power_of_two() && ways > 0);
        Self { entries: vec![EMPTY; sets as usize * ways as usize], ways: ways as usize, set_mask: u64::from(sets) - 1 }
    }

    /// Accesses `line`; it is in the cache afterwards, dirty if `write`.
    pub fn access(&mut self, line: u64, write: bool) -> Outcome {
        let base = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.entries[base..base + self.ways];
        let mut carried = line << 1 | u64::from(write);
        for at in 0..set.len() {
            let entry = std::mem::replace(&mut set[at], carried);
            if entry >> 1 == line && entry != EMPTY {
                set[0] = entry | u64::from(write);
                return Outcome { hit: true, written_back: None };
            }
            carried = entry;
        }
        let dirty = carried != EMPTY && carried & 1 == 1;
        Outcome { hit: false, written_back: dirty.then_some(carried >> 1) }
    }

    /// Empties the cache and hands out its dirty lines.
    pub fn flush(&mut self) -> Vec<u64> {
        let dirty = self.entries.iter().filter(|&&e| e != EMPTY && e & 1 == 1).map(|&e| e >> 1).collect();
        self.entries.fill(EMPTY);
        dirty
    }
}
