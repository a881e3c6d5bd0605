//! Sets of a cache: the way of a tag, and the order in which ways were used.
//!
//! Rule: a set lies together, its entries and its order, so that an access reads at most two lines
//! of the simulating CPU. Up to 16 ways the order is one word of four-bit way numbers, the
//! most recent lowest, so that moving one to the front is some arithmetic without a branch. Beyond
//! 16 ways it is an array of bytes. Empty ways are at the end. Sets are stored for 8 or 16 ways;
//! ways that a cache does not have stay empty, and at the end.

/// An entry without a line. Tags have 31 bits and not all of them set, so it matches none.
pub(crate) const EMPTY: u32 = u32::MAX;

const ONES: u64 = 0x1111_1111_1111_1111;
/// Ways 0 to 15 in order.
const START: u64 = 0xfedc_ba98_7654_3210;

/// A set of up to `N` ways, `N` at most 16.
#[derive(Clone, Copy, Debug)]
struct Set<const N: usize> {
    /// `tag << 1 | dirty`, by way.
    entries: [u32; N],
    order: u64,
}

/// Sets of more ways.
#[derive(Clone, Debug)]
struct Wide {
    entries: Vec<u32>,
    orders: Vec<u8>,
    ways: usize,
}

/// With a tag of its own, which is compared faster than one that hides in a pointer.
#[derive(Clone, Debug)]
#[repr(u8)]
enum Held {
    Eight(Vec<Set<8>>),
    Sixteen(Vec<Set<16>>),
    Wide(Wide),
}

/// All sets of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    held: Held,
    /// Position of the least recent way in an order, in bits.
    last: u32,
    ways: usize,
}

impl<const N: usize> Set<N> {
    const NEW: Self = Self { entries: [EMPTY; N], order: START };

    #[inline(always)]
    fn find(&self, tag: u32) -> Option<usize> {
        position(&self.entries, tag)
    }

    /// The lowest nibble that is zero, by its highest bit; bits of a borrow lie above it.
    #[inline(always)]
    fn nibble(order: u64, way: usize) -> u64 {
        let zero = order ^ (ONES * way as u64);
        zero.wrapping_sub(ONES) & !zero & (ONES << 3)
    }

    #[inline(always)]
    fn touch(&mut self, way: usize) {
        let at = Self::nibble(self.order, way);
        // The nibbles up to the way's.
        let moved = at ^ at.wrapping_sub(1);
        self.order = (self.order & !moved) | ((self.order << 4 | way as u64) & moved);
    }

    fn forget(&mut self, way: usize, last: u32) {
        let at = Self::nibble(self.order, way).trailing_zeros() & !3;
        // Those between it and the last move down; nibbles that are not ways stay.
        let above = if last == 60 { 0 } else { self.order & u64::MAX << (last + 4) };
        let between = self.order & !above & (u64::MAX - 15) << at;
        self.order = above | between >> 4 | (self.order & ((1 << at) - 1)) | (way as u64) << last;
    }

    #[inline(always)]
    fn hit(&mut self, tag: u32, write: bool) -> bool {
        let Some(way) = self.find(tag) else { return false };
        self.entries[way & (N - 1)] |= u32::from(write);
        self.touch(way);
        true
    }

    #[inline(always)]
    fn replace(&mut self, way: usize, entry: u32) -> u32 {
        std::mem::replace(&mut self.entries[way & (N - 1)], entry)
    }
}

impl Wide {
    fn of(&self, set: usize) -> std::ops::Range<usize> {
        set * self.ways..(set + 1) * self.ways
    }

    fn find(&self, set: usize, tag: u32) -> Option<usize> {
        let entries = &self.entries[self.of(set)];
        match <&[u32; 32]>::try_from(entries) {
            Ok(entries) => position(entries, tag),
            Err(_) => entries.iter().position(|&entry| entry >> 1 == tag),
        }
    }

    fn touch(&mut self, set: usize, way: usize) {
        let of = self.of(set);
        let order = &mut self.orders[of];
        let at = order.iter().position(|&w| usize::from(w) == way).unwrap_or(0);
        order.copy_within(..at, 1);
        order[0] = way.to_le_bytes()[0];
    }

    fn forget(&mut self, set: usize, way: usize) {
        let of = self.of(set);
        let order = &mut self.orders[of];
        let at = order.iter().position(|&w| usize::from(w) == way).unwrap_or(0);
        order[at..].rotate_left(1);
    }

    #[inline(never)]
    fn hit(&mut self, set: usize, tag: u32, write: bool) -> bool {
        let Some(way) = self.find(set, tag) else { return false };
        self.entries[set * self.ways + way] |= u32::from(write);
        self.touch(set, way);
        true
    }
}

/// Does the same with a set of either size, or else with the wide ones.
macro_rules! of_set {
    ($held:expr, $index:expr, $set:ident => $narrow:expr, $wide:ident => $else:expr) => {
        match $held {
            Held::Eight(sets) => {
                let $set = &mut sets[$index];
                $narrow
            }
            Held::Sixteen(sets) => {
                let $set = &mut sets[$index];
                $narrow
            }
            Held::Wide($wide) => $else,
        }
    };
}

impl Sets {
    /// Empty sets of up to 64 ways.
    pub fn new(sets: usize, ways: usize) -> Self {
        let held = match ways {
            0..=8 => Held::Eight(vec![Set::NEW; sets]),
            9..=16 => Held::Sixteen(vec![Set::NEW; sets]),
            _ => Held::Wide(Wide {
                entries: vec![EMPTY; sets * ways],
                orders: (0..sets).flat_map(|_| (0..ways).map(|w| w.to_le_bytes()[0])).collect(),
                ways,
            }),
        };
        Self { held, last: 4 * u32::from(ways.to_le_bytes()[0].clamp(1, 16) - 1), ways }
    }

