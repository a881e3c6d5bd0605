//! Replays traces of scheduling decisions: did what ran follow from the policy, and were the promises kept?
//!
//! Problem: a scheduler in the kernel is right if the policy is right *and* its adapter calls it at the right times, obeys it, and charges
//! what ran. Rule: every call in the trace is made again on a fresh policy core, and must have the same answer; what ran must be
//! what the policy had picked; and the promises are checked on the trace itself, by rules that know nothing of the policy.
//! The first violation ends it. The same checker reads traces of the kernel and of the simulator.

pub mod vcpu;

use serde::Serialize;
use solocore_model::sched_trace::{Event, SchedTrace};

/// What a trace without a violation shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Which scheduler's it is.
    pub scheduler: String,
    /// Events that were looked at.
    pub events: u64,
    /// From the first to the last.
    pub span_ns: u64,
    /// What was checked how often, by the name of the rule.
    pub checked: Vec<(String, u64)>,
    /// What else the trace shows.
    pub notes: Vec<String>,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("at {} ns on core {}: {rule}: {what}", event.time_ns, event.cpu)]
pub struct Violation {
    /// The event that shows it; `index` is its place in the trace, from 0.
    pub event: Event,
    /// Its place in the trace, from 0.
    pub index: usize,
    /// Which rule is broken.
    pub rule: &'static str,
    /// How.
    pub what: String,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// A rule is broken.
    #[error("{0}")]
    Violation(Box<Violation>),
    /// The trace is not one that can be checked.
    #[error("{0}")]
    Unusable(String),
}

/// Checks a trace.
///
/// # Errors
/// The first violation, or why the trace cannot be checked.
pub fn check(trace: &SchedTrace) -> Result<Report, Failure> {
    let lost = trace.about.get("lost").map_or("0", String::as_str);
    if lost != "0" {
        let what = format!(
            "{lost} events are missing from the trace, so it cannot be replayed; record with less load, or for less long"
        );
        return Err(Failure::Unusable(what));
    }
    match trace.about.get("scheduler").map(String::as_str) {
        Some("vcpu") => vcpu::check(trace),
        Some(other) => Err(Failure::Unusable(format!("there are no rules for traces of the scheduler `{other}`"))),
        None => Err(Failure::Unusable("the trace does not say which scheduler it is of (scheduler=...)".to_owned())),
    }
}
