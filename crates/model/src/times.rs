//! Measured times of a program's runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times of runs, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Median time.
    pub p50_ns: u64,
    /// 99 of 100 runs took no longer.
    pub p99_ns: u64,
    /// Longest time.
    pub max_ns: u64,
    /// Time of each run, in their order.
    pub times_ns: Vec<u64>,
}

impl Times {
    /// The statistics of runs, in their order.
    #[must_use]
    pub fn of(times: Vec<u64>) -> Self {
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let share = |percent| quantile(&sorted, percent);
        Self { p50_ns: share(50), p99_ns: share(99), max_ns: share(100), times_ns: times }
    }
}

/// The least of rising values that `percent` in a hundred do not exceed; 0 without values.
#[must_use]
pub fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_seen() {
        let of = |n: u64| Times::of((1..=n).rev().collect());
        let three = |t: &Times| (t.p50_ns, t.p99_ns, t.max_ns);
        assert_eq!(three(&of(1)), (1, 1, 1));
        assert_eq!(three(&of(2)), (1, 2, 2));
        assert_eq!(three(&of(100)), (50, 99, 100));
        assert_eq!(three(&of(1000)), (500, 990, 1000));
        assert_eq!(of(3).times_ns, [3, 2, 1]);
    }
}
