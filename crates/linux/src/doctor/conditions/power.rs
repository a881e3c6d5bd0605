//! Checks that the machine does not sleep and that its CPUs keep one speed.
//!
//! Problem: a time is measured at one speed of a CPU that is awake. Rule: the speed is fixed under
//! the governor `performance` or where its limits meet, and boost is off; no idle state takes
//! [`LATEST_US`] or longer to leave; nothing puts the machine to sleep by itself.
//! Source: Linux, Documentation/admin-guide/pm (cpufreq.rst, intel_pstate.rst, cpuidle.rst,
//! sleep-states.rst, Documentation/power/pm_qos_interface.rst); systemd.special(7).
//! Does not cover: throttling by heat or power limits, and changes by the firmware.

use super::root::{CPUS, Root, grouped, named};
use crate::host::finding::{Finding, Topic};
use solocore_model::plan::Subject;
use std::io::Read;

const SUSPEND: Topic =
    Topic::new("suspend", &[Subject::Place, Subject::Releases, Subject::Budget, Subject::Window]);
const FREQUENCY: Topic = Topic::new("frequency", &[Subject::Demand]);
const BOOST: Topic = Topic::new("boost", &[Subject::Demand]);
const IDLE: Topic =
    Topic::new("idle states", &[Subject::Releases, Subject::Window, Subject::Slots]);

/// Longest time to leave an idle state, µs. A plan counts in tens of microseconds, and a CPU that
/// wakes up later delays its jobs.
const LATEST_US: u64 = 10;

/// Whether the machine can fall asleep during a run.
pub(super) fn suspend(root: &Root) -> Finding {
    let automatic = root.text("sys/power/autosleep").unwrap_or_default();
    if ["freeze", "standby", "mem", "disk"].contains(&automatic.as_str()) {
        return SUSPEND
            .bad(format!("the kernel sleeps by itself ({automatic}): no task runs meanwhile"))
            .helped_by("echo off > /sys/power/autosleep");
    }
    let states = match root.text("sys/power/state") {
        Some(states) => states,
        None if root.has("sys/kernel") => return SUSPEND.good("this kernel cannot sleep"),
        None => return SUSPEND.unknown("/sys/power/state cannot be read"),
    };
    if states.is_empty() {
        return SUSPEND.good("this kernel cannot sleep");
    }
    let masked = |unit: &str| {
        let link = |folder| root.link(&format!("{folder}/systemd/system/{unit}"));
        ["etc", "run"].into_iter().filter_map(link).any(|target| target == "/dev/null")
    };
    if !root.has_systemd() {
        return SUSPEND.good(format!("the kernel can ({states}), and no service asks for it"));
    }
    if masked("sleep.target") || masked("suspend.target") {
        return SUSPEND.good("systemd never asks for it");
    }
    SUSPEND
        .bad(format!(
            "systemd may put the machine to sleep ({states}): no task runs meanwhile, and budgets \
            are not enforced for a moment afterwards; VCPUs and levels end"
        ))
        .helped_by(
            "systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target",
        )
}

/// The kernel's choice of a CPU's speed.
#[derive(PartialEq)]
struct Scaling {
    governor: String,
    /// Lowest and highest speed, kHz.
    limits: Option<(u64, u64)>,
}

impl Scaling {
    fn fixed(&self) -> bool {
        self.governor == "performance" || self.limits.is_some_and(|(least, most)| least == most)
    }

    fn text(&self, cpus: &[u32]) -> String {
        let limits =
            self.limits.map(|(least, most)| format!(", {} to {} MHz", least / 1000, most / 1000));
        format!("{} {}{}", named(cpus), self.governor, limits.unwrap_or_default())
    }
}

