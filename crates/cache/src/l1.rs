//! A first-level cache with virtual tags, whose hits cost a compare and an add.
//!
//! Each set is an array in recency order. An entry packs three fields into one word: the line
//! number, the number of references since the line came in (so that per-page counts need no work on
//! a hit), and a dirty bit: `line << 20 | count << 1 | dirty`.

const COUNT_BITS: u32 = 19;
const TAG_SHIFT: u32 = COUNT_BITS + 1;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const EMPTY: u64 = u64::MAX;

/// A line that left the cache, or a count that was taken out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Line number (virtual).
    pub line: u64,
    /// References since it came in.
    pub references: u64,
    /// It was written to.
    pub dirty: bool,
}

/// Result of a reference that was not a plain hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// A hit; the entry's counter was full and its content is handed out.
    CounterFull(Evicted),
    /// A miss; the line is now in, and another may have left.
    Miss(Option<Evicted>),
}

/// Set-associative, write-back, write-allocate, LRU.
#[derive(Clone, Debug)]
pub struct L1 {
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

fn unpack(entry: u64) -> Evicted {
    Evicted {
        line: entry >> TAG_SHIFT,
        references: (entry >> 1) & COUNT_MAX,
        dirty: entry & 1 == 1,
    }
}

impl L1 {
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

    /// References `line` if it is the most recent of its set and its counter has room: the common
    /// case, one compare and one add. Otherwise nothing is changed; call [`L1::reference`].
    #[inline(always)]
    pub fn front_hit(&mut self, line: u64, write: bool) -> bool {
        let base = (line & self.set_mask) as usize * self.ways;
        let Some(front) = self.entries.get_mut(base) else { return false };
        // Equal tags cancel out; the rest is below the full counter. An empty entry never is: no
        // line number is all ones.
        if *front ^ (line << TAG_SHIFT) < COUNT_MAX << 1 {
            *front = (*front + 2) | u64::from(write);
            return true;
        }
        false
    }

    /// References `line`. `None` is a hit with nothing more to do.
    #[inline]
    pub fn reference(&mut self, line: u64, write: bool) -> Option<Slow> {
        if self.front_hit(line, write) { None } else { self.reference_deep(line, write) }
    }

    /// As [`L1::reference`], after [`L1::front_hit`] returned false: looks for the line and makes
    /// room at the front of its set.
    #[inline(never)]
    pub fn reference_deep(&mut self, line: u64, write: bool) -> Option<Slow> {
        let line = line & ((1 << (64 - TAG_SHIFT)) - 1);
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
    fn to_front<S: AsMut<[u64]> + ?Sized>(set: &mut S, line: u64, write: bool) -> Option<Slow> {
        let set = set.as_mut();
        let fresh = line << TAG_SHIFT | 2 | u64::from(write);
        let last = set.len() - 1;
        let mut at = last + 1;
        for (i, &entry) in set.iter().enumerate() {
            // No line number is all ones, so an empty entry never matches.
            at = if entry >> TAG_SHIFT == line { i } else { at };
        }
        let entry = set[at.min(last)];
        let mut before = fresh;
        for (i, slot) in set.iter_mut().enumerate() {
            let own = *slot;
            *slot = if i <= at { before } else { own };
            before = own;
        }
        if at > last {
            return Some(Slow::Miss((entry != EMPTY).then(|| unpack(entry))));
        }
        if (entry >> 1) & COUNT_MAX == COUNT_MAX {
            set[0] = fresh | (entry & 1);
            return Some(Slow::CounterFull(Evicted { dirty: false, ..unpack(entry) }));
        }
        set[0] = (entry + 2) | u64::from(write);
        None
    }

    /// Takes out every line for which `choose` is true (an unmapped range, or all at the end).
    pub fn drain(&mut self, mut choose: impl FnMut(u64) -> bool) -> Vec<Evicted> {
        let mut out = Vec::new();
        for set in self.entries.chunks_mut(self.ways) {
            let mut kept = 0;
            for at in 0..set.len() {
                let entry = set[at];
                if entry != EMPTY && choose(entry >> TAG_SHIFT) {
                    out.push(unpack(entry));
                } else {
                    set[kept] = entry;
                    kept += 1;
                }
            }
            set[kept..].fill(EMPTY);
        }
        out
    }
}
