//! The memory's monitor: the VCPU of its thread, and its way into the scheduler.
//!
//! Problem: to read the memory's counters and to decide on them takes time. A thread above all
//! VCPUs would take it from them without a bound. Rule: the thread is bound to a VCPU, which is
//! admitted as any other and stays on its core. The kernel's side exempts the threads of this
//! process from VCPUs, but not those that are marked as held by one (`exempt` of bpf/vcpu_core.h):
//! this one, and that of its probe ([`Vcpus::hold_thread`]). The mechanism [`Throttled`] ends a
//! monitor period in the kernel, in the time of the thread that calls it. Source: maracas, section
//! IV (a memory monitoring thread on a dedicated VCPU). Does not cover: the other threads of this
//! process, which no VCPU holds.

use super::shared::{self, Request};
use super::{Vcpus, Wanted, answer, run};
use crate::error::LinuxError;
use crate::latency::throttling::{Decision, Mechanism};
use libbpf_rs::Object;
use solocore_model::vcpus::{MONITOR, Monitor};
use std::sync::Arc;

impl Wanted {
    /// A request for the VCPU of the memory's monitor.
    #[must_use]
    pub fn monitor(stated: &Monitor) -> Self {
        Self::own(MONITOR, (stated.capacity, stated.period, stated.core))
    }
}

impl Vcpus {
    /// Number and core of the VCPU of the memory's monitor; `None`: there is none.
    #[must_use]
    pub fn monitor(&self) -> Option<(u32, u32)> {
        let own = self.book.iter().find(|e| e.name == MONITOR)?;
        Some((own.claim.id, self.core_of(own.claim.id)?))
    }

    /// The throttling of background time in the scheduler, for the monitor's thread.
    #[must_use]
    pub fn throttled(&self) -> Throttled {
        Throttled { object: Arc::clone(&self.object), cpus: self.cpus.clone() }
    }
}

/// The throttling in the kernel; it outlives the scheduler, and then throttles nobody.
pub struct Throttled {
    object: Arc<Object>,
    cpus: Vec<u32>,
}

impl Mechanism for Throttled {
    /// Hands the readings to the scheduler, which decides.
    fn monitor(
        &mut self,
        occupancy: u64,
        requests: u64,
        per_core: &[u64],
    ) -> Result<Decision, LinuxError> {
        for (&cpu, &requests) in self.cpus.iter().zip(per_core) {
            run(&self.object, "vcpu_report", &Request { cpu, requests, ..shared::nothing() })?;
        }
        let ended = Request { occupancy, requests, ..shared::nothing() };
        let decided = answer(&self.object, "vcpu_monitor", &ended)?;
        Ok(Decision {
            contended: decided.done == 2,
            throttled: decided.limit,
            requests: decided.requests,
            most_requests: decided.occupancy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when the monitor may be moved, or gets other times than the stated ones.
    #[test]
    fn the_monitors_vcpu_is_as_stated_and_stays() {
        let stated: Monitor =
            serde_json::from_str(r#"{"capacity": "2 ms", "period": "50 ms", "core": 3}"#).unwrap();
        let wanted = Wanted::monitor(&stated);
        assert_eq!((wanted.capacity_ns, wanted.period_ns), (2_000_000, 50_000_000));
        assert!(wanted.fixed && wanted.core == Some(3) && wanted.name == MONITOR);
        assert_eq!(super::super::check_name(MONITOR), Ok(()));
    }
}
