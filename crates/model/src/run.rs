//! What `solocore run` saw on a real machine: read by `solocore report`.
//!
//! Only what is drawn is named here; the file holds more, and later versions may add to it.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// Written at the head of the file.
pub const FORMAT: &str = "solocore-run/1";

/// A span of a CPU's time; in files a list of these four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub struct RunSpan {
    /// Periods that ended in it.
    pub periods: u64,
    /// Their accesses.
    pub accesses: u64,
    /// Most accesses in one of them.
    pub most: u64,
    /// How long the CPU was throttled in them.
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

/// A regulated CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCore {
    /// Which one.
    pub cpu: u32,
    /// Accesses per period; `u64::MAX`: no limit.
    pub budget: u64,
    /// Accesses per interrupt.
    pub sample: u64,
    /// Periods that ended.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled_periods: u64,
    /// How long, in all.
    pub throttled_ns: u64,
    /// Accesses, by the counter.
    pub accesses: u64,
    /// Most accesses in one period.
    pub max_accesses_per_period: u64,
    /// Periods with more than budget and one sample.
    pub periods_over_budget: u64,
    /// Writes per period, where they have a budget of their own.
    #[serde(default)]
    pub write_budget: Option<u64>,
    /// Writes, by their counter.
    #[serde(default)]
    pub writes: u64,
    /// Most writes in one period.
    #[serde(default)]
    pub max_writes_per_period: u64,
    /// Periods with more than the write budget and one sample.
    #[serde(default)]
    pub periods_over_write_budget: u64,
    /// Spans of equal length from the start.
    #[serde(default)]
    pub series: Vec<RunSpan>,
}

/// A job that has ended. Times from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// When it was to start.
    pub release_ns: u64,
    /// When it started.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// A task of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// "started", "attached" or "not run".
    pub how: String,
    /// Priority under `SCHED_FIFO`.
    pub fifo: Option<i32>,
    /// Jobs that ended well.
    pub jobs: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were late.
    pub misses_deadline: u64,
    /// Longest time from release to end.
    pub max_response_ns: u64,
    /// Mean time from release to end.
    pub mean_response_ns: u64,
    /// Most CPU time of a job.
    pub max_cpu_ns: u64,
    /// The latest jobs.
    #[serde(default)]
    pub latest: Vec<RunJob>,
}

/// A transfer of the time table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTransfer {
    /// Partition, chain and stage.
    pub name: String,
    /// `io-core` or `device NAME`.
    pub resource: String,
    /// Slots that ended.
    pub slots: u64,
    /// Transfers that began in their slots.
    pub begun: u64,
    /// Transfers that ended after their slots.
    pub late: u64,
    /// Slots that an attached driver let pass.
    pub missed: u64,
    /// Slots that passed without a driver.
    pub unattended: u64,
    /// Drivers that attached.
    pub clients: u64,
    /// Longest time from the beginning of a slot to that of its transfer.
    pub max_start_late_ns: u64,
    /// Longest time from the end of a slot to that of its transfer.
    pub max_end_late_ns: u64,
}

/// The result of `solocore run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: String,
    /// Which engine.
    pub engine: String,
    /// What was counted.
    pub event: String,
    /// Does it only stand in for accesses to memory?
    #[serde(default)]
    pub stands_in: bool,
    /// Length of a period.
    pub period_ns: u64,
    /// How long it ran.
    pub duration_ns: u64,
    /// Why it ended.
    pub ended: String,
    /// What the user was told.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Length of a span of the series.
    #[serde(default)]
    pub span_ns: u64,
    /// CPUs.
    pub cores: Vec<RunCore>,
    /// The plan's tasks, in its order.
    #[serde(default)]
    pub tasks: Vec<RunTask>,
    /// The time table's transfers.
    #[serde(default)]
    pub transfers: Vec<RunTransfer>,
    /// The plan that was enforced.
    #[serde(default)]
    pub plan: Option<Plan>,
}

impl RunResult {
    /// Can it be drawn? Files get edited.
    ///
    /// # Errors
    /// What is impossible in it.
    pub fn check(&self) -> Result<(), String> {
        if self.period_ns == 0 || self.cores.is_empty() {
            return Err("it has no period or no cores".to_owned());
        }
        if self.cores.iter().any(|c| !c.series.is_empty()) && self.span_ns == 0 {
            return Err("it has series without a length of their spans (span_ns)".to_owned());
        }
        Ok(())
    }
}
