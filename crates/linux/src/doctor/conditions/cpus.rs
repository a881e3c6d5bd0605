//! Checks that all CPUs are alike, whole, and this machine's own.
//!
//! Problem: a plan states one time for a job, on one kind of core. Rule: the units of a hybrid, or
//! the capacities of cores, distinguish types. A plan whose platform describes them as core types
//! has the times of each; another plan does not. Lists of siblings name the CPUs that are halves of
//! one core. A flag of the CPU tells a guest, and the kernel counts the time that its host took.
//! Source: Linux, Documentation/admin-guide/cputopology.rst, Documentation/ABI/testing/
//! sysfs-devices-system-cpu (`smt`, `cpu_capacity`); proc(5) (`steal`). Does not cover: guests on
//! Arm whose firmware says nothing; modules of two cores with one cache.

use super::root::{CPUS, Root, grouped, named};
use crate::host::finding::{Finding, Topic};
use crate::host::machine::parse_cpu_list;
use solocore_model::plan::Subject;
use solocore_model::platform::CoreType;
use std::collections::BTreeSet;

const HYBRID: Topic = Topic::new("hybrid cpus", &[Subject::Demand]);
const SIBLINGS: Topic =
    Topic::new("smt", &[Subject::Place, Subject::Demand, Subject::Ways, Subject::LockedPages]);
const GUEST: Topic = Topic::new(
    "virtual machine",
    &[
        Subject::Place,
        Subject::Releases,
        Subject::Ways,
        Subject::Banks,
        Subject::Window,
        Subject::Memory,
    ],
);

/// Units of counters of hybrids.
const UNITS: &[&str] = &["cpu_core", "cpu_atom", "cpu_lowpower"];

/// Whether there are CPUs of several types that the plan's platform does not describe. `described`:
/// its core types; core i is CPU i.
pub(super) fn hybrid(root: &Root, described: &[CoreType]) -> Finding {
    let online = root.online();
    let Some(first) = online.first() else {
        return HYBRID.unknown("the CPUs cannot be read");
    };
    let types = types(root, &online);
    if types.len() < 2 {
        return HYBRID.good(format!("all {} CPUs are of one type", online.len()));
    }
    let text = |(kind, cpus): &(String, Vec<u32>)| format!("{} {kind}", named(cpus));
    let all: Vec<String> = types.iter().map(text).collect();
    // Core i of a plan is CPU i: the type of the first stays.
    let stays = types.iter().position(|(_, cpus)| cpus.contains(first)).unwrap_or(0);
    let others = types.iter().enumerate().filter(|(index, _)| *index != stays);
    let others: Vec<u32> = others.flat_map(|(_, (_, cpus))| cpus.iter().copied()).collect();
    let all = all.join(", ");
    if described.is_empty() {
        return HYBRID
            .bad(format!(
                "{all}: the times of a task hold only on the type of CPU where they were measured, \
                    unless the plan's platform has a [[core_type]] for each (`solocore platform \
                    detect` writes them)"
            ))
            .helped_by(offline(&others));
    }
    match undescribed(described, &types) {
        Some(why) => HYBRID
            .bad(format!("{all}: {why}; write its [[core_type]]s as `platform detect` does"))
            .helped_by("solocore platform detect"),
        None => HYBRID.good(format!(
            "{all}: the plan's platform describes them as the core types {}, each with its clock, \
                cpi, pipeline and private caches",
            listed(described)
        )),
    }
}

/// How core types of a plan's platform contradict the types of the CPUs; `None`: they do not.
fn undescribed(described: &[CoreType], types: &[(String, Vec<u32>)]) -> Option<String> {
    let type_of = |cpu: u32| types.iter().position(|(_, cpus)| cpus.contains(&cpu));
    let mixed = |kind: &&CoreType| {
        let of = kind.cores.iter().filter_map(|&core| type_of(core)).collect::<BTreeSet<usize>>();
        of.len() > 1
    };
    if let Some(kind) = described.iter().find(mixed) {
        return Some(format!(
            "core_type `{}` of the plan's platform has CPUs of several types, because core i is \
                CPU i",
            kind.name
        ));
    }
    let mut left: Vec<u32> = types.iter().flat_map(|(_, cpus)| cpus.iter().copied()).collect();
    left.retain(|cpu| !described.iter().any(|kind| kind.cores.contains(cpu)));
    left.sort_unstable();
    (!left.is_empty()).then(|| format!("no core_type of the plan's platform has {}", named(&left)))
}

/// The names of core types.
fn listed(described: &[CoreType]) -> String {
    let names: Vec<String> = described.iter().map(|kind| format!("`{}`", kind.name)).collect();
    names.join(" and ")
}

