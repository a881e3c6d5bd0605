//! A pool of real pages in buddy lists.
//!
//! Problem: the lists know frames; a user needs addresses. Rule: take memory (4 KiB pages or huge
//! pages), read the frames from /proc/self/pagemap, and put them into the list of their colour and
//! bank. A mapping of several pages is made of any pages of the list, moved side by side. Does not
//! cover: programs that were written without it (`coloured`); frames that the kernel changes
//! (compaction).

use crate::error::SpaceError;
use crate::lists::{Block, ListStats, Lists};
use crate::map::{Choice, PAGE};
use crate::sys::{self, Area};

/// Pages in lists.
#[derive(Debug)]
pub struct Pool {
    lists: Lists,
    area: Area,
    /// By a frame's number in the lists: the page of the area, or `u32::MAX`.
    pages: Vec<u32>,
}

/// A page of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPage {
    /// Its block, to give it back.
    pub block: Block,
    /// Its address.
    pub address: usize,
}

/// Pages of one list, side by side. They go back when it is given to [`Pool::unmap`].
#[derive(Debug)]
pub struct Mapping {
    area: Area,
    blocks: Vec<Block>,
}

impl Mapping {
    /// Its first address, a multiple of a page.
    pub fn address(&self) -> usize {
        self.area.start()
    }

    /// Its bytes, a multiple of a page.
    pub fn bytes(&self) -> usize {
        self.area.bytes()
    }

    /// Its memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: every page of the area was moved there by `Pool::map`, and no other code has
        // them.
        unsafe { std::slice::from_raw_parts_mut(self.area.start() as *mut u8, self.area.bytes()) }
    }
}

impl Pool {
    /// A pool of `bytes` bytes, with one list per choice. A frame of several choices goes to the
    /// first list, one of no choice to none.
    ///
    /// # Errors
    /// There is not enough memory, or its frames are hidden from this process.
    pub fn new(bytes: usize, huge: bool, choices: &[Choice]) -> Result<Self, SpaceError> {
        let area = Area::populated(bytes.next_multiple_of(2 << 20), huge)?;
        let frames = sys::frames_of(area.start(), area.bytes() / PAGE as usize)?;
        let lists = Lists::new(choices.len(), &frames, |frame| {
            choices.iter().position(|c| c.allows(frame))
        });
        let mut pages = vec![u32::MAX; lists.places()];
        for (&frame, page) in frames.iter().zip(0u32..) {
            if let Some(at) = lists.number_of(frame) {
                pages[at as usize] = page;
            }
        }
        Ok(Self { lists, area, pages })
    }

    /// Takes a page of a list.
    ///
    /// # Errors
    /// The list is empty, or there is no list of this number.
    pub fn get(&mut self, list: usize) -> Result<PoolPage, SpaceError> {
        let block = self.lists.get(list, 0).map_err(|e| SpaceError::Machine(e.to_string()))?;
        Ok(PoolPage { block, address: self.address(block) })
    }

    /// Takes a page back.
    ///
    /// # Errors
    /// It is not one that was given.
    pub fn put(&mut self, page: PoolPage) -> Result<(), SpaceError> {
        self.lists.put(page.block).map_err(|e| SpaceError::Input(e.to_string()))
    }

    /// Maps at least `bytes` bytes of a list, side by side.
    ///
    /// # Errors
    /// The list does not have enough pages, or the kernel has no room for the mappings.
    pub fn map(&mut self, list: usize, bytes: usize) -> Result<Mapping, SpaceError> {
        let pages = bytes.div_ceil(PAGE as usize).max(1);
        let mut mapping = Mapping {
            area: Area::reserved(pages * PAGE as usize)?,
            blocks: Vec::with_capacity(pages),
        };
        for i in 0..pages {
            let moved =
                self.lists.get(list, 0).map_err(|e| SpaceError::Machine(e.to_string())).and_then(
                    |block| {
                        let to = mapping.area.start() + i * PAGE as usize;
                        match sys::move_page(self.address(block), to) {
                            Ok(()) => Ok(block),
                            Err(e) => {
                                let _ = self.lists.put(block);
                                Err(SpaceError::of_io(
                                    "pages cannot be mapped side by side",
                                    &e,
                                    "raise vm.max_map_count, or ask for less",
                                ))
                            }
                        }
                    },
                );
            match moved {
                Ok(block) => mapping.blocks.push(block),
                Err(error) => {
                    self.unmap(mapping)?;
                    return Err(error);
                }
            }
        }
        Ok(mapping)
    }

