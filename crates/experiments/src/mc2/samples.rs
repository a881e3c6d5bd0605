//! Execution times of jobs: the longest and the mean.
//!
//! Problem: jobs that contend become slower, so a fixed time gives each scenario another number of
//! them. Rule: a run goes on until it has as many jobs as are wanted, after some that warm the
//! caches.

use crate::run::machine;
use crate::{Context, ExperimentError};
use solocore_sim::board::{Board, BoardError};
use solocore_sim::hardware::Hardware;
use solocore_sim::kernel::{JobReport, KernelConfig, Observer};

/// Execution times of a task's jobs, or the times between its marks 0 and 1.
pub struct Samples {
    task: usize,
    by_marks: bool,
    /// Jobs that are not counted, so that the caches are warm.
    skip: u64,
    wanted: u64,
    count: u64,
    sum_ps: u64,
    /// MOET: the longest.
    max_ps: u64,
    begun_ps: u64,
}

impl Samples {
    pub fn jobs(task: usize, skip: u64, wanted: u64) -> Self {
        Self { task, by_marks: false, skip, wanted, count: 0, sum_ps: 0, max_ps: 0, begun_ps: 0 }
    }

    pub fn marks(task: usize, skip: u64, wanted: u64) -> Self {
        Self { by_marks: true, ..Self::jobs(task, skip, wanted) }
    }

    fn add(&mut self, ps: u64) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.count < self.wanted {
            self.count += 1;
            self.sum_ps += ps;
            self.max_ps = self.max_ps.max(ps);
        }
    }

    /// ACET: the mean.
    fn mean_ps(&self) -> f64 {
        self.sum_ps as f64 / self.count.max(1) as f64
    }

    /// MOET and ACET in microseconds.
    pub fn times(&self) -> Times {
        Times { moet_us: self.max_ps as f64 / 1e6, acet_us: self.mean_ps() / 1e6 }
    }
}

/// Maximum observed and average-case execution time.
#[derive(Clone, Copy)]
pub struct Times {
    pub moet_us: f64,
    pub acet_us: f64,
}

struct Watch<'a>(&'a mut [Samples]);

impl Observer for Watch<'_> {
    fn job_finished(&mut self, job: JobReport) {
        for s in self.0.iter_mut().filter(|s| !s.by_marks && s.task == job.task) {
            s.add(job.execution_ps);
        }
    }

    fn marked(&mut self, task: usize, mark: u32, now_ps: u64) {
        for s in self.0.iter_mut().filter(|s| s.by_marks && s.task == task) {
            match mark {
                0 => s.begun_ps = now_ps,
                _ => s.add(now_ps - s.begun_ps),
            }
        }
    }
}

/// Runs, `step_ps` at a time, until all samples have been taken; bytes that devices moved, and the
/// simulated time.
pub fn take(
    context: &Context,
    board: Board,
    kernel: KernelConfig,
    step_ps: u64,
    samples: &mut [Samples],
) -> Result<(u64, u64), ExperimentError> {
    /// Most steps of a run; one without its samples by then would never get them.
    const MOST: u64 = 10_000;
    let line = board.platform().llc.line.0;
    let mut kernel = machine(context, board, kernel)?;
    let mut stop = |_| (context.progress)(f64::NAN);
    for step in 1..=MOST {
        kernel.run(step * step_ps, &mut Watch(samples), &mut stop).map_err(BoardError::from)?;
        if samples.iter().all(|s| s.count == s.wanted) {
            return Ok((kernel.hardware().uncore().device * line, kernel.now_ps()));
        }
    }
    Err(ExperimentError::Setup(format!(
        "a task has not run {} jobs in {MOST} steps",
        samples[0].wanted
    )))
}

/// Per cent with one decimal, for people.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