/// Types with their online CPUs, by units or else by capacity.
fn types(root: &Root, online: &[u32]) -> Vec<(String, Vec<u32>)> {
    let unit = |name: &&str| {
        let mut cpus = parse_cpu_list(&root.text(&format!("sys/devices/{name}/cpus"))?);
        cpus.retain(|cpu| online.contains(cpu));
        Some(((*name).to_owned(), cpus)).filter(|(_, cpus)| !cpus.is_empty())
    };
    let units: Vec<_> = UNITS.iter().filter_map(unit).collect();
    if units.len() > 1 {
        return units;
    }
    let capacity = |(cpu, text): (u32, String)| Some((cpu, text.parse::<u32>().ok()?));
    let capacities = root.of_cpus("cpu_capacity").into_iter().filter_map(capacity);
    let named = |(capacity, cpus)| (format!("of capacity {capacity}"), cpus);
    grouped(capacities).into_iter().map(named).collect()
}

/// Command that takes CPUs offline.
fn offline(cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("for cpu in {}; do echo 0 > /{CPUS}/cpu$cpu/online; done", list.join(" "))
}

/// Whether CPUs share a core.
pub(super) fn siblings(root: &Root) -> Finding {
    let online = root.online();
    let lists = root.of_cpus("topology/thread_siblings_list");
    let mut cores: Vec<Vec<u32>> = Vec::new();
    for (_, list) in &lists {
        let mut core = parse_cpu_list(list);
        core.retain(|cpu| online.contains(cpu));
        if core.len() > 1 && !cores.contains(&core) {
            cores.push(core);
        }
    }
    let active = root.text(&format!("{CPUS}/smt/active"));
    match active.as_deref() {
        Some("0") => SIBLINGS.good("no CPU has a sibling in its core"),
        Some("1") => shared(root, &cores),
        _ if !cores.is_empty() => shared(root, &cores),
        _ if !lists.is_empty() => SIBLINGS.good("no CPU has a sibling in its core"),
        _ => SIBLINGS.unknown("whether CPUs share a core cannot be read"),
    }
}

fn shared(root: &Root, cores: &[Vec<u32>]) -> Finding {
    let first = cores.first().map(|core| format!(", as {} do", named(core))).unwrap_or_default();
    let number = if cores.is_empty() { "some".to_owned() } else { cores.len().to_string() };
    let found = format!(
        "CPUs share {number} cores{first}: a sibling slows a task, and uses its core's caches"
    );
    let seconds: Vec<u32> = cores.iter().flat_map(|core| core.iter().copied().skip(1)).collect();
    let switch = root.text(&format!("{CPUS}/smt/control"));
    let command = match switch.as_deref() {
        Some("notimplemented" | "notsupported") if !seconds.is_empty() => offline(&seconds),
        _ => format!("echo off > /{CPUS}/smt/control"),
    };
    SIBLINGS.bad(found).helped_by(command)
}

/// Whether this is a guest.
pub(super) fn virtual_machine(root: &Root) -> Finding {
    let Some(cpuinfo) = root.text("proc/cpuinfo").filter(|text| !text.is_empty()) else {
        return GUEST.unknown("/proc/cpuinfo cannot be read");
    };
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let guest = flags.split_whitespace().any(|flag| flag == "hypervisor")
        || root.has("sys/hypervisor/type")
        || root.has("sys/firmware/devicetree/base/hypervisor");
    if !guest {
        return GUEST.good("no hypervisor is seen");
    }
    let taken = root.text("proc/stat").and_then(|text| stolen(&text));
    let taken = taken.map(|share| format!(", which took {share} of its time")).unwrap_or_default();
    GUEST.bad(format!(
        "a hypervisor runs this kernel{taken}: it may stop any CPU, and its other guests share \
            cache and memory; use a machine of your own"
    ))
}

