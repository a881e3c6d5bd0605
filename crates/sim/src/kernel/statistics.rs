//! Statistics of a run: their memory does not depend on the simulated time.
//!
//! Execution time of a job: the time it was chosen to run (being throttled and interrupted
//! included), less the switch to it and less the cost of preemption. That cost is the accesses that
//! [`Program::resumed`](crate::program::Program::resumed) adds, where the hardware reports their
//! time. Throttling from the job's return to the next regulation period, by budget that others had
//! used, is part of it. Response time: from arrival to end. Percentiles come from buckets of at
//! most 1/32 of their value.

use crate::hardware::{Counters, Uncore};

/// Buckets per power of two.
const FINE: u64 = 32;
const BUCKETS: usize = 60 * FINE as usize;

/// Number, extremes, sum and rough distribution of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum_ps: u128,
    min_ps: u64,
    max_ps: u64,
    buckets: Box<[u64]>,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { count: 0, sum_ps: 0, min_ps: u64::MAX, max_ps: 0, buckets: vec![0; BUCKETS].into() }
    }
}

/// Values below 32 have buckets of their own; above, the five bits after the leading one choose the
/// bucket.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - (value | FINE).leading_zeros()) - 6;
    let at = u64::from(shift) * FINE + (value >> shift);
    usize::try_from(at).unwrap_or(BUCKETS - 1).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn bucket_top(at: usize) -> u64 {
    let at = at as u64;
    if at < 2 * FINE {
        return at;
    }
    let shift = at / FINE - 1;
    let first = u128::from(at % FINE + FINE) << shift;
    u64::try_from(first + (1 << shift) - 1).unwrap_or(u64::MAX)
}

impl Distribution {
    pub(super) fn add(&mut self, value_ps: u64) {
        self.count += 1;
        self.sum_ps += u128::from(value_ps);
        self.min_ps = self.min_ps.min(value_ps);
        self.max_ps = self.max_ps.max(value_ps);
        self.buckets[bucket(value_ps)] += 1;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value, ps; 0 without any.
    pub fn min_ps(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ps }
    }

    /// The largest value, ps; 0 without any.
    pub fn max_ps(&self) -> u64 {
        self.max_ps
    }

    /// The mean, rounded down, ps; 0 without any.
    pub fn mean_ps(&self) -> u64 {
        u64::try_from(self.sum_ps / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// For each value that occurs: the top of its bucket, ps (at most 1/32 too large), and the
    /// number of values up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        used.scan(0, |seen, (at, &n)| {
            *seen += n;
            Some((bucket_top(at).clamp(self.min_ps(), self.max_ps), *seen))
        })
    }

    /// A value that `per_mille` thousandths of all do not exceed: the top of its bucket, at most
    /// 1/32 too large.
    pub fn percentile_ps(&self, per_mille: u32) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (at, &n) in self.buckets.iter().enumerate() {
            seen += u128::from(n);
            if seen >= rank {
                return bucket_top(at).clamp(self.min_ps(), self.max_ps);
            }
        }
        self.max_ps
    }
}

/// Statistics of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStatistics {
    /// Name.
    pub name: String,
    /// Jobs that finished.
    pub jobs: u64,
    /// Jobs that finished after their deadline, were given up, were dropped, or are open at the end
    /// although their deadline has passed.
    pub deadline_misses: u64,
    /// Jobs that the policy gave up (level A).
    pub abandoned: u64,
    /// Releases that were dropped, because 1024 waited already.
    pub dropped: u64,
    /// Times that another task took the core from an unfinished job.
    pub preemptions: u64,
    /// Times that it continued on another core.
    pub migrations: u64,
    /// Execution times of finished jobs.
    pub execution: Distribution,
    /// Response times of finished jobs.
    pub response: Distribution,
    /// Its counters.
    pub counters: Counters,
    /// The part of its counters from the foreground; all of it under schedulers without modes.
    pub foreground: Counters,
    /// Time that it was chosen to run in the foreground, with throttling, ps.
    pub foreground_ps: u64,
    /// The same in the background, ps.
    pub background_ps: u64,
}

