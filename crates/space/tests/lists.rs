//! Fragmentation and leaks: ten million random requests over the m+1 lists, against a second record
//! of each frame's holder.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_space::lists::{Block, Lists, MAX_ORDER};

const CORES: usize = 4;

/// 32 colours in fours: each core has four, level C the other sixteen; every 37th frame is missing.
fn list_of(frame: u64) -> Option<usize> {
    let colour = frame % 32;
    (!frame.is_multiple_of(37)).then_some(if colour < 16 { (colour / 4) as usize } else { CORES })
}

struct Book {
    lists: Lists,
    /// By frame: is it taken?
    taken: Vec<bool>,
    blocks: Vec<Block>,
    failures: u64,
}

impl Book {
    fn new(frames: u64) -> Self {
        let frames: Vec<u64> = (0..frames).filter(|&f| list_of(f).is_some()).collect();
        let lists = Lists::new(CORES + 1, &frames, list_of);
        Self { taken: vec![false; lists.places()], lists, blocks: Vec::new(), failures: 0 }
    }

    fn get(&mut self, list: usize, order: u8) {
        let Ok(block) = self.lists.get(list, order) else {
            self.failures += 1;
            return;
        };
        for at in block.first..block.first + (1 << order) {
            assert_eq!(self.lists.owner(at), Some(list), "a frame of another list");
            assert!(!std::mem::replace(&mut self.taken[at as usize], true), "a frame twice");
        }
        self.blocks.push(block);
    }

    fn put(&mut self, at: usize) {
        let block = self.blocks.swap_remove(at);
        for at in block.first..block.first + (1 << block.order) {
            assert!(std::mem::replace(&mut self.taken[at as usize], false));
        }
        self.lists.put(block).expect("taken");
    }

    fn totals(&self) {
        self.lists.check().expect("consistent");
        let taken = self.taken.iter().filter(|&&t| t).count() as u64;
        let stats = (0..=CORES).filter_map(|l| self.lists.stats(l));
        assert_eq!(stats.map(|s| s.frames - s.free).sum::<u64>(), taken, "frames are lost or made");
    }
}

#[test]
fn ten_million_requests_lose_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let mut book = Book::new(1 << 16);
    let at_first: Vec<_> =
        (0..=CORES).filter_map(|l| book.lists.stats(l)).map(|s| s.free).collect();
    for i in 0..10_000_000u32 {
        // The load changes: nearly full, nearly empty.
        let filling = if i >> 17 & 1 == 0 { 0.7 } else { 0.3 };
        if book.blocks.is_empty() || random.random_bool(filling) {
            let order = (random.random::<u16>().trailing_zeros() as u8).min(MAX_ORDER);
            book.get(random.random_range(0..=CORES), order);
        } else {
            book.put(random.random_range(0..book.blocks.len()));
        }
        if i % 500_000 == 0 {
            book.totals();
        }
    }
    assert!(book.failures > 1000, "the lists never ran dry: {}", book.failures);
    while !book.blocks.is_empty() {
        book.put(book.blocks.len() - 1);
    }
    book.totals();
    let at_last: Vec<_> = (0..=CORES).filter_map(|l| book.lists.stats(l)).map(|s| s.free).collect();
    assert_eq!(at_first, at_last);
    // Everything has merged again: the same large blocks are available as at the start.
    let mut fresh = Book::new(1 << 16);
    for list in 0..=CORES {
        for order in (0..=MAX_ORDER).rev() {
            while fresh.lists.get(list, order).is_ok() {
                assert!(
                    book.lists.get(list, order).is_ok(),
                    "list {list} has fewer blocks of order {order}"
                );
            }
            assert!(book.lists.get(list, order).is_err());
        }
    }
}
