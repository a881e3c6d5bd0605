//! Facts that a trace states about itself.
//!
//! Problem: how late a scheduler may be depends on the source of its trace. Rule: the
//! trace states its tolerance, or its source.

use solocore_model::sched_trace::SchedTrace;

/// A kernel may be late by this, in ns, before a rule counts as broken; a simulation may not be
/// late at all.
pub const KERNEL_TOLERANCE_NS: u64 = 10_000_000;

/// The number that the trace gives for `key`.
pub fn number(trace: &SchedTrace, key: &str) -> Option<u64> {
    trace.about.get(key)?.parse().ok()
}

/// The tolerance of a trace, ns: its own (`tolerance_ns`), or that of its source.
pub fn tolerance(trace: &SchedTrace) -> u64 {
    let simulated = trace.about.get("source").is_some_and(|s| s == "sim");
    number(trace, "tolerance_ns").unwrap_or(if simulated { 0 } else { KERNEL_TOLERANCE_NS })
}
