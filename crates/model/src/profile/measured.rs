//! What counters of a machine saw of a program's jobs, and what that makes of its profile.
//!
//! Problem: the emulator's profile assumes the time of an instruction and knows nothing of the
//! kernel. Rule: a measurement only raises the profile's numbers ([`Profile::raise`]), so that what
//! was seen is never more than what a plan takes for possible. Not covered: jobs that nobody
//! measured. An estimate of rarer ones ([`Extreme`]) is shown and enters no bound.

use super::{Profile, Worst};
use crate::platform::Platform;
use crate::times::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is counted of a job, by name.
pub mod quantity {
    /// From the start of its process to its end, in nanoseconds.
    pub const TIME: &str = "time_ns";
    /// On a CPU, in nanoseconds.
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
    /// The CPU's name.
    pub machine: String,
    /// Which CPU the jobs ran on.
    pub cpu: u32,
    /// When, RFC 3339.
    pub date: String,
    /// What a job was: `process`, `run` (a run of a plan) or `sim`.
    pub jobs_are: String,
    /// Were the caches filled with other data before each job?
    pub cold: bool,
    /// What users must know of the numbers.
    pub notes: Vec<String>,
    /// For each input; one without arguments where none was given.
    pub inputs: Vec<MeasuredInput>,
}

/// Jobs with one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredInput {
    /// Arguments that the input added.
    pub arguments: Vec<String>,
    /// What was counted.
    pub quantities: Vec<Quantity>,
}

/// One quantity over the jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// See [`quantity`].
    pub name: String,
    /// The event that counts it.
    pub event: String,
    /// What the event really counts, where it only stands in for the quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    /// Jobs.
    pub jobs: u64,
    /// The least.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// Nine jobs in ten have at most this.
    pub p90: u64,
    /// 99 in a hundred have at most this.
    pub p99: u64,
    /// The most.
    pub max: u64,
    /// Of jobs that are rarer than those seen; no proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extreme: Option<Extreme>,
    /// Why there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_extreme: Option<String>,
    /// Each job, in the order of the jobs.
    pub values: Vec<u64>,
}

/// An estimate of rare jobs by extreme-value theory. It holds only if all jobs are drawn
/// independently from one distribution, and future ones from the same; so it is no bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extreme {
    /// Jobs in a block; the largest of each block was fitted.
    pub block: u64,
    /// Blocks.
    pub blocks: u64,
    /// Location of the generalised extreme-value distribution of a block's maximum.
    pub location: f64,
    /// Its scale.
    pub scale: f64,
    /// Its shape: above 0 the tail is heavy, below 0 it ends.
    pub shape: f64,
    /// Share of samples of the fitted distribution that fit it worse (Anderson and Darling's
    /// distance, the fit made anew for each).
    pub fit_p: f64,
    /// Chance of as few or as many runs above and below the median, were the jobs independent.
    pub independence_p: f64,
    /// Chance of so large a difference between the first and the second half (Kolmogorov and
    /// Smirnov), were both of one distribution.
    pub identity_p: f64,
    /// Are all three at least 0.05?
    pub plausible: bool,
    /// A chance per job, and what a job exceeds with this chance.
    pub exceeded: Vec<(f64, u64)>,
}

impl Quantity {
    /// Of jobs in their order.
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
    /// The most of a quantity that any job had, and the input's place; none where no job was counted
    /// or where another event stands in.
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
    /// `private_cycles` and by how many.
    pub private_cycles: u64,
    /// Reads from memory that the emulator's profile lacks: the kernel's, prefetches.
    pub reads: u64,
    /// Lines written back to memory that it lacks.
    pub writes: u64,
}

