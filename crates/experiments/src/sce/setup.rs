//! Common parts of the experiments on the P4080: the co-runners, MemGuard's even split, and the
//! measurement of one job.
//!
//! Source: SCE sections 2.1, 3.1 and 4. A core's private banks are one bank of every rank (PALLOC).
//! A co-runner writes line after line over an array well beyond the shared cache, never waiting (a
//! "memory-intensive" task). `P` is 1 ms and every core's budget `P/(m L)`.

use crate::run::{MS, machine};
use crate::{Context, ExperimentError, Mutation};
use solocore_analysis::{Regulation, stall_paper};
use solocore_model::{Bytes, Platform};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::kernel::config::{Budget, RegulatorSpec, Release, Role, Sharing};
use solocore_sim::kernel::{JobReport, KernelConfig, Observer};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Access, BandwidthHog};

/// Time for which the co-runners run before a job is measured: then caches and queues are in their
/// steady state.
const LEAD_PS: u64 = 2 * MS;
/// A job that takes longer shows a mistake in the set-up.
const LONGEST_PS: u64 = 100_000 * MS;

/// `m` active cores that share the guaranteed bandwidth evenly.
pub fn regulation(platform: &Platform, active: u32) -> Regulation {
    Regulation { period_ps: MS, latency_ps: platform.latency_of_paper().ps(), cores: active }
}

/// `C_sce = C + Stall`, by eq. (1).
pub fn c_sce(context: &Context, regulation: &Regulation, solo: Job) -> u64 {
    if context.mutated(Mutation::NoStall) {
        return solo.execution_ps;
    }
    solo.execution_ps.saturating_add(stall_paper(regulation, solo.transactions))
}

/// MemGuard with the even split on every core; reads and write-backs count together, as the P4080's
/// event unit counts accesses of the DRAM controller.
pub fn memguard(regulation: &Regulation, cores: u32) -> KernelConfig {
    let core = (Budget::Together(regulation.even_budget()), Role::default());
    let regulator = RegulatorSpec::MemGuard {
        period_ps: regulation.period_ps,
        cores: vec![core; cores as usize],
        sharing: Sharing::None,
        chunk: 1,
    };
    KernelConfig { regulator, ..KernelConfig::default() }
}

/// The private banks of a core: one of each rank where there are as many cores as banks in a rank.
pub fn own_banks(platform: &Platform, core: u32) -> Vec<u32> {
    (core..platform.total_banks()).step_by(platform.cores as usize).collect()
}

/// Adds a memory-intensive task on a core.
pub fn hog(board: &mut Board, core: u32, place: &Place) -> Result<usize, BoardError> {
    let size = Bytes(8 * board.platform().llc.size.0);
    let spec = BandwidthHog { size, access: Access::Write, ..BandwidthHog::default() };
    let task = board.add_at(&format!("hog {core}"), &WorkloadSpec::Bandwidth(spec), place)?;
    board.task(task).core = Some(core as usize);
    Ok(task)
}

/// Execution times of the jobs of task 0, in order.
#[derive(Default)]
pub struct Jobs(pub Vec<u64>);

impl Observer for Jobs {
    fn job_finished(&mut self, job: JobReport) {
        if job.task == 0 {
            self.0.push(job.execution_ps);
        }
    }
}

/// Measurements of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Time it was chosen to run, throttling included.
    pub execution_ps: u64,
    /// DRAM accesses: `mu`.
    pub transactions: u64,
}

impl Job {
    /// The larger of both in each figure: worst cases over several jobs.
    pub fn worst(jobs: &[Self]) -> Self {
        Self {
            execution_ps: jobs.iter().map(|j| j.execution_ps).max().unwrap_or(0),
            transactions: jobs.iter().map(|j| j.transactions).max().unwrap_or(0),
        }
    }
}

/// Runs one job of task 0, released at a point of the regulation period that follows from `index`,
/// and nothing of it after.
pub fn one_job(
    context: &Context,
    board: Board,
    config: KernelConfig,
    index: u64,
) -> Result<Job, ExperimentError> {
    // Multiples of the golden ratio: any number of them lies evenly over the period.
    let phase =
        u64::try_from(u128::from(index) * 618_034 % 1_000_000).unwrap_or(0) * (MS / 1_000_000);
    let (times, transactions) = jobs_at(context, board, config, vec![LEAD_PS + phase])?;
    Ok(Job { execution_ps: times[0], transactions })
}

/// The execution time of a job of task 0 that follows another one.
pub fn second_job(
    context: &Context,
    board: Board,
    config: KernelConfig,
) -> Result<u64, ExperimentError> {
    let (times, _) = jobs_at(context, board, config, vec![LEAD_PS, LEAD_PS + MS])?;
    Ok(times[1])
}

/// Execution times of jobs of task 0 that arrive at these times, and all their DRAM accesses.
fn jobs_at(
    context: &Context,
    mut board: Board,
    config: KernelConfig,
    arrivals: Vec<u64>,
) -> Result<(Vec<u64>, u64), ExperimentError> {
    let count = arrivals.len();
    board.task(0).release = Release::At(arrivals);
    let mut kernel = machine(context, board, config)?;
    let mut jobs = Jobs::default();
    let mut stop = |_| (context.progress)(f64::NAN);
    while jobs.0.len() < count {
        if kernel.now_ps() > LONGEST_PS {
            return Err(ExperimentError::Setup("a job does not end".to_owned()));
        }
        kernel.run(kernel.now_ps() + MS, &mut jobs, &mut stop).map_err(BoardError::from)?;
    }
    let result = kernel.finish(&mut jobs);
    Ok((jobs.0, result.tasks[0].counters.transactions()))
}
