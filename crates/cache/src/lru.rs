//! A simple set-associative LRU cache of line numbers with dirty bits (private second level, and
//! the ways of the simulator's shared cache).

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
    /// An evicted dirty line.
    pub written_back: Option<u64>,
}

impl LruCache {
    /// An empty cache of `sets` (a power of two) by `ways`.
    ///
    /// # Panics
    /// If `sets` is not a power of two or `ways` is zero.
    pub fn new(sets: u32, ways: u32) -> Self {
        assert!(sets.is_power_of_two() && ways > 0);
        Self {
            entries: vec![EMPTY; sets as usize * ways as usize],
            ways: ways as usize,
            set_mask: u64::from(sets) - 1,
        }
    }

    /// Accesses `line`; it is in the cache afterwards, dirty if `write`.
    pub fn access(&mut self, line: u64, write: bool) -> Outcome {
        let base = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.entries[base..base + self.ways];
        // Eight ways are the usual case; with the length known the search and the move have no
        // branches.
        match <&mut [u64; 8]>::try_from(&mut *set) {
            Ok(set) => Self::to_front(set, line, write),
            Err(_) => Self::to_front(set, line, write),
        }
    }

    #[inline(always)]
    fn to_front<S: AsMut<[u64]> + ?Sized>(set: &mut S, line: u64, write: bool) -> Outcome {
        let set = set.as_mut();
        let last = set.len() - 1;
        let mut at = last + 1;
        for (i, &entry) in set.iter().enumerate() {
            at = if entry >> 1 == line && entry != EMPTY { i } else { at };
        }
        let entry = set[at.min(last)];
        let mut before = line << 1 | u64::from(write);
        for (i, slot) in set.iter_mut().enumerate() {
            let own = *slot;
            *slot = if i <= at { before } else { own };
            before = own;
        }
        if at <= last {
            set[0] = entry | u64::from(write);
            return Outcome { hit: true, written_back: None };
        }
        let dirty = entry != EMPTY && entry & 1 == 1;
        Outcome { hit: false, written_back: dirty.then_some(entry >> 1) }
    }

    /// Empties the cache and hands out its dirty lines.
    pub fn flush(&mut self) -> Vec<u64> {
        let dirty =
            self.entries.iter().filter(|&&e| e != EMPTY && e & 1 == 1).map(|&e| e >> 1).collect();
        self.entries.fill(EMPTY);
        dirty
    }
}
