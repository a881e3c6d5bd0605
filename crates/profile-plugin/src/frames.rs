//! Frames in order of first touch.
//!
//! Problem: caches are physically addressed, but the host's frame of a page does not depend on the
//! program. Rule: the n-th touched page is frame n, and its name is its region and offset. Not
//! covered: frames that are used again; an unmapped page's frame stays its own.

use rustc_hash::FxHashMap;
use solocore_cache::Frames;
use solocore_cache::regions::Regions;

/// Number of slots of the direct-mapped front of the page table.
const FRONT: u64 = 4096;

/// Frames in order of first touch, with a small direct-mapped front.
pub struct FrameTable {
    front: Vec<(u64, u32)>,
    map: FxHashMap<u64, u32>,
    /// Region and page in it, by frame.
    pub names: Vec<(u32, u64)>,
    pub regions: Regions,
    page_shift: u32,
}

impl FrameTable {
    pub fn new(page_shift: u32) -> Self {
        Self {
            front: vec![(u64::MAX, 0); FRONT as usize],
            map: FxHashMap::default(),
            names: Vec::new(),
            regions: Regions::default(),
            page_shift,
        }
    }

    /// Forgets all touched pages; regions stay.
    pub fn start_over(&mut self) {
        self.front.fill((u64::MAX, 0));
        self.map.clear();
        self.names.clear();
    }

    /// Pages `first` to `last` are unmapped: their next touch is a first one.
    pub fn forget(&mut self, first: u64, last: u64) {
        if last - first < self.map.len() as u64 {
            (first..=last).for_each(|page| {
                self.map.remove(&page);
            });
        } else {
            self.map.retain(|page, _| !(first..=last).contains(page));
        }
        self.front.fill((u64::MAX, 0));
    }
}

impl Frames for FrameTable {
    fn frame(&mut self, vpage: u64) -> u32 {
        let slot = (vpage & (FRONT - 1)) as usize;
        let (page, frame) = self.front[slot];
        if page == vpage {
            return frame;
        }
        let frame = *self.map.entry(vpage).or_insert_with(|| {
            let (region, offset) = self.regions.resolve(vpage << self.page_shift);
            self.names.push((region, offset >> self.page_shift));
            u32::try_from(self.names.len() - 1).expect("fewer than 2^32 pages")
        });
        self.front[slot] = (vpage, frame);
        frame
    }
}
