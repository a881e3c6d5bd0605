//! Free frames in m+1 buddy lists.
//!
//! Problem: tasks of levels A and B on a core, and those of lower levels, must not share cache sets
//! and banks, so their pages come from different frames. Rule: one list per core for its levels A
//! and B and one for level C and everything else; the list of a frame follows from its colour and
//! bank, and never changes. A block is 2^k aligned neighbours that all belong to one list. Blocks
//! split and merge as in the buddy system. A list that is empty fails; no frame of another list
//! stands in. Source: mc2-os-isolation, 3.2 (m+1 lists in place of the kernel's one). Does not
//! cover: the memory itself (`backing`), threads: callers that share it hold a lock.

use serde::Serialize;

/// Largest block: 2^9 frames, a huge page.
pub const MAX_ORDER: u8 = 9;
const SECTION: usize = 1 << MAX_ORDER;
const ORDERS: usize = MAX_ORDER as usize + 1;
const NONE: u32 = u32::MAX;
const NOBODY: u8 = u8::MAX;

/// The state of a frame: the first of a free block, the first of a taken one, or within one.
const FREE: u8 = 0x40;
const TAKEN: u8 = 0x80;
const WITHIN: u8 = 0;
const ORDER: u8 = 0x0f;

/// A block of frames, by the number that its first frame has in [`Lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Number of the first frame.
    pub first: u32,
    /// Order of the block: it has 2^order frames.
    pub order: u8,
}

/// Reasons for which a block is not given or not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The list has no block of this size left.
    #[error(
        "list {list} has no block of {frames} frames left ({free} are free in smaller ones); give \
            it more colours or memory"
    )]
    Empty {
        /// Number of the list.
        list: usize,
        /// Frames of the block.
        frames: u32,
        /// Frames that are free.
        free: u64,
    },
    /// The list or the order does not exist.
    #[error(
        "there is no list {list} with blocks of order {order}; there are {lists}, and orders 0 to \
            {MAX_ORDER}"
    )]
    Unknown {
        /// Number of the list.
        list: usize,
        /// The order.
        order: u8,
        /// Number of lists.
        lists: usize,
    },
    /// The block is not one that was taken.
    #[error(
        "frame {first} is not the first of a taken block of order {order}; put back each taken \
            frame once"
    )]
    NotTaken {
        /// Its first frame.
        first: u32,
        /// Its order.
        order: u8,
    },
}

/// Size and counts of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListStats {
    /// Frames that belong to it.
    pub frames: u64,
    /// Frames that are free.
    pub free: u64,
    /// Fewest that were free.
    pub least_free: u64,
    /// Blocks given.
    pub gets: u64,
    /// Blocks taken back.
    pub puts: u64,
    /// Blocks halved.
    pub splits: u64,
    /// Blocks joined.
    pub merges: u64,
    /// Requests that failed.
    pub failures: u64,
}

#[derive(Clone, Debug)]
struct List {
    heads: [u32; ORDERS],
    /// Bit k: is there a free block of order k?
    orders: u32,
    stats: ListStats,
}

