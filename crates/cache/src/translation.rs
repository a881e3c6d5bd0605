//! A translation buffer: the pages that a core needs no page table for.
//!
//! Rule: sets of pages, least recently used first out; the low bits of the page's number choose the
//! set. Pages of two sizes can share it. The owner reads the page tables at a miss and empties the
//! buffer when the address space changes.
//! Not covered: a first level in front of it, marks of address spaces, other replacement policies.

const NONE: u64 = u64::MAX;

/// A page of one of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKey(u64);

impl PageKey {
    /// A page of the smaller size, by its virtual number.
    #[must_use]
    pub const fn small(page: u64) -> Self {
        Self(page << 1)
    }

    /// A page of the larger size, by its virtual number.
    #[must_use]
    pub const fn large(page: u64) -> Self {
        Self(page << 1 | 1)
    }
}

/// A core's buffer.
#[derive(Clone, Debug)]
pub struct TranslationBuffer {
    /// The pages of each set, most recent first.
    pages: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

impl TranslationBuffer {
    /// An empty buffer of `sets` (a power of two) by `ways`.
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Self {
        Self { pages: vec![NONE; sets * ways], ways, set_mask: sets as u64 - 1 }
    }

    /// Empties it.
    pub fn forget(&mut self) {
        self.pages.fill(NONE);
    }

    #[inline]
    fn set(&mut self, page: PageKey) -> &mut [u64] {
        let first = (page.0 >> 1 & self.set_mask) as usize * self.ways;
        &mut self.pages[first..first + self.ways]
    }

    /// Uses a page; is it there?
    #[inline]
    pub fn hit(&mut self, page: PageKey) -> bool {
        let set = self.set(page);
        let Some(at) = set.iter().position(|&p| p == page.0) else { return false };
        set[..=at].rotate_right(1);
        true
    }

    /// Puts in a page that is not there.
    #[inline]
    pub fn insert(&mut self, page: PageKey) {
        let set = self.set(page);
        set.rotate_right(1);
        set[0] = page.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_are_those_of_lists(
            bits in 0u32..4, ways in 1usize..13,
            uses in prop::collection::vec((0u64..64, any::<bool>(), 0u8..200), 1..600),
        ) {
            let mut buffer = TranslationBuffer::new(1 << bits, ways);
            let mut lists: Vec<Vec<(u64, bool)>> = vec![Vec::new(); 1 << bits];
            for (page, large, what) in uses {
                if what == 0 {
                    buffer.forget();
                    lists.iter_mut().for_each(Vec::clear);
                }
                let list = &mut lists[usize::try_from(page % (1 << bits)).unwrap()];
                let before = list.len();
                list.retain(|&p| p != (page, large));
                let held = list.len() < before;
                list.insert(0, (page, large));
                list.truncate(ways);
                let key = if large { PageKey::large(page) } else { PageKey::small(page) };
                prop_assert_eq!(buffer.hit(key), held);
                if !held {
                    buffer.insert(key);
                }
            }
        }
    }
}
