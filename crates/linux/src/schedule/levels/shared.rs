//! `bpf/levels_intf.h` seen from here.

use crate::contract::{self, level_cpu_run, level_setup, level_task, sched_intruder};
use crate::schedule::intruders::Seen;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// `LEVEL_PARTITIONS`.
pub(super) const MOST_PARTITIONS: usize = contract::LEVEL_PARTITIONS as usize;
/// `SC_MAX_TASKS` of the object.
pub(super) const MOST_TASKS: usize = 1024;
/// `LEVEL_WINDOW`.
pub(super) const WINDOW: u64 = contract::LEVEL_WINDOW as u64;
/// What the loader asks of the program `setup`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setup {
    /// CPU, now.
    Core(u64, u64),
    /// Task, level, core, period, PET, first release, partition, rank.
    Task { id: u64, level: u64, core: u64, period_ns: u64, pet_ns: u64, first_ns: u64, partition: u64, rank: u64 },
    /// CPU, origin, frame.
    Table(u64, u64, u64),
    /// CPU, start, end, whose.
    Slot(u64, u64, u64, u64),
}

impl Setup {
    /// As the program reads it.
    pub fn encode(self) -> level_setup {
        let (what, [a, b, c, d, e, f]) = match self {
            Self::Core(cpu, now) => (contract::LEVEL_SETUP_CORE, [cpu, now, 0, 0, 0, 0]),
            Self::Task { id, level, core, period_ns, pet_ns, first_ns, partition, rank } => (
                contract::LEVEL_SETUP_TASK,
                [id, level << 32 | core, period_ns, pet_ns, first_ns, partition << 32 | rank],
            ),
            Self::Table(cpu, origin, frame) => (contract::LEVEL_SETUP_TABLE, [cpu, origin, frame, 0, 0, 0]),
            Self::Slot(cpu, start, end, whose) => (contract::LEVEL_SETUP_SLOT, [cpu, start, end, whose, 0, 0]),
        };
        level_setup { what: what.into(), a, b, c, d, e, f }
    }
}

/// What was seen of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRun {
    /// Its name.
    pub name: String,
    /// "A" to "D", "window".
    pub level: Cow<'static, str>,
    /// Its core; none at level C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// How it came to run.
    pub how: Cow<'static, str>,
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

impl TaskRun {
    /// Adds the programs' counts.
    pub(super) fn add(&mut self, seen: &level_task) {
        self.jobs = seen.job;
        self.completed = seen.done;
        self.skipped = seen.skipped;
        self.overruns = seen.overruns;
        self.late = seen.late;
        self.max_start_late_ns = seen.max_start_ns;
        self.max_response_ns = seen.max_response_ns;
        self.max_tardiness_ns = seen.max_tardy_ns;
        self.max_charged_ns = seen.max_used_ns;
        self.ran_ns = seen.ran_ns;
        self.mean_response_ns = seen.sum_response_ns.checked_div(self.completed).unwrap_or(0);
    }
}

/// Time lost to real-time threads that no level commands, by who had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
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

impl Lost {
    fn of([a_ns, b_ns, c_ns, d_ns, idle_ns, window_ns]: [u64; 6]) -> Self {
        Self { a_ns, b_ns, c_ns, d_ns, idle_ns, window_ns }
    }

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
        some.map(|(who, ns)| format!("{who} {:.3} ms", *ns as f64 / 1e6)).collect::<Vec<_>>().join(", ")
    }
}

/// What was seen of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuRun {
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
    pub lost: Lost,
    /// Windows that have ended.
    pub windows: u64,
}

impl CpuRun {
    pub(super) fn of(cpu: u32, seen: &level_cpu_run) -> Self {
        Self {
            cpu,
            decisions: seen.dispatches,
            timers: seen.timers,
            max_timer_late_ns: seen.max_timer_ns,
            max_lock_ns: seen.max_lock_ns,
            max_decision_ns: seen.max_decide_ns,
            mean_decision_ns: seen.decide_ns.checked_div(seen.dispatches).unwrap_or(0),
            intruder_ns: seen.intruder_ns,
            intrusions: seen.intrusions,
            lost: Lost::of(seen.lost_ns),
            windows: seen.slots,
        }
    }
}

/// A real-time thread that ran beside the levels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intruder {
    /// Which, and for how long.
    #[serde(flatten)]
    pub seen: Seen,
    /// Who lost it.
    pub lost: Lost,
}

impl Intruder {
    pub(super) fn of(seen: &sched_intruder) -> Self {
        Self { seen: Seen::of(seen), lost: Lost::of(seen.lost_ns) }
    }

    /// For people.
    pub fn text(&self) -> String {
        format!("{}; lost: {}", self.seen.text(), self.lost.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::intruders;

    #[test]
    fn what_is_asked_of_the_programs() {
        let task =
            Setup::Task { id: 7, level: 2, core: 3, period_ns: 10, pet_ns: 4, first_ns: 5, partition: 1, rank: 9 };
        let level_setup { what, a, b, c, d, e, f } = task.encode();
        assert_eq!([what, a, b, c, d, e, f], [1, 7, 2 << 32 | 3, 10, 4, 5, 1 << 32 | 9]);
    }

    #[test]
    fn an_intruder_is_described() {
        let said = Intruder::of(&intruders::tests::rude()).text();
        assert_eq!(
            said,
            "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time; lost: level A 1.500 ms"
        );
    }
}
