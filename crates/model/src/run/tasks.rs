//! Observations of tasks, of windows and transfers, and of programs that were kept off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job that has ended. Times from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunJob {
    /// Planned start of the job.
    pub release_ns: u64,
    /// Start of the job.
    pub start_ns: u64,
    /// End of the job.
    pub end_ns: u64,
}

/// Observations of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTask {
    /// Name of the task in the plan.
    pub name: String,
    /// Core of the task.
    pub core: u32,
    /// `started`, `attached` or `not run`.
    pub how: String,
    /// Priority under `SCHED_FIFO`; `null`: an ordinary task.
    pub fifo: Option<i32>,
    /// Rank inside the sched_ext engine, 1 first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Jobs that ended with exit status 0.
    pub jobs: u64,
    /// Jobs that ended with another exit status.
    pub failed: u64,
    /// Jobs that ended after their deadline, or had not ended although it had passed.
    pub misses_deadline: u64,
    /// Longest time from release to end of a job.
    pub max_response_ns: u64,
    /// Mean time from release to end of a job.
    pub mean_response_ns: u64,
    /// Most CPU time of a job and its children.
    pub max_cpu_ns: u64,
    /// Jobs whose process was still being started on its frames when they were released, or had
    /// not the scheduling of its task then (`--colors`).
    #[serde(default)]
    pub unprepared: u64,
    /// Times at which its threads were bound to its core again: the kernel lets them run anywhere
    /// when the core goes offline, and another program may bind them elsewhere.
    #[serde(default)]
    pub displaced: u64,
    /// Relative deadline in the plan; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The plan's bound on the response time; absent: there is none, or one of its promises is
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// The plan's bound on `max_cpu_ns` for a wanted slowdown; absent: the task wants none, or a
    /// promise of the bound is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_bound_ns: Option<u64>,
    /// The latest jobs. None of a task with a period under a scheduler of levels or windows where
    /// each job is a process: it is started before its release.
    #[serde(default)]
    pub latest: Vec<RunJob>,
}

/// Observations by probes of a task with a program that does not signal its jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFunctions {
    /// Name of the task.
    pub task: String,
    /// Kind of call: `section` (of the bandwidth lock) or `job`.
    pub what: String,
    /// Names of the functions. Empty: jobs are wakeups.
    pub functions: Vec<String>,
    /// Outermost calls that have ended.
    pub calls: u64,
    /// Calls within such a call.
    pub nested: u64,
    /// Calls that were left without a return: `longjmp()`, or the end of the thread.
    pub abandoned: u64,
    /// Time in outermost calls, all together.
    pub sum_ns: u64,
    /// Time of the longest outermost call.
    pub longest_ns: u64,
}

/// Pages of a task that solocore started on frames of its core's colours and banks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunColoured {
    /// Name of the task.
    pub task: String,
    /// Colours of the shared cache, first and count; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<(u32, u32)>,
    /// DRAM banks, first and count; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banks: Option<(u32, u32)>,
    /// Processes that were coloured before their first instruction.
    pub processes: u64,
    /// Of the starts on these frames, those within a job: of its children, and of programs that its
    /// process becomes. 0 where each job's process starts with the job.
    #[serde(default)]
    pub within_jobs: u64,
    /// Processes that ended by themselves; their pages were checked before.
    pub ended: u64,
    /// Private pages of these processes, in all.
    pub pages: u64,
    /// Private pages that were found in other colours or banks.
    pub wrong: u64,
    /// Pages that the kernel had moved to other frames, and that were moved back.
    pub moved_back: u64,
    /// Programs that ran without colours, message queues that stayed in the kernel, and processes
    /// that were stopped because their colours had no memory left, with the reasons; the first
    /// eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// Observations of a partition's windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunWindow {
    /// Name of the partition.
    pub partition: String,
    /// Core of the windows.
    pub core: u32,
    /// Windows that have ended.
    pub windows: u64,
    /// Longest time from the end of a window until its jobs had the signal to stop.
    pub max_late_ns: u64,
    /// Longest time from the beginning of a window until its jobs had the signal to go on, without
    /// the planned time for the reads of locked pages.
    #[serde(default)]
    pub max_start_late_ns: u64,
    /// Locked pages that were read when the latest window began, before its jobs went on.
    #[serde(default)]
    pub prefetched_pages: u64,
    /// Longest time of these reads.
    #[serde(default)]
    pub max_prefetch_ns: u64,
}

