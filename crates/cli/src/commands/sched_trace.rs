//! Records of the simulated scheduler's decisions, as a trace for `solocore check-trace`.

use crate::commands::daemon::csv_of;
use crate::fail::Failure;
use solocore_model::sched_trace::SchedTrace;
use std::path::Path;

/// Maximum number of recorded events: 200 MB.
const EVENTS: usize = 5_000_000;

/// The file of a simulation's decisions with its bytes, if an option asks for it.
pub fn of_simulation<'a>(
    csv: Option<&'a Path>,
    trace: Option<&SchedTrace>,
) -> Result<Option<(&'a Path, Vec<u8>)>, Failure> {
    let (Some(path), Some(trace)) = (csv, trace) else { return Ok(None) };
    if trace.events.len() >= EVENTS {
        eprintln!("solocore: note: the trace ends after {EVENTS} events");
    }
    Ok(Some((path, csv_of(path, trace)?)))
}
