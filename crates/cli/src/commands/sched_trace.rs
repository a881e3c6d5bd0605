//! Records of the simulated scheduler's decisions, written as a trace for `solocore check-trace`.

use crate::commands::daemon::write_decisions;
use crate::fail::Failure;
use solocore_model::sched_trace::SchedTrace;
use std::path::Path;

/// Maximum number of recorded events: 200 MB.
const EVENTS: usize = 5_000_000;

/// Writes a simulation's decisions, if an option asks for them.
pub fn write_simulated(csv: Option<&Path>, trace: Option<&SchedTrace>) -> Result<(), Failure> {
    let (Some(path), Some(trace)) = (csv, trace) else { return Ok(()) };
    if trace.events.len() >= EVENTS {
        eprintln!("solocore: note: the trace ends after {EVENTS} events");
    }
    write_decisions(path, trace)
}
