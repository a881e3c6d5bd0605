//! Periods of random tasks.
//!
//! * Log-uniform: equally many tasks in each order of magnitude (Emberson, Stafford, Davis, WATERS
//!   2010).
//! * Harmonic: each period divides all longer ones.
//! * Automotive: the periods of an engine controller, with their shares of runnables (Kramer,
//!   Ziegenbein, Hamann, "Real world automotive benchmarks for free", WATERS 2015, table III). The
//!   15 % that follow the crankshaft's angle have no fixed period; they are left out, and the other
//!   shares grow by 100/85.

use crate::StudyError;
use crate::random::Stream;

/// Milliseconds, and percent of all runnables.
const AUTOMOTIVE: [(u64, u32); 9] =
    [(1, 3), (2, 2), (5, 2), (10, 25), (20, 25), (50, 3), (100, 20), (200, 1), (1000, 4)];
/// Percent of all runnables that have a period.
const PERIODIC: u32 = 85;
/// Above it, doubles do not hold all integers.
const LONGEST: u64 = 1 << 53;

/// A distribution of periods, integers in the caller's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    LogUniform { low: u64, high: u64, step: u64 },
    Harmonic { low: u64, high: u64 },
    Automotive { ms: u64 },
}

fn check(low: u64, high: u64, step: u64) -> Result<(), StudyError> {
    if low == 0 || low > high || high > LONGEST || step == 0 || step > low {
        return Err(StudyError::Input(format!(
            "periods: {low} to {high} in steps of {step} is not a range; give 0 < step <= low <= high \
                <= 2^53"
        )));
    }
    Ok(())
}

impl Periods {
    /// Log-uniform between `low` and `high`, in multiples of `step`.
    ///
    /// # Errors
    /// Unless `0 < step <= low <= high <= 2^53`.
    pub fn log_uniform(low: u64, high: u64, step: u64) -> Result<Self, StudyError> {
        check(low, high, step)?;
        Ok(Self(Kind::LogUniform { low, high, step }))
    }

    /// A chain for each set, from `low` by factors of 2 or 3 up to at most `high`; each task takes
    /// any of its members.
    ///
    /// # Errors
    /// Unless `0 < low <= high <= 2^53`.
    pub fn harmonic(low: u64, high: u64) -> Result<Self, StudyError> {
        check(low, high, 1)?;
        Ok(Self(Kind::Harmonic { low, high }))
    }

    /// Periods of an engine controller; `ms` is a millisecond in the caller's unit.
    ///
    /// # Errors
    /// When a millisecond is 0 or above 2^43.
    pub fn automotive(ms: u64) -> Result<Self, StudyError> {
        check(ms, ms.saturating_mul(1000), 1)?;
        Ok(Self(Kind::Automotive { ms }))
    }

    /// Replaces `out` by this many periods.
    pub fn draw(&self, stream: &mut Stream, count: usize, out: &mut Vec<u64>) {
        out.clear();
        match self.0 {
            Kind::LogUniform { low, high, step } => {
                // A value is rounded down to a step: the last step is as wide as the others.
                let range = [(low as f64).ln(), ((high / step * step + step) as f64).ln()];
                let (lowest, highest) = (low.div_ceil(step) * step, high / step * step);
                out.extend((0..count).map(|_| {
                    let period = stream.within(range).exp() as u64 / step * step;
                    period.clamp(lowest.min(highest), highest)
                }));
            }
            Kind::Harmonic { low, high } => {
                let mut chain = vec![low];
                loop {
                    let next = chain[chain.len() - 1] * u64::from(2 + stream.below(2));
                    if next > high {
                        break;
                    }
                    chain.push(next);
                }
                let links = u32::try_from(chain.len()).unwrap_or(1);
                out.extend((0..count).map(|_| chain[stream.below(links) as usize]));
            }
            Kind::Automotive { ms } => out.extend((0..count).map(|_| {
                let mut at = stream.below(PERIODIC);
                for (period, share) in AUTOMOTIVE {
                    if at < share {
                        return period * ms;
                    }
                    at -= share;
                }
                AUTOMOTIVE[AUTOMOTIVE.len() - 1].0 * ms
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(periods: Periods, count: usize) -> Vec<u64> {
        let mut out = Vec::new();
        periods.draw(&mut Stream::new([1, 2, 3, 4]), count, &mut out);
        out
    }

    #[test]
    fn log_uniform_has_as_many_in_each_decade() {
        let all = drawn(Periods::log_uniform(10, 100_000, 10).unwrap(), 40_000);
        assert!(all.iter().all(|p| (10..=100_000).contains(p) && p % 10 == 0));
        for decade in [100, 1000, 10_000] {
            let share = all.iter().filter(|&&p| (decade..10 * decade).contains(&p)).count();
            // Of 40,000 draws with a chance of 1/4, the deviation is 87.
            assert!(share.abs_diff(10_000) < 450, "{share} from {decade} on");
        }
    }

    #[test]
    fn harmonic_periods_divide_each_other() {
        let mut all = drawn(Periods::harmonic(7, 10_000).unwrap(), 500);
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 4 && all.windows(2).all(|p| p[1] % p[0] == 0), "{all:?}");
    }

    #[test]
    fn automotive_shares_are_those_of_the_table() {
        assert_eq!(AUTOMOTIVE.iter().map(|a| a.1).sum::<u32>(), PERIODIC);
        let all = drawn(Periods::automotive(1000).unwrap(), 85_000);
        for (period, share) in AUTOMOTIVE {
            let count = all.iter().filter(|&&p| p == period * 1000).count();
            // Below six deviations of a share of 25/85.
            assert!(count.abs_diff(share as usize * 1000) < 800, "{period} ms: {count}");
        }
    }

    #[test]
    fn impossible_ranges_are_refused() {
        for (low, high, step) in
            [(0, 5, 1), (5, 4, 1), (5, 6, 0), (5, 6, 6), (1, u64::MAX, 1), (1, LONGEST + 1, 1)]
        {
            assert!(Periods::log_uniform(low, high, step).is_err(), "{low} {high} {step}");
        }
        assert!(Periods::automotive(0).is_err() && Periods::automotive(u64::MAX).is_err());
    }
}
