//! The interface between the kernel's core and a scheduler.
//!
//! Problem: the core must not depend on the kind of scheduler. Rule: events go in through
//! [`Scheduler`], a [`Pick`] comes out; a [`Call`] carries the time and the cores that must pick.

use crate::hardware::Uncore;
use crate::kernel::cores::CoreSet;
use crate::kernel::observer::{Observer, RunMode};
use crate::kernel::timers::NEVER;
use solocore_model::sched_trace::Event;

/// The task that a core runs from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The task.
    pub task: Option<usize>,
    /// Time at which the core must pick again at the latest, ps; or [`NEVER`].
    pub until_ps: u64,
    /// Foreground or background.
    pub mode: RunMode,
}

impl Pick {
    pub(in crate::kernel) fn new(task: Option<usize>, until_ns: u64) -> Self {
        Self {
            task,
            until_ps: until_ns.checked_mul(1000).unwrap_or(NEVER),
            mode: RunMode::Foreground,
        }
    }
}

/// A job as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct JobTimes {
    /// Its absolute deadline, or the next arrival's time where there is none, ps; [`NEVER`] without
    /// both.
    pub deadline_ps: u64,
}

/// Treatment of a job that is not done when the next one is released.
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
    /// Accesses by core.
    pub cores: &'a [u64],
    /// Accesses by task.
    pub tasks: &'a [u64],
}

/// Time, cores and observer, which all calls carry.
pub struct Call<'a> {
    /// The time.
    pub now_ps: u64,
    /// Cores that must pick.
    pub dirty: &'a mut CoreSet,
    /// Receiver of the events.
    pub observer: &'a mut dyn Observer,
}

impl Call<'_> {
    /// The time in ns, as the policies read it.
    pub fn now_ns(&self) -> u64 {
        self.now_ps / 1000
    }
}

/// A scheduler. Tasks and cores are indices.
pub trait Scheduler: Send {
    /// A job is released; `unfinished`: the one before it is still there, and by default the new
    /// one waits for it.
    fn released(
        &mut self,
        task: usize,
        job: JobTimes,
        unfinished: bool,
        call: &mut Call<'_>,
    ) -> Overlap {
        if !unfinished {
            self.woken(task, job, call);
        }
        Overlap::Queue
    }

    /// A job has ended, and the next one was waiting: the task stays ready.
    fn next_job(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>) {
        let _ = (task, job, call);
    }

    /// The task has nothing to run any more: its last job ended, or it sleeps.
    fn unready(&mut self, task: usize, call: &mut Call<'_>);

    /// The task never runs again; [`Scheduler::unready`] follows.
    fn ended(&mut self, task: usize) {
        let _ = task;
    }

    /// The task has slept, and goes on with its job.
    fn woken(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>);

    /// Chooses the task of a core.
    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick;

    /// The dirty core that picks first.
    fn next_core(&self, dirty: CoreSet) -> Option<usize> {
        dirty.first()
    }

    /// Appends to `out` the tasks whose job the policy has ended since the last call.
    fn take_ended(&mut self, out: &mut Vec<usize>) {
        let _ = out;
    }

    /// Interval between calls of [`Scheduler::monitor`], ps; `None`: it is never called.
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

    /// First events of a trace of its decisions: tasks and tables. Empty: it records none.
    fn described(&self) -> Vec<Event> {
        Vec::new()
    }

    /// The core that handles the task's releases.
    fn home(&self, task: usize) -> usize;
}
