//! Runs a plan: the same tasks alone, together on the plain machine, or together under the plan.
//!
//! Rule: the isolation that the plan promises is set up on the simulated board (banks, locked
//! pages, ways, budgets), and nothing else. A plan with partitions runs by its time table
//! (`partitions`), one with criticality levels by `levels`, one with VCPUs by `vcpus`. A task with
//! a promised deadline gets no hit in the shared cache outside its locked pages, as the bounds
//! count on none. Where pages lie anywhere, recorded programs share the whole cache.

mod levels;
mod lock;
pub(crate) mod options;
mod regions;
mod stand_in;
mod vcpus;

pub use options::{Options, SimError};
pub use stand_in::{StandIn, banks, layout};

use crate::board::{Board, BoardError, Place};
use crate::hardware::Hardware;
use crate::kernel::config::{
    Budget, RegulatorSpec, Release, Role, SchedulerSpec, Sharing, TaskBudget,
};
use crate::kernel::{Decisions, KernelConfig, KernelResult, Timeline};
use crate::program::PageKind;
use crate::windows::{self, Execution};
use crate::workload::params::{Profile as ProfileParams, Spread};
use crate::workload::{Job, WorkloadSpec};
use options::PS;
use solocore_model::Time;
use solocore_model::plan::{Plan, PlanCore, PlanTask};
use solocore_model::profile::PageName;
use solocore_model::results::{
    Activity, CoreResult, FORMAT, Mode, SimResult, TaskResult, TimelineJob,
};
use solocore_model::sched_trace::SchedTrace;
use solocore_model::system::{self, Criticality, Policy};
use std::collections::HashSet;
use std::path::Path;

/// Most segments of a timeline; a browser cannot draw more.
const MOST_SEGMENTS: usize = 1 << 22;

