//! Loads that each wait for the one before, from lines that no cache holds.
//!
//! Problem: the time of a load must come from memory, not from a cache, a prefetcher or a walk
//! through page tables. Rule: the buffer is cut into blocks of 32 pages. Of each block one line in
//! every second pair of lines is on a random cycle. A line holds the address of the next, so that a
//! load begins when the one before has ended, and no prefetcher guesses where. The virtual board
//! knows by the loaded address that a load depends on another (docs/board-model.md). With numbers
//! of lines the probe read 8 ns there, where memory takes 70. Before pieces of a
//! cycle are timed, their lines and the neighbours of these are flushed from all caches; the
//! translations stay. Where a program cannot flush lines, the buffer is four times the last level,
//! so that a line comes again only after twice its size in others. A line of each page is read
//! before for its translation. Source: lmbench's lat_mem_rd (McVoy, Staelin 1996) for the dependent
//! loads; Intel SDM vol. 2 CLFLUSH; Arm ARM, DC CIVAC. Does not cover: replacement that keeps old
//! lines (then, without flushing, some loads hit); memory-side caches; translation of a guest's
//! addresses by its host beyond the entries of the TLB.

use crate::thread::{CAN_FLUSH, flush};
use crate::walk::Random;
use std::time::{Duration, Instant};

/// Bytes that a load brings in.
pub const LINE_BYTES: u64 = 64;
const LINES_PER_PAGE: usize = 64;
const BLOCK_PAGES: usize = 32;
const BLOCK_LINES: usize = BLOCK_PAGES * LINES_PER_PAGE;
/// Lines of a block's cycle: one of each pair (the neighbour is prefetched with it), except each
/// page's first pair, which is read for the translation.
pub const CYCLE: usize = BLOCK_PAGES * (LINES_PER_PAGE / 2 - 1);
/// Bytes of a block.
pub const BLOCK_BYTES: u64 = (BLOCK_LINES as u64) * LINE_BYTES;

#[repr(align(64))]
#[derive(Clone, Default)]
struct Line {
    /// Address of the next line of the cycle; 0 off the cycle.
    next: usize,
    _rest: [usize; REST],
}

/// Words of a line beside the address.
const REST: usize = LINE_BYTES as usize / size_of::<usize>() - 1;

/// The buffer, and the begin of the next piece.
pub struct Chase {
    lines: Vec<Line>,
    /// First line of the first page.
    start: usize,
    /// The cycles, one block after the other: lines in the order of their visits.
    order: Vec<u32>,
    /// Blocks in the order of their visits.
    blocks: Vec<u32>,
    /// Number of visits so far.
    visits: usize,
    /// Begin of each block's next piece.
    cursors: Vec<usize>,
}

/// Sufficient bytes of a buffer for this last level.
pub fn default_bytes(last_level: u64) -> u64 {
    const FLUSHED: u64 = 16 << 20;
    if CAN_FLUSH { FLUSHED } else { last_level.saturating_mul(4).max(FLUSHED) }
}

impl Chase {
    /// A buffer of `blocks` whole blocks, at least one; the same seed gives the same cycles.
    pub fn new(blocks: usize, seed: u64) -> Self {
        let blocks = blocks.clamp(1, (u32::MAX as usize - LINES_PER_PAGE) / BLOCK_LINES);
        let mut lines = vec![Line::default(); blocks * BLOCK_LINES + LINES_PER_PAGE];
        let before = lines.as_ptr().addr() / LINE_BYTES as usize % LINES_PER_PAGE;
        let start = (LINES_PER_PAGE - before) % LINES_PER_PAGE;
        let mut random = Random::new(seed);
        let mut order = Vec::with_capacity(blocks * CYCLE);
        for block in 0..blocks {
            let first = start + block * BLOCK_LINES;
            let on_cycle = |i: &usize| i % LINES_PER_PAGE >= 2 && i.is_multiple_of(2);
            let mut cycle: Vec<u32> = (0..BLOCK_LINES)
                .filter(on_cycle)
                .filter_map(|i| u32::try_from(first + i).ok())
                .collect();
            random.shuffle(&mut cycle);
            for (i, &line) in cycle.iter().enumerate() {
                let next = cycle[(i + 1) % cycle.len()] as usize;
                lines[line as usize].next = std::ptr::from_ref(&lines[next]).addr();
            }
            order.extend(cycle);
        }
        let mut visits: Vec<u32> = (0..u32::try_from(blocks).unwrap_or(u32::MAX)).collect();
        random.shuffle(&mut visits);
        Self { lines, start, order, blocks: visits, visits: 0, cursors: vec![0; blocks] }
    }

