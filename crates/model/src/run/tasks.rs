//! What was seen of tasks in their places, of windows and transfers, and of who was kept off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job that has ended. Times from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunJob {
    /// When it was to start.
    pub release_ns: u64,
    /// When it started.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// What was seen of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTask {
    /// Its name in the plan.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// "started", "attached" or "not run".
    pub how: String,
    /// Priority under `SCHED_FIFO`; none: an ordinary task.
    pub fifo: Option<i32>,
    /// Rank inside the sched_ext engine, 1 first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Jobs that ended with 0.
    pub jobs: u64,
    /// Jobs that did not.
    pub failed: u64,
    /// Jobs that ended after their deadline, or had not ended although it had passed.
    pub misses_deadline: u64,
    /// Longest time from release to end.
    pub max_response_ns: u64,
    /// Mean time from release to end.
    pub mean_response_ns: u64,
    /// Most CPU time of a job, of the job's children as well.
    pub max_cpu_ns: u64,
    /// The latest jobs.
    #[serde(default)]
    pub latest: Vec<RunJob>,
}

/// What probes saw of a task's program that says nothing itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFunctions {
    /// The task.
    pub task: String,
    /// What a call is: "section" (of the bandwidth lock) or "job".
    pub what: String,
    /// Functions; none: jobs are wakeups.
    pub functions: Vec<String>,
    /// Outermost calls that have ended.
    pub calls: u64,
    /// Calls within such a call.
    pub nested: u64,
    /// Calls that were left without a return: `longjmp()`, or the end of the thread.
    pub abandoned: u64,
    /// Time in them.
    pub sum_ns: u64,
    /// The longest one.
    pub longest_ns: u64,
}

/// What was seen of a partition's windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunWindow {
    /// Name of the partition.
    pub partition: String,
    /// Its core.
    pub core: u32,
    /// Windows that have ended.
    pub windows: u64,
    /// Longest time from the end of a window to when its jobs had been told to stop.
    pub max_late_ns: u64,
}

/// What was seen of a transfer's slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTransfer {
    /// Partition, chain and stage.
    pub name: String,
    /// `io-core` or `device NAME`.
    pub resource: String,
    /// The I/O core, for a device's transfer.
    pub core: Option<u32>,
    /// Length of a slot.
    pub length_ns: u64,
    /// From one to the next.
    pub period_ns: u64,
    /// Slots that have ended.
    pub slots: u64,
    /// Transfers that began in their slots.
    pub begun: u64,
    /// Transfers that ended after their slots, or had not ended although it was over.
    pub late: u64,
    /// Slots that passed while a client was attached and made no transfer.
    pub missed: u64,
    /// Slots that passed while none was.
    pub unattended: u64,
    /// Clients that attached, one after the other.
    pub clients: u64,
    /// Is one attached now?
    pub attached: bool,
    /// Longest time from the beginning of a slot to that of its transfer.
    pub max_start_late_ns: u64,
    /// Longest time from the end of a slot to that of its transfer.
    pub max_end_late_ns: u64,
    /// The latest transfers: beginning of the slot, and of the transfer, and its end.
    #[serde(default)]
    pub latest: Vec<RunJob>,
}

/// What was seen of a task's locked pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLocked {
    /// The task.
    pub task: String,
    /// Pages that the plan locks.
    pub pages: u64,
    /// Of these, so many were found in the process that was looked at last.
    pub found: u64,
    /// And so many it had used.
    pub present: u64,
    /// Pages read, all looks together.
    pub reads: u64,
    /// Mean time to read one.
    pub mean_read_ns: u64,
    /// Processes that were looked at.
    pub processes: u64,
}

/// What is seen of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunGroup {
    /// Its name.
    pub group: String,
    /// The CPU whose tasks are in it; none: only tasks that are put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Its lines.
    pub schemata: Vec<String>,
    /// Does nobody else have its ways?
    pub exclusive: bool,
    /// Bytes that it holds in the shared cache now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy_bytes: Option<u64>,
    /// Bytes that it has transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Of these, so many from its own memory controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_bytes: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunConfined {
    /// Control groups that were limited.
    pub groups: Vec<String>,
    /// Threads whose affinity was limited.
    pub threads: u64,
    /// Threads that somebody bound to cores of analysed tasks.
    pub bound: Vec<u32>,
    /// Threads that refused.
    pub refused: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInterrupts {
    /// Interrupts that were moved.
    pub moved: Vec<u32>,
    /// Interrupts that stayed, and why.
    pub refused: Vec<(u32, String)>,
    /// What else was not possible.
    pub notes: Vec<String>,
}
