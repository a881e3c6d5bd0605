//! Counts of a program's jobs, by the counters of a machine.
//!
//! Not covered: jobs that were not measured. An estimate of rarer ones ([`Extreme`]) is shown and
//! enters no bound.

use super::page::PageName;
use crate::times::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantities that are counted of a job, by name.
pub mod quantity {
    /// Time from the start of its process to its end, or from a call's entry to its return, in
    /// nanoseconds.
    pub const TIME: &str = "time_ns";
    /// Time on a CPU, in nanoseconds.
    pub const CPU_TIME: &str = "cpu_ns";
    /// Core cycles, those of the kernel as well.
    pub const CYCLES: &str = "cycles";
    /// Instructions of the program itself.
    pub const INSTRUCTIONS: &str = "instructions_user";
    /// Accesses to memory, those of the kernel as well.
    pub const MISSES: &str = "misses";
    /// Accesses to memory of the program itself.
    pub const USER_MISSES: &str = "misses_user";
    /// Lines written back to memory.
    pub const WRITE_BACKS: &str = "write_backs";
    /// Page faults.
    pub const FAULTS: &str = "page_faults";
}

/// A measurement of a program on a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Name of the CPU.
    pub machine: String,
    /// CPU on which the jobs ran.
    pub cpu: u32,
    /// Type of core of that CPU, if the profile is for cores of this type only. Absent: it is for
    /// any core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_type: Option<String>,
    /// Date and time, RFC 3339.
    pub date: String,
    /// Kind of the jobs: `process`, `function:NAME`, `wakeup`, `run` (a run of a plan) or `sim`.
    pub jobs_are: String,
    /// The caches were filled with other data before each job.
    pub cold: bool,
    /// Limits of the numbers, in words.
    pub notes: Vec<String>,
    /// Jobs of each input; one without arguments where no inputs were given.
    pub inputs: Vec<MeasuredInput>,
}

/// Jobs with one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredInput {
    /// Arguments that the input added.
    pub arguments: Vec<String>,
    /// The counted quantities.
    pub quantities: Vec<Quantity>,
    /// Samples of accessed addresses, of one further start with this input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressSamples>,
}

/// Samples of the addresses that one start of a program accessed. They show which pages are hot on
/// the machine, and change no other number of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSamples {
    /// The event that was sampled.
    pub event: String,
    /// The meaning of the event, where it only stands in for accesses to memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    /// Number of events for one sample.
    pub period: u64,
    /// Samples of the program itself.
    pub samples: u64,
    /// Samples of children, of the kernel, and of data that came from a cache.
    pub elsewhere: u64,
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// Number of times that the kernel stopped the event for a while.
    pub throttled: u64,
    /// Samples on pages that the emulator's profile has.
    pub matched: u64,
    /// Pages, most samples first.
    pub pages: Vec<SampledPage>,
}

/// A page by its samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampledPage {
    /// Name of the page, as in `pages` of the profile.
    #[serde(flatten)]
    pub name: PageName,
    /// Its samples.
    pub samples: u64,
    /// Its place among the profile's pages, from 0; absent where the emulator saw no such page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
}

/// One quantity over the jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Name of the quantity, as `time_ns`, `cpu_ns`, `cycles`, `instructions_user`, `misses`,
    /// `misses_user`, `write_backs` or `page_faults`.
    pub name: String,
    /// The event that counts it.
    pub event: String,
    /// The meaning of the event, where it only stands in for the quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    /// Number of jobs.
    pub jobs: u64,
    /// Least value of a job.
    pub min: u64,
    /// Median value.
    pub p50: u64,
    /// Nine jobs of ten have at most this value.
    pub p90: u64,
    /// 99 jobs of 100 have at most this value.
    pub p99: u64,
    /// Largest value of a job.
    pub max: u64,
    /// Estimate of jobs that are rarer than the measured ones. It is not a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extreme: Option<Extreme>,
    /// Reason for which there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_extreme: Option<String>,
    /// Value of each job, in the order of the jobs.
    pub values: Vec<u64>,
}

/// An estimate of rare jobs by extreme-value theory. It holds only if all jobs are drawn
/// independently from one distribution, and future ones from the same; so it is not a bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extreme {
    /// Jobs in a block; the largest of each block was fitted.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Location of the generalised extreme-value distribution of a block's maximum.
    pub location: f64,
    /// Scale of this distribution.
    pub scale: f64,
    /// Shape of this distribution: above 0 the tail is heavy, below 0 it ends.
    pub shape: f64,
    /// Share of samples of the fitted distribution that fit it worse (Anderson and Darling's
    /// distance, the fit made again for each).
    pub fit_p: f64,
    /// Chance of as few or as many runs above and below the median, were the jobs independent.
    pub independence_p: f64,
    /// Chance of so large a difference between the first and the second half (Kolmogorov and
    /// Smirnov), were both of one distribution.
    pub identity_p: f64,
    /// All three chances are at least 0.05.
    pub plausible: bool,
    /// Pairs of a chance per job and the value that a job exceeds with this chance.
    pub exceeded: Vec<(f64, u64)>,
}

impl Quantity {
    /// The statistics of jobs, in their order.
    #[must_use]
    pub fn of(name: &str, event: &str, values: Vec<u64>) -> Self {
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let share = |percent| quantile(&sorted, percent);
        Self {
            name: name.to_owned(),
            event: event.to_owned(),
            jobs: values.len() as u64,
            min: sorted.first().copied().unwrap_or(0),
            p50: share(50),
            p90: share(90),
            p99: share(99),
            max: share(100),
            values,
            ..Self::default()
        }
    }
}

impl Measured {
    /// The largest value of a quantity over all jobs, and the place of the input; `None` if no job
    /// was counted, or if another event stands in.
    #[must_use]
    pub fn most(&self, name: &str) -> Option<(u64, usize)> {
        let of = |(place, input): (usize, &MeasuredInput)| {
            let found = input.quantities.iter().find(|q| q.name == name);
            found.filter(|q| q.stands_in.is_none() && q.jobs > 0).map(|q| (q.max, place))
        };
        self.inputs.iter().enumerate().filter_map(of).max_by_key(|(most, _)| *most)
    }
}

/// Numbers of a profile that a measurement raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Raised {
    /// Cycles that were added to `private_cycles`.
    pub private_cycles: u64,
    /// Reads from memory that the emulator's profile lacks: the kernel's, prefetches.
    pub reads: u64,
    /// Lines written back to memory that the emulator's profile lacks.
    pub writes: u64,
}

impl Raised {
    /// Was every number at least as large as the measured one?
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let q = Quantity::of("x", "e", (1..=200).rev().collect());
        assert_eq!((q.min, q.p50, q.p90, q.p99, q.max), (1, 100, 180, 198, 200));
        assert_eq!(Quantity::of("x", "e", Vec::new()).max, 0);
    }
}
