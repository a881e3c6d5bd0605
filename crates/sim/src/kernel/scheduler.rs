//! Who decides what runs: the five schedulers behind one interface.
//!
//! The kernel's core knows jobs, cores and time; a scheduler knows which task a core should run, and asks
//! `solocore-policy`. A scheduler marks the cores that must pick anew in the set `dirty` that every call carries; the
//! kernel handles all events of an instant, then lets the dirty cores pick until none is left, and only then switches.

mod fixed_priority;
mod global_edf;
mod levels;
mod time_table;
mod vcpu;
mod vcpu_cores;
mod vcpu_setup;

use super::config::{KernelError, SchedulerSpec, TaskSpec};
use super::cores::CoreSet;
use super::observer::{Observer, RunMode};
use super::timers::NEVER;
use crate::hardware::Uncore;
use solocore_model::sched_trace::Event;

/// What a core runs from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The task.
    pub task: Option<usize>,
    /// When the core must pick again at the latest; [`NEVER`].
    pub until_ps: u64,
    /// How.
    pub mode: RunMode,
}

impl Pick {
    pub(super) fn new(task: Option<usize>, until_ns: u64) -> Self {
        Self { task, until_ps: until_ns.checked_mul(1000).unwrap_or(NEVER), mode: RunMode::Foreground }
    }
}

/// A job as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct JobTimes {
    /// Its absolute deadline, the next arrival's time where there is none; [`NEVER`] without both.
    pub deadline_ps: u64,
}

/// What to do with a job that is not done when the next one is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The new one waits for it.
    Queue,
    /// It is given up.
    Replace,
}

/// Readings for a scheduler that watches the memory.
pub struct Readings<'a> {
    /// Of the memory controller.
    pub uncore: Uncore,
    /// Transactions by core.
    pub cores: &'a [u64],
    /// Transactions by task.
    pub tasks: &'a [u64],
}

/// What the calls have in common.
pub struct Call<'a> {
    /// The time.
    pub now_ps: u64,
    /// Cores that must pick.
    pub dirty: &'a mut CoreSet,
    /// Watches.
    pub observer: &'a mut dyn Observer,
}

impl Call<'_> {
    /// The time as the policies read it.
    pub fn now_ns(&self) -> u64 {
        self.now_ps / 1000
    }
}

/// A scheduler. Tasks and cores are indices.
pub trait Scheduler: Send {
    /// A job is released; `unfinished`: the one before it is still there.
    fn released(&mut self, task: usize, job: JobTimes, unfinished: bool, call: &mut Call<'_>) -> Overlap;

    /// A job has ended, and the next one was waiting: the task stays ready.
    fn next_job(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>);

    /// The task does not want to run any more: its last job ended, or it sleeps.
    fn unready(&mut self, task: usize, call: &mut Call<'_>);

    /// The task never runs again; [`Scheduler::unready`] follows.
    fn ended(&mut self, task: usize) {
        let _ = task;
    }

    /// The task has slept, and wants to go on with its job.
    fn woken(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>);

    /// Decides.
    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick;

    /// Which of the dirty cores picks first.
    fn next_core(&self, dirty: CoreSet) -> Option<usize> {
        dirty.first()
    }

    /// Tasks whose job the policy has ended since the last call, for `out`.
    fn take_ended(&mut self, out: &mut Vec<usize>) {
        let _ = out;
    }

    /// How often [`Scheduler::monitor`] is called.
    fn monitor_period_ps(&self) -> Option<u64> {
        None
    }

    /// The monitor's period ends.
    fn monitor(&mut self, readings: &Readings<'_>, call: &mut Call<'_>) {
        let _ = (readings, call);
    }

    /// Do picks have modes?
    fn has_modes(&self) -> bool {
        false
    }

    /// VCPUs that moved off this core since the last call.
    fn take_moves(&mut self, core: usize) -> u64 {
        let _ = core;
        0
    }

    /// What a trace of its decisions begins with: tasks and tables. Empty: it does not tell.
    fn described(&self) -> Vec<Event> {
        Vec::new()
    }

    /// Where the task's releases are handled.
    fn home(&self, task: usize) -> usize;
}

/// The scheduler of a system.
///
/// # Errors
/// [`KernelError`] if a task, a core or a time does not fit it.
pub fn build(
    spec: &SchedulerSpec,
    tasks: &[TaskSpec],
    cores: usize,
    now_ps: u64,
) -> Result<Box<dyn Scheduler>, KernelError> {
    if tasks.len() > solocore_policy::MAX_TASKS {
        return Err(KernelError::config("tasks", format!("there are {}; at most 4096 are possible", tasks.len())));
    }
    Ok(match spec {
        SchedulerSpec::FixedPriority => Box::new(fixed_priority::FixedPriority::new(tasks, cores)?),
        SchedulerSpec::Vcpu(config) => Box::new(vcpu_setup::build(config, tasks, cores, now_ps)?),
        SchedulerSpec::Levels { tables } => Box::new(levels::LevelScheduler::new(tables, tasks, cores, now_ps)?),
        SchedulerSpec::TimeTable { tables } => Box::new(time_table::TimeTable::new(tables, tasks, cores)?),
        SchedulerSpec::GlobalEdf => Box::new(global_edf::GlobalEdf::new(cores)),
    })
}

/// Ids of the policies.
pub(super) fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The core of a task that must have one.
fn core_of(task: &TaskSpec, cores: usize) -> Result<usize, KernelError> {
    match task.core {
        Some(core) if core < cores => Ok(core),
        Some(core) => Err(KernelError::task(
            task,
            format!("is on core {core}, but the board has cores 0 to {}; place it on one of these", cores - 1),
        )),
        None => Err(KernelError::task(task, "has no core; this scheduler needs to know it")),
    }
}

/// Places in the order of (priority, index), for tasks that share a queue.
fn ranks(tasks: &[TaskSpec]) -> (Vec<u32>, Vec<usize>) {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&t| (tasks[t].priority, t));
    let mut rank = vec![0; tasks.len()];
    for (place, &task) in order.iter().enumerate() {
        rank[task] = id(place);
    }
    (rank, order)
}
