//! Common parts of MARACAS' experiments: its board, VCPUs, `m_jump`, and the profile of Fig. 5.
//!
//! Set-up: section VI and Table I. Five or ten minutes are simulated in whole intervals
//! (`Board::fluid`). Instructions retired are cycles of computation: the platform's cycles per
//! instruction are 1.

use crate::run::{MS, finish, intervals, platform, points};
use crate::{Context, ExperimentError, Mutation, Scale};
use solocore_model::Cycles;
use solocore_sim::board::Board;
use solocore_sim::kernel::config::{Background, SchedulerSpec, ThrottleSpec, VcpuConfig, VcpuSpec};
use solocore_sim::kernel::{KernelConfig, KernelResult, Unobserved};
use solocore_sim::workload::Job;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::MJump;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// Table I.
const BOARD: &str = "core-i5-2500k";
/// A second in ps.
pub const SECOND: u64 = 1000 * MS;
/// MEM_PERIOD of section VI-B.
pub const MEM_PERIOD: u64 = 2 * SECOND;
/// Core clock, GHz: latencies are told in its cycles, as in the paper.
pub const GHZ: f64 = 3.3;
/// Line of the board, bytes.
pub const LINE: u64 = 64;

/// Cycles put between the accesses of task1 and task2 in Fig. 5, by run. The text names none. From
/// Table II: at E1 the three make a read every 340 cycles each (1128 GB of reads and write-backs).
/// At E3 task3 makes 43 % more and all together 13 % fewer, so task1 and task2 about 40 % fewer.
/// That is some 300 cycles of delay. The runs go there in steps of 50, and twice as far.
pub const DELAYS: [u64; 9] = [25, 50, 100, 150, 200, 250, 300, 400, 600];

/// The machine of Table I. The way of a request to the memory follows from Table II: 157 cycles at
/// E3. Each access of `m_jump` is 8 KB further, in another row, so these cycles have a precharge.
/// The platform's file supposes that they have none, which is on the safe side for bounds. Here it
/// would make each access slower by a precharge.
///
/// # Errors
/// When there is no such board.
pub fn board(context: &Context) -> Result<Board, ExperimentError> {
    let platform = platform(BOARD)?;
    let mut board = Board::new(&platform, context.seed)?;
    let precharge_ps = platform.dram.t_rp.ps();
    board.config.overhead_ps = board.config.overhead_ps.saturating_sub(precharge_ps);
    Ok(board)
}

/// A VCPU on a core, in ms.
pub const fn vcpu(capacity_ms: u64, period_ms: u64, core: usize) -> VcpuSpec {
    VcpuSpec {
        capacity_ps: capacity_ms * MS,
        period_ps: period_ms * MS,
        core: Some(core),
        colours: 0,
    }
}

/// VCPU scheduling with background time, throttled or not.
pub fn scheduled(vcpus: Vec<VcpuSpec>, throttle: Option<ThrottleSpec>) -> KernelConfig {
    let vcpus = VcpuConfig {
        vcpus,
        background: Some(Background::default()),
        throttle,
        ..VcpuConfig::default()
    };
    KernelConfig { scheduler: SchedulerSpec::Vcpu(vcpus), ..KernelConfig::default() }
}

/// `m_jump` of Code 1, pass after pass, one request at a time. Table II says so: the traffic of E1,
/// 58.8 million lines a second, times its latency, 228 cycles, is 4.1 requests under way (Little's
/// law), for three tasks and with the write-backs. From E1 to E3 task3's progress times the latency
/// is constant within 2 %.
pub fn m_jump(delay: u64) -> WorkloadSpec {
    let delay = Cycles(delay);
    WorkloadSpec::MJump(MJump {
        delay,
        dependent: true,
        job: Some(Job::Passes(1)),
        ..MJump::default()
    })
}

/// A run of `ps` in whole intervals.
pub fn fluid(
    context: &Context,
    board: Board,
    kernel: KernelConfig,
    ps: u64,
) -> Result<KernelResult, ExperimentError> {
    finish(context, intervals(context, board, kernel)?, ps, &mut Unobserved)
}

/// Mean request latency in core cycles.
pub fn latency_cycles(result: &KernelResult) -> f64 {
    result.mean_latency_ps() as f64 * GHZ / 1e3
}

/// Bus traffic in GB in five minutes, for any simulated time.
pub fn traffic_gb(result: &KernelResult) -> f64 {
    let lines = (result.uncore.reads + result.uncore.writes) as f64;
    lines * LINE as f64 / 1e9 * (300.0 * SECOND as f64 / result.simulated_ps as f64)
}