/// Runs the tasks of a plan. `progress` is called from time to time with the share done, 0 to 1,
/// and stops the simulation by returning false.
///
/// # Errors
/// [`SimError`].
pub fn simulate(
    plan: &Plan,
    options: &Options,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<SimResult, SimError> {
    simulate_traced(plan, options, false, progress).map(|done| done.0)
}

/// As [`simulate`]; if `traced`, and levels or VCPUs are scheduled, with a trace of every decision.
///
/// # Errors
/// [`SimError`].
pub fn simulate_traced(
    plan: &Plan,
    options: &Options,
    traced: bool,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<(SimResult, Option<SchedTrace>), SimError> {
    let started = std::time::Instant::now();
    let (mut result, trace) = match options.mode {
        Mode::Solo => (solo(plan, options, &[], progress)?, None),
        _ => run(plan, options, &[], None, traced, progress)?,
    };
    result.wall_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok((result, trace))
}

/// As [`simulate`], with other programs in place of those of some tasks.
///
/// # Errors
/// [`SimError`]; also when a stand-in has no task, or has frames outside the task's banks under the
/// plan.
pub fn simulate_with(
    plan: &Plan,
    options: &Options,
    stand_ins: &[StandIn],
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<SimResult, SimError> {
    stand_in::check(plan, options, stand_ins)?;
    let started = std::time::Instant::now();
    let mut result = match options.mode {
        Mode::Solo => solo(plan, options, stand_ins, progress)?,
        _ => run(plan, options, stand_ins, None, false, progress)?.0,
    };
    result.wall_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(result)
}

/// Each task by itself; core counts add up.
fn solo(
    plan: &Plan,
    options: &Options,
    stand_ins: &[StandIn],
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<SimResult, SimError> {
    let mut sum: Option<SimResult> = None;
    let count = plan.tasks.len() as f64;
    for task in 0..plan.tasks.len() {
        let step = |share: f64| progress((task as f64 + share) / count);
        let (one, _) = run(plan, options, stand_ins, Some(task), false, &step)?;
        let Some(sum) = &mut sum else {
            sum = Some(one);
            continue;
        };
        sum.requests += one.requests;
        sum.tasks[task] = one.tasks[task].clone();
        for (a, b) in sum.cores.iter_mut().zip(&one.cores) {
            a.accesses += b.accesses;
            a.max_accesses_per_period = a.max_accesses_per_period.max(b.max_accesses_per_period);
        }
    }
    sum.ok_or_else(|| SimError::Input("the plan has no tasks".to_owned()))
}

/// Ways of each core that locking leaves to its best-effort tasks: consecutive ones, core after
/// core.
fn free_ways(plan: &Plan) -> Vec<u64> {
    let per_way = u64::from(plan.platform.pages_per_way());
    let mut first = 0;
    let mut mask = |core: &PlanCore| {
        let locked = u32::try_from(core.locked_pages.div_ceil(per_way)).unwrap_or(u32::MAX);
        let free = core.ways.saturating_sub(locked).min(64 - first);
        let mask = (u128::from(u64::MAX) >> (64 - free)) << first;
        first += free;
        if free == 0 { 0 } else { u64::try_from(mask & u128::from(u64::MAX)).unwrap_or(u64::MAX) }
    };
    plan.cores.iter().map(&mut mask).collect()
}

/// All tasks, or one of them.
fn run(
    plan: &Plan,
    options: &Options,
    stand_ins: &[StandIn],
    only: Option<usize>,
    traced: bool,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<(SimResult, Option<SchedTrace>), SimError> {
    let mut board = regions::board(plan, options)?;
    let ways = free_ways(plan);
    let mut execution = if options.mode.is_managed() {
        Execution::new(plan, options.duration_ns, options.seed)?
    } else {
        None
    };
    let mut added = Vec::new();
    for (at, task) in plan.tasks.iter().enumerate() {
        if only.is_none_or(|o| o == at) {
            let stand_in = stand_ins.iter().find(|s| s.task == at);
            add(plan, options, &mut board, (task, stand_in), &ways)?;
            if let (Some(execution), Some(name)) = (&execution, &task.partition) {
                in_partition(board.task(added.len()), execution, name);
            }
            added.push(at);
        }
    }
    // Alone, a task needs no levels.
    let levels = plan.levels().filter(|_| only.is_none());
    if let Some(levels) = levels {
        levels::devices(plan, levels, options, &mut board)?;
    }
    // In the unmanaged mode there are no VCPUs either.
    let vcpus = plan
        .vcpus()
        .filter(|_| options.mode.is_managed())
        .map(|planned| vcpus::config(plan, planned));
    let of_task: Vec<usize> = added.iter().map(|&at| vcpus::of_task(plan, at)).collect();
    if vcpus.is_some() {
        of_task.iter().enumerate().for_each(|(task, &vcpu)| board.task(task).vcpu = Some(vcpu));
    }
    let mut kernel = KernelConfig {
        scheduler: match (levels, &vcpus) {
            (Some(levels), _) => levels::scheduler(levels, &added),
            (_, Some(vcpus)) => SchedulerSpec::Vcpu(vcpus.clone()),
            _ => SchedulerSpec::FixedPriority,
        },
        regulator: regulator(plan, options.mode),
        costs: lock::costs(plan, options.mode.is_managed()),
        observe_period_ps: Some(plan.regulation.period_ns * PS),
        seed: options.seed,
        ..KernelConfig::default()
    };
    match (&mut execution, options.mode) {
        (Some(execution), _) => execution.set_up(plan, &mut board, &mut kernel)?,
        (None, Mode::Unmanaged) => windows::unmanaged(plan, &mut board, &mut kernel)?,
        _ => {}
    }
    let mut kernel = board.requests(kernel)?;
    let end = options.duration_ns.saturating_mul(PS);
    let timeline = Timeline::new(options.timeline_ns.saturating_mul(PS), MOST_SEGMENTS);
    // The input is right: the observers may be told.
    if !progress(0.0) {
        return Err(SimError::Interrupted);
    }
    let mut step = |now: u64| progress(now as f64 / end as f64);
    if let (Some(_), true) = (levels, traced) {
        let mut timeline = timeline.with_decisions(kernel.described());
        kernel.run(end, &mut timeline, &mut step).map_err(BoardError::from)?;
        let requests = requests(&kernel);
        let result = kernel.finish(&mut timeline);
        let trace = levels::trace(plan, timeline.take_decisions());
        return Ok((
            finished(plan, options, &result, &added, (requests, timeline), None),
            Some(trace),
        ));
    }
    let Some(execution) = execution else {
        let mut watch = match vcpus.filter(|_| traced) {
            Some(vcpus) => {
                Decisions::of_vcpus(timeline, &vcpus, of_task, kernel.hardware().cores())
            }
            None => Decisions::none(timeline),
        };
        kernel.run(end, &mut watch, &mut step).map_err(BoardError::from)?;
        let requests = requests(&kernel);
        let result = kernel.finish(&mut watch);
        let (timeline, trace) = watch.finish();
        return Ok((finished(plan, options, &result, &added, (requests, timeline), None), trace));
    };
    let mut watch = execution.watch(plan, timeline);
    kernel.run(end, &mut watch, &mut step).map_err(BoardError::from)?;
    let requests = requests(&kernel);
    let result = kernel.finish(&mut watch);
    let timeline = watch.timeline.clone();
    let mut out = finished(plan, options, &result, &added, (requests, timeline), Some(&execution));
    out.io = Some(execution.verify(&watch, options.duration_ns));
    Ok((out, None))
}

fn requests<H: Hardware>(kernel: &crate::kernel::Kernel<H>) -> u64 {
    (0..kernel.hardware().cores()).map(|core| kernel.hardware().core(core).llc_accesses).sum()
}

/// Places a task in its partition: jobs arrive as windows begin.
fn in_partition(spec: &mut crate::kernel::TaskSpec, execution: &Execution, name: &str) {
    spec.partition = execution.partition(name);
    if let Release::Periodic { phase_ps, .. } = &mut spec.release {
        *phase_ps = execution.phase_ps(name);
    }
}

/// The results, with the schedule in the plan's numbers.
fn finished(
    plan: &Plan,
    options: &Options,
    result: &KernelResult,
    added: &[usize],
    (requests, mut timeline): (u64, Timeline),
    execution: Option<&Execution>,
) -> SimResult {
    let mut out = results(plan, options, result, added);
    out.requests = requests;
    out.jobs = jobs(plan, options, added, &mut timeline);
    out.timeline = timeline.segments();
    for segment in &mut out.timeline {
        let task = segment.task as usize;
        let planned = match execution.and_then(|e| e.prefetch_of(task)) {
            None => added[task],
            // The prefetch serves all tasks of the partition; the first of them stands for it.
            Some(partition) => {
                if segment.activity == Activity::Run {
                    segment.activity = Activity::Prefetch;
                }
                let name =
                    plan.windows().and_then(|s| s.partitions.get(partition)).map(|p| &p.name);
                plan.tasks.iter().position(|t| t.partition.as_ref() == name).unwrap_or(0)
            }
        };
        segment.task = u32::try_from(planned).unwrap_or(u32::MAX);
    }
    out
}

/// The recorded jobs of tasks with deadlines. A prefetch of windows has a number beyond `added`.
fn jobs(
    plan: &Plan,
    options: &Options,
    added: &[usize],
    timeline: &mut Timeline,
) -> Vec<TimelineJob> {
    let job = |(arrival_ps, task, end_ps): (u64, usize, Option<u64>)| {
        let planned = *added.get(task)?;
        let deadline_ps =
            arrival_ps.saturating_add(plan.tasks.get(planned)?.deadline_ns?.saturating_mul(PS));
        let over_ps = end_ps.unwrap_or(options.duration_ns.saturating_mul(PS));
        Some(TimelineJob {
            task: u32::try_from(planned).ok()?,
            release_ns: arrival_ps / PS,
            deadline_ns: deadline_ps / PS,
            end_ns: end_ps.map(|ps| ps.div_ceil(PS)),
            late: over_ps > deadline_ps,
        })
    };
    timeline.take_jobs().filter_map(job).collect()
}

/// Adds a task with its own program, or with the stand-in.
fn add(
    plan: &Plan,
    options: &Options,
    board: &mut Board,
    (task, stand_in): (&PlanTask, Option<&StandIn>),
    ways: &[u64],
) -> Result<(), SimError> {
    let core = task.core as usize;
    let Some(planned) = plan.cores.get(core) else {
        return Err(SimError::Input(format!(
            "task `{}` is on core {core}, which the plan lacks",
            task.name
        )));
    };
    let managed = options.mode.is_managed();
    let spec = match &task.profile {
        // The bounds let an analysed task wait for each of its reads. Other tasks need not wait.
        Some(file) => WorkloadSpec::Profile(ProfileParams {
            file: file.clone(),
            streams: task.best_effort(),
            job: None,
        }),
        None => {
            // Without the plan nothing is locked.
            let unlocked = task.unlocked.filter(|_| !managed);
            let (wcet_ns, misses) =
                unlocked.map_or((task.wcet_ns, task.misses), |u| (u.wcet_ns, u.misses));
            WorkloadSpec::Spread(Spread {
                wcet: Some(Time::from_ps(wcet_ns.saturating_mul(PS))),
                misses: Some(misses),
                job: Some(Job::Passes(1)),
            })
        }
    };
    let workload = match stand_in {
        Some(stand_in) => stand_in.workload(),
        None => {
            let mut context = board.context(Path::new("."));
            // A stated time is one of the task's core; level C has none.
            if plan.levels().is_none() || task.criticality != Criticality::C {
                context = context.on_core(board.platform(), task.core);
            }
            let build = || spec.build(&context).map_err(BoardError::from);
            lock::with_sections((plan, task, managed), build()?, build)?
        }
    };
    let workload = lock::held(plan, task, managed, workload);
    if let Some(levels) = plan.levels() {
        let index = levels::add(plan, levels, options, board, task, (workload, stand_in))?;
        let spec = board.task(index);
        levels::dress(levels, task, spec);
        spec.deadline_ps = task.deadline_ns.map(|d| d * PS);
        if options.mode == Mode::Solo {
            spec.core = Some(core);
        }
        return Ok(());
    }
    let private = managed && plan.cores.iter().all(|c| c.banks.is_some());
    let banks =
        planned.banks.filter(|_| private).map(|(first, count)| (first..first + count).collect());
    // The bounds count on no hit outside the locked pages; best effort may have such hits. Where
    // all share the cache, recorded programs use it. A program from stated numbers has no known
    // pages.
    let own = plan.regulation.pages.is_own() || task.profile.is_none();
    let bypass = managed && own && !task.best_effort();
    let kind = if bypass { PageKind::Bypass } else { PageKind::Cached };
    let kind = stand_in.and_then(|s| s.kind).unwrap_or(kind);
    let place =
        Place { banks, frames: stand_in.map(|s| s.frames.clone()), kind, ..Place::default() };
    let names = workload.page_names.clone();
    let index = board.add_workload(&task.name, workload, &place, &[])?;
    let locked: HashSet<&PageName> = task.locked_pages.iter().filter(|_| managed).collect();
    let space = board.space(index);
    if managed && plan.regulation.pages.is_own() {
        space.ways = ways[core];
    }
    for (kind, name) in space.kinds.iter_mut().zip(&names) {
        if name.as_ref().is_some_and(|n| locked.contains(n)) {
            *kind = PageKind::Locked;
        }
    }
    let spec = board.task(index);
    spec.core = Some(core);
    spec.priority = task.priority;
    spec.realtime = !task.best_effort();
    spec.deadline_ps = task.deadline_ns.map(|d| d * PS);
    let soft = plan.cores.iter().filter(|c| c.soft).count() as u64;
    spec.budget = match (task.soft_budget, task.soft_budget_length_ns) {
        // Each soft core gets the same budget; the remainder of the division is left.
        (Some(budget), Some(length)) if managed && budget >= soft && soft > 0 => {
            Some(TaskBudget { accesses: budget / soft, length_ps: length.saturating_mul(PS) })
        }
        _ => None,
    };
    spec.release = match task.period_ns {
        Some(period) => {
            let phase_ps = stand_in.map_or(0, |s| s.phase_ns.saturating_mul(PS));
            Release::Periodic { period_ps: period * PS, phase_ps, jitter_ps: 0 }
        }
        None => Release::Background,
    };
    Ok(())
}

fn regulator(plan: &Plan, mode: Mode) -> RegulatorSpec {
    if !mode.is_managed() {
        return RegulatorSpec::None;
    }
    if plan.regulation.policy == Policy::Dynamic {
        let (soft, hard) = (0..plan.cores.len()).partition(|&core| plan.cores[core].soft);
        return RegulatorSpec::Dynamic { hard, soft };
    }
    if plan.regulation.policy != Policy::Memguard {
        return lock::regulator(plan);
    }
    // The plan's budget counts reads and write-backs together, unless a part of it is reserved for
    // write-backs.
    let budget = |c: &PlanCore| match (c.budget_accesses, c.write_budget_accesses) {
        (None, _) => Budget::Unlimited,
        (Some(all), None) => Budget::Together(all),
        (Some(all), Some(writes)) => Budget::Apart { reads: all.saturating_sub(writes), writes },
    };
    let reclaim = plan.regulation.reclaim;
    let role = |c: &PlanCore| Role { hard: !c.gives, predict: reclaim, reclaim };
    let of = |core: &PlanCore| (budget(core), role(core));
    let largest = plan.cores.iter().filter_map(|c| c.budget_accesses).max().unwrap_or(1);
    RegulatorSpec::MemGuard {
        period_ps: plan.regulation.period_ns * PS,
        // Cores beyond the plan's run nothing.
        cores: (0..plan.platform.cores as usize)
            .map(|core| plan.cores.get(core).map_or((Budget::Unlimited, Role::default()), of))
            .collect(),
        sharing: match plan.regulation.sharing {
            system::Sharing::None => Sharing::None,
            system::Sharing::Spare => Sharing::Spare,
            system::Sharing::Proportional => Sharing::Proportional,
        },
        // As much at a time as `solocore run` takes: about a sample.
        chunk: if reclaim { (largest / 8).clamp(1, u64::from(u32::MAX)) } else { 1 },
    }
}

fn results(plan: &Plan, options: &Options, result: &KernelResult, added: &[usize]) -> SimResult {
    let empty = |t: &PlanTask| TaskResult {
        name: t.name.clone(),
        core: t.core,
        jobs: 0,
        misses_deadline: 0,
        moet_ns: 0,
        acet_ns: 0,
        max_response_ns: 0,
        execution_ns: Vec::new(),
        accesses: 0,
    };
    let mut tasks: Vec<TaskResult> = plan.tasks.iter().map(empty).collect();
    for (&at, t) in added.iter().zip(&result.tasks) {
        tasks[at] = TaskResult {
            jobs: t.jobs,
            misses_deadline: t.deadline_misses,
            moet_ns: t.execution.max_ps().div_ceil(PS),
            acet_ns: t.execution.mean_ps() / PS,
            max_response_ns: t.response.max_ps().div_ceil(PS),
            execution_ns: t
                .execution
                .cumulative()
                .map(|(ps, jobs)| (ps.div_ceil(PS), jobs))
                .collect(),
            accesses: t.counters.transactions(),
            ..tasks[at].clone()
        };
    }
    let cores = result.cores.iter().zip(&plan.cores).map(|(c, planned)| CoreResult {
        id: planned.id,
        accesses: c.counters.transactions(),
        throttled_ns: c.throttled_ps / PS,
        max_accesses_per_period: c.max_transactions_per_period,
    });
    SimResult {
        format: FORMAT.to_owned(),
        mode: options.mode,
        seed: options.seed,
        tasks,
        cores: cores.collect(),
        simulated_ns: options.duration_ns,
        wall_ns: 0,
        requests: 0,
        io: None,
        timeline_ns: Some(options.timeline_ns.min(options.duration_ns)).filter(|&ns| ns > 0),
        timeline: Vec::new(),
        jobs: Vec::new(),
    }
}
