//! Orders in which memory is walked, each to stress one part of the memory system.
//!
//! Rule: a walk visits one line after the other repeatedly, and no access waits for the one before.
//! In order of the addresses prefetchers help. At random each access opens a row of some bank. A
//! line of each page misses the TLB as well; a list of lines can keep to one bank. Source: the
//! order at random is a permutation of the line numbers: with an odd factor m, x -> (x ^ x >> s) *
//! m modulo a power of two, whose steps can each be undone. Does not cover: the lines of a bank
//! (`solocore_space::map`).

use crate::walk::Access;
use crate::{LINE, Mapping, PAGE};

const FACTOR: usize = 0x2545_f491;

/// Order of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of addresses.
    Lines,
    /// At random, each once a pass; the largest power of two of them.
    Random,
    /// One of each page, pages at random; the largest power of two of them.
    Pages,
    /// Only these lines, in this order.
    Only(Vec<u32>),
}

/// Use of memory by a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Access to each line.
    pub access: Access,
    /// Order of the lines.
    pub order: Order,
}

impl From<Access> for Pattern {
    fn from(access: Access) -> Self {
        Self { access, order: Order::Lines }
    }
}

/// A walk through memory that it owns.
#[derive(Debug)]
pub struct Walk {
    memory: Mapping,
    order: Order,
    /// Bytes of a line.
    line: usize,
    /// Lines of a pass.
    lines: usize,
    at: usize,
}

impl Walk {
    /// Begins at the first line of the order. Numbers of lines beyond the memory are left out.
    #[must_use]
    pub fn new(memory: Mapping, order: Order) -> Self {
        Self::of_lines(memory, order, LINE)
    }

    /// The same with lines of `line` bytes, a power of two of at most a page.
    #[must_use]
    pub fn of_lines(memory: Mapping, order: Order, line: usize) -> Self {
        let line = line.clamp(1, PAGE);
        let all = memory.len() / line;
        let order = match order {
            Order::Only(mut lines) => {
                lines.retain(|&line| (line as usize) < all);
                Order::Only(lines)
            }
            other => other,
        };
        let lines = match &order {
            Order::Lines => all,
            Order::Random => power_of_two(all),
            Order::Pages => power_of_two(memory.len() / PAGE),
            Order::Only(lines) => lines.len(),
        };
        Self { memory, order, line, lines, at: 0 }
    }

    /// Lines that a pass touches.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// Bytes of the memory, touched or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Visits the next `lines` lines, to the end of the pass at most; returns their number.
    pub fn go(&mut self, lines: usize, access: Access) -> usize {
        let lines = lines.min(self.lines - self.at);
        let mut sum = 0u64;
        for at in self.at..self.at + lines {
            let line = self.line(at) * self.line;
            let at = &raw mut self.memory[line];
            match access {
                // SAFETY: the pointer is one into memory of this walk; volatile, so that the line
                // is read.
                Access::Read => sum = sum.wrapping_add(u64::from(unsafe { at.read_volatile() })),
                // SAFETY: as above, and there is no other reference to the memory.
                Access::Write => unsafe { at.write_volatile(0xff) },
            }
        }
        std::hint::black_box(sum);
        self.at += lines;
        if self.at == self.lines {
            self.at = 0;
        }
        lines
    }

    /// The number of the line that comes at this place of a pass.
    fn line(&self, at: usize) -> usize {
        match &self.order {
            Order::Lines => at,
            Order::Random => mixed(at, self.lines),
            Order::Pages => {
                let (page, of_page) = (mixed(at, self.lines), PAGE / self.line);
                // Not always the first line: the first lines of pages share few sets of a cache.
                page * of_page + page % of_page
            }
            Order::Only(lines) => lines[at] as usize,
        }
    }
}

fn power_of_two(n: usize) -> usize {
    n.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// A permutation of the numbers below a power of two.
fn mixed(x: usize, below: usize) -> usize {
    let half = below.ilog2() / 2 + 1;
    let mut x = x;
    for _ in 0..2 {
        x ^= x >> half;
        x = x.wrapping_mul(FACTOR) & (below - 1);
    }
    x ^ (x >> half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(order: Order, bytes: usize) -> (usize, Vec<usize>) {
        let mut walk = Walk::new(Mapping::new(bytes).unwrap(), order);
        let seen: Vec<usize> = (0..walk.lines()).map(|at| walk.line(at)).collect();
        let mut touched = 0;
        while touched < walk.lines() {
            touched += walk.go(1000, Access::Write);
        }
        assert_eq!((touched, walk.at), (walk.lines(), 0), "a pass ends where the next begins");
        let written = walk.memory.chunks_exact(LINE).filter(|l| l[0] == 0xff).count();
        (written, seen)
    }

    #[test]
    fn each_order_comes_to_its_lines_once() {
        for bytes in [PAGE, 3 * PAGE, 64 * PAGE, 100 * PAGE, 1 << 20] {
            let (all, pages) = (bytes / LINE, bytes / PAGE);
            let once = |order: Order, expected: usize| {
                let (written, mut seen) = pass(order.clone(), bytes);
                seen.sort_unstable();
                seen.dedup();
                assert_eq!((written, seen.len()), (expected, expected), "{order:?}, {bytes}");
                seen
            };
            once(Order::Lines, all);
            once(Order::Random, power_of_two(all));
            let lines = once(Order::Pages, power_of_two(pages));
            assert!(lines.iter().enumerate().all(|(page, line)| line / (PAGE / LINE) == page));
            let some: Vec<u32> = (0..u32::try_from(all).unwrap() + 5).step_by(3).collect();
            once(Order::Only(some), all.div_ceil(3));
        }
    }

    /// Breaks when a walk takes lines of another size: each line of 32 B is touched once.
    #[test]
    fn lines_have_the_stated_size() {
        for line in [32, 128] {
            for order in [Order::Lines, Order::Random, Order::Pages] {
                let mut walk = Walk::of_lines(Mapping::new(4 * PAGE).unwrap(), order, line);
                let all = walk.lines();
                assert_eq!(walk.go(1000, Access::Write), all);
                let touched = walk.memory.chunks_exact(line).filter(|l| l[0] == 0xff).count();
                let expected = if walk.order == Order::Pages { 4 } else { 4 * PAGE / line };
                assert_eq!((all, touched), (expected, expected), "{line} bytes");
            }
        }
    }

    /// A prefetcher follows few strides: in random order no distance is frequent, and few lines
    /// come soon after one of the same row of 8 KiB.
    #[test]
    fn random_order_has_no_stride() {
        let (_, seen) = pass(Order::Random, 4 << 20);
        let mut distances = std::collections::BTreeMap::new();
        for pair in seen.windows(2) {
            *distances.entry(pair[1].wrapping_sub(pair[0])).or_insert(0u32) += 1;
        }
        let most = distances.values().max().copied().unwrap_or(0);
        assert!(most as usize * 20 < seen.len(), "{most} of {}", seen.len());
        let near = |w: &[usize]| w[1..].iter().any(|l| l / 128 == w[0] / 128);
        let soon = seen.windows(9).filter(|w| near(w)).count();
        assert!(soon * 10 < seen.len(), "{soon} of {}", seen.len());
    }

    #[test]
    fn nothing_to_walk_is_no_panic() {
        let mut walk = Walk::new(Mapping::new(PAGE).unwrap(), Order::Only(vec![64, 1000]));
        assert_eq!((walk.lines(), walk.go(5, Access::Read)), (0, 0));
    }
}
