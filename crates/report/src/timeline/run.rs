//! One run, cut to the drawn part.
//!
//! Problem: a schedule may be too long to draw, and a job does not say where it ran. Rule: the
//! first [`SEGMENTS`] stretches and [`JOBS`] jobs are kept, those that missed their deadlines
//! first, and the others are counted. A job belongs to the core on which it first ran; a task of
//! level C runs on any.

use solocore_model::SimResult;
use solocore_model::plan::PlanTask;
use solocore_model::results::{Activity, Segment, TimelineJob};
use std::collections::BTreeMap;

/// Most stretches of one run that are drawn.
const SEGMENTS: usize = 20_000;
/// Most jobs of one run whose releases and deadlines are drawn.
const JOBS: usize = 500;

/// A job, and the core on which its arrows are drawn.
pub struct Job<'a> {
    pub of: &'a TimelineJob,
    pub core: u32,
}

/// One run, cut to the drawn part.
pub struct Run<'a> {
    pub mode: &'static str,
    pub title: &'static str,
    pub result: &'a SimResult,
    pub segments: Vec<&'a Segment>,
    /// Segments that are not drawn.
    pub dropped: usize,
    /// End of the recorded time, or of the last stretch drawn if some are not.
    pub end_ns: u64,
    pub jobs: Vec<Job<'a>>,
    /// Jobs in this time that are not drawn.
    pub dropped_jobs: usize,
}

impl<'a> Run<'a> {
    pub fn new(
        mode: &'static str,
        title: &'static str,
        result: Option<&'a SimResult>,
    ) -> Option<Self> {
        let result = result.filter(|r| !r.timeline.is_empty())?;
        let mut segments: Vec<&Segment> = result.timeline.iter().collect();
        segments.sort_by_key(|s| (s.start_ns, s.core));
        let dropped = segments.len().saturating_sub(SEGMENTS);
        segments.truncate(SEGMENTS);
        let last_ns = segments.iter().map(|s| s.end_ns).max().unwrap_or(0);
        let recorded_ns = result.timeline_ns.filter(|_| dropped == 0).unwrap_or(0);
        let end_ns = last_ns.max(recorded_ns);
        let mut jobs = jobs(result, &segments, end_ns);
        let dropped_jobs = jobs.len().saturating_sub(JOBS);
        // The most important jobs stay: those that missed their deadlines.
        jobs.sort_by_key(|j| (!j.of.late, j.of.release_ns));
        jobs.truncate(JOBS);
        Some(Self { mode, title, result, segments, dropped, end_ns, jobs, dropped_jobs })
    }

    pub fn name(&self, task: u32) -> String {
        let found = usize::try_from(task).ok().and_then(|i| self.result.tasks.get(i));
        found.map_or_else(|| format!("task #{task}"), |t| t.name.clone())
    }

    /// Cores of the result and of its segments, in order.
    pub fn cores(&self) -> Vec<u32> {
        let named = self.result.cores.iter().map(|c| c.id);
        let mut cores: Vec<u32> = named.chain(self.segments.iter().map(|s| s.core)).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Jobs that missed a deadline in the drawn time, and only those.
    pub fn missed(&self) -> impl Iterator<Item = &Job<'a>> {
        self.jobs.iter().filter(|j| j.of.late && j.of.deadline_ns <= self.end_ns)
    }
}

/// The jobs that were released by `end_ns`, each on the core of its first stretch among `segments`,
/// which are sorted by start. The jobs of a task run one after the other. A job that did not run in
/// this time is drawn on its task's core.
fn jobs<'a>(result: &'a SimResult, segments: &[&Segment], end_ns: u64) -> Vec<Job<'a>> {
    let mut ran: BTreeMap<u32, Vec<&Segment>> = BTreeMap::new();
    for segment in segments.iter().filter(|s| s.activity != Activity::Prefetch) {
        ran.entry(segment.task).or_default().push(segment);
    }
    let mut released: Vec<&TimelineJob> =
        result.jobs.iter().filter(|j| j.release_ns <= end_ns).collect();
    released.sort_by_key(|j| j.release_ns);
    let mut free_ns: BTreeMap<u32, u64> = BTreeMap::new();
    let job = |of: &'a TimelineJob| {
        let until = of.end_ns.unwrap_or(u64::MAX);
        let from = free_ns.insert(of.task, until).unwrap_or(0).max(of.release_ns);
        let stretches = ran.get(&of.task).map_or(&[][..], Vec::as_slice);
        let next = stretches.get(stretches.partition_point(|s| s.end_ns <= from));
        let task = usize::try_from(of.task).ok().and_then(|i| result.tasks.get(i));
        let core = next.filter(|s| s.start_ns < until).map(|s| s.core).or(task.map(|t| t.core));
        Job { of, core: core.unwrap_or(0) }
    };
    released.into_iter().map(job).collect()
}

/// The task's place in the plan, which determines colour and number.
pub fn place(tasks: &[PlanTask], name: &str) -> usize {
    tasks.iter().position(|t| t.name == name).unwrap_or(tasks.len())
}

pub fn length(segment: &Segment) -> u64 {
    segment.end_ns.saturating_sub(segment.start_ns)
}
