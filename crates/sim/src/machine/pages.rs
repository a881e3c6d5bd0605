//! A core's translation buffer: the pages whose entries it need not read.

use super::config::Translation;
use solocore_cache::translation::{PageKey, TranslationBuffer};

/// Page numbers are below this bit: virtual lines have 40 bits.
const SPACE_SHIFT: u32 = 40;

/// A core's buffer.
pub(super) struct Pages {
    buffer: TranslationBuffer,
    /// The page of the last look-up, which is compared first.
    last: u64,
    /// Mark of the address space, above the page's number; `None`: entries have none.
    mark: Option<u64>,
}

impl Pages {
    pub fn new(shape: Translation) -> Self {
        let sets = (shape.entries / shape.ways) as usize;
        let mark = shape.tagged.then_some(0);
        Self { buffer: TranslationBuffer::new(sets, shape.ways as usize), last: u64::MAX, mark }
    }

    /// Uses a page; is it there?
    #[inline]
    pub fn hit(&mut self, page: u64) -> bool {
        if page == self.last {
            return true;
        }
        let hit = self.buffer.hit(self.key(page));
        self.last = if hit { page } else { u64::MAX };
        hit
    }

    /// Puts in a page that is not there.
    pub fn insert(&mut self, page: u64) {
        self.buffer.insert(self.key(page));
        self.last = page;
    }

    fn key(&self, page: u64) -> PageKey {
        PageKey::small(page | self.mark.unwrap_or(0))
    }

    /// Another address space comes.
    pub fn enter(&mut self, space: u32) {
        self.last = u64::MAX;
        match &mut self.mark {
            Some(mark) => *mark = u64::from(space) << SPACE_SHIFT,
            None => self.buffer.forget(),
        }
    }
}
