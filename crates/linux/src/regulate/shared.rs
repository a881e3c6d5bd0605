//! Counts of the regulating programs, and their settings of a CPU (`bpf/intf.h`).

use crate::contract::run_core;
use solocore_model::run::RunSplit;
use zerocopy::FromZeros;

pub(crate) use crate::contract::run_settings as Settings;
pub use crate::contract::{SC_MAX_CPUS as MAX_CPUS, SC_UNLIMITED as UNLIMITED};

/// The loader's part of a CPU; the rest is zero. `accesses`: reservation, sample and tolerance;
/// `writes`: their reservation and sample.
pub(crate) fn core(
    (reservation, sample, tolerance): (u64, u64, u64),
    flags: u32,
    writes: Option<(u64, u64)>,
) -> run_core {
    let (write_reservation, write_sample) = writes.unwrap_or_default();
    run_core {
        reservation,
        sample,
        tolerance,
        flags,
        write_reservation,
        write_sample,
        ..run_core::new_zeroed()
    }
}

/// Counts of a CPU since the start, in whole periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Periods that have ended.
    pub periods: u64,
    /// Periods in which the CPU was throttled.
    pub throttled_periods: u64,
    /// Total time for which it was throttled.
    pub throttled_ns: u64,
    /// Accesses, by the counter itself.
    pub accesses: u64,
    /// Most accesses in one period.
    pub max_accesses_per_period: u64,
    /// Periods with more accesses than budget and tolerance.
    pub periods_over_budget: u64,
    /// Periods without a seen start, because the timer came too late; their budgets were lost, not
    /// saved.
    pub periods_skipped: u64,
    /// Accesses with an overflow that was not reported in time; they were accounted for later.
    pub accesses_reported_late: u64,
    /// Longest time between two ticks.
    pub longest_period_ns: u64,
    /// Number of times that a task was held because the kernel did not let the helper thread run.
    pub times_held: u64,
    /// Counts of writes, where they are counted apart.
    #[serde(flatten)]
    pub writes: Option<WriteCounts>,
    /// Accesses by whose they are, where changes of tasks are seen.
    #[serde(flatten)]
    pub split: Option<RunSplit>,
    /// Whether the CPU has seen its first tick.
    #[serde(skip)]
    pub started: bool,
}

/// Counts of writes on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WriteCounts {
    /// All writes, by their counter itself.
    pub writes: u64,
    /// Most writes in one period.
    pub max_writes_per_period: u64,
    /// Periods with more than the write budget and one sample.
    pub periods_over_write_budget: u64,
    /// Writes with an overflow that was not reported in time; they were accounted for later.
    pub writes_reported_late: u64,
}

impl Counts {
    pub(crate) fn of(core: &run_core) -> Self {
        Self {
            periods: core.periods,
            throttled_periods: core.throttled,
            throttled_ns: core.throttled_ns,
            accesses: core.accesses,
            max_accesses_per_period: core.most,
            periods_over_budget: core.over,
            periods_skipped: core.skipped,
            accesses_reported_late: core.unseen,
            longest_period_ns: core.longest_ns,
            times_held: core.held,
            writes: (core.write_sample != 0).then_some(WriteCounts {
                writes: core.writes,
                max_writes_per_period: core.most_writes,
                periods_over_write_budget: core.over_writes,
                writes_reported_late: core.unseen_writes,
            }),
            split: (core.runs != 0).then_some(RunSplit {
                exempt_accesses: core.exempt,
                max_exempt_per_period: core.most_exempt,
                max_limited_per_period: core.most_limited,
                max_after_stop_per_period: core.most_after,
                periods_over_budget_limited: core.over_limited,
                periods_over_budget_before_stop: core.over_before,
            }),
            started: core.started != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[test]
    fn counts_are_where_they_are_read() {
        assert_eq!(Counts::of(&core((100, 12, 12), 4, None)).writes, None);
        assert_eq!(
            Counts::of(&core((100, 12, 12), 4, Some((50, 7)))).writes,
            Some(WriteCounts::default())
        );
        let counts = Counts::of(&run_core { most: 7, started: 1, ..core((100, 12, 12), 4, None) });
        assert_eq!(counts.max_accesses_per_period, 7);
        assert!(counts.started);
        assert_eq!(Counts::of(&contract::read(&[])), Counts::default());
    }
}
