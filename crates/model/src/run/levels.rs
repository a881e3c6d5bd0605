//! Observations of a scheduler of levels and windows, and of real-time threads beside a scheduler
//! of solocore.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observations of the scheduler of levels and windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevels {
    /// The plan's tasks under it.
    pub tasks: Vec<RunLevelTask>,
    /// CPUs of the machine.
    pub cpus: Vec<RunLevelCpu>,
    /// Real-time threads that are not under the scheduler.
    pub intruders: Vec<RunLevelIntruder>,
    /// Events that were overwritten before they were read, where a trace was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_lost: Option<u64>,
}

/// Observations of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevelTask {
    /// Name of the task in the plan.
    pub name: String,
    /// `A` to `D`, or `window`.
    pub level: String,
    /// Core of the task; `null` at level C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// Way in which it came to run: started, attached, or not run.
    pub how: String,
    /// Jobs released.
    pub jobs: u64,
    /// Jobs that were done.
    pub completed: u64,
    /// Releases at which the task slept or was not there.
    pub skipped: u64,
    /// Jobs that used their PET up, or that were not done at level A when the next was released.
    pub overruns: u64,
    /// Jobs that were done after their deadlines.
    pub late: u64,
    /// Longest time from release, or begin of the slot, to the first instruction.
    pub max_start_late_ns: u64,
    /// Longest time from release to end.
    pub max_response_ns: u64,
    /// Mean time from release to end.
    pub mean_response_ns: u64,
    /// Longest time from deadline to end.
    pub max_tardiness_ns: u64,
    /// Most execution that a job was charged.
    pub max_charged_ns: u64,
    /// Time that its jobs ran, in all.
    pub ran_ns: u64,
    /// Relative deadline in the plan; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The plan's bound on the response time; absent: there is none, or one of its promises is
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
}

/// Time lost to real-time threads that no level commands, by the level that had to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLost {
    /// Time that level A had to wait.
    pub a_ns: u64,
    /// Time that level B had to wait.
    pub b_ns: u64,
    /// Time that level C had to wait.
    pub c_ns: u64,
    /// Time that level D had to wait.
    pub d_ns: u64,
    /// Time in which no task of the plan had to wait.
    pub idle_ns: u64,
    /// Time that the partition with the open window had to wait.
    pub window_ns: u64,
}

impl RunLost {
    /// The lost time of each level, as text.
    pub fn text(&self) -> String {
        let all = [
            ("level A", self.a_ns),
            ("level B", self.b_ns),
            ("level C", self.c_ns),
            ("level D", self.d_ns),
            ("windows", self.window_ns),
            ("no task of the plan", self.idle_ns),
        ];
        let some = all.iter().filter(|(_, ns)| *ns > 0);
        some.map(|(who, ns)| format!("{who} {:.3} ms", *ns as f64 / 1e6))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Observations of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevelCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Decisions of the scheduler.
    pub decisions: u64,
    /// Timers that fired.
    pub timers: u64,
    /// Longest time from the due time of a timer to the decision.
    pub max_timer_late_ns: u64,
    /// Longest wait for the lock.
    pub max_lock_ns: u64,
    /// Longest decision, including the wait for the lock.
    pub max_decision_ns: u64,
    /// Mean decision.
    pub mean_decision_ns: u64,
    /// Time of real-time threads that are not under the scheduler, in all.
    pub intruder_ns: u64,
    /// Number of times that a real-time thread outside of the scheduler ran.
    pub intrusions: u64,
    /// The levels that lost this time.
    pub lost: RunLost,
    /// Windows that have ended.
    pub windows: u64,
}

/// A real-time thread that was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunIntruder {
    /// Number of the thread.
    pub thread: u32,
    /// Number of the process.
    pub process: u32,
    /// Name of the thread.
    pub name: String,
    /// `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`.
    pub policy: String,
    /// Real-time priority; 0 for `SCHED_DEADLINE`.
    pub priority: u32,
    /// Number of times that it ran.
    pub times: u64,
    /// Time that it ran, in all.
    pub ran_ns: u64,
    /// Longest time that it ran without a break.
    pub max_ns: u64,
}

impl RunIntruder {
    /// The thread and its times, as text.
    pub fn text(&self) -> String {
        format!(
            "{} ({}, {} {}) ran {} times for {:.3} ms, at most {:.3} ms at a time",
            self.name,
            self.thread,
            self.policy,
            self.priority,
            self.times,
            self.ran_ns as f64 / 1e6,
            self.max_ns as f64 / 1e6,
        )
    }
}

/// A real-time thread that ran beside the levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevelIntruder {
    /// The thread, and its times.
    #[serde(flatten)]
    pub seen: RunIntruder,
    /// The levels that lost this time.
    pub lost: RunLost,
}

impl RunLevelIntruder {
    /// The thread and its times, as text.
    pub fn text(&self) -> String {
        format!("{}; lost: {}", self.seen.text(), self.lost.text())
    }
}
