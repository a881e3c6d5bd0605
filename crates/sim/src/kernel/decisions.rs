//! Records the decisions of a scheduler of VCPUs and the tasks that ran, as a trace for `solocore
//! check-trace`, beside a timeline.
//!
//! Rule: decisions are the scheduler's calls of the policy, runs are the dispatches of the kernel:
//! two sources, so that the checker can compare them. Not covered: other schedulers (their traces
//! hold runs only), time that a regulator takes.

use super::config::VcpuConfig;
use super::observer::{JobReport, Observer, RunMode, Stretch, Timeline};
use solocore_model::sched_trace::{Event, Kind, SchedTrace};
use solocore_policy::sporadic_server::MAX_REPLENISHMENTS;
use solocore_policy::vcpu::Background;
use std::collections::BTreeSet;

/// Most events that are kept: 200 MB.
const EVENTS: usize = 5_000_000;

/// The record. Without a trace, the timeline alone.
pub struct Decisions {
    /// Schedule of the tasks.
    pub timeline: Timeline,
    trace: Option<SchedTrace>,
    /// VCPU of each task.
    vcpus: Vec<usize>,
    /// Task on each core.
    running: Vec<Option<usize>>,
    /// VCPUs that have work.
    runnable: BTreeSet<u32>,
}

impl Decisions {
    /// A timeline, without a trace.
    pub fn none(timeline: Timeline) -> Self {
        Self {
            timeline,
            trace: None,
            vcpus: Vec::new(),
            running: Vec::new(),
            runnable: BTreeSet::new(),
        }
    }

    /// A trace of this number of cores. `vcpus`: the VCPU of each task.
    pub fn of_vcpus(
        timeline: Timeline,
        config: &VcpuConfig,
        vcpus: Vec<usize>,
        cores: usize,
    ) -> Self {
        let background = match config.background {
            None => "none",
            Some(Background::LeastTime) => "least-time",
            Some(Background::Keep) => "keep",
            Some(Background::LeastMemory) => "least-memory",
        };
        let limit = config.replenishments.map_or(MAX_REPLENISHMENTS, |n| n as usize);
        let about = [
            ("scheduler", "vcpu".to_owned()),
            ("background", background.to_owned()),
            ("strict", u8::from(config.strict).to_string()),
            ("limit", limit.to_string()),
            ("overhead_ns", "0".to_owned()),
            ("cpus", cores.to_string()),
            ("source", "sim".to_owned()),
            ("lost", "0".to_owned()),
        ];
        let about = about.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let trace = Some(SchedTrace { about, events: Vec::new() });
        Self { timeline, trace, vcpus, running: vec![None; cores], runnable: BTreeSet::new() }
    }

    /// The timeline and the trace.
    pub fn finish(self) -> (Timeline, Option<SchedTrace>) {
        (self.timeline, self.trace)
    }

    /// A full trace is complete from its start to its last event.
    fn push(&mut self, event: Event) {
        if let Some(trace) = self.trace.as_mut().filter(|t| t.events.len() < EVENTS) {
            trace.events.push(event);
        }
    }
}

impl Observer for Decisions {
    fn job_released(&mut self, task: usize, arrival_ps: u64, now_ps: u64) {
        self.timeline.job_released(task, arrival_ps, now_ps);
    }

    fn job_finished(&mut self, job: JobReport) {
        self.timeline.job_finished(job);
    }

    fn stretch(&mut self, stretch: Stretch) {
        self.timeline.stretch(stretch);
    }

    fn wants_decisions(&self) -> bool {
        self.trace.is_some()
    }

    fn decided(&mut self, event: Event) {
        match event.event {
            Kind::VcpuWake => self.runnable.insert(event.id),
            Kind::VcpuBlock => self.runnable.remove(&event.id),
            _ => false,
        };
        self.push(event);
    }

    fn dispatched(&mut self, core: usize, task: Option<usize>, _: RunMode, now_ps: u64) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let Some(before) = self.running.get_mut(core).map(|on| std::mem::replace(on, task)) else {
            return;
        };
        let event = |event, task, a| Event {
            time_ns: now_ps / 1000,
            cpu: number(core),
            event,
            id: number(task),
            a,
            b: 0,
        };
        if let Some(before) = before {
            // A task is runnable if its VCPU is.
            let goes_on =
                self.vcpus.get(before).is_some_and(|&v| self.runnable.contains(&number(v)));
            self.push(event(Kind::Stops, before, u64::from(goes_on)));
        }
        if let Some(task) = task {
            let vcpu = self.vcpus.get(task).map_or(0, |&v| v as u64 + 1);
            self.push(event(Kind::Runs, task, vcpu));
        }
    }
}
