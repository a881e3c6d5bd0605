//! The abilities of this machine, its gaps, and the remedies.
//!
//! Problem: kernel, CPU and settings decide whether a plan can run on a machine, and whether its
//! promises hold there. Rule: every ability is tried or read; nothing is changed.
//! Source: docs/conditions.md, docs/promises.md.
//! Does not cover: reasons in a plan for which a run would be refused (`solocore run --dry-run`).

mod conditions;
mod events;

pub use crate::host::finding::Finding;

use crate::error::LinuxError;
use crate::host::{machine, resctrl};
use crate::latency::{LatencySource, pmu, uncore::Uncore};
use crate::regulate::engine;
use crate::regulate::event::{self, Event};
use crate::schedule::vcpus;
use crate::sys;
use solocore_model::platform::CoreType;
use std::fs;
use std::path::Path;

/// All findings. `event` is tested beside those that are known here; `described` are the core types
/// of a plan's platform.
///
/// # Errors
/// The event is unknown.
pub fn examine(
    event: Option<&str>,
    cpuinfo: &str,
    described: &[CoreType],
) -> Result<Vec<Finding>, LinuxError> {
    let named = event.map(|name| Event::find(name, cpuinfo)).transpose()?;
    let mut findings = vec![kernel(), cpus(), privileges(), bpf_loads(), sched_ext(), helper()];
    let types = event::types(cpuinfo);
    findings.extend(events::cpu_types(&types));
    findings.extend(events::write_backs(&types));
    let mut names = vec!["llc-misses", "cache-misses", "page-faults"];
    names.retain(|name| Some(*name) != event);
    for name in names {
        match Event::find(name, cpuinfo) {
            Ok(event) => findings.extend(events::counted(&event)),
            Err(e) => findings.push(Finding::new(&format!("event {name}"), false, e.to_string())),
        }
    }
    findings.extend(named.as_ref().map(events::counted).unwrap_or_default());
    let in_use = named.or_else(|| Event::find("llc-misses", cpuinfo).ok());
    findings.extend(in_use.as_ref().map(events::left_out).unwrap_or_default());
    // After the events: memory that large programs leave in the heap would serve the self-test of
    // page faults without a fault.
    findings.push(schedulers());
    findings.push(memory_latency(cpuinfo));
    findings.extend(resctrl::findings(cpuinfo));
    findings.extend(conditions::all(&conditions::Root::machine(), described));
    Ok(findings)
}

/// Whether these findings allow regulation, by accesses to memory or by a substitute.
pub fn regulates(findings: &[Finding]) -> bool {
    let good = |what: &str| findings.iter().any(|f| f.what.starts_with(what) && f.good);
    good("privileges") && good("bpf") && (good("sched-ext") || good("helper")) && good("event ")
}

/// Whether an event counts accesses to memory here. Without one, the mechanism can be tried, and no
/// bound of a plan holds.
pub fn counts_memory(findings: &[Finding]) -> bool {
    let software = |what: &str| {
        what.strip_prefix("event ")
            .is_some_and(|name| Event::find(name, "").is_ok_and(|e| e.is_software()))
    };
    findings.iter().any(|f| f.good && f.what.starts_with("event ") && !software(&f.what))
}

fn kernel() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Finding::new("kernel", true, format!("Linux {}", release.trim()))
}

fn cpus() -> Finding {
    match machine::online_cpus() {
        Ok(cpus) => Finding::new(
            "cpus",
            true,
            format!("{} online; a plan must be for this number of cores", cpus.len()),
        ),
        Err(e) => Finding::new("cpus", false, e.to_string()),
    }
}

fn privileges() -> Finding {
    // In a container the programs would mistake others for solocore, which no privilege changes.
    match machine::check_privileges().and_then(|()| machine::check_numbers()) {
        Ok(()) => Finding::new("privileges", true, "all that are needed"),
        Err(e) => Finding::new("privileges", false, e.to_string()),
    }
}

/// Loads the programs of the helper engine, which need BPF only, and unloads them.
fn bpf_loads() -> Finding {
    match engine::try_load() {
        Ok(()) => Finding::new("bpf", true, "the programs load"),
        Err(e) => Finding::new("bpf", false, e.to_string()),
    }
}

fn sched_ext() -> Finding {
    match engine::try_sched_ext() {
        Ok(()) => Finding::new("sched-ext", true, "this engine can run, and is the default"),
        Err(e) => Finding::new("sched-ext", false, e.to_string()),
    }
}

/// Tests the programs of the schedulers of VCPUs; those of levels and windows need the same. Both
/// set timers of BPF, which kernels with PREEMPT_RT refuse.
fn schedulers() -> Finding {
    const WHAT: &str = "schedulers";
    match vcpus::load::try_load() {
        Ok(()) => Finding::new(WHAT, true, "VCPUs, levels and windows can be scheduled"),
        Err(e) if e.to_string().contains("PREEMPT_RT") => Finding::new(
            WHAT,
            false,
            "this kernel (PREEMPT_RT) refuses the timers of BPF programs, so VCPUs, levels and \
                windows cannot be scheduled; budgets are still enforced; boot a kernel without -rt for these",
        ),
        Err(e) => Finding::new(WHAT, false, format!("VCPUs, levels and windows: {e}")),
    }
}

/// Tests a thread of the helper engine, on a thread of its own: it ends as a real-time thread.
fn helper() -> Finding {
    let tried = std::thread::spawn(|| sys::Scheduling::fifo(1).apply()).join();
    match tried {
        Ok(Ok(())) => {
            Finding::new("helper", true, "this engine can run: real-time threads are allowed")
        }
        Ok(Err(e)) => Finding::new(
            "helper",
            false,
            format!("real-time threads are refused: {e}; run as root"),
        ),
        Err(_) => {
            Finding::new("helper", false, "no thread can be made; raise the limit (ulimit -u)")
        }
    }
}

/// The source that `solocore latency` reads here. The probe works everywhere, so that this is never
/// missing.
fn memory_latency(cpuinfo: &str) -> Finding {
    let found = match Uncore::latency(Path::new(pmu::SYSFS), cpuinfo) {
        Ok(counters) => format!("counted: {}", counters.about()),
        Err(e) => format!(
            "measured by a probe, as {}",
            e.to_string().split("; ").next().unwrap_or_default()
        ),
    };
    Finding::new("memory latency", true, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_needs() {
        let all: Vec<Finding> = ["privileges", "bpf", "helper", "event page-faults"]
            .map(|w| Finding::new(w, true, ""))
            .into();
        assert!(regulates(&all));
        for missing in 0..all.len() {
            let mut some = all.clone();
            some[missing].good = false;
            assert!(!regulates(&some), "{}", all[missing].what);
        }
        assert!(!counts_memory(&all));
        assert!(counts_memory(&[Finding::new("event r412e", true, "")]));
        assert!(!counts_memory(&[Finding::new("event r412e", false, "")]));
    }

    #[test]
    fn every_finding_says_something() {
        for f in examine(Some("page-faults"), "", &[]).unwrap() {
            assert!(!f.found.is_empty(), "{}", f.what);
        }
        assert!(matches!(examine(Some("nonsense"), "", &[]), Err(LinuxError::Input(_))));
    }
}
