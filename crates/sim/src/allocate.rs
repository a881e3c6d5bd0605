//! Physical pages for the simulated programs.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashSet;
use solocore_model::Platform;

/// Hands out page frames at random, from chosen banks only if told so (PALLOC, SCE section 2.1).
#[derive(Debug)]
pub struct Allocator {
    rng: ChaCha8Rng,
    used: FxHashSet<u64>,
    frames: u64,
    banks: u64,
}

impl Allocator {
    /// All of the platform's memory, in an order that `seed` fixes.
    pub fn new(p: &Platform, seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            used: FxHashSet::default(),
            frames: p.dram.capacity.0 / p.page.0,
            banks: u64::from(p.total_banks()),
        }
    }

    /// `count` distinct frames; `banks` is the first bank and their number. `None` when memory is short.
    pub fn take(&mut self, count: u32, banks: Option<(u32, u32)>) -> Option<Vec<u64>> {
        let (first, width) = banks.map_or((0, self.banks), |(f, n)| (u64::from(f), u64::from(n)));
        let rows = self.frames / self.banks;
        if u64::from(count) + self.used.len() as u64 > rows * width / 2 {
            // Beyond half full a random search slows down; boards are larger than task sets.
            return None;
        }
        let mut out = Vec::with_capacity(count as usize);
        while out.len() < count as usize {
            let bank = first + self.rng.random_range(0..width);
            let frame = self.rng.random_range(0..rows) * self.banks + bank;
            if self.used.insert(frame) {
                out.push(frame);
            }
        }
        Some(out)
    }
}
