//! What a trace says about itself.
//!
//! Problem: how late a scheduler may be depends on where its trace is from. Rule: the trace says
//! its tolerance, or its source.

use solocore_model::sched_trace::SchedTrace;

/// How late a kernel may be before a rule counts as broken; a simulation may not be late at all.
pub const KERNEL_TOLERANCE_NS: u64 = 10_000_000;

/// The number that the trace gives for `key`.
pub fn number(trace: &SchedTrace, key: &str) -> Option<u64> {
    trace.about.get(key)?.parse().ok()
}

/// The tolerance of a trace: what it says itself (`tolerance_ns`), or what fits its source.
pub fn tolerance(trace: &SchedTrace) -> u64 {
    let simulated = trace.about.get("source").is_some_and(|s| s == "sim");
    number(trace, "tolerance_ns").unwrap_or(if simulated { 0 } else { KERNEL_TOLERANCE_NS })
}
