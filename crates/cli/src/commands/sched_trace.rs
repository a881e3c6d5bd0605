//! Records of a scheduler's decisions, written as a trace for `solocore check-trace`.

use crate::fail::Failure;
use solocore_linux::vcpu::VcpuState;
use solocore_model::files;
use solocore_model::sched_trace::{Event, SchedTrace};
use std::path::Path;

/// Most events that are kept: 200 MB.
const EVENTS: usize = 5_000_000;

/// What was decided so far.
pub struct Record {
    trace: SchedTrace,
    lost: u64,
    wanted: bool,
    full: bool,
}

impl Record {
    /// From now on.
    pub fn begin(scheduler: &str, background: &str, cpus: usize, wanted: bool) -> Self {
        let about = [
            ("scheduler", scheduler.to_owned()),
            ("background", background.to_owned()),
            ("cpus", cpus.to_string()),
            ("source", "linux".to_owned()),
        ];
        let about = about.map(|(k, v)| (k.to_owned(), v)).into();
        Self { trace: SchedTrace { about, events: Vec::new() }, lost: 0, wanted, full: false }
    }

    /// Adds what is new. Once the record is full, nothing: what it holds is whole from the start.
    pub fn add(&mut self, events: Vec<Event>, lost: u64) {
        if !self.wanted || self.full {
            return;
        }
        self.lost += lost;
        self.trace.events.extend(events);
        self.full = self.trace.events.len() >= EVENTS;
    }

    /// Writes the files that are wanted.
    pub fn write(mut self, csv: Option<&Path>, perfetto: Option<&Path>, vcpus: &[VcpuState]) -> Result<(), Failure> {
        if self.full {
            eprintln!("solocore: note: the trace ends after {EVENTS} events");
        }
        if self.lost > 0 {
            eprintln!("solocore: note: {} events came faster than they could be read; the trace has gaps", self.lost);
        }
        self.trace.about.insert("lost".to_owned(), self.lost.to_string());
        if let Some(path) = csv {
            let mut bytes = Vec::new();
            self.trace.write(&mut bytes).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))?;
            files::write_atomically(path, &bytes)?;
        }
        let _ = (perfetto, vcpus);
        Ok(())
    }
}
