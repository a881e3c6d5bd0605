//! What was seen of a scheduler of levels and windows, and of real-time threads beside a scheduler
//! of solocore.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the scheduler of levels and windows saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevels {
    /// The plan's tasks under it.
    pub tasks: Vec<RunLevelTask>,
    /// CPUs of the machine.
    pub cpus: Vec<RunLevelCpu>,
    /// Real-time threads that no level commands.
    pub intruders: Vec<RunLevelIntruder>,
    /// Events that were overwritten before they were read, where a trace was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_lost: Option<u64>,
}

/// What was seen of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevelTask {
    /// Its name.
    pub name: String,
    /// "A" to "D", "window".
    pub level: String,
    /// Its core; none at level C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// How it came to run.
    pub how: String,
    /// Jobs released.
    pub jobs: u64,
    /// Jobs that were done.
    pub completed: u64,
    /// Releases at which it slept or was not there.
    pub skipped: u64,
    /// Jobs that used their PET up, or at level A were not done when the next came.
    pub overruns: u64,
    /// Jobs done after their deadlines.
    pub late: u64,
    /// Longest time from release, or begin of the slot, to the first instruction.
    pub max_start_late_ns: u64,
    /// Longest time from release to end.
    pub max_response_ns: u64,
    /// Mean of it.
    pub mean_response_ns: u64,
    /// Longest time from deadline to end.
    pub max_tardiness_ns: u64,
    /// Most execution that a job was charged.
    pub max_charged_ns: u64,
    /// Execution in all.
    pub ran_ns: u64,
}

/// Time lost to real-time threads that no level commands, by who had to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLost {
    /// Level A.
    pub a_ns: u64,
    /// Level B.
    pub b_ns: u64,
    /// Level C.
    pub c_ns: u64,
    /// Level D.
    pub d_ns: u64,
    /// Nothing of the plan.
    pub idle_ns: u64,
    /// The partition whose window was open.
    pub window_ns: u64,
}

impl RunLost {
    /// For people: who lost how much.
    pub fn text(&self) -> String {
        let all = [
            ("level A", self.a_ns),
            ("level B", self.b_ns),
            ("level C", self.c_ns),
            ("level D", self.d_ns),
            ("windows", self.window_ns),
            ("nobody of the plan", self.idle_ns),
        ];
        let some = all.iter().filter(|(_, ns)| *ns > 0);
        some.map(|(who, ns)| format!("{who} {:.3} ms", *ns as f64 / 1e6))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// What was seen of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLevelCpu {
    /// Which.
    pub cpu: u32,
    /// Decisions.
    pub decisions: u64,
    /// Timers that fired.
    pub timers: u64,
    /// Longest time from when a timer was to fire to the decision.
    pub max_timer_late_ns: u64,
    /// Longest wait for the lock.
    pub max_lock_ns: u64,
    /// Longest decision, the wait for the lock included.
    pub max_decision_ns: u64,
    /// Mean decision.
    pub mean_decision_ns: u64,
    /// Time of real-time threads that no level commands.
    pub intruder_ns: u64,
    /// How often one came.
    pub intrusions: u64,
    /// Who lost it.
    pub lost: RunLost,
    /// Windows that have ended.
    pub windows: u64,
}

/// A real-time thread that was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunIntruder {
    /// Its number.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`.
    pub policy: String,
    /// Real-time priority; 0 for `SCHED_DEADLINE`.
    pub priority: u32,
    /// How often it ran.
    pub times: u64,
    /// For how long in all.
    pub ran_ns: u64,
    /// For how long at most.
    pub max_ns: u64,
}

impl RunIntruder {
    /// For people.
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
    /// Which, and for how long.
    #[serde(flatten)]
    pub seen: RunIntruder,
    /// Who lost it.
    pub lost: RunLost,
}

impl RunLevelIntruder {
    /// For people.
    pub fn text(&self) -> String {
        format!("{}; lost: {}", self.seen.text(), self.lost.text())
    }
}
