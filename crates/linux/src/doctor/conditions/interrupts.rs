//! Programs and settings that interrupt CPUs, or move interrupts to them.
//!
//! Problem: a run sends interrupts away from hard cores, and others send them back. Rule: the
//! kernel says whether its watchdog interrupts each CPU by a counter; irqbalance is a process.
//! Source: Linux, Documentation/admin-guide/lockup-watchdogs.rst; irqbalance(1).
//! Does not cover: interrupts that refuse to move (host/irq.rs), and those of the firmware.

use super::root::Root;
use crate::host::finding::{Finding, Topic};
use solocore_model::plan::Subject;

const WATCHDOG: Topic = Topic::new("nmi watchdog", &[Subject::Budget, Subject::Interrupts]);
const BALANCER: Topic = Topic::new("irqbalance", &[Subject::Interrupts]);

/// Whether the watchdog holds a counter of each CPU.
pub(super) fn nmi_watchdog(root: &Root) -> Finding {
    match root.text("proc/sys/kernel/nmi_watchdog").as_deref() {
        Some("0") => WATCHDOG.good("off"),
        Some("1") => WATCHDOG
            .bad("on: it interrupts every CPU, and holds a counter that budgets may need")
            .helped_by("sysctl kernel.nmi_watchdog=0"),
        None if root.has("proc/sys/kernel") => WATCHDOG.good("this kernel has none"),
        _ => WATCHDOG.unknown("/proc/sys/kernel/nmi_watchdog cannot be read"),
    }
}

/// Whether irqbalance runs.
pub(super) fn irqbalance(root: &Root) -> Finding {
    let processes = root.numbered("proc", "");
    let is = |pid: &&u32| root.text(&format!("proc/{pid}/comm")).is_some_and(|c| c == "irqbalance");
    let Some(pid) = processes.iter().find(is) else {
        return if processes.is_empty() {
            BALANCER.unknown("the processes cannot be read")
        } else {
            BALANCER.good(format!("is not among the {} visible processes", processes.len()))
        };
    };
    let stop = if root.has_systemd() { "systemctl stop irqbalance" } else { "" };
    let stop = if stop.is_empty() { format!("kill {pid}") } else { stop.to_owned() };
    BALANCER
        .bad(format!(
            "runs as process {pid}: it moves interrupts back to the cores of analysed tasks"
        ))
        .helped_by(stop)
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;

    #[test]
    fn the_watchdog_is_on_or_off() {
        let of = |text| nmi_watchdog(&Fixture::of(&[("proc/sys/kernel/nmi_watchdog", text)]).root);
        assert!(of("0\n").good && !of("0\n").unknown);
        assert_eq!(of("1\n").command.as_deref(), Some("sysctl kernel.nmi_watchdog=0"));
        assert!(!of("1\n").good && of("perhaps").unknown);
        let none = nmi_watchdog(&Fixture::of(&[("proc/sys/kernel/osrelease", "6.19")]).root);
        assert!(none.good && !none.unknown);
        assert!(nmi_watchdog(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn irqbalance_is_found_among_processes() {
        let files =
            [("proc/1/comm", "systemd\n"), ("proc/612/comm", "irqbalance\n"), ("proc/x", "")];
        let found = irqbalance(&Fixture::of(&files).root);
        assert!(!found.good && found.found.starts_with("runs as process 612: "));
        assert_eq!(found.command.as_deref(), Some("kill 612"));
        let made = Fixture::of(&files);
        made.write("run/systemd/system/x", b"");
        assert_eq!(irqbalance(&made.root).command.as_deref(), Some("systemctl stop irqbalance"));
        let without = irqbalance(&Fixture::of(&files[..1]).root);
        assert!(without.good && without.found.contains("1 visible"));
        assert!(irqbalance(&Fixture::of(&[]).root).unknown);
    }
}
