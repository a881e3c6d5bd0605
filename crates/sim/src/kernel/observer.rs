//! Events that an experiment can watch, and the recorder of the schedule's first stretch.

use crate::hardware::Notice;
use solocore_model::results::{Activity, Segment};
use solocore_model::sched_trace::{Event, Kind, NONE};
use std::collections::BTreeMap;

/// Use of the core by a VCPU (maracas, section III).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// At the expense of its budget, or under a scheduler without modes.
    #[default]
    Foreground,
    /// In time that is left over.
    Background,
}

/// A job that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Index of the task.
    pub task: usize,
    /// Core on which it ended.
    pub core: usize,
    /// Time of its arrival, ps.
    pub arrival_ps: u64,
    /// Time of its end, ps.
    pub end_ps: u64,
    /// Execution time, as the results define it.
    pub execution_ps: u64,
    /// Did it end after its deadline?
    pub late: bool,
}

/// Activity of a core, with one task on it, over some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Number of the core.
    pub core: usize,
    /// Index of the task.
    pub task: usize,
    /// Kind of activity.
    pub activity: Activity,
    /// Begin, ps.
    pub start_ps: u64,
    /// End, ps.
    pub end_ps: u64,
}

/// Hears of events, in order of time. Every method does nothing unless it is implemented.
#[allow(unused_variables, reason = "the names are the documentation")]
pub trait Observer {
    /// A job arrived (its release may be later, by jitter).
    fn job_released(&mut self, task: usize, arrival_ps: u64, now_ps: u64) {}
    /// A job ended.
    fn job_finished(&mut self, job: JobReport) {}
    /// The policy gave a job up (level A).
    fn job_abandoned(&mut self, task: usize, now_ps: u64) {}
    /// A core was given another task, or nothing.
    fn dispatched(&mut self, core: usize, task: Option<usize>, mode: RunMode, now_ps: u64) {}
    /// A core's regulator stopped the core, or let it go on.
    fn throttled(&mut self, core: usize, stopped: bool, now_ps: u64) {}
    /// A core's counting period ended, with this number of accesses in it.
    fn period_ended(&mut self, core: usize, transactions: u64, now_ps: u64) {}
    /// The task on a core changed between foreground and background.
    fn mode_changed(&mut self, core: usize, task: usize, mode: RunMode, now_ps: u64) {}
    /// A task continues on another core than before.
    fn task_migrated(&mut self, task: usize, from: usize, to: usize, now_ps: u64) {}
    /// A VCPU moved. Where colours belong to cores, the pages of its tasks must move, too.
    fn vcpu_migrated(&mut self, vcpu: usize, from: usize, to: usize, now_ps: u64) {}
    /// The throttling of background time was decided again: this number of cores has no background
    /// time.
    fn monitored(&mut self, contended: bool, throttled_cores: u32, now_ps: u64) {}
    /// The scheduler called its policy.
    fn scheduled(&mut self, event: Event) {}
    /// Does it record the scheduler's calls of its policy?
    fn wants_decisions(&self) -> bool {
        false
    }
    /// A scheduler of VCPUs called its policy.
    fn decided(&mut self, event: Event) {}
    /// A task passed a mark.
    fn marked(&mut self, task: usize, mark: u32, now_ps: u64) {}
    /// Something else reached the kernel.
    fn noticed(&mut self, notice: Notice, now_ps: u64) {}
    /// A core has had one activity for some time.
    fn stretch(&mut self, stretch: Stretch) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Records the schedule until a time, and at most a number of segments and of jobs.
#[derive(Clone, Debug)]
pub struct Timeline {
    limit_ps: u64,
    most: usize,
    segments: Vec<Segment>,
    /// Ends of the jobs, by arrival and task; `None`: not ended yet.
    jobs: BTreeMap<(u64, usize), Option<u64>>,
    /// Decisions, where they are wanted.
    decisions: Option<Vec<Event>>,
}

impl Timeline {
    /// Records what begins before `limit_ps`.
    pub fn new(limit_ps: u64, most: usize) -> Self {
        Self { limit_ps, most, segments: Vec::new(), jobs: BTreeMap::new(), decisions: None }
    }

    /// Records decisions, too, after these events.
    #[must_use]
    pub fn with_decisions(self, first: Vec<Event>) -> Self {
        Self { decisions: Some(first), ..self }
    }

    /// The decisions.
    pub fn take_decisions(&mut self) -> Vec<Event> {
        self.decisions.take().unwrap_or_default()
    }

    /// Each job that arrived before the limit: arrival, task and end, in ps. In order of arrival.
    pub fn take_jobs(&mut self) -> impl Iterator<Item = (u64, usize, Option<u64>)> + use<> {
        let jobs = std::mem::take(&mut self.jobs);
        jobs.into_iter().map(|((arrival_ps, task), end_ps)| (arrival_ps, task, end_ps))
    }

    /// Sorted by core, then time; times are cut to whole ns, and shorter segments are left out.
    pub fn segments(mut self) -> Vec<Segment> {
        self.segments.sort_by_key(|s| (s.core, s.start_ns));
        self.segments
    }
}

impl Observer for Timeline {
    fn scheduled(&mut self, event: Event) {
        self.decisions.iter_mut().for_each(|d| d.push(event));
    }

    fn job_released(&mut self, task: usize, arrival_ps: u64, _now_ps: u64) {
        if arrival_ps < self.limit_ps && self.jobs.len() < self.most {
            self.jobs.insert((arrival_ps, task), None);
        }
    }

    fn job_finished(&mut self, job: JobReport) {
        if let Some(end_ps) = self.jobs.get_mut(&(job.arrival_ps, job.task)) {
            *end_ps = Some(job.end_ps);
        }
    }

    fn dispatched(&mut self, core: usize, task: Option<usize>, _: RunMode, now_ps: u64) {
        let number = |index: usize| u32::try_from(index).unwrap_or(NONE);
        let (cpu, id) = (number(core), task.map_or(NONE, number));
        let (event, a) = task.map_or((Kind::Stops, 0), |task| (Kind::Runs, task as u64 + 1));
        self.scheduled(Event { time_ns: now_ps / 1000, cpu, event, id, a, b: 0 });
    }

    fn stretch(&mut self, stretch: Stretch) {
        let Stretch { core, task, activity, start_ps, end_ps } = stretch;
        let (start_ns, end_ns) = (start_ps / 1000, end_ps.min(self.limit_ps) / 1000);
        let (Ok(core), Ok(task)) = (u32::try_from(core), u32::try_from(task)) else { return };
        if start_ps < self.limit_ps && end_ns > start_ns && self.segments.len() < self.most {
            self.segments.push(Segment { core, task, start_ns, end_ns, activity });
        }
    }
}
