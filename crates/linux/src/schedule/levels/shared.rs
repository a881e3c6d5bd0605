//! `bpf/levels_intf.h` seen from here.

use crate::schedule::intruders::{self, Seen, half, word};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of `struct levels_settings`.
pub(super) const SETTINGS_BYTES: usize = 16;
/// Bytes of `struct level_setup`.
pub(super) const SETUP_BYTES: usize = 56;
/// Bytes of `struct level_member`.
pub(super) const MEMBER_BYTES: usize = 16;
/// Bytes of `struct level_task`.
#[cfg(test)]
pub(super) const TASK_BYTES: usize = 160;
/// Bytes of `struct level_cpu_run`.
#[cfg(test)]
pub(super) const CPU_BYTES: usize = 120;
/// `LEVEL_PARTITIONS`.
pub(super) const MOST_PARTITIONS: usize = 128;
/// `SC_MAX_TASKS` of the object.
pub(super) const MOST_TASKS: usize = 1024;
/// `LEVEL_WINDOW`.
pub(super) const WINDOW: u64 = 5;
/// `LEVEL_PARENT`.
pub(super) const PARENT: u32 = 1;

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
    pub fn encode(self) -> [u8; SETUP_BYTES] {
        let words: [u64; 7] = match self {
            Self::Core(cpu, now) => [0, cpu, now, 0, 0, 0, 0],
            Self::Task { id, level, core, period_ns, pet_ns, first_ns, partition, rank } => {
                [1, id, level << 32 | core, period_ns, pet_ns, first_ns, partition << 32 | rank]
            }
            Self::Table(cpu, origin, frame) => [2, cpu, origin, frame, 0, 0, 0],
            Self::Slot(cpu, start, end, whose) => [3, cpu, start, end, whose, 0, 0],
        };
        let mut bytes = [0; SETUP_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Words of 32 bits, one after the other.
pub(super) fn halves<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

/// Task plus 1, and flags (`struct level_member`).
pub(super) fn member(bytes: &[u8]) -> Option<(u32, u32)> {
    (bytes.len() == MEMBER_BYTES).then(|| (half(bytes, 0), half(bytes, 4)))
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
    /// Adds the programs' counts (`struct level_task`).
    pub(super) fn decode(&mut self, bytes: &[u8]) {
        self.jobs = word(bytes, 24);
        self.completed = word(bytes, 48);
        self.skipped = word(bytes, 56);
        self.overruns = word(bytes, 64);
        self.late = word(bytes, 72);
        self.max_start_late_ns = word(bytes, 80);
        self.max_response_ns = word(bytes, 88);
        self.max_tardiness_ns = word(bytes, 96);
        self.max_charged_ns = word(bytes, 104);
        self.ran_ns = word(bytes, 112);
        self.mean_response_ns = word(bytes, 120).checked_div(self.completed).unwrap_or(0);
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
    fn decode(bytes: &[u8], at: usize) -> Self {
        let of = |level: usize| word(bytes, at + 8 * level);
        Self { a_ns: of(0), b_ns: of(1), c_ns: of(2), d_ns: of(3), idle_ns: of(4), window_ns: of(5) }
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
    pub(super) fn decode(cpu: u32, bytes: &[u8]) -> Self {
        let decisions = word(bytes, 0);
        Self {
            cpu,
            decisions,
            timers: word(bytes, 8),
            max_timer_late_ns: word(bytes, 16),
            max_lock_ns: word(bytes, 24),
            max_decision_ns: word(bytes, 32),
            mean_decision_ns: word(bytes, 40).checked_div(decisions).unwrap_or(0),
            intruder_ns: word(bytes, 48),
            intrusions: word(bytes, 56),
            lost: Lost::decode(bytes, 64),
            windows: word(bytes, 112),
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
    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self { seen: Seen::decode(bytes), lost: Lost::decode(bytes, intruders::LOST) }
    }

    /// For people.
    pub fn text(&self) -> String {
        format!("{}; lost: {}", self.seen.text(), self.lost.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::bpf::LEVELS;
    use crate::regulate::shared::tests::{offset, size};

    #[test]
    fn every_offset_is_that_of_the_object() {
        for (of, bytes) in [
            ("levels_settings", SETTINGS_BYTES),
            ("level_setup", SETUP_BYTES),
            ("level_member", MEMBER_BYTES),
            ("level_task", TASK_BYTES),
            ("level_cpu_run", CPU_BYTES),
        ] {
            assert_eq!(size(LEVELS, of), bytes, "{of}");
        }
        for (member, at) in [("cpus", 0), ("loader_pid", 4), ("windows", 8), ("tasks", 12)] {
            assert_eq!(offset(LEVELS, "levels_settings", member), at, "{member}");
        }
        for (member, at) in [("task", 0), ("flags", 4), ("counted", 8)] {
            assert_eq!(offset(LEVELS, "level_member", member), at, "{member}");
        }
        for (at, member) in ["what", "a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            assert_eq!(offset(LEVELS, "level_setup", member), 8 * at, "{member}");
        }
        for (member, at) in [
            ("job", 24),
            ("done", 48),
            ("skipped", 56),
            ("overruns", 64),
            ("late", 72),
            ("max_start_ns", 80),
            ("max_response_ns", 88),
            ("max_tardy_ns", 96),
            ("max_used_ns", 104),
            ("ran_ns", 112),
            ("sum_response_ns", 120),
        ] {
            assert_eq!(offset(LEVELS, "level_task", member), at, "{member}");
        }
        let members = ["dispatches", "timers", "max_timer_ns", "max_lock_ns", "max_decide_ns", "decide_ns"];
        for (at, member) in members.into_iter().enumerate() {
            assert_eq!(offset(LEVELS, "level_cpu_run", member), 8 * at, "{member}");
        }
        for (member, at) in [("intruder_ns", 48), ("intrusions", 56), ("lost_ns", 64), ("slots", 112)] {
            assert_eq!(offset(LEVELS, "level_cpu_run", member), at, "{member}");
        }
    }

    #[test]
    fn what_is_asked_of_the_programs() {
        let task =
            Setup::Task { id: 7, level: 2, core: 3, period_ns: 10, pet_ns: 4, first_ns: 5, partition: 1, rank: 9 };
        let words: Vec<u64> = task.encode().chunks(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, [1, 7, 2 << 32 | 3, 10, 4, 5, 1 << 32 | 9]);
    }

    #[test]
    fn an_intruder_is_described() {
        let said = Intruder::decode(&intruders::tests::rude()).text();
        assert_eq!(
            said,
            "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time; lost: level A 1.500 ms"
        );
    }
}
