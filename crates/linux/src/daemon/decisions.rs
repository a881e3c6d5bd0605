//! Decisions of a scheduler in the kernel, taken as they come.
//!
//! Rule: once the record is full nothing is added, so that what it holds is whole from the start.

use super::part::Traces;
use solocore_model::sched_trace::{Event, SchedTrace};

/// Most events that are kept: 400 MB.
const MOST_EVENTS: usize = 10_000_000;

/// What was decided so far.
pub(super) struct Decisions {
    trace: SchedTrace,
    pub lost: u64,
    full: bool,
}

impl Decisions {
    /// From now on; `about`: what the trace says of itself.
    pub fn begin(about: &[(&str, String)], cpus: usize, events: Vec<Event>) -> Self {
        let common = [("cpus", cpus.to_string()), ("source", "linux".to_owned())];
        let about =
            about.iter().chain(&common).map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        Self { trace: SchedTrace { about, events }, lost: 0, full: false }
    }

    /// Adds what is new, and how many were overwritten before they were read.
    pub fn add(&mut self, (events, lost): (Vec<Event>, u64)) {
        if !self.full {
            self.lost += lost;
            self.trace.events.extend(events);
            self.full = self.trace.events.len() >= MOST_EVENTS;
        }
    }

    /// Hands them over, in the order of time.
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
