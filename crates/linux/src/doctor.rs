//! What this machine can do, what it lacks, and how to get it.

pub use crate::host::finding::Finding;

use crate::error::LinuxError;
use crate::host::{machine, resctrl};
use crate::latency::{LatencySource, pmu, uncore::Uncore};
use crate::regulate::engine;
use crate::regulate::event::{self, Event};
use crate::sys;
use std::fs;
use std::path::Path;

fn finding(what: &str, good: bool, found: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), good, found: found.into() }
}

/// Looks at everything. `event` is tested beside those that are known here.
///
/// # Errors
/// The event has no meaning.
pub fn examine(event: Option<&str>, cpuinfo: &str) -> Result<Vec<Finding>, LinuxError> {
    let named = event.map(|name| Event::find(name, cpuinfo)).transpose()?;
    let mut findings =
        vec![kernel(), cpus(), privileges(), bpf_loads(), sched_ext(), helper(), fair_server()];
    findings.push(match event::microarchitecture(cpuinfo) {
        Some(m) => {
            finding("cpu", true, format!("{}: llc-misses is r{:x}, {}", m.title, m.config, m.event))
        }
        None => finding(
            "cpu",
            false,
            "the table of events lacks it; give its event for last-level misses as --event rHEX",
        ),
    });
    findings.extend(event::microarchitecture(cpuinfo).map(write_backs));
    let mut events = vec!["llc-misses", "cache-misses", "page-faults"];
    events.retain(|name| Some(*name) != event);
    for name in events {
        findings.push(match Event::find(name, cpuinfo) {
            Ok(event) => counted(&event),
            Err(e) => finding(&format!("event {name}"), false, e.to_string()),
        });
    }
    findings.extend(named.as_ref().map(counted));
    findings.push(memory_latency(cpuinfo));
    findings.extend(resctrl::findings(cpuinfo));
    Ok(findings)
}

/// Can reads and writes be counted apart, for a plan with budgets of writes?
fn write_backs(m: event::Microarchitecture) -> Finding {
    match m.write_backs {
        Some((config, name)) => finding(
            "write-backs",
            true,
            format!(
                "r{config:x}, {name}, counts them apart (not tried on hardware), for budgets of \
                    writes"
            ),
        ),
        None => finding(
            "write-backs",
            false,
            "this CPU's cores do not count them apart from misses (only its memory controllers \
                do): budgets of writes need --write-event, or --no-write-budgets",
        ),
    }
}

/// Do these findings allow to regulate, by accesses to memory or by what stands in for them?
pub fn regulates(findings: &[Finding]) -> bool {
    let good = |what: &str| findings.iter().any(|f| f.what.starts_with(what) && f.good);
    good("privileges") && good("bpf") && (good("sched-ext") || good("helper")) && good("event ")
}

/// Does an event count accesses to memory here? Without one, the mechanism can be tried, and no
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
    finding("kernel", true, format!("Linux {}", release.trim()))
}

fn cpus() -> Finding {
    match machine::online_cpus() {
        Ok(cpus) => finding(
            "cpus",
            true,
            format!("{} online; a plan must be for as many cores", cpus.len()),
        ),
        Err(e) => finding("cpus", false, e.to_string()),
    }
}

fn privileges() -> Finding {
    match machine::check_privileges() {
        Ok(()) => finding("privileges", true, "all that are needed"),
        Err(e) => finding("privileges", false, e.to_string()),
    }
}

/// Loads the helper's programs, which need nothing but BPF, and lets them go.
fn bpf_loads() -> Finding {
    match engine::try_load() {
        Ok(()) => finding("bpf", true, "the programs load"),
        Err(e) => finding("bpf", false, e.to_string()),
    }
}

fn sched_ext() -> Finding {
    match engine::try_sched_ext() {
        Ok(()) => finding("sched-ext", true, "this engine can run, and is chosen by itself"),
        Err(e) => finding("sched-ext", false, e.to_string()),
    }
}

/// On a thread of its own, which ends as a real-time thread.
fn helper() -> Finding {
    let tried = std::thread::spawn(|| sys::Scheduling::fifo(1).apply()).join();
    match tried {
        Ok(Ok(())) => finding("helper", true, "this engine can run: real-time threads are allowed"),
        Ok(Err(e)) => {
            finding("helper", false, format!("real-time threads are refused: {e}; run as root"))
        }
        Err(_) => finding("helper", false, "no thread can be made; raise the limit (ulimit -u)"),
    }
}

fn fair_server() -> Finding {
    let path = "sched/fair_server/cpu0/runtime";
    let opened = sys::debugfs().and_then(|dir| sys::open_at(&dir, path, false));
    match opened {
        Ok(_) => finding("fair server", true, "can be turned off while the helper engine runs"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            finding("fair server", true, "this kernel has none")
        }
        Err(e) => finding(
            "fair server",
            false,
            format!(
                "cannot be turned off ({e}; is the kernel locked down?): with the helper engine, \
                    tasks with small budgets run unregulated for up to 5 % of the time; sched-ext \
                    has no such gap"
            ),
        ),
    }
}

/// What `solocore latency` reads here. The probe works everywhere, so that this is never missing.
fn memory_latency(cpuinfo: &str) -> Finding {
    let found = match Uncore::latency(Path::new(pmu::SYSFS), cpuinfo) {
        Ok(counters) => format!("counted: {}", counters.about()),
        Err(e) => format!(
            "measured by a probe, as {}",
            e.to_string().split("; ").next().unwrap_or_default()
        ),
    };
    finding("memory latency", true, found)
}

fn counted(event: &Event) -> Finding {
    let what = format!("event {}", event.name());
    match event.self_test() {
        Ok((made, counted)) => {
            let use_it =
                if event.is_software() { "; it only stands in for accesses to memory" } else { "" };
            finding(&what, true, format!("of {made} made, {counted} were counted{use_it}"))
        }
        Err(e) => finding(&what, false, e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_needs() {
        let all: Vec<Finding> = ["privileges", "bpf", "helper", "event page-faults"]
            .map(|w| finding(w, true, ""))
            .into();
        assert!(regulates(&all));
        for missing in 0..all.len() {
            let mut some = all.clone();
            some[missing].good = false;
            assert!(!regulates(&some), "{}", all[missing].what);
        }
        assert!(!counts_memory(&all));
        assert!(counts_memory(&[finding("event r412e", true, "")]));
        assert!(!counts_memory(&[finding("event r412e", false, "")]));
    }

    #[test]
    fn every_finding_says_something() {
        for f in examine(Some("page-faults"), "").unwrap() {
            assert!(!f.found.is_empty(), "{}", f.what);
        }
        assert!(matches!(examine(Some("nonsense"), ""), Err(LinuxError::Input(_))));
    }
}