/// Statistics of one core. The four times add up to the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreStatistics {
    /// A task ran, with stalls, ps.
    pub busy_ps: u64,
    /// The regulator stopped a task that was chosen, ps.
    pub throttled_ps: u64,
    /// No task was chosen, ps.
    pub idle_ps: u64,
    /// The kernel's own work, ps.
    pub overhead_ps: u64,
    /// Switches to a task.
    pub switches: u64,
    /// Times it was throttled.
    pub throttlings: u64,
    /// Most accesses in one counting period.
    pub max_transactions_per_period: u64,
    /// Its counters.
    pub counters: Counters,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelResult {
    /// By index.
    pub tasks: Vec<TaskStatistics>,
    /// By number.
    pub cores: Vec<CoreStatistics>,
    /// Counts of the memory controller.
    pub uncore: Uncore,
    /// Simulated time.
    pub simulated_ps: u64,
    /// Timers and notices handled.
    pub events: u64,
    /// VCPUs that moved.
    pub vcpu_migrations: u64,
    /// Orders to devices that were dropped, because 1024 waited already.
    pub dropped_transfers: u64,
}

impl KernelResult {
    /// Mean time of a read from arrival at the controller to data, in ps; 0 without reads.
    pub fn mean_latency_ps(&self) -> u64 {
        self.uncore.read_occupancy_ps / self.uncore.reads.max(1)
    }
}

/// `now - then`.
pub(super) fn since(now: Counters, then: Counters) -> Counters {
    Counters {
        compute_cycles: now.compute_cycles - then.compute_cycles,
        busy_ps: now.busy_ps - then.busy_ps,
        accesses: now.accesses - then.accesses,
        llc_accesses: now.llc_accesses - then.llc_accesses,
        llc_misses: now.llc_misses - then.llc_misses,
        dram_reads: now.dram_reads - then.dram_reads,
        dram_writes: now.dram_writes - then.dram_writes,
    }
}

/// `sum += more`.
pub(super) fn add(sum: &mut Counters, more: Counters) {
    sum.compute_cycles += more.compute_cycles;
    sum.busy_ps += more.busy_ps;
    sum.accesses += more.accesses;
    sum.llc_accesses += more.llc_accesses;
    sum.llc_misses += more.llc_misses;
    sum.dram_reads += more.dram_reads;
    sum.dram_writes += more.dram_writes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_what_is_put_there(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let top = bucket_top(bucket(value));
            prop_assert!(top >= value && top - value <= value / FINE, "{value} {top}");
            prop_assert!(value == 0 || bucket_top(bucket(value) .saturating_sub(1)) < value || bucket(value) == 0);
        }

        #[test]
        fn cumulative_counts_are_exact_at_their_values(values in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let mut d = Distribution::default();
            values.iter().for_each(|&v| d.add(v));
            let steps: Vec<(u64, u64)> = d.cumulative().collect();
            prop_assert_eq!(steps.last(), Some(&(d.max_ps(), values.len() as u64)));
            prop_assert!(steps.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            for (value, jobs) in steps {
                prop_assert_eq!(jobs, values.iter().filter(|&&v| v <= value).count() as u64);
            }
        }

        #[test]
        fn percentiles_are_near_the_exact_ones(mut values in prop::collection::vec(0u64..1 << 40, 1..200), p in 1u32..=1000) {
            let mut d = Distribution::default();
            values.iter().for_each(|&v| d.add(v));
            values.sort_unstable();
            let exact = values[(values.len() * p as usize).div_ceil(1000) - 1];
            let got = d.percentile_ps(p);
            prop_assert!(got >= exact && got - exact <= exact / FINE, "{exact} {got}");
        }
    }
}
