//! `bpf/levels_intf.h` seen from here.

use crate::schedule::intruders::{self, half, word};
use solocore_model::run::{RunLevelCpu, RunLevelIntruder, RunLevelTask, RunLost};

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

/// Adds the programs' counts (`struct level_task`).
pub(super) fn add_counts(task: &mut RunLevelTask, bytes: &[u8]) {
    task.jobs = word(bytes, 24);
    task.completed = word(bytes, 48);
    task.skipped = word(bytes, 56);
    task.overruns = word(bytes, 64);
    task.late = word(bytes, 72);
    task.max_start_late_ns = word(bytes, 80);
    task.max_response_ns = word(bytes, 88);
    task.max_tardiness_ns = word(bytes, 96);
    task.max_charged_ns = word(bytes, 104);
    task.ran_ns = word(bytes, 112);
    task.mean_response_ns = word(bytes, 120).checked_div(task.completed).unwrap_or(0);
}

fn lost(bytes: &[u8], at: usize) -> RunLost {
    let of = |level: usize| word(bytes, at + 8 * level);
    RunLost { a_ns: of(0), b_ns: of(1), c_ns: of(2), d_ns: of(3), idle_ns: of(4), window_ns: of(5) }
}

/// A CPU, of the bytes of a `struct level_cpu_run`.
pub(super) fn cpu(cpu: u32, bytes: &[u8]) -> RunLevelCpu {
    let decisions = word(bytes, 0);
    RunLevelCpu {
        cpu,
        decisions,
        timers: word(bytes, 8),
        max_timer_late_ns: word(bytes, 16),
        max_lock_ns: word(bytes, 24),
        max_decision_ns: word(bytes, 32),
        mean_decision_ns: word(bytes, 40).checked_div(decisions).unwrap_or(0),
        intruder_ns: word(bytes, 48),
        intrusions: word(bytes, 56),
        lost: lost(bytes, 64),
        windows: word(bytes, 112),
    }
}

/// A real-time thread, of the bytes of a `struct sched_intruder`.
pub(super) fn intruder(bytes: &[u8]) -> RunLevelIntruder {
    RunLevelIntruder { seen: intruders::decode(bytes), lost: lost(bytes, intruders::LOST) }
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
        let said = intruder(&intruders::tests::rude()).text();
        assert_eq!(
            said,
            "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time; lost: level A 1.500 ms"
        );
    }
}
