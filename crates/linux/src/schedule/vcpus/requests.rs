//! The use of memory of each VCPU, for the background policy that asks for it.
//!
//! Rule (maracas, section III): of the VCPUs that wait for budget, the one with the fewest requests
//! in a millisecond of its own execution gets the background time. The kernel's side adds up the
//! requests of each (`bpf/vcpu_requests.h`). Once a period, which is the longest T of a VCPU as in
//! the simulator, the quotients are handed to the policy. A VCPU that did not run keeps its last
//! one. Does not cover: requests that the event leaves out (docs/events.md).

use super::shared::{self, Request};
use super::{Vcpus, run};
use crate::contract;
use crate::error::LinuxError;
use crate::host::machine;
use crate::latency::requests::CoreRequests;
use crate::regulate::bpf;
use crate::sys;
use libbpf_rs::Link;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `vcpu_report`: the intensity of a VCPU.
const INTENSITY: u32 = 2;

/// Counts of a VCPU so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    requests: u64,
    ran_ns: u64,
}

/// Requests in a millisecond of execution since the last look; `None` if it did not run.
fn intensity(before: Seen, now: Seen) -> Option<u64> {
    // Another VCPU may have the number by now; then its counts begin at 0.
    let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
    let (made, ran) = (since(now.requests, before.requests), since(now.ran_ns, before.ran_ns));
    let rate = u128::from(made) * 1_000_000 / u128::from((ran > 0).then_some(ran)?);
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// The counters, until this is dropped.
pub struct Requests {
    // Dropped first: the program reads the counters.
    _link: Link,
    counters: CoreRequests,
    seen: BTreeMap<u32, Seen>,
    due: Instant,
}

impl Requests {
    /// Begins to count this event, or without a name the first that the machine counts. Returns a
    /// note for the user too, if it is not the first.
    ///
    /// # Errors
    /// The machine counts no such event, or the kernel refuses the program.
    pub fn start(vcpus: &Vcpus, event: Option<&str>) -> Result<(Self, Option<String>), LinuxError> {
        let cpus = machine::online_cpus()?;
        let chosen = CoreRequests::choose(event, &machine::cpuinfo(), &cpus);
        let (counters, instead) = chosen.map_err(|e| e.of("--background least-memory"))?;
        let by_cpu = bpf::map(&vcpus.object, "requests")?;
        for (cpu, counter) in counters.counters() {
            contract::put(&by_cpu, cpu, &counter.as_raw_fd()).map_err(|e| {
                bpf::inside(&format!("the counter of CPU {cpu} cannot be shared: {e}"))
            })?;
        }
        let found = vcpus.object.progs_mut().find(|p| p.name() == "requested");
        let program = found.ok_or_else(|| bpf::inside("there is no program `requested`"))?;
        let link = program.attach().map_err(|e| {
            LinuxError::Machine(format!(
                "--background least-memory: changes of threads are not seen: {e}; choose another \
                    --background"
            ))
        })?;
        let (seen, due) = (BTreeMap::new(), Instant::now());
        Ok((Self { _link: link, counters, seen, due }, instead))
    }

    /// The event that is counted.
    pub fn event(&self) -> &str {
        self.counters.event().name()
    }

    /// Ends the period when its time is over, and tells the policy.
    ///
    /// # Errors
    /// Only by a fault of solocore.
    pub fn look(&mut self, vcpus: &Vcpus) -> Result<(), LinuxError> {
        if Instant::now() < self.due {
            return Ok(());
        }
        for &cpu in &vcpus.cpus {
            // A change of threads: what ran until now is counted.
            sys::on_cpu(cpu, || ());
        }
        let mut longest_ns = 0;
        for entry in &vcpus.book {
            longest_ns = longest_ns.max(entry.claim.period_ns);
            let (id, state) = (entry.claim.id, vcpus.state_of(entry));
            let Some(info) = vcpus.info(id) else { continue };
            let now = Seen {
                requests: info.requests,
                ran_ns: state.foreground_ns.saturating_add(state.background_ns),
            };
            // While it is on its way between cores, its times cannot be read.
            if state.state == "moving" {
                continue;
            }
            let before = self.seen.insert(id, now).unwrap_or_default();
            if let Some(requests) = intensity(before, now) {
                let (flags, what) = (INTENSITY, shared::nothing());
                run(&vcpus.object, "vcpu_report", &Request { id, requests, flags, ..what })?;
            }
        }
        self.due = Instant::now() + Duration::from_nanos(longest_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intensity_is_requests_by_execution() {
        let seen = |requests, ran_ns| Seen { requests, ran_ns };
        assert_eq!(intensity(seen(0, 0), seen(30, 2_000_000)), Some(15));
        assert_eq!(intensity(seen(30, 2_000_000), seen(33, 5_000_000)), Some(1));
        assert_eq!(intensity(seen(30, 2_000_000), seen(30, 2_000_000)), None, "it did not run");
        assert_eq!(intensity(seen(30, 2_000_000), seen(8, 1_000_000)), Some(8), "a new owner");
        assert_eq!(intensity(seen(0, 0), seen(u64::MAX, 1)), Some(u64::MAX));
    }
}
