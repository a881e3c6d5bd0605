//! Times pairs of addresses on this machine.
//!
//! Rule: read both and flush both from the caches repeatedly; the least time of some repetitions
//! counts, as interrupts only add. Source: DRAMA (Pessl et al. 2016). Does not cover: CPUs
//! other than x86-64.

use crate::error::SpaceError;
use crate::map::PAGE;
use crate::solve::{Timing, sample};
use crate::sys::{self, Area};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Lines of this machine's memory.
#[derive(Debug)]
pub struct Probe {
    /// Keeps the memory.
    _area: Area,
    physical: Vec<u64>,
    at: Vec<usize>,
}

impl Probe {
    /// Random lines of `bytes` bytes of memory, one a page.
    ///
    /// # Errors
    /// There is not enough memory, its frames are hidden, or the CPU is not supported.
    pub fn new(bytes: usize, lines: usize, seed: u64) -> Result<Self, SpaceError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(SpaceError::Machine(
                "bank functions are measured on x86-64 only; give a map that is known (--map)"
                    .into(),
            ));
        }
        let area = Area::populated(bytes.next_multiple_of(2 << 20), true)?;
        let frames = sys::frames_of(area.start(), area.bytes() / PAGE as usize)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut physical, mut at) = (Vec::new(), Vec::new());
        for page in sample(&mut random, frames.len(), lines.min(frames.len())) {
            let line = random.random_range(0..PAGE / 64) * 64;
            physical.push(frames[page] * PAGE + line);
            at.push(area.start() + page * PAGE as usize + line as usize);
        }
        Ok(Self { _area: area, physical, at })
    }
}

impl Timing for Probe {
    fn addresses(&self) -> &[u64] {
        &self.physical
    }

    fn time(&mut self, a: usize, b: usize) -> f64 {
        time_pair(self.at[a], self.at[b])
    }
}

/// Cycles of reading two lines from memory, at best.
#[cfg(target_arch = "x86_64")]
pub fn time_pair(a: usize, b: usize) -> f64 {
    use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence, _rdtsc};
    const READS: u64 = 24;
    const TIMES: usize = 5;
    let (a, b) = (a as *const u8, b as *const u8);
    let mut least = u64::MAX;
    for _ in 0..TIMES {
        // SAFETY: both lie in memory that the caller owns; SSE2 is part of x86-64.
        unsafe {
            _mm_mfence();
            let begin = _rdtsc();
            for _ in 0..READS {
                a.read_volatile();
                b.read_volatile();
                _mm_lfence();
                _mm_clflush(a);
                _mm_clflush(b);
                _mm_mfence();
            }
            least = least.min(_rdtsc() - begin);
        }
    }
    least as f64 / READS as f64
}

/// Not measured on this CPU.
#[cfg(not(target_arch = "x86_64"))]
pub fn time_pair(_: usize, _: usize) -> f64 {
    0.0
}