    /// The entries of a set.
    pub fn entries(&self, set: usize) -> &[u32] {
        match &self.held {
            Held::Eight(sets) => &sets[set].entries[..self.ways],
            Held::Sixteen(sets) => &sets[set].entries[..self.ways],
            Held::Wide(wide) => &wide.entries[wide.of(set)],
        }
    }

    /// The way that has a tag.
    #[inline(always)]
    pub fn find(&self, set: usize, tag: u32) -> Option<usize> {
        match &self.held {
            Held::Eight(sets) => sets[set].find(tag),
            Held::Sixteen(sets) => sets[set].find(tag),
            Held::Wide(wide) => wide.find(set, tag),
        }
    }

    /// Is the tag there? Its way becomes the most recent, and dirty if `write`.
    #[inline(always)]
    pub fn hit(&mut self, set: usize, tag: u32, write: bool) -> bool {
        of_set!(&mut self.held, set, s => s.hit(tag, write), wide => wide.hit(set, tag, write))
    }

    /// Makes a way dirty if `write`.
    #[inline(always)]
    pub fn mark(&mut self, set: usize, way: usize, write: bool) {
        let write = u32::from(write);
        of_set!(&mut self.held, set, s => s.entries[way] |= write, wide => wide.entries[set * wide.ways + way] |= write);
    }

    /// Makes a way clean; true if it was dirty.
    pub fn clean(&mut self, set: usize, way: usize) -> bool {
        let entry = of_set!(&mut self.held, set, s => &mut s.entries[way], wide => &mut wide.entries[set * wide.ways + way]);
        let dirty = *entry & 1 == 1;
        *entry &= !1;
        dirty
    }

    /// Puts an entry into a way; returns the former one.
    #[inline(always)]
    pub fn replace(&mut self, set: usize, way: usize, entry: u32) -> u32 {
        of_set!(&mut self.held, set, s => s.replace(way, entry), wide => {
            std::mem::replace(&mut wide.entries[set * wide.ways + way], entry)
        })
    }

    /// A way becomes the most recent.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        of_set!(&mut self.held, set, s => s.touch(way), wide => wide.touch(set, way));
    }

    /// A way has become empty: it becomes the least recent.
    pub fn forget(&mut self, set: usize, way: usize) {
        let last = self.last;
        of_set!(&mut self.held, set, s => s.forget(way, last), wide => wide.forget(set, way));
    }

    /// Puts an entry into the least recent way, which becomes the most recent; returns the former
    /// entry.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, entry: u32) -> u32 {
        let last = self.last;
        of_set!(&mut self.held, set, s => {
            let way = (s.order >> last & 15) as usize;
            s.touch(way);
            s.replace(way, entry)
        }, wide => {
            let way = usize::from(wide.orders[(set + 1) * wide.ways - 1]);
            wide.touch(set, way);
            std::mem::replace(&mut wide.entries[set * wide.ways + way], entry)
        })
    }

    /// The least recent way of a mask that is not 0.
    #[inline]
    pub fn last_of(&self, set: usize, mask: u64) -> usize {
        let order = match &self.held {
            Held::Eight(sets) => sets[set].order,
            Held::Sixteen(sets) => sets[set].order,
            Held::Wide(wide) => {
                let order = wide.orders[wide.of(set)].iter().rev();
                return order
                    .copied()
                    .map(usize::from)
                    .find(|way| mask >> way & 1 == 1)
                    .unwrap_or(0);
            }
        };
        let mut at = self.last;
        loop {
            let way = (order >> at & 15) as usize;
            if mask >> way & 1 == 1 || at == 0 {
                return way;
            }
            at -= 4;
        }
    }

    /// Prefetches a set, so that the simulating CPU has it when the access comes.
    #[inline(always)]
    pub fn prepare(&self, set: usize) {
        match &self.held {
            Held::Eight(sets) => ask_for(sets.get(set)),
            Held::Sixteen(sets) => ask_for(sets.get(set)),
            Held::Wide(wide) => {
                std::hint::black_box(wide.entries.get(set * wide.ways).copied());
                std::hint::black_box(wide.orders.get(set * wide.ways).copied());
            }
        }
    }
}

/// Reads both ends of a set without using them.
#[inline(always)]
fn ask_for<const N: usize>(set: Option<&Set<N>>) {
    std::hint::black_box(set.map(|s| s.entries[0]));
    std::hint::black_box(set.map(|s| s.order));
}

/// The place of a tag among entries; at most one entry has it. `N` is 8, 16 or 32.
#[inline(always)]
fn position<const N: usize>(entries: &[u32; N], tag: u32) -> Option<usize> {
    let mut equal = [0u8; N];
    for (equal, &entry) in equal.iter_mut().zip(entries) {
        *equal = u8::from(entry >> 1 == tag);
    }
    // Through memory: compilers then compare with vectors, and keep them for the following code.
    std::hint::black_box(&mut equal);
    let mut found = 0u64;
    for (group, equal) in equal.as_chunks().0.iter().enumerate() {
        found |= u64::from_le_bytes(*equal) << group;
    }
    let at = found.trailing_zeros() as usize;
    let group = if N == 8 { 0 } else { at & 7 };
    (found != 0).then_some(at >> 3 | group << 3)
}
