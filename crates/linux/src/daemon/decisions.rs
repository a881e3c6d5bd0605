//! Decisions of a scheduler in the kernel, recorded as they come.
//!
//! Rule: nothing is added to a full record, so that it is complete from the start of the run.

use super::part::Traces;
use solocore_model::sched_trace::{Event, SchedTrace};

/// Maximum number of recorded events: 400 MB.
const MOST_EVENTS: usize = 10_000_000;

/// The decisions so far.
pub(super) struct Decisions {
    trace: SchedTrace,
    pub lost: u64,
    full: bool,
}

impl Decisions {
    /// Starts a record. `about`: the trace's description of itself.
    pub fn begin(about: &[(&str, String)], cpus: usize, events: Vec<Event>) -> Self {
        let common = [("cpus", cpus.to_string()), ("source", "linux".to_owned())];
        let about =
            about.iter().chain(&common).map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        Self { trace: SchedTrace { about, events }, lost: 0, full: false }
    }

    /// Adds the new events and the number of events that were overwritten before they were read.
    pub fn add(&mut self, (events, lost): (Vec<Event>, u64)) {
        if !self.full {
            self.lost += lost;
            self.trace.events.extend(events);
            self.full = self.trace.events.len() >= MOST_EVENTS;
        }
    }

    /// Hands the events over, in the order of time.
    pub fn hand_over(self, traces: &mut Traces) {
        let Self { mut trace, lost, full } = self;
        if full {
            traces.notes.push(format!("the trace ends after {MOST_EVENTS} events"));
        }
        if lost > 0 {
            traces.notes.push(format!(
                "{lost} events came faster than they could be read; the trace has gaps"
            ));
        }
        trace.about.insert("lost".to_owned(), lost.to_string());
        trace.events.sort_by_key(|e| e.time_ns);
        traces.decisions = Some(trace);
    }
}
