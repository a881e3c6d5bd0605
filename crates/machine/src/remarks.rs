//! Properties of a machine that a platform file cannot state.
//!
//! Problem: several shared caches, types of cores, threads, nodes, clocks that change: a plan for
//! the file would be wrong for the machine, and the file does not show it. Rule: each such
//! difference is a note under the key that it touches, with the command that removes it where there
//! is one. Does not cover: effects of other programs; `solocore doctor` and `solocore run` check
//! these.

use crate::cache::Cache;
use crate::cpus::{Cpu, SYSFS};
use crate::domain::{self, Domain, Kind};
use crate::dram;
use crate::known::{Fact, Known, Note, Source};
use crate::lists;
use crate::machine::{Machine, Resctrl};
use crate::shape::Shape;
use solocore_model::platform::Platform;
use solocore_model::units::{Bytes, Frequency};
use std::collections::{BTreeMap, BTreeSet};

/// Domains that a note names.
const MOST_NAMED: usize = 4;

/// Facts beside the keys, and notes.
pub fn of(
    machine: &Machine,
    domain: &Domain,
    llc: &Shape,
    keys: &[Fact],
    platform: &Platform,
) -> (Vec<Fact>, Vec<Note>) {
    let facts = [cpus(machine, domain), caches(domain, keys, platform), memory(machine)].concat();
    let notes = [
        offline(machine),
        threads(machine, domain),
        others(machine, domain),
        kinds(domain),
        clocks(domain),
        guest(machine),
        masks(machine, domain, llc),
        left_out(domain),
        numbers(domain),
        hash(domain, keys, platform),
        inclusion(machine),
    ];
    (facts, notes.concat())
}

fn cpus(machine: &Machine, domain: &Domain) -> Vec<Fact> {
    let cpu = |what: &str| Known::read((), format!("/{SYSFS}/cpu*/{what}"));
    let online = &machine.online;
    let mut facts = vec![online.fact("cpus.online", lists::show(&online.value))];
    facts.push(cpu("cache").fact("cpus.described", lists::show(&domain.ids())));
    let threads = domain.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(1);
    facts.push(
        cpu("topology/thread_siblings_list").fact("cpus.threads_of_a_core", threads.to_string()),
    );
    let by = |key: &dyn Fn(&Cpu) -> Option<String>| groups(&machine.cpus, key);
    let kinds = by(&|cpu| Some(cpu.kind.clone()).filter(|k| !k.is_empty()));
    let optional = [
        ("cpus.types", kinds, "types of counters, part numbers or cpu_capacity"),
        ("cpus.clusters", clusters(&machine.cpus), "topology/cluster_cpus_list"),
        ("cpus.governor", by(&|cpu| cpu.governor.clone()), "cpufreq/scaling_governor"),
        (
            "frequency.highest",
            by(&|cpu| cpu.highest.map(|hz| Frequency(hz).to_string())),
            "cpufreq/cpuinfo_max_freq",
        ),
    ];
    for (key, value, file) in optional {
        facts.extend(value.map(|value| cpu(file).fact(key, value)));
    }
    facts
}

/// `core 0-7; atom 8-15`: the CPUs of each value; `None`: no CPU has one.
fn groups(cpus: &[Cpu], key: &dyn Fn(&Cpu) -> Option<String>) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        groups.entry(key(cpu)?).or_default().push(cpu.id);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, cpus)| cpus.first().copied());
    let text = |(name, cpus): &(String, Vec<u32>)| format!("{name}: {}", lists::show(cpus));
    (!groups.is_empty()).then(|| groups.iter().map(text).collect::<Vec<_>>().join("; "))
}

/// Clusters, where they are not just the cores.
fn clusters(cpus: &[Cpu]) -> Option<String> {
    let all: BTreeSet<&Vec<u32>> = cpus.iter().filter_map(|cpu| cpu.cluster.as_ref()).collect();
    let real = cpus.iter().any(|cpu| cpu.cluster.as_ref().is_some_and(|c| *c != cpu.siblings));
    let text = all.into_iter().map(|c| lists::show(c)).collect::<Vec<_>>();
    real.then(|| text.join("; "))
}

