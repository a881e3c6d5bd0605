//! The shared cache of the simulated board.

use solocore_cache::LruCache;
use solocore_model::Platform;

/// How the shared cache serves the cores.
#[derive(Debug)]
pub enum SharedCache {
    /// One LRU cache for all.
    Whole(LruCache),
    /// A part per core for what is not locked; `None` where nothing is left of the core's share.
    Parts(Vec<Option<LruCache>>),
}

/// What an access to the shared cache led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The line has to be read from memory.
    pub fill: bool,
    /// This dirty line has to be written to memory.
    pub write_back: Option<u64>,
}

impl SharedCache {
    /// The plain machine's cache.
    pub fn whole(p: &Platform) -> Self {
        Self::Whole(LruCache::new(p.llc_sets(), p.llc.ways))
    }

    /// A cache whose cores have `ways[core]` ways each for unlocked lines of best-effort tasks.
    pub fn parts(p: &Platform, ways: &[u32]) -> Self {
        Self::Parts(ways.iter().map(|&w| (w > 0).then(|| LruCache::new(p.llc_sets(), w))).collect())
    }

    /// An access to a line that is not locked. With `bypass` it goes straight to memory: what the
    /// bounds assume of everything that is not locked.
    pub fn access(&mut self, core: u32, line: u64, write: bool, bypass: bool) -> Answer {
        let cache = match self {
            Self::Whole(cache) => Some(cache),
            Self::Parts(parts) => parts.get_mut(core as usize).and_then(Option::as_mut).filter(|_| !bypass),
        };
        match cache {
            Some(cache) => {
                let got = cache.access(line, write);
                // A written-back line is whole: it needs no fill.
                Answer { fill: !got.hit && !write, write_back: got.written_back }
            }
            None => Answer { fill: !write, write_back: write.then_some(line) },
        }
    }
}
