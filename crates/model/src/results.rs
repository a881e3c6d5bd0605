//! The measurements of a simulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Written at the head of every result file.
pub const FORMAT: &str = "solocore-sim/1";

/// Way in which the tasks were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each task by itself on the plain machine, without other programs and without the plan.
    Solo,
    /// All tasks together on the plain machine: shared cache, shared banks, no budgets.
    Unmanaged,
    /// All tasks together under the plan.
    Managed,
    /// All tasks together under a plan of the same system with even shares, for comparison.
    Even,
}

impl Mode {
    /// Is a plan at work?
    #[must_use]
    pub const fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::Even)
    }
}

/// Measurements of one task. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// Name of the task in the plan.
    pub name: String,
    /// Core of the task.
    pub core: u32,
    /// Jobs that finished.
    pub jobs: u64,
    /// Jobs that finished after their deadline, or had not finished at the end although it had
    /// passed.
    pub misses_deadline: u64,
    /// Longest execution time of a job: from first to last instruction, less the time that other
    /// tasks' preemption took and cost (reloads of private caches, throttling by budget they used).
    pub moet_ns: u64,
    /// Mean execution time of a job.
    pub acet_ns: u64,
    /// Longest response time of a finished job.
    pub max_response_ns: u64,
    /// Execution times of finished jobs as a distribution: a time, and how many jobs took no
    /// longer. Rising, a time at most 1/32 too large; empty where it was not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub execution_ns: Vec<(u64, u64)>,
    /// DRAM accesses of the task over the simulation.
    pub accesses: u64,
}

/// Measurements of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreResult {
    /// Number of the core.
    pub id: u32,
    /// DRAM accesses of the core.
    pub accesses: u64,
    /// Time it was stopped by its regulator.
    pub throttled_ns: u64,
    /// Most accesses in one regulation period.
    pub max_accesses_per_period: u64,
}

/// Activity of a core in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Ran a task (memory stalls included).
    Run,
    /// Was stopped by its regulator with a task on it.
    Throttled,
    /// Prefetched and locked pages for this task's partition.
    Prefetch,
}

/// Execution of a time table with its I/O.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IoResult {
    /// Instances of activities that began: windows, transfers, physical input and output.
    pub activities: u64,
    /// Transfers that ended.
    pub transfers: u64,
    /// Lines that transfers were told to move.
    pub lines: u64,
    /// Number of times that two activities overlapped, an order was broken, or a task ran outside
    /// its window.
    pub violations: u64,
    /// The first violation in words; `null` without any.
    pub first_violation: Option<String>,
}

/// A stretch of one core's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Number of the core.
    pub core: u32,
    /// Index of the task in the result's `tasks`.
    pub task: u32,
    /// Start of the stretch.
    pub start_ns: u64,
    /// End of the stretch.
    pub end_ns: u64,
    /// Activity of the core.
    pub activity: Activity,
}

/// A job that was released in the recorded stretch of the schedule, of a task with a deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineJob {
    /// Index of the task in the result's `tasks`.
    pub task: u32,
    /// Time of its arrival.
    pub release_ns: u64,
    /// Its absolute deadline.
    pub deadline_ns: u64,
    /// Time of its end; left out where it did not end before the simulation did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// It ended after its deadline, or had not ended at the end although its deadline had passed.
    pub late: bool,
}

/// The result of `solocore sim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimResult {
    /// Name and version of the format: `solocore-sim/1`.
    pub format: String,
    /// Way in which the tasks were run.
    pub mode: Mode,
    /// Seed of the placement of pages.
    pub seed: u64,
    /// Tasks, in the order of the plan.
    pub tasks: Vec<TaskResult>,
    /// Cores, by id.
    pub cores: Vec<CoreResult>,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Wall-clock time of the simulation.
    pub wall_ns: u64,
    /// Memory requests simulated (shared-cache accesses).
    pub requests: u64,
    /// Execution of the time table, in a managed run of a plan with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoResult>,
    /// Length of the recorded stretch of the schedule; left out where none was asked for, and in
    /// older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline_ns: Option<u64>,
    /// The first stretch of the schedule, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Segment>,
    /// Jobs that were released in that stretch, by release; older results have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<TimelineJob>,
}
