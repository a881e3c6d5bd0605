//! The structs of `bpf/levels_intf.h` in Rust.

use crate::contract::{self, level_cpu_run, level_setup, level_task, sched_intruder};
use crate::schedule::intruders;
use solocore_model::run::{RunLevelCpu, RunLevelIntruder, RunLevelTask, RunLost};

/// `LEVEL_PARTITIONS`.
pub(super) const MOST_PARTITIONS: usize = contract::LEVEL_PARTITIONS as usize;
/// `SC_MAX_TASKS` of the object.
pub(super) const MOST_TASKS: usize = 1024;
/// `LEVEL_WINDOW`.
pub(super) const WINDOW: u64 = contract::LEVEL_WINDOW as u64;
/// Requests to the program `setup`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setup {
    /// CPU, and the present time.
    Core(u64, u64),
    /// Number, level, core, period, PET, first release, partition and rank of a task.
    Task {
        id: u64,
        level: u64,
        core: u64,
        period_ns: u64,
        pet_ns: u64,
        first_ns: u64,
        partition: u64,
        rank: u64,
    },
    /// CPU, origin, frame.
    Table(u64, u64, u64),
    /// CPU, start, end, task.
    Slot(u64, u64, u64, u64),
}

impl Setup {
    /// The struct that the program reads.
    pub fn encode(self) -> level_setup {
        let (what, [a, b, c, d, e, f]) = match self {
            Self::Core(cpu, now) => (contract::LEVEL_SETUP_CORE, [cpu, now, 0, 0, 0, 0]),
            Self::Task { id, level, core, period_ns, pet_ns, first_ns, partition, rank } => (
                contract::LEVEL_SETUP_TASK,
                [id, level << 32 | core, period_ns, pet_ns, first_ns, partition << 32 | rank],
            ),
            Self::Table(cpu, origin, frame) => {
                (contract::LEVEL_SETUP_TABLE, [cpu, origin, frame, 0, 0, 0])
            }
            Self::Slot(cpu, start, end, whose) => {
                (contract::LEVEL_SETUP_SLOT, [cpu, start, end, whose, 0, 0])
            }
        };
        level_setup { what: what.into(), a, b, c, d, e, f }
    }
}

/// Adds the programs' counts to a task.
pub(super) fn add_counts(task: &mut RunLevelTask, seen: &level_task) {
    task.jobs = seen.job;
    task.completed = seen.done;
    task.skipped = seen.skipped;
    task.overruns = seen.overruns;
    task.late = seen.late;
    task.max_start_late_ns = seen.max_start_ns;
    task.max_response_ns = seen.max_response_ns;
    task.max_tardiness_ns = seen.max_tardy_ns;
    task.max_charged_ns = seen.max_used_ns;
    task.ran_ns = seen.ran_ns;
    task.mean_response_ns = seen.sum_response_ns.checked_div(task.completed).unwrap_or(0);
}

fn lost([a_ns, b_ns, c_ns, d_ns, idle_ns, window_ns]: [u64; 6]) -> RunLost {
    RunLost { a_ns, b_ns, c_ns, d_ns, idle_ns, window_ns }
}

/// Counts of a CPU.
pub(super) fn cpu(cpu: u32, seen: &level_cpu_run) -> RunLevelCpu {
    RunLevelCpu {
        cpu,
        decisions: seen.dispatches,
        timers: seen.timers,
        max_timer_late_ns: seen.max_timer_ns,
        max_lock_ns: seen.max_lock_ns,
        max_decision_ns: seen.max_decide_ns,
        mean_decision_ns: seen.decide_ns.checked_div(seen.dispatches).unwrap_or(0),
        intruder_ns: seen.intruder_ns,
        intrusions: seen.intrusions,
        lost: lost(seen.lost_ns),
        windows: seen.slots,
    }
}

/// A real-time thread.
pub(super) fn intruder(seen: &sched_intruder) -> RunLevelIntruder {
    RunLevelIntruder { seen: intruders::decode(seen), lost: lost(seen.lost_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::intruders;

    #[test]
    fn what_is_asked_of_the_programs() {
        let task = Setup::Task {
            id: 7,
            level: 2,
            core: 3,
            period_ns: 10,
            pet_ns: 4,
            first_ns: 5,
            partition: 1,
            rank: 9,
        };
        let level_setup { what, a, b, c, d, e, f } = task.encode();
        assert_eq!([what, a, b, c, d, e, f], [1, 7, 2 << 32 | 3, 10, 4, 5, 1 << 32 | 9]);
    }

    #[test]
    fn an_intruder_is_described() {
        let said = intruder(&intruders::tests::rude()).text();
        assert_eq!(
            said,
            "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time; lost: \
                level A 1.500 ms"
        );
    }
}
