//! Observations of regulated CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A span of a CPU's time; in files a list of these four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub struct RunSpan {
    /// Periods that ended in it.
    pub periods: u64,
    /// Their accesses.
    pub accesses: u64,
    /// Most accesses in one of them.
    pub most: u64,
    /// Time for which the CPU was throttled in them, ns.
    pub throttled_ns: u64,
}

impl From<[u64; 4]> for RunSpan {
    fn from([periods, accesses, most, throttled_ns]: [u64; 4]) -> Self {
        Self { periods, accesses, most, throttled_ns }
    }
}

impl From<RunSpan> for [u64; 4] {
    fn from(s: RunSpan) -> Self {
        [s.periods, s.accesses, s.most, s.throttled_ns]
    }
}

/// Writes of a regulated CPU, where they are counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunWrites {
    /// Writes per period in the plan.
    pub write_planned: u64,
    /// Enforced writes per period; 18446744073709551615: no limit.
    pub write_budget: u64,
    /// Writes per interrupt of the counter.
    pub write_sample: u64,
    /// Writes in all, by their counter.
    pub writes: u64,
    /// Most writes in one period.
    pub max_writes_per_period: u64,
    /// Periods with more than the write budget and one sample.
    pub periods_over_write_budget: u64,
    /// Writes that were accounted late, because their overflow was not reported at once.
    pub writes_reported_late: u64,
}

/// Accesses of a CPU by whose they are: of threads that no budget stops (kernel threads, solocore,
/// real-time threads above the engine), and of all others. Interrupts and the idle task count with
/// the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSplit {
    /// Accesses of threads that no budget stops.
    pub exempt_accesses: u64,
    /// Most of these accesses in one period.
    pub max_exempt_per_period: u64,
    /// Most accesses in one period without those of threads that no budget stops.
    pub max_limited_per_period: u64,
    /// Most of the latter after the overflow that stopped the CPU: the way to the stop, interrupts,
    /// and the idle task.
    pub max_after_stop_per_period: u64,
    /// Periods with more accesses than budget and tolerance, without those of threads that no
    /// budget stops.
    pub periods_over_budget_limited: u64,
    /// The same, without the accesses after the overflow that stopped the CPU: periods in which
    /// programs went on beyond their budget.
    #[serde(default)]
    pub periods_over_budget_before_stop: u64,
}

/// A regulated CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunCore {
    /// Number of the CPU.
    pub cpu: u32,
    /// Accesses per period in the plan.
    pub planned: u64,
    /// Enforced accesses per period, in whole samples; 18446744073709551615: no limit.
    pub budget: u64,
    /// Accesses per interrupt of the counter.
    pub sample: u64,
    /// A period counts as over budget with more accesses than the budget and this number. It is the
    /// plan's skid, where it has one.
    #[serde(default)]
    pub tolerance: u64,
    /// Periods that ended.
    pub periods: u64,
    /// Periods in which the CPU was throttled.
    pub throttled_periods: u64,
    /// Total time for which the CPU was throttled.
    pub throttled_ns: u64,
    /// The throttled part of the time, 0 to 1.
    pub throttled_share: f64,
    /// Accesses, as counted by the counter.
    pub accesses: u64,
    /// Most accesses in one period.
    pub max_accesses_per_period: u64,
    /// Periods with more accesses than budget and tolerance.
    pub periods_over_budget: u64,
    /// Periods whose start was missed because the timer came too late.
    pub periods_skipped: u64,
    /// Accesses that were accounted late, because their overflow was not reported at once.
    pub accesses_reported_late: u64,
    /// Longest time between two ticks.
    pub longest_period_ns: u64,
    /// Number of times that a task was held because the kernel did not let the helper thread in.
    pub times_held: u64,
    /// Times at which the CPU was not regulated for a while, because it was offline, the machine
    /// slept, or its counter failed. Its timer and counter were then opened again.
    #[serde(default)]
    pub lapses: u64,
    /// Longest of these times that has ended, from the last period before it to the first one after
    /// it, ns.
    #[serde(default)]
    pub longest_lapse_ns: u64,
    /// Writes, where they are counted apart; the fields above are for reads then.
    #[serde(flatten)]
    pub writes: Option<RunWrites>,
    /// Accesses by whose they are, where the kernel lets solocore see changes of tasks.
    #[serde(flatten)]
    pub split: Option<RunSplit>,
    /// Spans of equal length, from the start of the run. Each is a list of four numbers: periods
    /// that ended, their accesses, most accesses of one of them, and throttled ns.
    #[serde(default)]
    pub series: Vec<RunSpan>,
}

/// Another budget of a CPU, from the handover to another plan on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOtherBudget {
    /// Number of the CPU.
    pub cpu: u32,
    /// Enforced accesses per period before the handover; 18446744073709551615: no limit.
    pub before: u64,
    /// Enforced accesses per period since then.
    pub budget: u64,
    /// Enforced writes per period before the handover, where they are counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_before: Option<u64>,
    /// Enforced writes per period since then, where they are counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget: Option<u64>,
}