/// Observations of a transfer's slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTransfer {
    /// Partition, chain and stage of the transfer.
    pub name: String,
    /// `io-core` or `device NAME`.
    pub resource: String,
    /// The I/O core, for a device's transfer.
    pub core: Option<u32>,
    /// Length of a slot.
    pub length_ns: u64,
    /// Time from the beginning of a slot to that of the next.
    pub period_ns: u64,
    /// Slots that have ended.
    pub slots: u64,
    /// Transfers that began in their slots.
    pub begun: u64,
    /// Transfers that ended after their slots, or had not ended although their slot was over.
    pub late: u64,
    /// Slots that passed while a client was attached and made no transfer.
    pub missed: u64,
    /// Slots that passed while no client was attached.
    pub unattended: u64,
    /// Clients that attached, one after the other.
    pub clients: u64,
    /// A client is attached now.
    pub attached: bool,
    /// Longest time from the beginning of a slot to that of its transfer.
    pub max_start_late_ns: u64,
    /// Longest time from the end of a slot to that of its transfer.
    pub max_end_late_ns: u64,
    /// The latest transfers: beginning of the slot, beginning of the transfer, and its end.
    #[serde(default)]
    pub latest: Vec<RunJob>,
}

/// Observations of a task's locked pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLocked {
    /// Name of the task.
    pub task: String,
    /// Pages that the plan locks.
    pub pages: u64,
    /// Locked pages found in the process that was examined last.
    pub found: u64,
    /// Pages of the plan that the process examined last had used.
    pub present: u64,
    /// Pages that were put into frames of their colours, in the process that ended last; absent:
    /// none has ended, or they are read into ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// Pages in frames of their colours, in the process that ended last, or goes on if none has
    /// ended; `found` and `present` are of the same process. Absent: they are read into ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<u64>,
    /// Colours of the shared cache that are for locked pages of the core alone, first and count;
    /// absent: they are read into ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<(u32, u32)>,
    /// Reason why fewer pages are in their colours than the plan counts on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Pages read, all looks together.
    pub reads: u64,
    /// Mean time to read one.
    pub mean_read_ns: u64,
    /// Processes that were examined.
    pub processes: u64,
}

/// Observations of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunGroup {
    /// Name of the group.
    pub group: String,
    /// The CPU of the tasks in it; `null`: only tasks that are put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Lines of its `schemata` file.
    pub schemata: Vec<String>,
    /// No other group has its ways.
    pub exclusive: bool,
    /// Bytes that it holds in the shared cache now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy_bytes: Option<u64>,
    /// Bytes that it has transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// The part of `total_bytes` that came from its own memory controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_bytes: Option<u64>,
}

/// Other programs that were kept off the cores of analysed tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunConfined {
    /// Control groups that were limited.
    pub groups: Vec<String>,
    /// Threads whose affinity was limited.
    pub threads: u64,
    /// Numbers of threads that were bound to cores of analysed tasks by another program.
    pub bound: Vec<u32>,
    /// Threads that could not be moved.
    pub refused: u64,
}

/// Interrupts that were moved, and those that stayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInterrupts {
    /// Numbers of the interrupts that were moved.
    pub moved: Vec<u32>,
    /// Interrupts that stayed, each with its number and the reason.
    pub refused: Vec<(u32, String)>,
    /// Other actions that were not possible, in words.
    pub notes: Vec<String>,
}
