//! Number of requests to memory of each CPU.
//!
//! Problem: Algorithm 1 weighs a core's background time with the requests it made (m_i), and the
//! rate rule needs their sum.
//! Rule: an event ([`Event`], by default last-level misses) counts everything that runs, on every
//! CPU; a reading is the difference to the last one. Without such a counter, page faults are the
//! substitute for trying the mechanism, as for `solocore run`.
//! Source: maracas, section IV (m_i, R_cur); perf_event_open(2).
//! Does not cover: requests of devices and of hardware prefetchers, where the event leaves them
//! out; write-backs.

use super::source::{LatencySource, Reading, Unit};
use crate::error::LinuxError;
use crate::regulate::event::Event;
use crate::sys::{self, PERF_DISABLED, PerfAttr, Whom};
use std::os::fd::OwnedFd;

struct CountedCore {
    cpu: u32,
    event: OwnedFd,
    last: u64,
}

/// A counter on each of some CPUs.
pub struct CoreRequests {
    cores: Vec<CountedCore>,
    event: Event,
}

impl CoreRequests {
    /// Counts this event on these CPUs.
    ///
    /// # Errors
    /// The machine has no such counter, or this process may not use it.
    pub fn open(event: &Event, cpus: &[u32]) -> Result<Self, LinuxError> {
        let mut cores = Vec::new();
        for &cpu in cpus {
            let attributes = event.attributes(cpu, 0);
            let attributes = PerfAttr { flags: attributes.flags & !PERF_DISABLED, ..attributes };
            let opened = sys::perf_open(&attributes, Whom::Cpu(cpu)).map_err(|e| {
                let remedy = match e.raw_os_error() {
                    Some(libc::EACCES | libc::EPERM) => "CAP_PERFMON is missing: run as root",
                    _ => {
                        "choose another --event (`solocore doctor`); page-faults are the \
                        substitute without a counter"
                    }
                };
                LinuxError::of_io(&format!("event {} on CPU {cpu}", event.name()), &e, remedy)
            })?;
            let last = count(&opened, event, cpu)?;
            cores.push(CountedCore { cpu, event: opened, last });
        }
        Ok(Self { cores, event: event.clone() })
    }

    /// The named event, or without a name the first of last-level misses, cache misses and page
    /// faults that this machine counts; with the reason, if it is not the first.
    ///
    /// # Errors
    /// The name is unknown, or the machine does not count the event; without a name: not even page
    /// faults can be counted.
    pub fn choose(
        name: Option<&str>,
        cpuinfo: &str,
        cpus: &[u32],
    ) -> Result<(Self, Option<String>), LinuxError> {
        if let Some(name) = name {
            return Ok((Self::open(&Event::find(name, cpuinfo)?, cpus)?, None));
        }
        let opened = |name| Event::find(name, cpuinfo).and_then(|event| Self::open(&event, cpus));
        match opened("llc-misses") {
            Ok(counts) => Ok((counts, None)),
            Err(e) => {
                let why = e.to_string().split("; ").next().unwrap_or_default().to_owned();
                let counts = opened("cache-misses").or_else(|_| opened("page-faults"))?;
                Ok((counts, Some(why)))
            }
        }
    }

    /// Requests of each CPU since the last call, in the order of [`Self::cpus`].
    ///
    /// # Errors
    /// A counter can no longer be read.
    pub fn read_each(&mut self) -> Result<Vec<u64>, LinuxError> {
        let mut all = Vec::with_capacity(self.cores.len());
        for core in &mut self.cores {
            let now = count(&core.event, &self.event, core.cpu)?;
            all.push(now.saturating_sub(core.last));
            core.last = now;
        }
        Ok(all)
    }

    /// The CPUs on which it counts.
    pub fn cpus(&self) -> Vec<u32> {
        self.cores.iter().map(|c| c.cpu).collect()
    }

    /// The counters, with their CPUs.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (u32, &OwnedFd)> {
        self.cores.iter().map(|c| (c.cpu, &c.event))
    }

    /// The event that it counts.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

fn count(fd: &OwnedFd, event: &Event, cpu: u32) -> Result<u64, LinuxError> {
    sys::perf_read(fd).map_err(|e| {
        let what = format!("event {} on CPU {cpu} cannot be read", event.name());
        LinuxError::of_io(
            &what,
            &e,
            "the counter may be in use, or the CPU offline: choose another --event",
        )
    })
}

/// The sum of all CPUs, where no counter has the machine's requests.
impl LatencySource for CoreRequests {
    fn read(&mut self) -> Result<Reading, LinuxError> {
        let requests = self.read_each()?.into_iter().fold(0, u64::saturating_add);
        Ok(Reading { requests, ..Reading::default() })
    }

    fn unit(&self) -> Unit {
        Unit::Requests
    }

    fn about(&self) -> String {
        format!("{} of {} CPU(s)", self.event.name(), self.cores.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Option<CoreRequests> {
        let cpus = crate::host::machine::online_cpus().unwrap();
        match CoreRequests::open(&Event::find("minor-faults", "").unwrap(), &cpus) {
            Ok(counts) => Some(counts),
            // Not every user may count on every CPU; the message says so.
            Err(e) => {
                assert!(e.to_string().contains("run as root"), "{e}");
                None
            }
        }
    }

    #[test]
    fn a_cpus_requests_are_counted_since_the_last_time() {
        let Some(mut counts) = opened() else { return };
        assert_eq!(counts.cpus(), crate::host::machine::online_cpus().unwrap());
        let before: u64 = counts.read_each().unwrap().iter().sum();
        // A new program has no page yet; the allocator of this one may have some.
        for _ in 0..5 {
            let started = std::process::Command::new("true").status();
            assert!(started.is_ok_and(|status| status.success()));
        }
        let reading = counts.read().unwrap();
        assert!(reading.requests >= 100, "{} after {before}", reading.requests);
        assert!(!reading.dma_included && reading.latency().is_none());
    }

    #[test]
    fn something_can_be_counted_everywhere() {
        let cpus = crate::host::machine::online_cpus().unwrap();
        match CoreRequests::choose(None, "", &cpus) {
            // No table for a CPU that is not described: the first is not had, and why is said.
            Ok((counts, why)) => {
                assert!(why.is_some_and(|w| w.contains("table")) && !counts.cores.is_empty())
            }
            Err(e) => assert!(e.to_string().contains("run as root"), "{e}"),
        }
        assert!(matches!(
            CoreRequests::choose(Some("nonsense"), "", &cpus),
            Err(LinuxError::Input(_))
        ));
        let error =
            CoreRequests::choose(Some("page-faults"), "", &[60_000]).err().unwrap().to_string();
        assert!(error.contains("CPU 60000"), "{error}");
    }
}