/// A handover to another plan while the run went on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunHandover {
    /// File of the new plan, as `solocore run --replace` named it.
    pub plan: String,
    /// Time from the start of the run to the begin of the handover, ns. Until then, the old plan
    /// was in force.
    pub begun_ns: u64,
    /// Time from the start of the run to the end of the handover, ns. Since then, the new plan is
    /// in force.
    pub ended_ns: u64,
    /// CPUs with another budget.
    pub cores: Vec<RunOtherBudget>,
    /// With dynamic budgets: hard tasks with other ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<RunOtherJobBudget>,
}

/// Another dynamic budget of a hard task, from its first job after the handover on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOtherJobBudget {
    /// The task.
    pub task: String,
    /// Accesses that each soft core could make during one of its jobs before the handover.
    pub before: u64,
    /// Accesses that each can make since then.
    pub budget: u64,
    /// Longest time for which the budget of a job was in force before the handover, ns.
    pub length_before_ns: u64,
    /// The same since then, ns.
    pub length_ns: u64,
}

impl RunHandover {
    /// The name of the plan, on one line.
    #[must_use]
    pub fn name(&self) -> String {
        self.plan.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }

    /// The handover on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let since_s = self.ended_ns as f64 / 1e9;
        let budgets: Vec<String> = if self.tasks.is_empty() {
            self.cores.iter().map(RunOtherBudget::text).collect()
        } else {
            self.tasks.iter().map(RunOtherJobBudget::text).collect()
        };
        let budgets = if budgets.is_empty() {
            "with the same budgets".to_owned()
        } else {
            budgets.join(", ")
        };
        format!("plan {} in force since {since_s:.3} s: {budgets}", self.name())
    }
}

impl RunOtherJobBudget {
    fn text(&self) -> String {
        format!("jobs of {} {} instead of {}", self.task, self.budget, self.before)
    }
}

impl RunOtherBudget {
    fn text(&self) -> String {
        let limit = |budget: u64| match budget {
            u64::MAX => "no limit".to_owned(),
            budget => budget.to_string(),
        };
        let writes =
            self.writes_before.zip(self.write_budget).map_or_else(String::new, |(before, now)| {
                format!(" and for writes {} instead of {}", limit(now), limit(before))
            });
        format!("CPU {} {} instead of {}{writes}", self.cpu, limit(self.budget), limit(self.before))
    }
}

/// The regulation of accesses, and its observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRegulation {
    /// The engine that stopped CPUs.
    pub engine: String,
    /// Reason why a better engine did not run; `null` if none is better.
    #[serde(default)]
    pub passed_over: Option<String>,
    /// The event that was counted.
    pub event: String,
    /// The event that counts writes, where they are counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_event: Option<String>,
    /// The event only stands in for accesses to memory.
    pub stands_in: bool,
    /// Length of a regulation period.
    pub period_ns: u64,
    /// Length of a span of `series`.
    #[serde(default)]
    pub span_ns: u64,
    /// Times that the kernel ended the scheduler of the sched_ext engine because a CPU came or
    /// went. It was installed again at the next look, and until then no CPU was stopped at its
    /// budget.
    #[serde(default)]
    pub restarts: u64,
    /// Longest of these times, from the last look before it until the scheduler was installed, ns.
    #[serde(default)]
    pub longest_restart_ns: u64,
    /// Periods that are missing in `series`, because they were not read in time.
    #[serde(default)]
    pub periods_unread: u64,
    /// CPUs with a budget.
    pub cores: Vec<RunCore>,
}

impl RunRegulation {
    /// A value in it that is impossible.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.period_ns == 0 || self.cores.is_empty() {
            return Err("it has no period or no cores".to_owned());
        }
        if self.cores.iter().any(|c| !c.series.is_empty()) && self.span_ns == 0 {
            return Err("it has series without a length of their spans (span_ns)".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_is_a_line() {
        let cores = vec![
            RunOtherBudget { cpu: 0, before: 200, budget: 100, ..RunOtherBudget::default() },
            RunOtherBudget {
                cpu: 2,
                before: 50,
                budget: 60,
                writes_before: Some(5),
                write_budget: Some(u64::MAX),
            },
        ];
        let plan = "new\nplan.json".to_owned();
        let handover =
            RunHandover { plan, begun_ns: 1, ended_ns: 1_500_000_000, cores, tasks: vec![] };
        assert_eq!(
            handover.text(),
            "plan new?plan.json in force since 1.500 s: CPU 0 100 instead of 200, CPU 2 60 instead of \
                50 and for writes no limit instead of 5"
        );
        let video = RunOtherJobBudget {
            task: "video".to_owned(),
            before: 100,
            budget: 50,
            ..RunOtherJobBudget::default()
        };
        let jobs = RunHandover { tasks: vec![video], ..handover };
        assert!(jobs.text().ends_with(" s: jobs of video 50 instead of 100"), "{}", jobs.text());
        let same = RunHandover { plan: "p".to_owned(), ..RunHandover::default() };
        assert_eq!(same.text(), "plan p in force since 0.000 s: with the same budgets");
    }
}
