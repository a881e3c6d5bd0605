//! The core clock against picoseconds, in whole numbers.
//!
//! Rule: a core counts its own cycles; cycle `n` begins at `n * 10^12 / f` ps, taken with 32
//! fractional bits, so no error adds up from cycle to cycle. For a frequency that does not divide
//! 10^12 Hz it is a cycle off after more than 10^11 cycles. It is the same on every machine, and
//! grows with the cycle.

/// Converts between a core's cycles and picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Picoseconds of a cycle, times 2^32, rounded up, so that cycles that begin at a whole
    /// picosecond do.
    period: u64,
    /// Cycles of a picosecond, times 2^64.
    rate: u64,
}

impl Clock {
    /// A clock of 1 MHz to 100 GHz.
    pub fn new(hertz: u64) -> Self {
        let f = u128::from(hertz.max(1));
        let low = |v: u128| u64::try_from(v).unwrap_or(u64::MAX);
        Self {
            period: low((1_000_000_000_000u128 << 32).div_ceil(f)),
            rate: low((f << 64) / 1_000_000_000_000),
        }
    }

    /// Begin of a cycle.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a simulation is shorter than 2^64 ps")]
    pub fn ps(self, cycle: u64) -> u64 {
        ((u128::from(cycle) * u128::from(self.period)) >> 32) as u64
    }

    /// The first cycle that begins at or after `ps`.
    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the upper half of a product of two 64-bit numbers"
    )]
    pub fn at_or_after(self, ps: u64) -> u64 {
        let mut cycle = ((u128::from(ps) * u128::from(self.rate)) >> 64) as u64;
        while self.ps(cycle) < ps {
            cycle += 1;
        }
        while cycle > 0 && self.ps(cycle - 1) >= ps {
            cycle -= 1;
        }
        cycle
    }

    /// The last cycle that begins at or before `ps`.
    #[inline]
    pub fn at_or_before(self, ps: u64) -> u64 {
        let cycle = self.at_or_after(ps);
        if self.ps(cycle) > ps { cycle - 1 } else { cycle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn conversions_agree(hertz in 1_000_000u64..=100_000_000_000, ps in 0u64..1 << 53) {
            let clock = Clock::new(hertz);
            let (after, before) = (clock.at_or_after(ps), clock.at_or_before(ps));
            prop_assert!(clock.ps(after) >= ps && clock.ps(before) <= ps && after - before <= 1);
            prop_assert!(after == 0 || clock.ps(after - 1) < ps);
            prop_assert!(clock.ps(before + 1) > ps);
        }
    }
}
