//! Checks a trace of scheduling decisions.
//!
//! Problem: a scheduler in a kernel, or one that is simulated, may do something else than its policy says, or the policy something else
//! than the paper. Rule: a trace (`solocore_model::sched_trace`) holds every call of the policy and every answer. [`check`] makes the calls again
//! on `policy/`, and holds the answers, and what really ran, against rules that are written here a second time, from the papers and without
//! `policy/`. The first violation ends it.
//! Does not cover: a trace that lost events (it is refused); what happened outside of it.

mod levels;
mod vcpu;
mod windows;

pub use vcpu::VcpuReport;

use serde::Serialize;
use solocore_model::sched_trace::SchedTrace;
use std::fmt;

/// How late a kernel may be before a rule counts as broken; a simulation may not be late at all.
pub const KERNEL_TOLERANCE_NS: u64 = 10_000_000;

/// What a trace without a violation shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// Of levels or windows.
    Levels(LevelsReport),
    /// Of VCPUs.
    Vcpus(VcpuReport),
}

/// What was checked, and how far from their times things happened at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelsReport {
    /// `scheduler` of the trace.
    pub scheduler: String,
    /// Events.
    pub events: u64,
    /// Decisions.
    pub decisions: u64,
    /// Jobs released.
    pub jobs: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs that used their time up.
    pub overruns: u64,
    /// Longest time from when a decision was due to when it was made.
    pub max_decision_late_ns: u64,
    /// Longest time from the begin of a slot (level A) or window, or from a release in one, to the first instruction of its job.
    pub max_start_late_ns: u64,
    /// Longest time that a thread ran whose task was not chosen.
    pub max_stray_ns: u64,
    /// Most execution beyond its budget that was charged to a job.
    pub max_over_budget_ns: u64,
    /// Longest time from a deadline of level C to the end of the job.
    pub max_tardiness_ns: u64,
}

/// The first rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When; 0: before anything ran.
    pub time_ns: u64,
    /// Where.
    pub core: u32,
    /// Which rule.
    pub rule: &'static str,
    /// What happened, with its numbers.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns on core {}: {}: {}", self.time_ns, self.core, self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

impl Violation {
    pub(crate) fn of(time_ns: u64, core: u32, rule: &'static str, what: String) -> Self {
        Self { time_ns, core, rule, what }
    }
}

/// What makes a trace no trace that can be checked.
pub const UNCHECKABLE: &str = "trace";

fn number(trace: &SchedTrace, key: &str) -> Option<u64> {
    trace.about.get(key)?.parse().ok()
}

/// The tolerance of a trace: what it says itself (`tolerance_ns`), or what fits its source.
fn tolerance(trace: &SchedTrace) -> u64 {
    let simulated = trace.about.get("source").is_some_and(|s| s == "sim");
    number(trace, "tolerance_ns").unwrap_or(if simulated { 0 } else { KERNEL_TOLERANCE_NS })
}

/// Checks a trace.
///
/// # Errors
/// The first violation. Its rule is [`UNCHECKABLE`] if the trace itself is at fault.
pub fn check(trace: &SchedTrace) -> Result<Report, Violation> {
    let wrong = |what: String| Err(Violation::of(0, 0, UNCHECKABLE, what));
    if number(trace, "lost").unwrap_or(0) > 0 {
        return wrong(format!(
            "{} events were overwritten before they were read; trace a shorter or quieter stretch",
            trace.about["lost"]
        ));
    }
    let scheduler = trace.about.get("scheduler").map(String::as_str);
    // Those of VCPUs are sorted on each core only: a budget may be settled in the past of its core.
    let unsorted = trace.events.windows(2).find(|w| w[0].time_ns > w[1].time_ns);
    if let (Some(pair), Some("levels")) = (unsorted, scheduler) {
        return wrong(format!(
            "an event of {} ns follows one of {} ns; events are sorted by time",
            pair[1].time_ns, pair[0].time_ns
        ));
    }
    match scheduler {
        Some("levels") if windows::concerns(trace) => windows::check(trace).map(Report::Levels),
        Some("levels") => levels::check(trace).map(Report::Levels),
        Some("vcpu") => vcpu::check(trace).map(Report::Vcpus),
        Some(other) => wrong(format!("there is no checker for the scheduler `{other}`")),
        None => wrong("it does not say which scheduler it is of (scheduler=...)".to_owned()),
    }
}