    /// Takes the pages of a mapping back.
    ///
    /// # Errors
    /// The kernel has no room for the mappings; pages that could not be moved back are lost to the
    /// pool until its end.
    pub fn unmap(&mut self, mapping: Mapping) -> Result<(), SpaceError> {
        for (i, &block) in mapping.blocks.iter().enumerate() {
            sys::move_page(mapping.area.start() + i * PAGE as usize, self.address(block)).map_err(
                |e| SpaceError::of_io("pages cannot be moved back", &e, "raise vm.max_map_count"),
            )?;
            self.lists.put(block).map_err(|e| SpaceError::Input(e.to_string()))?;
        }
        Ok(())
    }

    /// Size and counts of a list.
    pub fn stats(&self, list: usize) -> Option<ListStats> {
        self.lists.stats(list)
    }

    /// The present frames of pages.
    ///
    /// # Errors
    /// They are hidden from this process.
    pub fn frames(address: usize, bytes: usize) -> Result<Vec<u64>, SpaceError> {
        sys::frames_of(address, bytes.div_ceil(PAGE as usize))
    }

    fn address(&self, block: Block) -> usize {
        self.area.start() + self.pages[block.first as usize] as usize * PAGE as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    fn halves() -> [Choice; 2] {
        let map =
            Map { colours: (12..17).map(|b| 1 << b).collect(), banks: vec![], slices: Vec::new() };
        let choice = |range: std::ops::Range<u32>| {
            Choice::new(&map, Some(&range.collect::<Vec<_>>()), None).expect("valid")
        };
        [choice(0..8), choice(8..32)]
    }

    /// Frames are shown to root only; otherwise the refusal is tested.
    fn pool(huge: bool) -> Option<Pool> {
        match Pool::new(8 << 20, huge, &halves()) {
            Ok(pool) => Some(pool),
            Err(SpaceError::Machine(why)) if why.contains("CAP_SYS_ADMIN") => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn pages_have_the_frames_of_their_list() {
        for huge in [false, true] {
            let Some(mut pool) = pool(huge) else { return };
            let frames = pool.stats(0).map(|s| s.frames + pool.stats(1).map_or(0, |s| s.frames));
            assert_eq!(frames, Some(2048));
            let choices = halves();
            let mut got = Vec::new();
            while let Ok(page) = pool.get(0) {
                let frame = sys::frames_of(page.address, 1).expect("shown")[0];
                assert!(choices[0].allows(frame) && !choices[1].allows(frame));
                got.push(page);
            }
            assert_eq!(Some(got.len() as u64), pool.stats(0).map(|s| s.frames));
            for page in got {
                pool.put(page).expect("taken");
                assert!(pool.put(page).is_err());
            }
        }
    }

    #[test]
    fn mappings_are_side_by_side_and_go_back() {
        let Some(mut pool) = pool(false) else { return };
        let choices = halves();
        for round in 0u8..3 {
            let mut mapping = pool.map(1, 400 << 10).expect("room");
            assert_eq!(mapping.bytes(), 400 << 10);
            mapping.bytes_mut().fill(round);
            let frames = sys::frames_of(mapping.address(), 100).expect("shown");
            assert!(frames.iter().all(|&f| choices[1].allows(f)));
            assert_eq!(pool.stats(1).map(|s| s.frames - s.free), Some(100));
            pool.unmap(mapping).expect("back");
            assert_eq!(pool.stats(1).map(|s| s.frames - s.free), Some(0));
        }
        let error = pool.map(0, 64 << 20).expect_err("too much").to_string();
        assert!(error.contains("list 0"), "{error}");
        pool.lists.check().expect("nothing is lost");
        assert_eq!(pool.stats(0).map(|s| s.frames - s.free), Some(0));
    }
}
