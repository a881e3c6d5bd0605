//! Sets of a cache: which way has a tag, and the order in which ways were used.
//!
//! Rule: up to 16 ways the order of a set is one word of four-bit way numbers, the most recent lowest, so that moving one to
//! the front is a search for a nibble and two shifts; beyond 16 ways it is an array of bytes. Empty ways stand at the end.

/// An entry without a line. Tags have 31 bits and not all of them set, so it matches none.
pub(super) const EMPTY: u32 = u32::MAX;

const ONES: u64 = 0x1111_1111_1111_1111;
/// Ways 0 to 15 in order.
const START: u64 = 0xfedc_ba98_7654_3210;

/// The orders of all sets.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    words: Vec<u64>,
    bytes: Vec<u8>,
    ways: usize,
}

impl Orders {
    pub fn new(sets: usize, ways: usize) -> Self {
        let (mut words, mut bytes) = (Vec::new(), Vec::new());
        if ways <= 16 {
            words = vec![START; sets];
        } else {
            bytes = (0..sets).flat_map(|_| (0..ways).map(|w| w.to_le_bytes()[0])).collect();
        }
        Self { words, bytes, ways }
    }

    /// Reads the order of a set for nothing (see `Shared::prepare`).
    #[inline(always)]
    pub fn prepare(&self, set: usize) {
        std::hint::black_box(self.words.get(set).copied());
    }

    /// Position of a way in a word, in bits.
    #[inline(always)]
    fn position(word: u64, way: usize) -> u32 {
        let zero = word ^ (ONES * way as u64);
        // The lowest nibble that is zero; what a borrow adds lies above it.
        (zero.wrapping_sub(ONES) & !zero & (ONES << 3)).trailing_zeros() & !3
    }

    /// A way becomes the most recent.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        let Some(word) = self.words.get_mut(set) else { return self.touch_bytes(set, way) };
        let at = Self::position(*word, way);
        let before = *word & ((1 << at) - 1);
        let behind = *word & (u64::MAX - 15) << at;
        *word = behind | before << 4 | way as u64;
    }

    #[cold]
    fn touch_bytes(&mut self, set: usize, way: usize) {
        let order = &mut self.bytes[set * self.ways..(set + 1) * self.ways];
        let at = order.iter().position(|&w| usize::from(w) == way).unwrap_or(0);
        order.copy_within(..at, 1);
        order[0] = way.to_le_bytes()[0];
    }

    /// A way has become empty.
    pub fn forget(&mut self, set: usize, way: usize) {
        let Some(word) = self.words.get_mut(set) else {
            let order = &mut self.bytes[set * self.ways..(set + 1) * self.ways];
            let at = order.iter().position(|&w| usize::from(w) == way).unwrap_or(0);
            order[at..].rotate_left(1);
            return;
        };
        let at = Self::position(*word, way);
        let last = 4 * (self.ways - 1);
        // Those between it and the last move down; those that are no ways stay.
        let above = if last == 60 { 0 } else { *word & u64::MAX << (last + 4) };
        let between = *word & !above & (u64::MAX - 15) << at;
        *word = above | between >> 4 | (*word & ((1 << at) - 1)) | (way as u64) << last;
    }

    /// The least recent way.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    pub fn last(&self, set: usize) -> usize {
        match self.words.get(set) {
            Some(word) => (word >> (4 * (self.ways - 1)) & 15) as usize,
            None => usize::from(self.bytes[(set + 1) * self.ways - 1]),
        }
    }

    /// The least recent way of a mask that is not 0.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    pub fn last_of(&self, set: usize, mask: u64) -> usize {
        let Some(word) = self.words.get(set) else {
            let order = &self.bytes[set * self.ways..(set + 1) * self.ways];
            return order.iter().rev().find(|&&way| mask >> way & 1 == 1).map_or(0, |&way| usize::from(way));
        };
        let ways = (0..self.ways).rev().map(|at| (word >> (4 * at) & 15) as usize);
        ways.into_iter().find(|way| mask >> way & 1 == 1).unwrap_or(0)
    }
}

/// The way of a set that has a tag.
#[inline(always)]
pub(super) fn find(entries: &[u32], tag: u32) -> Option<usize> {
    // With the length known, all ways are compared at once.
    match entries.len() {
        2 => fixed::<2>(entries, tag),
        4 => fixed::<4>(entries, tag),
        8 => fixed::<8>(entries, tag),
        12 => fixed::<12>(entries, tag),
        16 => fixed::<16>(entries, tag),
        32 => fixed::<32>(entries, tag),
        _ => entries.iter().position(|&entry| entry >> 1 == tag),
    }
}

#[inline(always)]
fn fixed<const N: usize>(entries: &[u32], tag: u32) -> Option<usize> {
    let Ok(entries) = <&[u32; N]>::try_from(entries) else { return None };
    // All bits first, then their sum: the compiler makes vector operations of both.
    let mut bits = [0u32; N];
    for (i, bit) in bits.iter_mut().enumerate() {
        *bit = if (entries[i] ^ tag << 1) < 2 { 1 << i } else { 0 };
    }
    let mut width = N;
    while width > 1 && width.is_multiple_of(2) {
        width /= 2;
        for i in 0..width {
            bits[i] |= bits[i + width];
        }
    }
    let found = bits[..width].iter().fold(0, |a, b| a | b);
    (found != 0).then_some(found.trailing_zeros() as usize)
}
