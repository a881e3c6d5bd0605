//! How fast a core computes.
//!
//! Problem: a profile counts cycles at one number of cycles per instruction (cpi), and cores of
//! other types need more. Rule: a profile is made with the least cpi of its platform. A [`Pace`] is
//! the clock of a core and the cycles that it needs beyond that for each instruction. With `c`
//! cycles and `n` instructions in the profile, a job computes for `(c + n * more) / clock`.
//!
//! Upper bound. Let a job have `n'` instructions, and `s` cycles in hits of the second level. On a
//! core with `cpi` it computes for `(n' * cpi + s) / clock`. With the least cpi, `least`, that is
//! `((n' * least + s) + n' * (cpi - least)) / clock`. The first term is at most the `c` of a
//! profile that covers the job, and `n'` at most its `n`. `more = cpi - least` is not negative, so
//! the sum of the two largest numbers is not below the sum for any input of a merged profile. That
//! is why the least cpi is the base: from a larger one, `n' * (cpi - base)` would have to be
//! subtracted, and the `n` of another input would subtract too much.
//!
//! Where the core is not known, the pace has the lowest clock and the largest cpi of all cores.
//! Each core's time is then no longer: it rises with `more` and falls with the clock. The two may
//! belong to different types; the time is then longer than that of each.
//!
//! Not covered: the waits for memory, which do not depend on the pace.

use crate::units::Frequency;

/// Clock of a core, and the cycles that it needs beyond those of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Its clock.
    pub clock: Frequency,
    /// Cycles of an instruction beyond the least of the platform, in [`Pace::PARTS`] of a cycle.
    pub more: u64,
}

impl Pace {
    /// Parts of a cycle in which cycles per instruction are counted.
    pub const PARTS: u64 = 256;

    /// Cycles per instruction in parts of a cycle, rounded to the nearest.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "checked: 0.01 to 1000 cycles"
    )]
    pub fn parts(cpi: f64) -> u64 {
        (cpi * Self::PARTS as f64).round() as u64
    }

    /// Cycles on this core of a job with `cycles` and `instructions` in its profile.
    pub fn cycles(self, cycles: u64, instructions: u64) -> u64 {
        let more = u128::from(instructions) * u128::from(self.more);
        let more = u64::try_from(more.div_ceil(u128::from(Self::PARTS)));
        cycles.saturating_add(more.unwrap_or(u64::MAX))
    }

    /// Time of these cycles in ps, rounded up.
    pub fn ps(self, cycles: u64, instructions: u64) -> u64 {
        self.clock.cycles_to_ps(self.cycles(cycles, instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Breaks when the cycles beyond the profile's are rounded down, or scaled by another number of
    /// instructions.
    #[test]
    fn no_input_takes_longer_than_the_merged_numbers() {
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let (least, own) = (1 + random.below(600), random.below(600));
            let pace = Pace { clock: Frequency(1_000_000_000), more: own };
            let inputs: Vec<(u64, u64)> =
                (0..3).map(|_| (random.below(10_000), random.below(5_000))).collect();
            // Cycles of the profile: instructions at the least cpi, and hits of the second level.
            let base = |&(n, s): &(u64, u64)| (n * least).div_ceil(Pace::PARTS) + s;
            let cycles = inputs.iter().map(base).max().unwrap();
            let instructions = inputs.iter().map(|i| i.0).max().unwrap();
            for &(n, s) in &inputs {
                let own = (n * (least + own)).div_ceil(Pace::PARTS) + s;
                assert!(pace.cycles(cycles, instructions) >= own);
            }
        }
    }

    #[test]
    fn the_least_pace_adds_nothing() {
        let pace = Pace { clock: Frequency(2_000_000_000), more: 0 };
        assert_eq!((pace.cycles(7, 1_000_000), pace.ps(4, 9)), (7, 2_000));
        let slow = Pace { more: 128, ..pace };
        assert_eq!(slow.cycles(7, 3), 7 + 2, "half a cycle each, rounded up");
        assert_eq!(slow.cycles(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!([1.0, 0.7, 1.5].map(Pace::parts), [256, 179, 384]);
    }
}