    /// Times `pieces` pieces of `loads` loads each, one after the other; together at most a
    /// cycle's.
    pub fn time(&mut self, loads: usize, pieces: usize) -> Vec<Duration> {
        let (pieces, loads) =
            (pieces.clamp(1, CYCLE), loads.clamp(1, CYCLE / pieces.clamp(1, CYCLE)));
        let block = self.blocks[self.visits % self.blocks.len()] as usize;
        self.visits = self.visits.wrapping_add(1);
        let from = self.cursors[block];
        self.cursors[block] = (from + loads * pieces) % CYCLE;
        let cycle = &self.order[block * CYCLE..(block + 1) * CYCLE];
        if CAN_FLUSH {
            // This needs the translations: it leaves them at hand.
            let lines = (from..from + loads * pieces).map(|i| cycle[i % CYCLE] as usize);
            flush(lines.flat_map(|i| [i, i + 1]).map(|i| &self.lines[i]));
        } else {
            let pages = (0..BLOCK_PAGES)
                .map(|page| self.start + block * BLOCK_LINES + page * LINES_PER_PAGE);
            std::hint::black_box(pages.map(|line| self.lines[line].next).max());
        }
        let mut at = cycle[from] as usize;
        let mut times = Vec::with_capacity(pieces);
        for _ in 0..pieces {
            let (took, last) = self.walk(at, loads);
            at = last;
            times.push(took);
        }
        debug_assert_eq!(
            at,
            self.order[block * CYCLE + self.cursors[block]] as usize,
            "the cycle goes on there next time"
        );
        times
    }

    /// Follows the cycle from a line on. The clock waits until the last load has ended.
    fn walk(&self, first: usize, loads: usize) -> (Duration, usize) {
        let mut at = first;
        let begin = Instant::now();
        for _ in 0..loads {
            at = self.after(at);
        }
        let at = std::hint::black_box(at);
        (begin.elapsed(), at)
    }

    /// The line after this one on its cycle. Its number is computed from the address that the load
    /// gives, so the next load needs this one's value.
    #[inline]
    fn after(&self, line: usize) -> usize {
        let first = self.lines.as_ptr().addr();
        self.lines[line].next.wrapping_sub(first) / LINE_BYTES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_block_is_one_cycle_over_every_second_pair() {
        let chase = Chase::new(3, 1);
        assert_eq!(chase.order.len(), 3 * CYCLE);
        let page_of = |line: usize| std::ptr::from_ref(&chase.lines[line]).addr() / 4096;
        for block in 0..3 {
            let first = chase.order[block * CYCLE] as usize;
            let mut seen = BTreeSet::new();
            let mut at = first;
            while seen.insert(at) {
                // A load gives the address of the next load, for what follows it by addresses.
                let loaded = chase.lines[at].next;
                at = chase.after(at);
                assert_eq!(loaded, std::ptr::from_ref(&chase.lines[at]).addr());
            }
            assert_eq!((seen.len(), at), (CYCLE, first), "one cycle");
            let pages: BTreeSet<usize> = seen.iter().map(|&l| page_of(l)).collect();
            assert_eq!(pages.len(), BLOCK_PAGES, "the pages are the machine's");
            let touched: BTreeSet<usize> = (0..BLOCK_PAGES)
                .map(|p| page_of(chase.start + block * BLOCK_LINES + p * LINES_PER_PAGE))
                .collect();
            assert_eq!(touched, pages, "every page is read for its translation");
            let pairs: BTreeSet<usize> =
                seen.iter().map(|&l| std::ptr::from_ref(&chase.lines[l]).addr() / 128).collect();
            assert_eq!(pairs.len(), CYCLE, "no two of a pair");
        }
    }

    #[test]
    fn pieces_go_on_where_the_last_ended() {
        let mut chase = Chase::new(2, 7);
        let mut taken = Vec::new();
        for _ in 0..40 {
            let block = chase.blocks[chase.visits % 2] as usize;
            let from = chase.cursors[block];
            assert_eq!(chase.time(25, 4).len(), 4);
            assert_eq!(chase.cursors[block], (from + 100) % CYCLE);
            taken.push(block);
        }
        assert!(taken.contains(&0) && taken.contains(&1));
        // The allocator decides the begin of the pages in the buffer.
        let order = |seed| -> Vec<usize> {
            let chase = Chase::new(2, seed);
            chase.order.iter().map(|&line| line as usize - chase.start).collect()
        };
        assert!(order(7) == order(7) && order(7) != order(8));
        // Impossible values are corrected.
        assert_eq!(Chase::new(0, 1).blocks.len(), 1);
        assert_eq!(chase.time(0, 0).len(), 1);
        assert_eq!(chase.time(usize::MAX, 3).len(), 3);
        assert_eq!(chase.time(8, usize::MAX).len(), CYCLE);
    }

    /// Compares no absolute times. The loads go further than a cache: the same piece again, without
    /// flushing, is much faster.
    #[test]
    fn loads_go_to_memory() {
        if !CAN_FLUSH {
            return;
        }
        let mut chase = Chase::new(4, 3);
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let cold = median((0..51).flat_map(|_| chase.time(64, 1)).collect());
        let first = chase.order[0] as usize;
        chase.walk(first, 64);
        let warm = median((0..51).map(|_| chase.walk(first, 64).0).collect());
        assert!(cold > warm * 3, "cold {cold:?}, warm {warm:?}");
    }
}
