//! Walks through memory: to measure latency and bandwidth.
//!
//! Rule: reading and writing touch each line once a pass, in order. The chase follows a random
//! cycle through all lines, each access waiting for the one before, so that nothing is fetched
//! early and none is under way beside it. Source: the measurements of IsolBench's `bandwidth` and
//! `latency`. Does not cover: effects of the hardware's prefetchers on passes in order (they make
//! them faster; that is part of the figure).

use crate::{BufferError, LINE, Mapping};
use rustix::thread::CpuSet;

/// Random numbers that are the same everywhere (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_u64() % (limit.max(1) as u64)).unwrap_or(0)
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Access of a pass to each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads a word.
    Read,
    /// Writes a word.
    Write,
}

/// Touches each line of the memory once, in order; returns a value of the read lines, so that they
/// are really read.
pub fn pass(memory: &mut [u8], access: Access) -> u64 {
    pass_lines(memory, LINE, access)
}

/// The same with lines of `line` bytes, at least one.
pub fn pass_lines(memory: &mut [u8], line: usize, access: Access) -> u64 {
    let mut sum = 0u64;
    for line in memory.chunks_exact_mut(line.max(1)) {
        match access {
            Access::Read => {
                // SAFETY: the reference is valid for a byte; volatile, so that each line is really
                // read.
                sum =
                    sum.wrapping_add(u64::from(unsafe { std::ptr::read_volatile(line.as_ptr()) }));
            }
            // SAFETY: as above, and the reference is exclusive.
            Access::Write => unsafe { std::ptr::write_volatile(line.as_mut_ptr(), 0xff) },
        }
    }
    sum
}

/// A cycle through all lines of a mapping: each holds the address of the next in its first word.
/// The virtual board knows by the loaded address that an access waits for the one before.
#[derive(Debug)]
pub struct Chase {
    memory: Mapping,
    /// Number of the line that comes next.
    at: usize,
}

/// Bytes of an address.
const WORD: usize = size_of::<usize>();

impl Chase {
    /// A cycle in random order, or in the order of the addresses.
    ///
    /// # Errors
    /// The memory has more than 2^32 lines.
    pub fn new(mut memory: Mapping, random: Option<&mut Random>) -> Result<Self, BufferError> {
        let lines = u32::try_from(memory.len() / LINE).map_err(|_| {
            BufferError::Input("more than 256 GiB cannot be walked; give less".to_owned())
        })?;
        let mut order: Vec<u32> = (0..lines).collect();
        if let Some(random) = random {
            random.shuffle(&mut order);
        }
        for (at, &line) in order.iter().enumerate() {
            let next = order[(at + 1) % order.len()] as usize;
            let address = memory[next * LINE..].as_ptr().addr();
            memory[line as usize * LINE..][..WORD].copy_from_slice(&address.to_ne_bytes());
        }
        Ok(Self { memory, at: 0 })
    }

    /// Lines of the cycle.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.memory.len() / LINE
    }

    /// Follows the cycle for `steps` steps.
    pub fn follow(&mut self, steps: usize) {
        let (mut at, first) = (self.at, self.memory.as_ptr().addr());
        for _ in 0..steps {
            let line = &self.memory[at * LINE..][..WORD];
            // SAFETY: the slice has a word's bytes; volatile, so that each step is really made.
            let next = usize::from_ne_bytes(unsafe {
                std::ptr::read_volatile(line.as_ptr().cast::<[u8; WORD]>())
            });
            at = next.wrapping_sub(first) / LINE;
        }
        self.at = at;
    }
}

/// Keeps the calling thread on a CPU.
///
/// # Errors
/// There is no such CPU, or the thread may not use it.
pub fn keep_on(cpu: u32) -> Result<(), BufferError> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(BufferError::Input(format!("there is no CPU {cpu}; give one that is online")));
    }
    set.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &set).map_err(|e| {
        BufferError::Input(format!(
            "CPU {cpu}: {}; give one that is online and that this process may use",
            std::io::Error::from(e)
        ))
    })
}

/// CPUs that this process may use.
#[must_use]
pub fn cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0u32..).zip(0..CpuSet::MAX_CPU).filter(|c| set.is_set(c.1)).map(|c| c.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_comes_to_every_line_once() {
        for seed in [None, Some(1), Some(2)] {
            let mut random = seed.map(Random::new);
            let mut chase = Chase::new(Mapping::new(64 << 10).unwrap(), random.as_mut()).unwrap();
            assert_eq!(chase.lines(), 1024);
            let mut seen = vec![false; 1024];
            for _ in 0..1024 {
                assert!(!std::mem::replace(&mut seen[chase.at], true), "seed {seed:?}");
                let line = chase.at * LINE;
                let loaded = chase.memory[line..line + WORD].to_vec();
                chase.follow(1);
                // A step loads the address of the next step's load.
                let next = chase.memory[chase.at * LINE..].as_ptr().addr();
                assert_eq!(loaded, next.to_ne_bytes());
            }
            assert_eq!(chase.at, 0, "and back");
        }
    }

    #[test]
    fn a_pass_touches_every_line() {
        let mut memory = vec![0u8; 10 * LINE];
        assert_eq!(pass(&mut memory, Access::Write), 0);
        assert!((0..10).all(|l| memory[l * LINE] == 0xff && memory[l * LINE + 1] == 0));
        assert_eq!(pass(&mut memory, Access::Read), 10 * 255);
        // Lines of half the size: the second halves are read as well.
        assert_eq!(pass_lines(&mut memory, LINE / 2, Access::Write), 0);
        assert_eq!(pass_lines(&mut memory, LINE / 2, Access::Read), 20 * 255);
    }

    #[test]
    fn shuffles_repeat() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }
}
