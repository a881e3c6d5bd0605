//! Chains of pointers through lines of a piece of memory.
//!
//! Rule: the first word of a line is the address of the next line of its chain, so that a load
//! begins when the one before has ended. Chains take lines of even numbers: where hardware fetches
//! lines in pairs, no chain uses the neighbour.

use solocore_buffers::walk::{Random, pass};
use solocore_buffers::{LINE, Mapping, thread};
use std::ops::Range;

/// Lines of a block within which a chain stays for a while, where pages are small.
const BLOCK: usize = 32 * 64;

/// Numbers of even lines of a range, in random order; `near`: block by block, so that few
/// translations are needed.
pub fn order(lines: Range<usize>, near: bool, random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = lines.filter(|line| line.is_multiple_of(2)).collect();
    if !near {
        random.shuffle(&mut all);
        return all;
    }
    let mut blocks: Vec<Vec<usize>> = all.chunks(BLOCK / 2).map(<[usize]>::to_vec).collect();
    random.shuffle(&mut blocks);
    blocks.iter_mut().for_each(|block| random.shuffle(block));
    blocks.concat()
}

/// Memory that holds chains.
pub struct Lines {
    memory: Mapping,
}

impl Lines {
    /// Lines of this memory.
    pub fn new(memory: Mapping) -> Self {
        Self { memory }
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.memory.len() / LINE
    }

    /// Address of a line.
    pub fn address(&self, line: usize) -> usize {
        self.memory[line * LINE..].as_ptr().addr()
    }

    /// Makes a cycle of these lines.
    pub fn link(&mut self, order: &[usize]) {
        for (at, &line) in order.iter().enumerate() {
            let next = self.address(order[(at + 1) % order.len()]);
            self.memory[line * LINE..][..size_of::<usize>()].copy_from_slice(&next.to_ne_bytes());
        }
    }

    /// Reads a line's word now.
    pub fn read(&self, line: usize) {
        let word = self.memory[line * LINE..].as_ptr();
        // SAFETY: the line lies in the memory; volatile, so that it is really read.
        std::hint::black_box(unsafe { word.read_volatile() });
    }

    /// Writes a line's last byte, which no chain uses.
    pub fn write(&mut self, line: usize) {
        let byte = &raw mut self.memory[line * LINE + LINE - 1];
        // SAFETY: the byte lies in the memory, which is this object's; volatile, so that it is
        // really written.
        unsafe { byte.write_volatile(1) };
    }

    /// Flushes lines from all caches, where that is possible.
    pub fn flush(&self, lines: impl Iterator<Item = usize>) {
        thread::flush(lines.map(|line| &self.memory[line * LINE]));
    }

    /// Reads every line of a range in order.
    pub fn pass(&mut self, lines: Range<usize>) {
        let memory = &mut self.memory[lines.start * LINE..lines.end * LINE];
        std::hint::black_box(pass(memory, solocore_buffers::walk::Access::Read));
    }

    /// Follows chains side by side for `rounds` rounds. The addresses are those of linked lines of
    /// this memory.
    pub fn follow(&self, at: &mut [usize], rounds: usize) {
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
        debug_assert!(self.memory.as_ptr_range().contains(&(at as *const u8)));
        // SAFETY: `at` is the address of a linked line, which holds the address of another; volatile,
        // so that each step is really made.
        unsafe { (at as *const usize).read_volatile() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_chain_comes_to_each_of_its_lines_once() {
        for near in [false, true] {
            let order = order(0..4 * BLOCK, near, &mut Random::new(3));
            let mut lines = Lines::new(Mapping::new(4 * BLOCK * LINE).unwrap());
            lines.link(&order);
            let (mut at, mut seen) = ([lines.address(order[0])], BTreeSet::new());
            while seen.insert(at[0]) {
                lines.follow(&mut at, 1);
            }
            assert_eq!((seen.len(), at[0]), (2 * BLOCK, lines.address(order[0])), "near {near}");
            let blocks: Vec<usize> = order.iter().map(|line| line / BLOCK).collect();
            let changes = blocks.windows(2).filter(|w| w[0] != w[1]).count();
            assert_eq!(changes == 3, near, "{changes} changes of the block");
        }
    }

    #[test]
    fn chains_side_by_side_go_as_far_as_alone() {
        let order = order(0..1024, false, &mut Random::new(5));
        let mut lines = Lines::new(Mapping::new(1024 * LINE).unwrap());
        lines.link(&order);
        let mut two = [lines.address(order[0]), lines.address(order[100])];
        lines.follow(&mut two, 37);
        assert_eq!(two, [lines.address(order[37]), lines.address(order[137])]);
        lines.write(3);
        assert_eq!(lines.memory[4 * LINE - 1], 1);
    }
}
