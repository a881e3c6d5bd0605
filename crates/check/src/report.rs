//! What a trace without a violation shows.
//!
//! Problem: a trace that breaks no rule still says how near it came. Rule: a report counts what was
//! checked, and has the largest distances.

use crate::vcpus::VcpuReport;
use serde::Serialize;

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
    /// Longest time from the begin of a slot (level A) or window, or from a release in one, to the
    /// first instruction of its job.
    pub max_start_late_ns: u64,
    /// Longest time that a thread ran whose task was not chosen.
    pub max_stray_ns: u64,
    /// Most execution beyond its budget that was charged to a job.
    pub max_over_budget_ns: u64,
    /// Longest time from a deadline of level C to the end of the job.
    pub max_tardiness_ns: u64,
}