/// Frames and the lists they are in.
#[derive(Clone, Debug)]
pub struct Lists {
    lists: Vec<List>,
    /// First frame number of each section of 512, in rising order.
    sections: Vec<u64>,
    owner: Vec<u8>,
    state: Vec<u8>,
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Lists {
    /// Lists 0 to `lists` - 1 over these physical frame numbers; `list_of` gives the list of a
    /// frame, `None`: none.
    ///
    /// # Panics
    /// There are more than 254 lists or 2^31 frames: mistakes of the caller.
    pub fn new(lists: usize, frames: &[u64], list_of: impl Fn(u64) -> Option<usize>) -> Self {
        assert!(lists < usize::from(NOBODY), "at most 254 lists");
        let mut sections: Vec<u64> = frames.iter().map(|frame| frame / SECTION as u64).collect();
        sections.sort_unstable();
        sections.dedup();
        let places = sections.len() * SECTION;
        assert!(places < 1 << 31, "at most 2^31 frames");
        let empty = List { heads: [NONE; ORDERS], orders: 0, stats: ListStats::default() };
        let mut all = Self {
            lists: vec![empty; lists],
            sections,
            owner: vec![NOBODY; places],
            state: vec![WITHIN; places],
            next: vec![NONE; places],
            previous: vec![NONE; places],
        };
        for &frame in frames {
            let list = list_of(frame).filter(|&list| list < lists);
            if let (Some(at), Some(list)) = (all.number_of(frame), list)
                && all.owner[at as usize] == NOBODY
            {
                all.owner[at as usize] = u8::try_from(list).unwrap_or(NOBODY);
                all.state[at as usize] = TAKEN;
                all.lists[list].stats.frames += 1;
            }
        }
        for at in 0..all.owner.len() {
            if all.owner[at] != NOBODY {
                all.release(Block { first: number(at), order: 0 });
            }
        }
        for list in &mut all.lists {
            list.stats.least_free = list.stats.free;
            list.stats.merges = 0;
        }
        all
    }

    /// A block of 2^order frames of a list.
    ///
    /// # Errors
    /// That list has no block of this size left; or there is no such list or order.
    pub fn get(&mut self, list: usize, order: u8) -> Result<Block, ListError> {
        if list >= self.lists.len() || order > MAX_ORDER {
            return Err(ListError::Unknown { list, order, lists: self.lists.len() });
        }
        let fitting = self.lists[list].orders >> order;
        if fitting == 0 {
            let stats = &mut self.lists[list].stats;
            stats.failures += 1;
            return Err(ListError::Empty { list, frames: 1 << order, free: stats.free });
        }
        let mut have = order + fitting.trailing_zeros() as u8;
        let first = self.lists[list].heads[usize::from(have)];
        self.unlink(list, first, have);
        while have > order {
            have -= 1;
            self.link(list, first + (1 << have), have);
            self.lists[list].stats.splits += 1;
        }
        self.state[first as usize] = TAKEN | order;
        let stats = &mut self.lists[list].stats;
        stats.free -= 1 << order;
        stats.least_free = stats.least_free.min(stats.free);
        stats.gets += 1;
        Ok(Block { first, order })
    }

    /// Takes a block back.
    ///
    /// # Errors
    /// It is not one that was given, or came back already; nothing is changed.
    pub fn put(&mut self, block: Block) -> Result<(), ListError> {
        if self.state.get(block.first as usize) != Some(&(TAKEN | block.order)) {
            return Err(ListError::NotTaken { first: block.first, order: block.order });
        }
        let list = usize::from(self.owner[block.first as usize]);
        self.release(block);
        self.lists[list].stats.puts += 1;
        Ok(())
    }

    /// Joins a taken block with the free blocks beside it.
    fn release(&mut self, block: Block) {
        let Block { mut first, mut order } = block;
        let owner = self.owner[first as usize];
        let list = usize::from(owner);
        self.lists[list].stats.free += 1 << order;
        self.state[first as usize] = WITHIN;
        while order < MAX_ORDER {
            let buddy = first ^ (1 << order);
            // A free block lies in one list as a whole, so the list of its first frame is that of
            // all.
            if self.state[buddy as usize] != FREE | order || self.owner[buddy as usize] != owner {
                break;
            }
            self.unlink(list, buddy, order);
            self.lists[list].stats.merges += 1;
            first = first.min(buddy);
            order += 1;
        }
        self.link(list, first, order);
    }

    fn link(&mut self, list: usize, first: u32, order: u8) {
        let lists = &mut self.lists[list];
        let head = std::mem::replace(&mut lists.heads[usize::from(order)], first);
        lists.orders |= 1 << order;
        self.state[first as usize] = FREE | order;
        self.next[first as usize] = head;
        self.previous[first as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = first;
        }
    }

    fn unlink(&mut self, list: usize, first: u32, order: u8) {
        let (next, previous) = (self.next[first as usize], self.previous[first as usize]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        if previous != NONE {
            self.next[previous as usize] = next;
        } else {
            let lists = &mut self.lists[list];
            lists.heads[usize::from(order)] = next;
            if next == NONE {
                lists.orders &= !(1 << order);
            }
        }
        self.state[first as usize] = WITHIN;
    }

    /// The physical frame number of a frame.
    pub fn frame(&self, number: u32) -> Option<u64> {
        let section = self.sections.get(number as usize / SECTION)?;
        Some(section * SECTION as u64 + u64::from(number) % SECTION as u64)
    }

    /// The number of a physical frame, if its section is here.
    pub fn number_of(&self, frame: u64) -> Option<u32> {
        let section = self.sections.binary_search(&(frame / SECTION as u64)).ok()?;
        Some(number(section * SECTION + (frame % SECTION as u64) as usize))
    }

    /// The list that a frame belongs to.
    pub fn owner(&self, number: u32) -> Option<usize> {
        self.owner.get(number as usize).filter(|&&o| o != NOBODY).map(|&o| usize::from(o))
    }

    /// Upper limit of the numbers of frames.
    pub fn places(&self) -> usize {
        self.owner.len()
    }

    /// Size and counts of a list.
    pub fn stats(&self, list: usize) -> Option<ListStats> {
        self.lists.get(list).map(|l| l.stats)
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Is there no list?
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Checks every invariant: each frame is in one block, blocks lie in one list, free buddies are
    /// merged, the links and the counts agree. For tests; it checks all frames.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn check(&self) -> Result<(), String> {
        let mut free = vec![0u64; self.lists.len()];
        let mut blocks = vec![[0u64; ORDERS]; self.lists.len()];
        let mut at = 0;
        while at < self.owner.len() {
            if self.owner[at] == NOBODY {
                if self.state[at] != WITHIN {
                    return Err(format!("frame {at} is nobody's and in a block"));
                }
                at += 1;
                continue;
            }
            let (state, list) = (self.state[at], usize::from(self.owner[at]));
            if state & (FREE | TAKEN) == 0 {
                return Err(format!("frame {at} is in no block"));
            }
            let order = state & ORDER;
            let size = 1usize << order;
            if !at.is_multiple_of(size)
                || (at..at + size).any(|i| usize::from(self.owner[i]) != list)
            {
                return Err(format!(
                    "the block of order {order} at {at} is not aligned or not of one list"
                ));
            }
            if (at + 1..at + size).any(|i| self.state[i] != WITHIN) {
                return Err(format!("the block of order {order} at {at} has another within"));
            }
            if state & FREE != 0 {
                free[list] += size as u64;
                blocks[list][usize::from(order)] += 1;
                let buddy = at ^ size;
                if order < MAX_ORDER
                    && self.state[buddy] == state
                    && usize::from(self.owner[buddy]) == list
                {
                    return Err(format!(
                        "the free blocks of order {order} at {at} and {buddy} are not merged"
                    ));
                }
            }
            at += size;
        }
        self.check_links(&free, &blocks)
    }

    fn check_links(&self, free: &[u64], blocks: &[[u64; ORDERS]]) -> Result<(), String> {
        for (i, list) in self.lists.iter().enumerate() {
            if list.stats.free != free[i] {
                return Err(format!(
                    "list {i} counts {} free frames and has {}",
                    list.stats.free, free[i]
                ));
            }
            for (order, &expected) in blocks[i].iter().enumerate() {
                let (mut at, mut before, mut count) = (list.heads[order], NONE, 0);
                while at != NONE && count <= expected {
                    let state = FREE | u8::try_from(order).unwrap_or(0);
                    if self.state[at as usize] != state || self.previous[at as usize] != before {
                        return Err(format!(
                            "frame {at} is in the list of order {order} by mistake"
                        ));
                    }
                    (before, at, count) = (at, self.next[at as usize], count + 1);
                }
                if count != expected || (list.orders >> order & 1 == 1) != (count > 0) {
                    return Err(format!(
                        "list {i} links {count} blocks of order {order} and has {expected}"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours are frame mod 32: core 0 has 0 to 7, core 1 has 8 to 15, level C the rest.
    fn three(frames: impl IntoIterator<Item = u64>) -> Lists {
        let frames: Vec<u64> = frames.into_iter().collect();
        Lists::new(3, &frames, |frame| {
            Some(match frame % 32 {
                0..8 => 0,
                8..16 => 1,
                _ => 2,
            })
        })
    }

    #[test]
    fn blocks_are_as_large_as_the_colouring_lets_them() {
        let mut lists = three(0..1024);
        lists.check().expect("consistent");
        // Eight neighbouring frames have the colours of core 0, and sixteen those of level C.
        assert_eq!(lists.get(0, 3).map(|b| b.order), Ok(3));
        assert!(matches!(lists.get(0, 4), Err(ListError::Empty { list: 0, frames: 16, .. })));
        assert_eq!(lists.get(2, 4).map(|b| b.order), Ok(4));
        assert!(matches!(lists.get(2, 5), Err(ListError::Empty { .. })));
    }

    #[test]
    fn an_empty_list_takes_nothing_from_another() {
        let mut lists = three(0..64);
        let mut got = Vec::new();
        while let Ok(block) = lists.get(1, 0) {
            assert_eq!(lists.owner(block.first), Some(1));
            got.push(block);
        }
        assert_eq!(got.len(), 16);
        assert_eq!(lists.stats(0).map(|s| s.free), Some(16));
        assert_eq!(lists.stats(1).map(|s| (s.free, s.least_free, s.failures)), Some((0, 0, 1)));
        for block in got {
            lists.put(block).expect("taken");
        }
        lists.check().expect("merged again");
        assert!(lists.get(1, 3).is_ok());
    }

    #[test]
    fn refuses_what_it_did_not_give() {
        let mut lists = three(0..512);
        let block = lists.get(0, 2).expect("free");
        let inner = Block { first: block.first + 1, order: 0 };
        assert_eq!(lists.put(inner), Err(ListError::NotTaken { first: inner.first, order: 0 }));
        assert!(lists.put(Block { first: block.first, order: 1 }).is_err());
        assert!(lists.put(Block { first: 100_000, order: 1 }).is_err());
        lists.put(block).expect("taken");
        assert!(lists.put(block).is_err(), "twice");
        assert!(matches!(lists.get(3, 0), Err(ListError::Unknown { .. })));
        assert!(matches!(lists.get(0, 10), Err(ListError::Unknown { .. })));
        lists.check().expect("consistent");
    }

    #[test]
    fn frames_with_holes_keep_their_numbers() {
        let frames = [5u64, 6, 7, 8, 9, 70_000, 70_001, 5];
        let mut lists = Lists::new(1, &frames, |_| Some(0));
        lists.check().expect("consistent");
        assert_eq!(lists.stats(0).map(|s| s.frames), Some(7));
        for _ in 0..7 {
            let block = lists.get(0, 0).expect("free");
            let frame = lists.frame(block.first).expect("known");
            assert!(frames.contains(&frame));
            assert_eq!(lists.number_of(frame), Some(block.first));
        }
        assert!(lists.get(0, 0).is_err());
    }

    #[test]
    fn the_check_notices() {
        let mut broken = three(0..512);
        broken.state[3] = FREE;
        assert!(broken.check().is_err());
        let mut broken = three(0..512);
        broken.lists[0].stats.free += 1;
        assert!(broken.check().is_err());
        let mut broken = three(0..512);
        broken.owner[3] = 1;
        assert!(broken.check().is_err());
        let mut broken = three(0..512);
        broken.lists[2].heads[4] = NONE;
        assert!(broken.check().is_err());
    }
}