/// Whether the speed is fixed.
pub(super) fn frequency(root: &Root) -> Finding {
    let of = |(cpu, governor)| {
        let limit = |end| root.number(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_{end}_freq"));
        (cpu, Scaling { governor, limits: limit("min").zip(limit("max")) })
    };
    let all: Vec<_> = root.of_cpus("cpufreq/scaling_governor").into_iter().map(of).collect();
    if all.is_empty() {
        return if root.online().is_empty() {
            FREQUENCY.unknown("the CPUs cannot be read")
        } else {
            FREQUENCY.good("the kernel does not change it; firmware or a hypervisor may")
        };
    }
    let (fixed, free): (Vec<_>, Vec<_>) = grouped(all).into_iter().partition(|(s, _)| s.fixed());
    let text = |found: &[(Scaling, Vec<u32>)]| {
        found.iter().map(|(s, cpus)| s.text(cpus)).collect::<Vec<_>>().join("; ")
    };
    if free.is_empty() {
        return FREQUENCY.good(text(&fixed));
    }
    FREQUENCY
        .bad(format!("{}: a job takes longer at a lower speed than measured", text(&free)))
        .helped_by(format!("echo performance | tee /{CPUS}/cpu*/cpufreq/scaling_governor"))
}

/// Whether a CPU is faster while others rest.
pub(super) fn boost(root: &Root) -> Finding {
    // The file, its text while boost is on, and its text while boost is off.
    let switches = [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")];
    for (file, on, off) in switches {
        match root.text(&format!("{CPUS}/{file}")) {
            Some(text) if text == on => {
                return BOOST
                    .bad("on: a job is faster while other cores rest, and slower in a hot chip")
                    .helped_by(format!("echo {off} > /{CPUS}/{file}"));
            }
            Some(text) if text == off => return BOOST.good("off"),
            _ => {}
        }
    }
    BOOST.unknown("the kernel has no switch for it on this machine")
}

/// The deepest idle state that a CPU may enter.
#[derive(PartialEq)]
struct Deepest {
    name: String,
    latency_us: u64,
}

/// Whether idle CPUs wake up in time.
pub(super) fn idle_states(root: &Root) -> Finding {
    let limit = wanted(root);
    let of = |cpu| Some((cpu, deepest(root, cpu, limit)?));
    let all: Vec<_> = root.online().into_iter().filter_map(of).collect();
    if all.is_empty() {
        return IDLE
            .unknown("the kernel shows none: the time that a CPU takes to wake up is not known");
    }
    let late = grouped(all).into_iter().max_by_key(|(state, _)| state.latency_us);
    let Some((Deepest { name, latency_us }, cpus)) = late else {
        return IDLE.unknown("the kernel shows none");
    };
    let found = format!("{} take {latency_us} us to leave {name}, the deepest", named(&cpus));
    if latency_us < LATEST_US {
        return IDLE.good(found);
    }
    IDLE.bad(format!(
        "{found}: a job on an idle CPU begins later by that time, and no bound covers it"
    ))
    .helped_by(format!("cpupower idle-set -D {LATEST_US}"))
}

/// The deepest state that a CPU may enter; `None` where it has none.
fn deepest(root: &Root, cpu: u32, limit: u64) -> Option<Deepest> {
    let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
    let state = |number: u32| {
        let text = |file: &str| root.text(&format!("{folder}/state{number}/{file}"));
        let latency_us = text("latency")?.parse().ok().filter(|us| *us <= limit)?;
        let on = text("disable").is_none_or(|disabled| disabled == "0");
        on.then(|| Deepest { name: text("name").unwrap_or_default(), latency_us })
    };
    let states = root.numbered(&folder, "state").into_iter().filter_map(state);
    states.max_by_key(|state| state.latency_us)
}

/// Latency that some program requests (`/dev/cpu_dma_latency`), µs; it keeps deeper states out.
fn wanted(root: &Root) -> u64 {
    let mut bytes = [0; 4];
    let file = std::fs::File::open(root.path().join("dev/cpu_dma_latency"));
    let read = file.and_then(|mut file| file.read_exact(&mut bytes));
    read.ok().and_then(|()| u64::try_from(i32::from_ne_bytes(bytes)).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;

    const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-1\n");

    #[test]
    fn sleep_is_masked_or_not() {
        let state = ("sys/power/state", "freeze mem disk\n");
        let systemd = ("run/systemd/system/x", "");
        let made = Fixture::of(&[state, systemd]);
        let found = suspend(&made.root);
        assert!(!found.good && found.found.contains("(freeze mem disk)"));
        assert!(found.command.is_some_and(|c| c.starts_with("systemctl mask sleep.target")));
        made.link("etc/systemd/system/sleep.target", "/dev/null");
        assert!(suspend(&made.root).good);
        let made = Fixture::of(&[state, systemd, ("sys/power/autosleep", "off\n")]);
        made.link("run/systemd/system/suspend.target", "/dev/null");
        assert!(suspend(&made.root).good);
        made.write("sys/power/autosleep", b"mem\n");
        assert_eq!(suspend(&made.root).command.as_deref(), Some("echo off > /sys/power/autosleep"));
        assert!(suspend(&Fixture::of(&[state]).root).good, "nothing asks for it");
        let never = suspend(&Fixture::of(&[("sys/power/state", "\n"), systemd]).root);
        assert!(never.good && !never.unknown);
        assert!(!suspend(&Fixture::of(&[("sys/kernel/x", "")]).root).unknown);
        assert!(suspend(&Fixture::of(&[]).root).unknown);
    }

    fn scaled(governors: [&str; 2], limits: [&str; 2]) -> Finding {
        let made = Fixture::of(&[ONLINE]);
        for (cpu, governor) in governors.into_iter().enumerate() {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
            made.write(&format!("{folder}/scaling_governor"), governor.as_bytes());
            made.write(&format!("{folder}/scaling_min_freq"), limits[0].as_bytes());
            made.write(&format!("{folder}/scaling_max_freq"), limits[1].as_bytes());
        }
        frequency(&made.root)
    }

    #[test]
    fn a_speed_is_fixed_by_governor_or_limits() {
        let free = scaled(["performance", "schedutil"], ["800000", "4700000"]);
        assert!(!free.good && free.found.starts_with("CPU 1 schedutil, 800 to 4700 MHz: "));
        let command =
            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
        assert_eq!(free.command.as_deref(), Some(command));
        assert!(scaled(["performance"; 2], ["800000", "4700000"]).good);
        assert!(scaled(["schedutil"; 2], ["1500000"; 2]).good);
        let garbage = scaled(["", "x"], ["-1", "no"]);
        assert!(!garbage.good && garbage.found.starts_with("CPU 0 ; CPU 1 x: "), "{garbage:?}");
        let none = frequency(&Fixture::of(&[ONLINE]).root);
        assert!(none.good && !none.unknown);
        assert!(frequency(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn boost_has_two_switches() {
        let of = |file: &str, text| {
            boost(&Fixture::of(&[(&format!("sys/devices/system/cpu/{file}"), text)]).root)
        };
        let (intel, other) = ("intel_pstate/no_turbo", "cpufreq/boost");
        assert!(of(intel, "1\n").good && of(other, "0\n").good && !of(other, "0\n").unknown);
        let command = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo";
        assert_eq!(of(intel, "0\n").command.as_deref(), Some(command));
        let command = "echo 0 > /sys/devices/system/cpu/cpufreq/boost";
        assert_eq!(of(other, "1\n").command.as_deref(), Some(command));
        assert!(of(other, "maybe").unknown && boost(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn deep_idle_states_are_late() {
        let made = Fixture::of(&[ONLINE]);
        let state = |cpu: u32, number: u32, name: &str, latency: &str, disable: &str| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}");
            for (file, text) in [("name", name), ("latency", latency), ("disable", disable)] {
                made.write(&format!("{folder}/{file}"), text.as_bytes());
            }
        };
        assert!(idle_states(&made.root).unknown);
        for cpu in 0..2 {
            state(cpu, 0, "POLL", "0", "0");
            state(cpu, 1, "C1", "2", "0");
            state(cpu, 10, "C6", "133", "0");
        }
        let found = idle_states(&made.root);
        assert!(!found.good && found.found.starts_with("CPUs 0-1 take 133 us to leave C6"));
        assert_eq!(found.command.as_deref(), Some("cpupower idle-set -D 10"));
        made.write("dev/cpu_dma_latency", &20i32.to_ne_bytes());
        assert!(idle_states(&made.root).good, "a program keeps C6 out");
        made.write("dev/cpu_dma_latency", &[1]);
        state(0, 10, "C6", "133", "1");
        let found = idle_states(&made.root);
        assert!(!found.good && found.found.starts_with("CPU 1 "));
        state(1, 10, "C6", "much", "0");
        let found = idle_states(&made.root);
        assert!(found.good && found.found.contains("2 us to leave C1"), "{found:?}");
    }
}
