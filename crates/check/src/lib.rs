//! Checks a trace of scheduling decisions.
//!
//! Problem: a scheduler in a kernel or a simulation may differ from its policy, or the policy from
//! the paper. Rule: a trace (`solocore_model::sched_trace`) holds every call of the policy and
//! every answer. [`check`] repeats the calls on `policy/`. It compares the answers and the real
//! runs with rules that are written here a second time, from the papers and without `policy/`. The
//! first violation ends the check. Does not cover: a trace that lost events (it is refused); events
//! outside of the trace.

mod about;
mod levels;
mod report;
mod vcpus;
mod violation;
mod windows;

pub use about::KERNEL_TOLERANCE_NS;
pub use report::{LevelsReport, Report};
pub use vcpus::VcpuReport;
pub use violation::{UNCHECKABLE, Violation};

use about::number;
use solocore_model::sched_trace::SchedTrace;

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
    // Traces of VCPUs are sorted on each core only: a budget may be settled in the past of its
    // core.
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
        Some("vcpu") => vcpus::check(trace).map(Report::Vcpus),
        Some(other) => wrong(format!("there is no checker for the scheduler `{other}`")),
        None => wrong("it does not name its scheduler (scheduler=...)".to_owned()),
    }
}
