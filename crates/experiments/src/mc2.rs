//! MC2 on OS isolation: Figs. 8, 10, 12, 13, 14 and Table 1, on its board, the i.MX6 Quad.
//!
//! Set-up of all (section 2, Fig. 3): core k has bank k for levels A and B; banks 4 to 7 are those of level C and of the OS.
//! Ways of the shared cache are split in the same manner; where the boundaries lie is each experiment's, as in the paper.
//! Each task is on its core: what is measured is what tasks do to each other through memory, and the levels' scheduling
//! changes nothing in that, so priorities stand for levels. Bank interleaving is off, so the bank is the top of the address
//! and a task with one bank reaches every set of the cache.
//!
//! Fig. 11 is Fig. 10 with its absolute times, and Fig. 15 is `solocore study`.

mod dma;
mod ipc;
mod matrix;
mod sharing;
mod video;

use crate::run::platform;
use crate::{Context, Experiment, ExperimentError};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::hardware::Hardware;
use solocore_sim::kernel::{JobReport, KernelConfig, Observer};
use solocore_sim::machine::{DmaSpec, Stream};
use solocore_sim::workload::params::Synthetic;
use solocore_sim::workload::{Job, WorkloadSpec};

/// The experiments of the paper.
pub const ALL: &[Experiment] = &[ipc::FIG8, video::FIG10, matrix::FIG12, dma::FIG13, dma::FIG14, sharing::TABLE1];

/// Banks of level C and of the OS.
const LEVEL_C: [u32; 4] = [4, 5, 6, 7];
/// The bank of level C in which small footprints lie: without bank interleaving a bank is 128 MiB in one piece, and an
/// allocator fills one after the other.
const FIRST_C: u32 = LEVEL_C[0];

fn board(context: &Context) -> Result<Board, ExperimentError> {
    let mut board = Board::new(&platform("imx6q")?, context.seed)?;
    // The memory's own order has rows above banks, whose bits would then choose sets of the cache as well.
    let order = ["bank", "bank_group", "rank", "row", "column", "channel"];
    board.config.memory.map.order = order.map(str::to_owned).to_vec();
    Ok(board)
}

/// `count` ways from `first` on.
fn ways(first: u32, count: u32) -> u64 {
    ((1 << count) - 1) << first
}

/// Adds a task on a core whose misses allocate in `mask`.
fn add(board: &mut Board, name: &str, core: usize, mask: u64, spec: &WorkloadSpec, place: &Place) -> Added {
    add_regions(board, name, core, mask, spec, place, &[])
}

type Added = Result<usize, BoardError>;

fn add_regions(
    board: &mut Board,
    name: &str,
    core: usize,
    mask: u64,
    spec: &WorkloadSpec,
    place: &Place,
    regions: &[(&str, Place)],
) -> Added {
    let task = board.add_regions(name, spec, place, regions)?;
    board.space(task).ways = mask;
    board.task(task).core = Some(core);
    Ok(task)
}

/// Synthetic: writes to random lines, as fast as it can.
fn synthetic(size: Bytes, job: Option<Job>) -> WorkloadSpec {
    WorkloadSpec::Synthetic(Synthetic { size, gap: Cycles(8), job })
}

/// An engine that moves bursts of 128 bytes (assumed: 16 beats of the 64-bit bus), `outstanding` lines under way.
fn engine(name: &str, frames: Vec<u64>, wait_ps: u64, autonomous: Option<Stream>) -> DmaSpec {
    DmaSpec { name: name.to_owned(), frames, block_lines: 4, wait_ps, outstanding: 4, autonomous }
}

/// Execution times of a task's jobs, or the times between its marks 0 and 1.
struct Samples {
    task: usize,
    by_marks: bool,
    /// Warm caches: so many are not counted.
    skip: u64,
    wanted: u64,
    count: u64,
    sum_ps: u64,
    /// MOET: the longest.
    max_ps: u64,
    begun_ps: u64,
}

impl Samples {
    fn jobs(task: usize, skip: u64, wanted: u64) -> Self {
        Self { task, by_marks: false, skip, wanted, count: 0, sum_ps: 0, max_ps: 0, begun_ps: 0 }
    }

    fn marks(task: usize, skip: u64, wanted: u64) -> Self {
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
    fn times(&self) -> Times {
        Times { moet_us: self.max_ps as f64 / 1e6, acet_us: self.mean_ps() / 1e6 }
    }
}

/// Maximum observed and average-case execution time.
#[derive(Clone, Copy)]
struct Times {
    moet_us: f64,
    acet_us: f64,
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

/// Runs, `step_ps` at a time, until all samples have been taken; bytes that devices moved, and the simulated time.
fn take(
    context: &Context,
    board: Board,
    kernel: KernelConfig,
    step_ps: u64,
    samples: &mut [Samples],
) -> Result<(u64, u64), ExperimentError> {
    /// A run that has not come to its samples after so many steps never will.
    const MOST: u64 = 10_000;
    let line = board.platform().llc.line.0;
    let mut kernel = board.requests(kernel)?;
    let mut stop = |_| (context.progress)(f64::NAN);
    for step in 1..=MOST {
        kernel.run(step * step_ps, &mut Watch(samples), &mut stop).map_err(BoardError::from)?;
        if samples.iter().all(|s| s.count == s.wanted) {
            return Ok((kernel.hardware().uncore().device * line, kernel.now_ps()));
        }
    }
    Err(ExperimentError::Setup(format!("a task has not run {} jobs in {MOST} steps", samples[0].wanted)))
}

/// Per cent with one decimal, for people.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