fn caches(domain: &Domain, keys: &[Fact], platform: &Platform) -> Vec<Fact> {
    let name = |c: &Cache| format!("cache.l{}.shared_by", c.level);
    let shared = domain.first.caches.iter().filter(|c| c.level > 1);
    let mut facts: Vec<Fact> =
        shared.map(|c| c.shared.fact(&name(c), lists::show(&c.shared.value))).collect();
    // They are known as well as the slices are.
    if let Some(slices) = keys.iter().find(|fact| fact.key == "llc.slices") {
        let (key, value) = ("llc.colours".to_owned(), platform.colours().to_string());
        facts.push(Fact { key, value, ..slices.clone() });
    }
    facts
}

fn memory(machine: &Machine) -> Vec<Fact> {
    let mut facts = dram::found(machine);
    let managed = machine.managed.iter();
    facts.extend(managed.map(|m| m.fact("dram.managed", Bytes(m.value).to_string())));
    for node in &machine.nodes {
        let known = Known::read((), format!("/sys/devices/system/node/node{}", node.id));
        let bytes =
            node.bytes.map_or_else(|| "memory unknown".to_owned(), |b| Bytes(b).to_string());
        let cpus = lists::show(&node.cpus);
        facts.push(known.fact(&format!("numa.node{}", node.id), format!("CPUs {cpus}; {bytes}")));
    }
    for r in &machine.resctrl {
        let known = Known::read((), format!("/sys/fs/resctrl/info/{}", r.resource));
        facts.push(known.fact(&format!("resctrl.{}", r.resource), mask(r)));
    }
    facts
}

fn mask(r: &Resctrl) -> String {
    let number = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let shareable = r.shareable.map_or_else(|| "unknown".to_owned(), |s| format!("{s:x}"));
    format!(
        "mask {:x}, least bits {}, groups {}, bits of devices {shareable}",
        r.mask,
        number(r.min_bits),
        number(r.groups)
    )
}

fn offline(machine: &Machine) -> Vec<Note> {
    let mut notes = Vec::new();
    let possible = machine.possible.iter().flatten();
    let offline: Vec<u32> =
        possible.copied().filter(|cpu| !machine.online.value.contains(cpu)).collect();
    if !offline.is_empty() {
        let text = format!("CPUs {} are offline, and are not described", lists::show(&offline));
        // While SMT is off, the kernel refuses to turn second threads on.
        notes.push(if machine.smt_off {
            Note::new("cores", format!("{text}; SMT is off"))
        } else {
            Note::with("cores", text, switch(&offline, 1))
        });
    }
    if let [only] = machine.online.value[..] {
        let text = format!("only CPU {only} is online: there are no other CPUs to isolate it from");
        notes.push(Note::new("cores", text));
    }
    notes
}

/// The command that turns CPUs on or off.
fn switch(cpus: &[u32], on: u8) -> String {
    let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let names = if names.len() == 1 { names.concat() } else { format!("{{{}}}", names.join(",")) };
    format!("echo {on} | sudo tee /{SYSFS}/cpu{names}/online")
}

fn threads(machine: &Machine, domain: &Domain) -> Vec<Note> {
    if machine.cpus.iter().all(|cpu| cpu.siblings.len() < 2) {
        return Vec::new();
    }
    let text = format!(
        "cores run several threads (SMT), which share private caches; {} cores are described, each \
            with one thread. Turn the others off",
        domain.cores()
    );
    vec![Note::with("cores", text, format!("echo off | sudo tee /{SYSFS}/smt/control"))]
}

/// CPUs that the file does not describe, and the parts that they share with those that it
/// describes.
fn others(machine: &Machine, domain: &Domain) -> Vec<Note> {
    let all = domain::domains(&machine.cpus);
    let mut notes = Vec::new();
    if all.len() > 1 {
        notes.push(apart(machine, domain, &all));
    }
    notes.extend(behind(domain));
    let nodes = machine.nodes.iter().filter(|node| !node.cpus.is_empty()).count();
    if nodes > 1 {
        let text = format!(
            "there are {nodes} NUMA nodes; the memory of the described CPUs' own is described. Keep \
                programs to it, with `numactl --membind`"
        );
        notes.push(Note::new("dram", text));
    }
    notes
}