impl Raised {
    /// Was every number as large as what was measured?
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Profile {
    /// Raises the numbers of the profile to what was measured on a machine like `platform`.
    ///
    /// * Time: a job's time alone is its computation and its waits for memory. A plan adds the waits
    ///   anew, each at its worst. How much of the measured time was waiting is not counted, so all of
    ///   it is taken for computation: `private_cycles` becomes at least the cycles of each job, and
    ///   at least its time on the CPU at the platform's clock.
    /// * Misses: what exceeds the emulator's count with the whole shared cache belongs to no page of
    ///   the program. It is added to every element of both curves; no locked page and no way saves
    ///   it. Where write-backs are not counted, each such read is charged with one.
    ///
    /// What stands in for a quantity raises nothing.
    pub fn raise(&mut self, platform: &Platform, measured: Measured) {
        let seen = |name| measured.most(name);
        let by_clock = |ns: u64| {
            let cycles =
                (u128::from(ns) * u128::from(platform.frequency.0)).div_ceil(1_000_000_000);
            u64::try_from(cycles).unwrap_or(u64::MAX)
        };
        let cycles = [
            seen(quantity::CYCLES),
            seen(quantity::CPU_TIME).map(|(ns, input)| (by_clock(ns), input)),
        ];
        let mut worst = Vec::new();
        let mut note = |quantity: &str, input: usize| {
            if measured.inputs.len() > 1 {
                worst.push(Worst { quantity: format!("measured {quantity}"), input });
            }
        };
        let mut raised = Raised::default();
        if let Some((most, input)) = cycles.into_iter().flatten().max_by_key(|(most, _)| *most) {
            raised.private_cycles = most.saturating_sub(self.private_cycles);
            note("cycles", input);
        }
        if let Some((most, _)) = seen(quantity::INSTRUCTIONS) {
            self.instructions = self.instructions.max(most);
        }
        let (reads, writes) = self.levels.last().map_or((0, 0), |l| (l.misses, l.writebacks));
        if let Some((most, input)) = seen(quantity::MISSES) {
            raised.reads = most.saturating_sub(reads);
            note("misses", input);
        }
        raised.writes = match seen(quantity::WRITE_BACKS) {
            Some((most, _)) => most.saturating_sub(writes),
            None => raised.reads,
        };
        self.private_cycles += raised.private_cycles;
        let more = raised.reads + raised.writes;
        self.lockdown.iter_mut().chain(&mut self.by_ways).for_each(|n| *n += more);
        self.origin.worst.append(&mut worst);
        self.origin.raised = raised;
        self.engine = "perf".to_owned();
        self.origin.measured = Some(measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Level;
    use crate::profile::merge::tests::made_up;
    use crate::random::Random;

    fn measured(of: &[(&str, u64)]) -> Measured {
        let quantity = |&(name, most): &(&str, u64)| Quantity::of(name, "x", vec![1, most, 2]);
        Measured {
            inputs: vec![MeasuredInput {
                arguments: Vec::new(),
                quantities: of.iter().map(quantity).collect(),
            }],
            ..Measured::default()
        }
    }

    fn base() -> Profile {
        let mut base = made_up(&mut Random::new(5));
        base.private_cycles = 100;
        base.levels =
            vec![Level { name: "LLC".to_owned(), accesses: 90, misses: 60, writebacks: 20 }];
        base
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let q = Quantity::of("x", "e", (1..=200).rev().collect());
        assert_eq!((q.min, q.p50, q.p90, q.p99, q.max), (1, 100, 180, 198, 200));
        assert_eq!(Quantity::of("x", "e", Vec::new()).max, 0);
    }

    #[test]
    fn what_was_seen_is_never_more_than_the_profile_says() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let before = base();
        let of_level = before.levels.last().unwrap().clone();
        let mut raised = before.clone();
        raised.raise(
            &platform,
            measured(&[
                (quantity::CYCLES, 150),
                (quantity::MISSES, of_level.misses + 30),
                (quantity::WRITE_BACKS, of_level.writebacks + 5),
            ]),
        );
        assert_eq!(raised.private_cycles, 150);
        let more = |a: &[u64], b: &[u64]| a.iter().zip(b).all(|(a, b)| a - b == 35);
        assert!(more(&raised.lockdown, &before.lockdown) && more(&raised.by_ways, &before.by_ways));
        assert_eq!(raised.engine, "perf");
        let (reads, writes) = (before.kinds(0).0 + 30, before.kinds(0).1 + 5);
        assert_eq!(raised.kinds(0), (reads, writes));
        // Nothing locked: all that reaches memory.
        assert_eq!(raised.lockdown[0], reads + writes);
    }

    #[test]
    fn a_fast_or_small_job_lowers_nothing() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        raised.raise(&platform, measured(&[(quantity::CYCLES, 7), (quantity::MISSES, 1)]));
        let as_before = Profile { engine: "perf".into(), origin: raised.origin.clone(), ..base() };
        assert_eq!(raised, as_before);
        assert_eq!(raised.origin.raised, Raised::default());
    }

    #[test]
    fn time_counts_where_no_cycles_do() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        raised.raise(&platform, measured(&[(quantity::CPU_TIME, 1_000_000)]));
        assert_eq!(raised.private_cycles, platform.frequency.0 / 1000);
        assert_eq!(raised.lockdown, base().lockdown);
    }

    #[test]
    fn writes_that_nobody_counts_are_charged_with_the_reads() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        let misses = raised.levels.last().unwrap().misses;
        raised.raise(&platform, measured(&[(quantity::MISSES, misses + 9)]));
        assert_eq!((raised.origin.raised.reads, raised.origin.raised.writes), (9, 9));
        let mut stands_in = measured(&[(quantity::MISSES, misses + 9)]);
        stands_in.inputs[0].quantities[0].stands_in = Some("page faults".to_owned());
        let mut not_raised = base();
        not_raised.raise(&platform, stands_in);
        assert_eq!(not_raised.lockdown, base().lockdown);
    }
}
