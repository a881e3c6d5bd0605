//! All conditions at once: on this machine, on an empty root, and on garbage.

use super::all;
use super::root::{Root, fixture::Fixture};
use std::collections::BTreeSet;

/// All files that the conditions read.
const FILES: &[&str] = &[
    "dev/cpu/0/msr",
    "dev/cpu_dma_latency",
    "proc/1/comm",
    "proc/cpuinfo",
    "proc/self/cgroup",
    "proc/self/mounts",
    "proc/self/ns/pid",
    "proc/self/status",
    "proc/stat",
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/sched_rt_period_us",
    "proc/sys/kernel/sched_rt_runtime_us",
    "proc/version",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/cpu_core/cpus",
    "sys/devices/system/cpu/cpu0/cpu_capacity",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/name",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/node0/cpulist",
    "sys/fs/cgroup/cgroup.events",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpu.weight",
    "sys/fs/cgroup/cpuset.cpus.effective",
    "sys/fs/cgroup/memory.max",
    "sys/kernel/debug/sched/ext_server/cpu0/runtime",
    "sys/kernel/debug/sched/fair_server/cpu0/period",
    "sys/kernel/debug/sched/fair_server/cpu0/runtime",
    "sys/kernel/debug/sched/preempt",
    "sys/kernel/realtime",
    "sys/power/autosleep",
    "sys/power/state",
];

#[test]
fn names_are_unique_and_are_none_that_decide() {
    let found = all(&Root::machine(), &[]);
    let names: BTreeSet<&str> = found.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(names.len(), found.len());
    for name in names {
        // `regulates` decides by names that begin so.
        for decides in ["privileges", "bpf", "sched-ext", "helper", "event "] {
            assert!(!name.starts_with(decides), "{name}");
        }
    }
}

#[test]
fn whatever_is_wrong_says_what_helps() {
    for f in all(&Root::machine(), &[]) {
        assert!(!f.found.is_empty() && !f.found.contains('\n'), "{f:?}");
        let helped = f.good || f.command.is_some() || f.what == "virtual machine";
        assert!(helped, "{f:?}");
        assert!(f.command.is_none_or(|c| !c.contains('\n') && !c.is_empty()));
    }
}

#[test]
fn without_files_nothing_is_known_and_nothing_is_wrong() {
    for f in all(&Fixture::of(&[]).root, &[]) {
        assert!(f.good && f.unknown, "{f:?}");
    }
}

#[test]
fn garbage_is_no_reason_to_panic() {
    let texts: [&[u8]; 8] = [
        b"",
        b"\n\n",
        b"-1",
        b"99999999999999999999999 99999999999999999999999",
        b"4294967295-4294967295,0-,-,x",
        b"0::/a:b\n:::\n(\n",
        &[0xff, 0x00, 0xc3],
        b"0-99,65535",
    ];
    for text in texts {
        let made = Fixture::of(&[]);
        FILES.iter().for_each(|path| made.write(path, text));
        assert!(all(&made.root, &[]).iter().all(|f| !f.found.is_empty()));
        made.write("sys/devices/system/cpu/online", b"0\n");
        assert!(all(&made.root, &[]).iter().all(|f| !f.found.is_empty()));
    }
}