/// One of several domains is described. The note says how to describe another one, or turn it off.
fn apart(machine: &Machine, domain: &Domain, all: &[Domain]) -> Note {
    let ids = domain.ids();
    let text = format!(
        "CPUs {} are behind different last-level caches, or their caches differ; the file describes \
            CPUs {} alone",
        several(all),
        lists::show(&ids)
    );
    let other = all.iter().find(|other| other.cpus.iter().all(|cpu| !ids.contains(&cpu.id)));
    let other = other.map_or_else(String::new, |other| {
        format!(", and `--cpus {}` describes others", lists::show(&other.ids()))
    });
    let text = format!("{text}{other}. No bound counts the accesses of the other CPUs to memory");
    let near = domain.first.last().map(|cache| &cache.shared.value);
    let far = |cpu: &u32| !ids.contains(cpu) && near.is_none_or(|near| !near.contains(cpu));
    let off: Vec<u32> = machine.online.value.iter().copied().filter(far).collect();
    // Most kernels do not turn the first CPU off.
    if off.is_empty() || off.contains(&0) {
        return Note::new("llc", format!("{text}: keep them idle"));
    }
    Note::with("llc", format!("{text}: turn them off"), switch(&off, 0))
}

/// A core type has a clock of its own, and nothing else.
fn kinds(domain: &Domain) -> Vec<Note> {
    let kinds = domain.kinds();
    if kinds.len() < 2 {
        return Vec::new();
    }
    let name = |kind: &Kind| {
        let ids: Vec<u32> = kind.cpus.iter().map(|cpu| cpu.id).collect();
        format!("{} ({})", lists::show(&ids), kind.first.kind)
    };
    let all = kinds.iter().map(name).collect::<Vec<_>>().join(" and ");
    let text = format!(
        "CPUs {all} are of different types. Each has its clock and private caches; cpi and pipeline \
            are assumed for all, and measured on a CPU of each type"
    );
    vec![Note::with("core_type", text, "sudo solocore platform measure FILE")]
}

/// The CPUs of each of the first few domains.
fn several(all: &[Domain]) -> String {
    let name = |d: &Domain| {
        let kind = d.first.kind.as_str();
        let kind = if kind.is_empty() { String::new() } else { format!(" ({kind})") };
        format!("{}{kind}", lists::show(&d.ids()))
    };
    let mut names: Vec<String> = all.iter().take(MOST_NAMED).map(name).collect();
    if all.len() > MOST_NAMED {
        names.push(format!("{} more groups", all.len() - MOST_NAMED));
    }
    names.join(" and ")
}

/// CPUs behind the same last-level cache that are not described.
fn behind(domain: &Domain) -> Option<Note> {
    let ids = domain.ids();
    let described = |cpu: &u32| domain.cpus.iter().any(|c| c.siblings.contains(cpu));
    let shared = &domain.first.last()?.shared.value;
    let left: Vec<u32> =
        shared.iter().copied().filter(|c| !ids.contains(c) && !described(c)).collect();
    let text = format!(
        "CPUs {} share the last-level cache and are not described: no bound holds while they run. \
            Turn them off",
        lists::show(&left)
    );
    (!left.is_empty()).then(|| Note::with("llc", text, switch(&left, 0)))
}

/// A second level that several cores share has no key.
pub fn shared_second(second: &Cache) -> Note {
    let text = format!(
        "CPUs {} share this cache, and a platform file's second level is private: it is left out, \
            so that each of its hits counts as one of the last level",
        lists::show(&second.shared.value)
    );
    Note::new("l2", text)
}

/// Levels between the second and the last have no key.
fn left_out(domain: &Domain) -> Vec<Note> {
    let last = domain.first.last().map_or(0, |c| c.level);
    let between = domain.first.caches.iter().filter(|c| (3..last).contains(&c.level));
    let text = |c: &Cache| {
        format!(
            "level {} lies before the last level, {last}, and has no key: it is left out",
            c.level
        )
    };
    between.map(|c| Note::new("llc", text(c))).collect()
}

