//! Runs a scenario and reports its results.

use super::{Prepared, Resolution, Scenario};
use crate::board::BoardError;
use crate::hardware::{Counters, Hardware};
use crate::kernel::config::SchedulerSpec;
use crate::kernel::{Decisions, Kernel, KernelError, KernelResult, Timeline};
use crate::plan::SimError;
use schemars::JsonSchema;
use serde::Serialize;
use solocore_model::results::Segment;
use solocore_model::sched_trace::SchedTrace;

const PS: u64 = 1000;
/// Most segments of a timeline; a browser cannot draw more.
const MOST_SEGMENTS: usize = 1 << 22;

/// Results of a task. Times in nanoseconds, counts over the whole run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskReport {
    /// Name of the task.
    pub name: String,
    /// Its core, where the file states one.
    pub core: Option<usize>,
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that missed their deadline, also jobs without an end.
    pub misses_deadline: u64,
    /// Longest execution time of a job.
    pub moet_ns: u64,
    /// Mean execution time of a job.
    pub acet_ns: u64,
    /// Longest response time of a job.
    pub max_response_ns: u64,
    /// Response time that 99 of 100 jobs do not exceed.
    pub p99_response_ns: u64,
    /// Time on a core, with stalls.
    pub busy_ns: u64,
    /// Cycles of computation without stalls.
    pub compute_cycles: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Accesses to the shared cache.
    pub llc_accesses: u64,
    /// Misses of the shared cache.
    pub llc_misses: u64,
    /// Lines read from DRAM.
    pub dram_reads: u64,
    /// Lines written to DRAM.
    pub dram_writes: u64,
    /// Number of times that another task took the core from a job.
    pub preemptions: u64,
    /// Number of times that it continued on another core.
    pub migrations: u64,
    /// Time in the foreground, throttling included.
    pub foreground_ns: u64,
    /// Time in the background, throttling included.
    pub background_ns: u64,
}

/// Results of a core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreReport {
    /// Number of the core.
    pub id: usize,
    /// DRAM accesses.
    pub accesses: u64,
    /// Time for which the regulator stopped a chosen task.
    pub throttled_ns: u64,
    /// Time for which a task ran, with stalls.
    pub busy_ns: u64,
    /// Time without a chosen task.
    pub idle_ns: u64,
    /// Time of the kernel's own work.
    pub overhead_ns: u64,
    /// Most accesses in one period of the regulator, or of `count_period`.
    pub max_accesses_per_period: u64,
}

/// Counts of the memory controller.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UncoreReport {
    /// Reads of cores.
    pub reads: u64,
    /// Writes of cores.
    pub writes: u64,
    /// Accesses of devices.
    pub device: u64,
    /// Mean time of a read from arrival at the controller to data, ns.
    pub mean_latency_ns: f64,
}

/// The result of a scenario.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScenarioResult {
    /// `solocore-scenario/1`.
    pub format: &'static str,
    /// `requests` or `fluid`.
    pub resolution: &'static str,
    /// The seed.
    pub seed: u64,
    /// Bytes of a line, which is one access.
    pub line_bytes: u64,
    /// In the order of the file.
    pub tasks: Vec<TaskReport>,
    /// By number.
    pub cores: Vec<CoreReport>,
    /// The memory controller.
    pub uncore: UncoreReport,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Wall-clock time of the simulation.
    pub wall_ns: u64,
    /// Accesses by operations.
    pub requests: u64,
    /// First stretch of the schedule, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Segment>,
    /// Every decision, where VCPUs are scheduled and a trace was asked for.
    #[serde(skip)]
    pub sched_trace: Option<SchedTrace>,
}

