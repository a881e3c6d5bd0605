//! Chains of pointers through lines of a piece of memory.
//!
//! Rule: the first word of a line is the address of the next line of its chain, so that a load
//! begins when the one before has ended. Chains take lines of even numbers: where hardware fetches
//! lines in pairs, no chain uses the neighbour.

use solocore_buffers::walk::{Random, pass_lines};
use solocore_buffers::{Mapping, PAGE, thread};
use std::ops::Range;

/// Bytes of a block within which a chain stays for a while, where pages are small.
pub const BLOCK: usize = 128 << 10;

/// Numbers of even lines of a range, in random order; `near`: in blocks of this number of lines,
/// one after the other, so that few translations are needed.
pub fn order(lines: Range<usize>, near: Option<usize>, random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = lines.filter(|line| line.is_multiple_of(2)).collect();
    let Some(block) = near else {
        random.shuffle(&mut all);
        return all;
    };
    let even = (block / 2).max(1);
    let mut blocks: Vec<Vec<usize>> = all.chunks(even).map(<[usize]>::to_vec).collect();
    random.shuffle(&mut blocks);
    blocks.iter_mut().for_each(|block| random.shuffle(block));
    blocks.concat()
}

/// Memory that holds chains.
pub struct Lines {
    memory: Mapping,
    /// Bytes of a line.
    line: usize,
}

impl Lines {
    /// Lines of `line` bytes of this memory. A line holds an address, and a page some lines.
    pub fn new(memory: Mapping, line: usize) -> Self {
        Self { memory, line: line.clamp(2 * size_of::<usize>(), PAGE / 2) }
    }

    /// Bytes of a line.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.memory.len() / self.line
    }

    /// Address of a line.
    pub fn address(&self, line: usize) -> usize {
        self.memory[line * self.line..].as_ptr().addr()
    }

    /// Makes a cycle of these lines.
    pub fn link(&mut self, order: &[usize]) {
        for (at, &line) in order.iter().enumerate() {
            let next = self.address(order[(at + 1) % order.len()]);
            let first = &mut self.memory[line * self.line..][..size_of::<usize>()];
            first.copy_from_slice(&next.to_ne_bytes());
        }
    }

    /// Reads a line's word now.
    pub fn read(&self, line: usize) {
        let word = self.memory[line * self.line..].as_ptr();
        // SAFETY: the line lies in the memory; volatile, so that it is really read.
        std::hint::black_box(unsafe { word.read_volatile() });
    }

    /// Writes a line's last byte, which no chain uses.
    pub fn write(&mut self, line: usize) {
        let byte = &raw mut self.memory[line * self.line + self.line - 1];
        // SAFETY: the byte lies in the memory, which is this object's; volatile, so that it is
        // really written.
        unsafe { byte.write_volatile(1) };
    }

    /// Flushes lines from all caches, where that is possible.
    pub fn flush(&self, lines: impl Iterator<Item = usize>) {
        thread::flush(lines.map(|line| &self.memory[line * self.line]));
    }

    /// Reads every line of a range in order.
    pub fn pass(&mut self, lines: Range<usize>) {
        let memory = &mut self.memory[lines.start * self.line..lines.end * self.line];
        std::hint::black_box(pass_lines(memory, self.line, solocore_buffers::walk::Access::Read));
    }

    /// Follows chains side by side for `rounds` rounds. The addresses are those of linked lines of
    /// this memory.
    pub fn follow(&self, at: &mut [usize], rounds: usize) {
        // Not in each step: instructions between two loads hide a part of a cache's latency.
        debug_assert!(at.iter().all(|&at| self.memory.as_ptr_range().contains(&(at as *const u8))));
        if let [one] = at {
            let mut next = *one;
            for _ in 0..rounds {
                next = self.next(next);
            }
            *one = next;
            return;
        }
        for _ in 0..rounds {
            for next in at.iter_mut() {
                *next = self.next(*next);
            }
        }
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        // SAFETY: `at` is the address of a linked line, which holds the address of another;
        // volatile, so that each step is really made.
        unsafe { (at as *const usize).read_volatile() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_buffers::LINE;
    use std::collections::BTreeSet;

    #[test]
    fn a_chain_comes_to_each_of_its_lines_once() {
        for (near, line) in [(false, LINE), (true, LINE), (true, 32), (false, 128)] {
            let block = BLOCK / line;
            let order = order(0..4 * block, near.then_some(block), &mut Random::new(3));
            let mut lines = Lines::new(Mapping::new(4 * BLOCK).unwrap(), line);
            lines.link(&order);
            let (mut at, mut seen) = ([lines.address(order[0])], BTreeSet::new());
            while seen.insert(at[0]) {
                lines.follow(&mut at, 1);
            }
            assert_eq!((seen.len(), at[0]), (2 * block, lines.address(order[0])), "near {near}");
            let blocks: Vec<usize> = order.iter().map(|line| line / block).collect();
            let changes = blocks.windows(2).filter(|w| w[0] != w[1]).count();
            assert_eq!(changes == 3, near, "{changes} changes of the block");
        }
    }

    #[test]
    fn chains_side_by_side_go_as_far_as_alone() {
        let order = order(0..1024, None, &mut Random::new(5));
        let mut lines = Lines::new(Mapping::new(1024 * LINE).unwrap(), LINE);
        lines.link(&order);
        let mut two = [lines.address(order[0]), lines.address(order[100])];
        lines.follow(&mut two, 37);
        assert_eq!(two, [lines.address(order[37]), lines.address(order[137])]);
        lines.write(3);
        assert_eq!(lines.memory[4 * LINE - 1], 1);
    }

    /// Breaks when a line of 32 B is written in its neighbour: a flush of the line would then bring
    /// nothing to memory.
    #[test]
    fn a_write_stays_in_its_line() {
        for line in [32, 64, 128] {
            let mut lines = Lines::new(Mapping::new(PAGE).unwrap(), line);
            assert_eq!((lines.len(), lines.line()), (PAGE / line, line));
            lines.write(5);
            let written: Vec<usize> = (0..PAGE).filter(|&at| lines.memory[at] != 0).collect();
            assert_eq!(written, [6 * line - 1]);
        }
    }
}
