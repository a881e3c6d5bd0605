//! Checks that memory matches the platform file, and that only programs ask for it.
//!
//! Problem: a plan has one latency of memory and counts the accesses of programs. Rule: nodes that
//! have memory are counted; an MSR, where it can be read, says whether prefetchers are off.
//! Source: Linux, Documentation/ABI/stable/sysfs-devices-node; host/prefetch.rs.
//! Does not cover: the speed of memory (`solocore latency` measures it); transparent huge pages.

use super::root::{Root, named};
use crate::host::finding::{Finding, Topic};
use crate::host::machine::parse_cpu_list;
use crate::host::prefetch::{self, State};
use solocore_model::plan::Subject;

const NUMA: Topic = Topic::new("numa", &[Subject::Demand, Subject::Memory]);
const PREFETCHERS: Topic = Topic::new("prefetchers", &[Subject::Prefetchers]);

const NODES: &str = "sys/devices/system/node";

/// Whether all memory is equally far.
pub(super) fn numa(root: &Root) -> Finding {
    let with_memory = root.text(&format!("{NODES}/has_memory")).map(|text| parse_cpu_list(&text));
    let nodes = with_memory
        .filter(|nodes| !nodes.is_empty())
        .unwrap_or_else(|| root.numbered(NODES, "node"));
    match nodes.as_slice() {
        [] if root.online().is_empty() => NUMA.unknown("the nodes cannot be read"),
        [] | [_] => NUMA.good("all memory is in one node"),
        [first, ..] => {
            let cpus = |node: &u32| {
                let list = root.text(&format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
                Some(parse_cpu_list(&list)).filter(|cpus| !cpus.is_empty())
            };
            let near = nodes.iter().find(|node| cpus(node).is_some()).unwrap_or(first);
            let text = |node: &u32| {
                let cpus = cpus(node).map_or_else(|| "no CPUs".to_owned(), |c| named(&c));
                format!("node {node} of {cpus}")
            };
            let all: Vec<String> = nodes.iter().map(text).collect();
            let found = format!(
                "{}: memory of another node takes longer than the platform file says",
                all.join(", ")
            );
            NUMA.bad(found)
                .helped_by(format!("numactl --membind={near} solocore run plan.json --start"))
        }
    }
}

/// Whether the cores' prefetchers are off.
pub(super) fn prefetchers(root: &Root) -> Finding {
    match prefetch::state(root.path()) {
        State::Off(control) => PREFETCHERS.good(format!("off ({})", control.name())),
        State::On(control, cpus) => PREFETCHERS
            .bad(format!(
                "on ({} of {}): no bound covers their traffic",
                control.name(),
                named(&cpus)
            ))
            .helped_by(control.command()),
        State::Refused(control, e) => {
            let found = PREFETCHERS.unknown(format!("{} cannot be read ({e})", control.name()));
            let module = e.kind() == std::io::ErrorKind::NotFound && root.has("proc/modules");
            if module { found.helped_by("modprobe msr") } else { found }
        }
        State::Other => PREFETCHERS
            .unknown("cannot be read on this CPU; turn them off in the firmware, then vouch for it")
            .helped_by("solocore run plan.json --vouch prefetchers"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;

    const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-1\n");

    #[test]
    fn nodes_with_memory_are_counted() {
        let two = [
            ("sys/devices/system/node/has_memory", "0-1\n"),
            ("sys/devices/system/node/node0/cpulist", "0-7\n"),
            ("sys/devices/system/node/node1/cpulist", "\n"),
        ];
        let found = numa(&Fixture::of(&two).root);
        assert!(!found.good && found.found.starts_with("node 0 of CPUs 0-7, node 1 of no CPUs: "));
        let command = "numactl --membind=0 solocore run plan.json --start";
        assert_eq!(found.command.as_deref(), Some(command));
        assert!(!numa(&Fixture::of(&two[1..]).root).good, "an older kernel");
        assert!(numa(&Fixture::of(&[(two[0].0, "0\n")]).root).good);
        assert!(!numa(&Fixture::of(&[ONLINE]).root).unknown);
        assert!(numa(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn prefetchers_are_off_on_or_unknown() {
        let intel = [("proc/cpuinfo", "vendor_id\t: GenuineIntel\n"), ONLINE];
        let made = Fixture::of(&intel);
        let absent = prefetchers(&made.root);
        assert!(absent.good && absent.unknown && absent.command.is_none());
        made.write("proc/modules", b"");
        assert_eq!(prefetchers(&made.root).command.as_deref(), Some("modprobe msr"));
        let msr = |cpu: u32, bits: u64| {
            let mut device = vec![0; 0x1a4];
            device.extend(bits.to_le_bytes());
            made.write(&format!("dev/cpu/{cpu}/msr"), &device);
        };
        msr(0, 0xf);
        msr(1, 0x2f);
        assert!(prefetchers(&made.root).good && !prefetchers(&made.root).unknown);
        msr(1, 0x7);
        let on = prefetchers(&made.root);
        assert!(!on.good && on.found.contains("of CPU 1"), "{on:?}");
        assert_eq!(on.command.as_deref(), Some("wrmsr --all 0x1a4 0xf"));
        made.write("dev/cpu/1/msr", b"short");
        assert!(prefetchers(&made.root).unknown);
        let other = prefetchers(&Fixture::of(&[ONLINE]).root);
        assert!(other.unknown && other.found.contains("firmware"));
        assert!(prefetchers(&Fixture::of(&intel[..1]).root).unknown);
    }
}
