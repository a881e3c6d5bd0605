//! Page frames for simulated programs, by bank and colour.
//!
//! Rule: a frame is drawn at random from the free ones of the wanted banks and colours; the seed
//! fixes the draws. A buddy allocator that knows banks and colours gives such frames after some
//! hours: no two pages are neighbours.

use crate::machine::Layout;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashSet;
use solocore_model::list;

/// Too few frames of the wanted kind are free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Pages wanted.
    pub wanted: u32,
    /// Banks they should lie in.
    pub banks: Option<Vec<u32>>,
    /// Colours they should have.
    pub colours: Option<Vec<u32>>,
    /// Approximate number of free pages of that kind.
    pub had: u64,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "wants {} pages", self.wanted)?;
        if let Some(banks) = &self.banks {
            write!(f, " in banks {}", list(banks))?;
        }
        if let Some(colours) = &self.colours {
            write!(f, " of colours {}", list(colours))?;
        }
        write!(
            f,
            ", but about {} are left; give it more banks or colours, or a smaller size",
            self.had
        )
    }
}

/// Hands out page frames.
#[derive(Debug)]
pub struct Allocator {
    layout: Layout,
    rng: ChaCha8Rng,
    used: FxHashSet<u64>,
}

impl Allocator {
    /// An allocator for all of the board's memory.
    #[must_use]
    pub fn new(layout: Layout, seed: u64) -> Self {
        Self { layout, rng: ChaCha8Rng::seed_from_u64(seed), used: FxHashSet::default() }
    }

    /// Takes `count` free frames.
    ///
    /// # Errors
    /// [`Full`], also for banks and colours that the board does not have.
    pub fn take(
        &mut self,
        count: u32,
        banks: Option<&[u32]>,
        colours: Option<&[u32]>,
    ) -> Result<Vec<u64>, Full> {
        let share = |list: Option<&[u32]>, of: u64| {
            list.map_or(of, |l| l.iter().filter(|n| u64::from(**n) < of).count() as u64)
        };
        let (all_banks, all_colours) = (u64::from(self.layout.banks()), self.layout.colours());
        // Banks and colours may share address bits: this number assumes that they do not. If they
        // do, draws stop in time.
        let fitting = u128::from(self.layout.frames())
            * u128::from(share(banks, all_banks))
            * u128::from(share(colours, all_colours))
            / (u128::from(all_banks) * u128::from(all_colours)).max(1);
        let full = |had: u128| Full {
            wanted: count,
            banks: banks.map(<[u32]>::to_vec),
            colours: colours.map(<[u32]>::to_vec),
            had: u64::try_from(had).unwrap_or(u64::MAX),
        };
        if fitting == 0 || u128::from(count) > fitting {
            return Err(full(fitting));
        }
        let mut out = Vec::with_capacity(count as usize);
        let mut vain = 0u64;
        while out.len() < count as usize {
            let frame = self.rng.random_range(0..self.layout.frames());
            let wanted = banks.is_none_or(|b| b.contains(&self.layout.bank(frame)))
                && colours
                    .is_none_or(|c| c.iter().any(|&c| u64::from(c) == self.layout.colour(frame)));
            if wanted && self.used.insert(frame) {
                out.push(frame);
                vain = 0;
            } else {
                vain += 1;
                // With one frame in a million left, a draw hits it within this number, except with
                // probability e^-16.
                if vain > 16_000_000 {
                    return Err(full(out.len() as u128));
                }
            }
        }
        Ok(out)
    }
}
