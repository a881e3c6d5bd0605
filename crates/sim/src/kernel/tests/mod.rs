//! Whole systems on the test board, against schedules worked out by hand and against naive models.

mod machine;
mod properties;
mod refused;
mod regulators;
mod schedulers;
mod speed;

use super::config::*;
use super::test_board::*;
use super::{JobReport, Kernel, KernelResult, Observer, RunMode, Timeline, Unobserved};
use crate::hardware::ProgramId;
use crate::program::Op;

/// A task on program `p` and core `core`, of this priority.
fn task(p: u32, core: usize, priority: u32) -> TaskSpec {
    TaskSpec { core: Some(core), priority, ..TaskSpec::new(format!("t{p}"), ProgramId(p)) }
}

/// The same with a period, and a deadline at its end; in ns.
fn periodic(p: u32, core: usize, priority: u32, period: u64) -> TaskSpec {
    let release = Release::Periodic { period_ps: period * NS, phase_ps: 0, jitter_ps: 0 };
    TaskSpec { release, deadline_ps: Some(period * NS), ..task(p, core, priority) }
}

fn at(times_ns: &[u64]) -> Release {
    Release::At(times_ns.iter().map(|t| t * NS).collect())
}

/// Runs for this number of ns.
fn run(
    board: TestBoard,
    config: KernelConfig,
    tasks: Vec<TaskSpec>,
    ns: u64,
) -> (KernelResult, TestBoard) {
    run_watched(board, config, tasks, ns, &mut Unobserved)
}

fn run_watched(
    board: TestBoard,
    config: KernelConfig,
    tasks: Vec<TaskSpec>,
    ns: u64,
    observer: &mut dyn Observer,
) -> (KernelResult, TestBoard) {
    let mut kernel = Kernel::new(board, config, tasks).unwrap();
    kernel.run(ns * NS, observer, &mut |_| true).unwrap();
    let board = kernel.hardware().clone();
    let result = kernel.finish(observer);
    for core in &result.cores {
        assert_eq!(
            core.busy_ps + core.throttled_ps + core.idle_ps + core.overhead_ps,
            ns * NS,
            "{core:?}"
        );
    }
    (result, board)
}

/// Records what tests check. Times in ns.
#[derive(Default)]
struct Watch {
    /// (task, arrival, end).
    jobs: Vec<(usize, u64, u64)>,
    modes: Vec<(u64, usize, usize, RunMode)>,
    periods: Vec<Vec<u64>>,
    throttled: Vec<(u64, usize, bool)>,
    moves: Vec<(usize, usize, usize, u64)>,
    monitored: Vec<(bool, u32)>,
    marks: Vec<(usize, u32, u64)>,
    released: Vec<(usize, u64, u64)>,
}

impl Observer for Watch {
    fn job_released(&mut self, task: usize, arrival_ps: u64, now_ps: u64) {
        self.released.push((task, arrival_ps / NS, now_ps / NS));
    }
    fn job_finished(&mut self, job: JobReport) {
        self.jobs.push((job.task, job.arrival_ps / NS, job.end_ps / NS));
    }
    fn dispatched(&mut self, core: usize, task: Option<usize>, mode: RunMode, now_ps: u64) {
        self.modes.push((now_ps / NS, core, task.unwrap_or(99), mode));
    }
    fn mode_changed(&mut self, core: usize, task: usize, mode: RunMode, now_ps: u64) {
        self.modes.push((now_ps / NS, core, task, mode));
    }
    fn throttled(&mut self, core: usize, stopped: bool, now_ps: u64) {
        self.throttled.push((now_ps / NS, core, stopped));
    }
    fn period_ended(&mut self, core: usize, transactions: u64, _: u64) {
        self.periods.resize_with(self.periods.len().max(core + 1), Vec::new);
        self.periods[core].push(transactions);
    }
    fn vcpu_migrated(&mut self, vcpu: usize, from: usize, to: usize, now_ps: u64) {
        self.moves.push((vcpu, from, to, now_ps / NS));
    }
    fn monitored(&mut self, contended: bool, throttled_cores: u32, _: u64) {
        self.monitored.push((contended, throttled_cores));
    }
    fn marked(&mut self, task: usize, mark: u32, now_ps: u64) {
        self.marks.push((task, mark, now_ps / NS));
    }
}
