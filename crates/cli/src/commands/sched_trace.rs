//! Records of a scheduler's decisions, written as a trace for `solocore check-trace`.

use crate::fail::Failure;
use solocore_linux::schedule::vcpus::{Options, VcpuState};
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
    /// Of VCPUs, from now on.
    pub fn of_vcpus(options: &Options, cpus: usize) -> Self {
        let about = [
            ("scheduler", "vcpu".to_owned()),
            ("background", options.background.name().to_owned()),
            ("strict", u8::from(options.strict).to_string()),
            ("limit", options.replenishments.to_string()),
            ("overhead_ns", options.overhead_ns.to_string()),
        ];
        Self::begin(&about, cpus, options.traced)
    }

    /// From now on; `about`: what the trace says of itself.
    pub fn begin(about: &[(&str, String)], cpus: usize, wanted: bool) -> Self {
        let common = [("cpus", cpus.to_string()), ("source", "linux".to_owned())];
        let about = about.iter().chain(&common).map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
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
            write_csv(path, &self.trace)?;
        }
        if let Some(path) = perfetto {
            let names = vcpus.iter().map(|v| (v.id, v.name.clone())).collect();
            files::write_atomically(path, &solocore_report::perfetto_vcpus(&self.trace, &names))?;
        }
        Ok(())
    }
}

/// Writes a simulation's decisions, if they are wanted.
pub fn write_simulated(csv: Option<&Path>, trace: Option<&SchedTrace>) -> Result<(), Failure> {
    let (Some(path), Some(trace)) = (csv, trace) else { return Ok(()) };
    if trace.events.len() >= EVENTS {
        eprintln!("solocore: note: the trace ends after {EVENTS} events");
    }
    write_csv(path, trace)
}

fn write_csv(path: &Path, trace: &SchedTrace) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))?;
    Ok(files::write_atomically(path, &bytes)?)
}