/// `solocore run` takes a plan's core for the CPU of the same number.
fn numbers(domain: &Domain) -> Vec<Note> {
    let first: BTreeSet<u32> =
        domain.cpus.iter().filter_map(|cpu| cpu.siblings.first().copied()).collect();
    if (0..).zip(&first).all(|(core, cpu)| core == *cpu) {
        return Vec::new();
    }
    let text = format!(
        "the cores are CPUs {}, but `solocore run` takes core i of a plan for CPU i: a plan of \
        this file can be simulated, but not run here",
        lists::show(&first.into_iter().collect::<Vec<u32>>())
    );
    vec![Note::new("cores", text)]
}

/// One slice is an assumption with no safe side: with more slices, fewer colours are separate.
fn hash(domain: &Domain, keys: &[Fact], platform: &Platform) -> Vec<Note> {
    let slices = keys.iter().find(|fact| fact.key == "llc.slices");
    let assumed = slices.is_some_and(|fact| fact.source == Source::Assumed);
    if !assumed || domain.first.last().is_none_or(|c| c.level < 3) {
        return Vec::new();
    }
    let text = format!(
        "one slice is assumed, and {} colours follow from it; if a hash spreads lines over slices, \
            there are fewer. State the slices, or isolate by ways",
        platform.colours()
    );
    vec![Note::new("llc.slices", text)]
}

fn inclusion(machine: &Machine) -> Vec<Note> {
    if machine.inclusive != Some(true) {
        return Vec::new();
    }
    let text = "the last cache is inclusive (CPUID): a line that it gives up leaves the private \
        caches as well. No bound counts such reloads; private ways for each core prevent them";
    vec![Note::new("llc", text)]
}

fn clocks(domain: &Domain) -> Vec<Note> {
    let mut notes = Vec::new();
    let governors: BTreeSet<&str> =
        domain.cpus.iter().filter_map(|cpu| cpu.governor.as_deref()).collect();
    let others: Vec<&str> = governors.into_iter().filter(|g| *g != "performance").collect();
    if !others.is_empty() {
        let text =
            format!("the governor {} lets CPUs run slower than the file says", others.join(", "));
        let command = format!("echo performance | sudo tee /{SYSFS}/cpu*/cpufreq/scaling_governor");
        notes.push(Note::with("frequency", text, command));
    }
    let several = |kind: &Kind| {
        let clock = |cpu: &&Cpu| Some(cpu.clock.as_ref()?.value);
        kind.cpus.iter().filter_map(clock).collect::<BTreeSet<u64>>().len() > 1
    };
    if domain.kinds().iter().any(several) {
        notes.push(Note::new(
            "frequency",
            "its CPUs of one type have different clocks; the lowest is taken",
        ));
    }
    notes
}

fn guest(machine: &Machine) -> Vec<Note> {
    let text = |from: &String| {
        format!(
            "this is a guest ({from}): the hypervisor shows its CPUs, caches and frames, and \
            these may differ from the machine's"
        )
    };
    machine.guest.iter().map(|from| Note::new("guest", text(from))).collect()
}

fn masks(machine: &Machine, domain: &Domain, llc: &Shape) -> Vec<Note> {
    let Some(level) = domain.first.last().map(|c| c.level) else { return Vec::new() };
    let name = format!("L{level}");
    let Some(r) = machine.resctrl.iter().find(|r| r.resource.starts_with(&name)) else {
        let could = machine.divisible.iter().any(|(l, _)| *l == level);
        let text =
            "the CPU can divide ways, but resctrl is not mounted, so its masks are not known";
        let mount = "sudo mount -t resctrl resctrl /sys/fs/resctrl";
        return could.then(|| Note::with("llc.partition", text, mount)).into_iter().collect();
    };
    let bits = u64::from(r.mask.count_ones());
    if bits == llc.ways.value {
        return Vec::new();
    }
    let text = format!(
        "the mask of {} has {bits} bits, but the cache has {} ways; a bit may not be a way",
        r.resource, llc.ways.value
    );
    vec![Note::new("llc.ways", text)]
}