/// Runs it for its duration, with a timeline of the first stretch, and a trace of VCPUs' decisions
/// if `traced`. `progress` is told the share done and stops the run by returning false.
///
/// # Errors
/// The part of the file that the board cannot do, with the file's name.
pub fn run(
    scenario: &Scenario,
    prepared: Prepared,
    timeline_ns: u64,
    traced: bool,
    progress: &dyn Fn(f64) -> bool,
) -> Result<ScenarioResult, SimError> {
    let started = std::time::Instant::now();
    let named = |error: BoardError| match SimError::from(error) {
        SimError::Input(what) => SimError::Input(format!("{}: {what}", scenario.path.display())),
        other => other,
    };
    let Prepared { board, kernel, resolution, duration_ps } = prepared;
    let timeline = Timeline::new(timeline_ns.saturating_mul(PS), MOST_SEGMENTS);
    let watch = match &kernel.scheduler {
        SchedulerSpec::Vcpu(config) if traced => Decisions::of_vcpus(
            timeline,
            config,
            vcpus_of(scenario),
            board.platform().cores as usize,
        ),
        _ => Decisions::none(timeline),
    };
    let (result, watch) = match resolution {
        Resolution::Requests => {
            finish(board.requests(kernel).map_err(named)?, duration_ps, watch, progress)
        }
        Resolution::Fluid => {
            let kernel = board.fluid(kernel, &|| progress(0.0)).map_err(named)?;
            finish(kernel, duration_ps, watch, progress)
        }
    }
    .map_err(named)?;
    let mut out = report(scenario, &result);
    let (timeline, trace) = watch.finish();
    out.timeline = timeline.segments();
    out.sched_trace = trace;
    out.wall_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(out)
}

/// VCPU of each task.
fn vcpus_of(scenario: &Scenario) -> Vec<usize> {
    let of =
        |name: &Option<String>| scenario.vcpus.iter().position(|v| Some(&v.name) == name.as_ref());
    scenario.tasks.iter().map(|(task, _)| of(&task.vcpu).unwrap_or(usize::MAX)).collect()
}

fn finish<H: Hardware>(
    mut kernel: Kernel<H>,
    end_ps: u64,
    mut watch: Decisions,
    progress: &dyn Fn(f64) -> bool,
) -> Result<(KernelResult, Decisions), BoardError> {
    // The scenario is right: the observers may be told.
    if !progress(0.0) {
        return Err(KernelError::Interrupted.into());
    }
    kernel.run(end_ps, &mut watch, &mut |now| progress(now as f64 / end_ps as f64))?;
    let result = kernel.finish(&mut watch);
    Ok((result, watch))
}

fn report(scenario: &Scenario, result: &KernelResult) -> ScenarioResult {
    let tasks = result.tasks.iter().zip(&scenario.tasks).map(|(t, (entry, _))| {
        let c: Counters = t.counters;
        TaskReport {
            name: t.name.clone(),
            core: entry.core,
            jobs: t.jobs,
            misses_deadline: t.deadline_misses,
            moet_ns: t.execution.max_ps().div_ceil(PS),
            acet_ns: t.execution.mean_ps() / PS,
            max_response_ns: t.response.max_ps().div_ceil(PS),
            p99_response_ns: t.response.percentile_ps(990).div_ceil(PS),
            busy_ns: c.busy_ps / PS,
            compute_cycles: c.compute_cycles,
            accesses: c.accesses,
            llc_accesses: c.llc_accesses,
            llc_misses: c.llc_misses,
            dram_reads: c.dram_reads,
            dram_writes: c.dram_writes,
            preemptions: t.preemptions,
            migrations: t.migrations,
            foreground_ns: t.foreground_ps / PS,
            background_ns: t.background_ps / PS,
        }
    });
    let cores = result.cores.iter().enumerate().map(|(id, c)| CoreReport {
        id,
        accesses: c.counters.transactions(),
        throttled_ns: c.throttled_ps / PS,
        busy_ns: c.busy_ps / PS,
        idle_ns: c.idle_ps / PS,
        overhead_ns: c.overhead_ps / PS,
        max_accesses_per_period: c.max_transactions_per_period,
    });
    ScenarioResult {
        format: "solocore-scenario/1",
        resolution: match scenario.simulation.resolution {
            Resolution::Requests => "requests",
            Resolution::Fluid => "fluid",
        },
        seed: scenario.simulation.seed,
        line_bytes: scenario.platform.llc.line.0,
        tasks: tasks.collect(),
        cores: cores.collect(),
        uncore: UncoreReport {
            reads: result.uncore.reads,
            writes: result.uncore.writes,
            device: result.uncore.device,
            mean_latency_ns: result.mean_latency_ps() as f64 / PS as f64,
        },
        simulated_ns: result.simulated_ps / PS,
        wall_ns: 0,
        requests: result.cores.iter().map(|c| c.counters.accesses).sum(),
        timeline: Vec::new(),
        sched_trace: None,
    }
}