/// Instructions in the foreground in five minutes, in 10^8.
pub fn foreground(result: &KernelResult, task: usize) -> f64 {
    let cycles = result.tasks[task].foreground.compute_cycles as f64;
    cycles / 1e8 * (300.0 * SECOND as f64 / result.simulated_ps as f64)
}

/// Three `m_jump`, (C, T) = (20, 40), (25, 50), (30, 60) ms on cores of their own; the first two
/// with a delay.
pub fn three(
    context: &Context,
    delay: u64,
    throttle: Option<ThrottleSpec>,
    ps: u64,
) -> Result<KernelResult, ExperimentError> {
    let delay = if context.mutated(Mutation::SameLoad) { 0 } else { delay };
    let mut board = board(context)?;
    for task in 0..3 {
        let index =
            board.add(&format!("task{}", task + 1), &m_jump(if task < 2 { delay } else { 0 }))?;
        board.task(index).vcpu = Some(task);
    }
    let vcpus = vec![vcpu(20, 40, 0), vcpu(25, 50, 1), vcpu(30, 60, 2)];
    fluid(context, board, scheduled(vcpus, throttle), ps)
}

/// A run of Fig. 5.
#[derive(Clone, Copy)]
pub struct Profiled {
    pub delay: u64,
    pub latency: f64,
    pub traffic: f64,
    pub instructions: f64,
}

type Cached = Mutex<HashMap<(bool, u64, Option<Mutation>), Vec<Profiled>>>;

/// The profiles that this process has made: Figs. 5, 6 and 7 have the same.
static PROFILES: LazyLock<Cached> = LazyLock::new(Cached::default);

/// The runs of Fig. 5, by falling load.
pub fn profile(context: &Context) -> Result<Vec<Profiled>, ExperimentError> {
    let key = (context.scale == Scale::Full, context.seed, context.mutation);
    let cached = PROFILES.lock().ok().and_then(|made| made.get(&key).cloned());
    if let Some(runs) = cached {
        context.done(1.0)?;
        return Ok(runs);
    }
    // The lock is not held meanwhile: two callers at once compute the same.
    let runs = make_profile(context)?;
    if let Ok(mut made) = PROFILES.lock() {
        made.insert(key, runs.clone());
    }
    Ok(runs)
}

fn make_profile(context: &Context) -> Result<Vec<Profiled>, ExperimentError> {
    let ps = context.pick(20, 300) * SECOND;
    points(context, &DELAYS, |&delay| {
        let result = three(context, delay, None, ps)?;
        let (latency, traffic) = (latency_cycles(&result), traffic_gb(&result));
        Ok(Profiled { delay, latency, traffic, instructions: foreground(&result, 2) })
    })
}

/// E1, E2, E3: runs that straddle the crossing of the two curves, each curve drawn over its own
/// range. E2 is the run nearest the crossing; E1 and E3 are its neighbours of higher and of lower
/// latency.
pub fn thresholds(runs: &[Profiled]) -> [Profiled; 3] {
    let share = |of: fn(&Profiled) -> f64, p: &Profiled| {
        let low = runs.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = runs.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (of(p) - low) / (high - low).max(f64::MIN_POSITIVE)
    };
    let apart = |p: &Profiled| (share(|q| q.traffic, p) - share(|q| q.instructions, p)).abs();
    let mut order: Vec<Profiled> = runs.to_vec();
    order.sort_by(|a, b| b.latency.total_cmp(&a.latency));
    let inner = 1..order.len() - 1;
    let at = inner.min_by(|&a, &b| apart(&order[a]).total_cmp(&apart(&order[b]))).unwrap_or(1);
    [order[at - 1], order[at], order[at + 1]]
}

/// IDLE_MEM, which the paper does not state: traffic has fallen by half.
const IDLE_PER_MILLE: u32 = 500;

/// Throttling with MAX_MEM_LAT in cycles.
pub fn by_latency(cycles: f64) -> ThrottleSpec {
    let threshold = (cycles * 1e3 / GHZ).round() as u64;
    throttle(solocore_sim::kernel::config::Rule::Latency, threshold)
}

/// Throttling at a traffic told in GB in five minutes: requests in a MEM_PERIOD.
pub fn by_rate(gb: f64) -> ThrottleSpec {
    let threshold =
        (gb * 1e9 / LINE as f64 * MEM_PERIOD as f64 / (300.0 * SECOND as f64)).round() as u64;
    throttle(solocore_sim::kernel::config::Rule::Rate, threshold)
}

fn throttle(rule: solocore_sim::kernel::config::Rule, threshold: u64) -> ThrottleSpec {
    ThrottleSpec {
        rule,
        threshold: threshold.max(1),
        idle_per_mille: IDLE_PER_MILLE,
        period_ps: MEM_PERIOD,
        check_ps: MS,
    }
}