/// Share of the time that a host took from this kernel's CPUs, since boot.
fn stolen(stat: &str) -> Option<String> {
    let times = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; those of guests are in user and nice.
    let times: Vec<u64> = times.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    let all = times.iter().fold(0u64, |sum, t| sum.saturating_add(*t));
    let per_mille = times.get(7)?.saturating_mul(1000).checked_div(all)?;
    Some(format!("{}.{} %", per_mille / 10, per_mille % 10))
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;
    use solocore_model::units::Frequency;

    const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-3\n");

    fn cpu(file: &str, values: [&str; 4]) -> Vec<(String, String)> {
        let of = |(cpu, value): (usize, &str)| {
            (format!("sys/devices/system/cpu/cpu{cpu}/{file}"), value.to_owned())
        };
        values.into_iter().enumerate().map(of).collect()
    }

    fn machine(files: &[(&str, &str)], of_cpus: &[(String, String)]) -> Fixture {
        let made = Fixture::of(files);
        made.write(ONLINE.0, ONLINE.1.as_bytes());
        for (path, text) in of_cpus {
            made.write(path, text.as_bytes());
        }
        made
    }

    #[test]
    fn types_of_cpus_are_told_apart() {
        let units =
            [("sys/devices/cpu_core/cpus", "0-1\n"), ("sys/devices/cpu_atom/cpus", "2-3,8\n")];
        let found = hybrid(&machine(&units, &[]).root, &[]);
        assert!(!found.good && found.found.starts_with("CPUs 0-1 cpu_core, CPUs 2-3 cpu_atom: "));
        let command = "for cpu in 2 3; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done";
        assert_eq!(found.command.as_deref(), Some(command));
        // One type is offline, or a guest sees one type only.
        assert!(hybrid(&machine(&units[..1], &[]).root, &[]).good);
        let little = cpu("cpu_capacity", ["430", "430", "1024", "1024"]);
        let found = hybrid(&machine(&[], &little).root, &[]);
        assert!(found.found.starts_with("CPUs 0-1 of capacity 430, CPUs 2-3 of capacity 1024: "));
        let alike = hybrid(&machine(&[], &cpu("cpu_capacity", ["1024"; 4])).root, &[]);
        assert!(alike.good && !alike.unknown && alike.found.contains("all 4 CPUs"));
        assert!(hybrid(&Fixture::of(&[]).root, &[]).unknown);
        let odd = machine(&[], &cpu("cpu_capacity", ["x", "", "-1", "1024"]));
        assert!(hybrid(&odd.root, &[]).good);
    }

    #[test]
    fn types_that_the_plan_has_are_not_bad() {
        let kind = |name: &str, cores: &[u32]| {
            CoreType::of_clock(name, cores.to_vec(), Frequency(1_800_000_000))
        };
        let little = machine(&[], &cpu("cpu_capacity", ["430", "430", "1024", "1024"]));
        let found = |types: &[CoreType]| hybrid(&little.root, types);
        let same = found(&[kind("big", &[2, 3]), kind("little", &[0, 1])]);
        assert!(same.good && same.command.is_none(), "{same:?}");
        let words = "describes them as the core types `big` and `little`, each with its clock";
        assert!(same.found.contains(words) && !same.found.contains("hold for all"), "{same:?}");
        // Two clocks of one type are described as well.
        assert!(found(&[kind("a", &[0]), kind("b", &[1]), kind("c", &[2, 3])]).good);
        let mixed = found(&[kind("x", &[0, 1, 2]), kind("y", &[3])]);
        assert!(!mixed.good && mixed.found.contains("core_type `x` of"), "{mixed:?}");
        let fewer = found(&[kind("big", &[2]), kind("little", &[0, 1])]);
        assert!(!fewer.good && fewer.found.contains("platform has CPU 3;"), "{fewer:?}");
        let plain = found(&[]);
        assert!(!plain.good && plain.found.contains("[[core_type]]"), "{plain:?}");
    }

    #[test]
    fn siblings_are_found() {
        let lists = cpu("topology/thread_siblings_list", ["0,2", "1,3", "0,2", "1,3"]);
        let on = ("sys/devices/system/cpu/smt/active", "1\n");
        let found = siblings(&machine(&[on], &lists).root);
        assert!(!found.good && found.found.starts_with("CPUs share 2 cores, as CPUs 0,2 do: "));
        assert_eq!(
            found.command.as_deref(),
            Some("echo off > /sys/devices/system/cpu/smt/control")
        );
        let none = ("sys/devices/system/cpu/smt/control", "notimplemented\n");
        let found = siblings(&machine(&[none], &lists).root);
        assert!(found.command.is_some_and(|c| c.starts_with("for cpu in 2 3; ")));
        assert!(siblings(&machine(&[(on.0, "0\n")], &lists).root).good);
        let alone = cpu("topology/thread_siblings_list", ["0", "1", "2", "3"]);
        assert!(siblings(&machine(&[], &alone).root).good);
        assert!(!siblings(&machine(&[on], &[]).root).good);
        assert!(siblings(&Fixture::of(&[]).root).unknown);
        assert!(siblings(&Fixture::of(&[(on.0, "yes")]).root).unknown);
    }

    #[test]
    fn a_guest_is_known_by_its_flag() {
        let guest = ("proc/cpuinfo", "processor: 0\nflags\t\t: fpu hypervisor lm\n");
        let stat = ("proc/stat", "cpu  500 0 300 100 0 0 90 10 7 7\ncpu0 1\n");
        let found = virtual_machine(&Fixture::of(&[guest, stat]).root);
        assert!(!found.good && found.found.contains("which took 1.0 % of its time"), "{found:?}");
        for stat in ["", "cpu  1 2\n", "cpu  0 0 0 0 0 0 0 0\n", "cpu  x\n"] {
            let found = virtual_machine(&Fixture::of(&[guest, ("proc/stat", stat)]).root);
            assert!(!found.good && !found.found.contains("took"), "{stat}");
        }
        let bare = ("proc/cpuinfo", "processor: 0\nflags\t\t: fpu lm\n");
        assert!(virtual_machine(&Fixture::of(&[bare]).root).good);
        assert!(
            !virtual_machine(&Fixture::of(&[bare, ("sys/hypervisor/type", "xen\n")]).root).good
        );
        assert!(virtual_machine(&Fixture::of(&[]).root).unknown);
    }
}
