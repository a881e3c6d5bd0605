//! The counters of a program's jobs, and the passes in which a CPU counts them.

use super::child::{self, Refused, Start};
use crate::error::LinuxError;
use crate::regulate::event::Event;
use crate::sys::{
    self, PERF_DISABLED, PERF_INHERIT, PERF_ON_EXEC, PERF_PINNED, PERF_READ_TIMED, PerfAttr, Whom,
};
use solocore_model::profile::quantity;
use std::os::fd::OwnedFd;

/// A counter of every job.
#[derive(Clone, Debug)]
pub struct Counter {
    /// See [`quantity`].
    pub quantity: &'static str,
    /// The event that counts it.
    pub event: String,
    /// The quantity that the event really counts, where it is a substitute.
    pub stands_in: Option<String>,
    pub(super) attributes: PerfAttr,
}

impl Counter {
    fn of(quantity: &'static str, event: &Event, cpu: u32) -> Self {
        let attributes = event.attributes(cpu, 0);
        let stands_in = event.is_software().then(|| format!("{} of the kernel", event.name()));
        Self { quantity, event: event.name().to_owned(), stands_in, attributes }
    }

    /// A counter of the kernel's own events.
    fn of_kernel(quantity: &'static str, event: &Event, cpu: u32) -> Self {
        Self { stands_in: None, ..Self::of(quantity, event, cpu) }
    }

    fn open(&self, whom: Whom) -> std::io::Result<OwnedFd> {
        // A pinned event of a program would be in error without a counter; this one reports that it
        // did not count all the time.
        let flags = self.attributes.flags & !PERF_PINNED;
        let flags = flags | PERF_DISABLED | PERF_INHERIT | PERF_ON_EXEC;
        sys::perf_open(&PerfAttr { flags, read_format: PERF_READ_TIMED, ..self.attributes }, whom)
    }
}

/// Time and counts of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// From the start of its process to its end, ns; the longest of its passes.
    pub time_ns: u64,
    /// The count of each counter, in the order of the counters.
    pub counts: Vec<u64>,
}

/// The counters of a program's jobs on one CPU.
pub struct Counters {
    /// Counters in the order of the counts.
    pub counters: Vec<Counter>,
    /// Indices of the counters that are open in each run of a job.
    pub(super) passes: Vec<Vec<usize>>,
    /// Quantities that are not counted, with the reasons.
    pub missing: Vec<String>,
    pub(super) cpu: u32,
}

impl Counters {
    /// Opens the counters that this CPU has: time on it, cycles, instructions, `misses` (those of
    /// the kernel as well, and the program's own), `write_backs`, page faults.
    ///
    /// # Errors
    /// This process may not count, or `misses` cannot be counted here.
    pub fn new(
        cpu: u32,
        misses: &Event,
        write_backs: Option<&Event>,
        cpuinfo: &str,
    ) -> Result<Self, LinuxError> {
        let work = |name| Event::of_work(name, cpuinfo);
        let kernels = [(quantity::CPU_TIME, "task-clock"), (quantity::FAULTS, "page-faults")];
        let of = |(quantity, name)| Some(Counter::of_kernel(quantity, &work(name)?, cpu));
        let mut counters: Vec<Counter> = kernels.into_iter().filter_map(of).collect();
        counters.push(Counter::of(quantity::MISSES, misses, cpu));
        if !misses.is_of_programs_only() {
            let own = misses.clone().of_programs();
            counters.push(Counter::of(quantity::USER_MISSES, &own, cpu));
        }
        for counter in &counters {
            counter.open(Whom::Me).map_err(|e| refused(counter, &e))?;
        }
        let mut missing = Vec::new();
        let more = [
            (quantity::CYCLES, work("cycles")),
            (quantity::INSTRUCTIONS, work("instructions").map(Event::of_programs)),
            (quantity::WRITE_BACKS, write_backs.cloned()),
        ];
        for (quantity, event) in more {
            let Some(event) = event else {
                missing.push(format!(
                    "{quantity}: the table of events has no such event for this CPU"
                ));
                continue;
            };
            let counter = Counter::of(quantity, &event, cpu);
            match counter.open(Whom::Me) {
                Ok(_) => counters.push(counter),
                Err(e) => missing.push(format!("{quantity}: {}", refused(&counter, &e))),
            }
        }
        let all = (0..counters.len()).collect();
        Ok(Self { counters, passes: vec![all], missing, cpu })
    }

    /// Number of runs of the program for each job.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.passes.len()
    }

    /// Counts a job.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn job(&mut self, start: &Start<'_>) -> Result<Job, Refused> {
        let mut job = Job { time_ns: 0, counts: vec![0; self.counters.len()] };
        let mut at = 0;
        while let Some(pass) = self.passes.get(at).cloned() {
            let open = |pid| {
                pass.iter()
                    .map(|&n| {
                        let counter = &self.counters[n];
                        counter.open(Whom::Process(pid)).map_err(|e| refused(counter, &e))
                    })
                    .collect::<Result<Vec<OwnedFd>, LinuxError>>()
            };
            let (ran, events) = child::run(start, self.cpu, open)?;
            let read: Vec<(u64, bool)> = events
                .iter()
                .zip(&pass)
                .map(|(event, &n)| {
                    sys::perf_read_timed(event).map_err(|e| refused(&self.counters[n], &e))
                })
                .collect::<Result<_, _>>()?;
            if read.iter().all(|(_, whole)| *whole) {
                for (&n, (count, _)) in pass.iter().zip(&read) {
                    job.counts[n] = *count;
                }
                let ns = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
                job.time_ns = job.time_ns.max(ns);
                at += 1;
            } else {
                self.divide(at)?;
            }
        }
        Ok(job)
    }

    /// The CPU cannot hold all counters of a pass at once: they are counted in two from now on.
    pub(super) fn divide(&mut self, at: usize) -> Result<(), LinuxError> {
        let pass = &self.passes[at];
        if let [only] = pass.as_slice() {
            return Err(LinuxError::Machine(format!(
                "event {}: another program took its counter; end other programs that count \
                    (perf, the NMI watchdog: `sysctl kernel.nmi_watchdog=0`)",
                self.counters[*only].event
            )));
        }
        let (first, second) = pass.split_at(pass.len() / 2);
        let halves = [first.to_vec(), second.to_vec()];
        self.passes.splice(at..=at, halves);
        Ok(())
    }
}

/// The reason why a counter cannot be opened or read.
pub(super) fn refused(counter: &Counter, error: &std::io::Error) -> LinuxError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "CAP_PERFMON is missing: run as root",
        _ => "this CPU has no such counter; choose another --event (`solocore doctor`)",
    };
    LinuxError::of_io(&format!("event {}", counter.event), error, remedy)
}
