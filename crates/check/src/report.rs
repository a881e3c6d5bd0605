//! Figures of a trace without a violation.
//!
//! Problem: a trace that breaks no rule may still come close to it. Rule: a report counts the
//! checks, and has the largest distances.

use crate::vcpus::VcpuReport;
use serde::Serialize;

/// Figures of a trace without a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// Figures of levels or windows.
    Levels(LevelsReport),
    /// Figures of VCPUs.
    Vcpus(VcpuReport),
}

/// Numbers of checks, and the largest delays of events.
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
    /// Jobs that used up their time.
    pub overruns: u64,
    /// Longest time from the instant at which a decision was due to the decision.
    pub max_decision_late_ns: u64,
    /// Longest time from the begin of a slot (level A) or window, or from a release in one, to the
    /// first instruction of its job.
    pub max_start_late_ns: u64,
    /// Longest run of a thread whose task was not chosen.
    pub max_stray_ns: u64,
    /// Most execution beyond its budget that was charged to a job.
    pub max_over_budget_ns: u64,
    /// Longest time from a deadline of level C to the end of the job.
    pub max_tardiness_ns: u64,
}
