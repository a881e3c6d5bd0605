//! A core's translation buffer: the pages whose entries it need not read.

use super::config::Translation;
use solocore_cache::translation::{PageKey, TranslationBuffer};

/// A core's buffer.
pub(super) struct Pages {
    buffer: TranslationBuffer,
    /// The page of the last look-up, which is compared first.
    last: u64,
}

impl Pages {
    pub fn new(shape: Translation) -> Self {
        let sets = (shape.entries / shape.ways) as usize;
        Self { buffer: TranslationBuffer::new(sets, shape.ways as usize), last: u64::MAX }
    }

    /// Uses a page; is it there?
    #[inline]
    pub fn hit(&mut self, page: u64) -> bool {
        if page == self.last {
            return true;
        }
        let hit = self.buffer.hit(PageKey::small(page));
        self.last = if hit { page } else { u64::MAX };
        hit
    }

    /// Puts in a page that is not there.
    pub fn insert(&mut self, page: u64) {
        self.buffer.insert(PageKey::small(page));
        self.last = page;
    }

    /// Another address space comes.
    pub fn forget(&mut self) {
        self.buffer.forget();
        self.last = u64::MAX;
    }
}
