//! The CPUs of a machine: cores, types, clocks and caches.
//!
//! Problem: no file describes all of a CPU, and each file may be missing. Rule: sysfs gives the
//! CPUs and their shared parts. Caches and numbers that it lacks come from the device tree, then
//! from the tables of cores and chips. Source: Documentation/admin-guide/cputopology.rst,
//! Documentation/ABI/testing/ sysfs-devices-system-cpu, Documentation/admin-guide/pm/cpufreq.rst of
//! Linux. Does not cover: CPUs that are offline: the kernel takes their directories away.

use crate::cache::{self, Cache, Holds};
use crate::cpuinfo::{self, CpuInfo};
use crate::error::MachineError;
use crate::known::{Known, Note};
use crate::lists;
use crate::root::Root;
use crate::stated::{self, Stated};
use crate::tables::cores;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Directory in which sysfs describes the CPUs.
pub const SYSFS: &str = "sys/devices/system/cpu";
/// Highest index of a cache that is read.
const INDEXES: u32 = 16;

/// A CPU that is online.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Its socket.
    pub package: u64,
    /// The CPUs of its core, itself included, in order.
    pub siblings: Vec<u32>,
    /// Type of its core, like `core`, `atom`, `Cortex-A72`; empty if no source gives it.
    pub kind: String,
    /// The CPUs of its cluster, where sysfs gives them.
    pub cluster: Option<Vec<u32>>,
    /// Its clock in Hz: the lowest that is guaranteed.
    pub clock: Option<Known<u64>>,
    /// Its highest clock in Hz.
    pub highest: Option<u64>,
    /// The kernel's governor of its clock.
    pub governor: Option<String>,
    /// Its caches, by level.
    pub caches: Vec<Cache>,
}

impl Cpu {
    /// A cache by level and kind.
    pub fn cache(&self, level: u32, holds: Holds) -> Option<&Cache> {
        self.caches.iter().find(|c| (c.level, c.holds) == (level, holds))
    }

    /// The last cache that holds data.
    pub fn last(&self) -> Option<&Cache> {
        self.caches.iter().filter(|c| c.holds == Holds::Both).max_by_key(|c| c.level)
    }
}

/// The CPUs that are online, with the source.
pub fn online(root: &Root, info: &CpuInfo) -> Result<Known<Vec<u32>>, MachineError> {
    let path = format!("{SYSFS}/online");
    if let Some(list) = root.list(&path).filter(|list| !list.is_empty()) {
        return Ok(Known::read(list, format!("/{path}")));
    }
    let cpus = info.cpus();
    if cpus.is_empty() {
        return Err(root.lack(format!(
            "cores: neither /{path} nor /{} lists a CPU; mount sysfs and procfs, or use \
                `solocore platform collect` on the host and --from",
            cpuinfo::PATH
        )));
    }
    Ok(Known::read(cpus, format!("/{}", cpuinfo::PATH)))
}

/// Reads all CPUs that are online.
pub fn read(root: &Root, info: &CpuInfo, tree: &Tree, online: &[u32]) -> Vec<Cpu> {
    let stated = stated::read(root);
    online.iter().map(|&id| read_one(root, info, tree, &stated, id, online)).collect()
}

fn read_one(
    root: &Root,
    info: &CpuInfo,
    tree: &Tree,
    stated: &[Stated],
    id: u32,
    online: &[u32],
) -> Cpu {
    let own = stated.iter().find(|kind| kind.cpus.contains(&id));
    let dir = format!("{SYSFS}/cpu{id}");
    let list = |name: &str| {
        let mut list = root.list(&format!("{dir}/topology/{name}"))?;
        list.retain(|cpu| online.contains(cpu));
        list.contains(&id).then_some(list)
    };
    let kilohertz = |name: &str| {
        let path = format!("{dir}/cpufreq/{name}");
        let khz = root.number(&path).filter(|&khz| khz > 0)?;
        Some(Known::read(khz.checked_mul(1000)?, format!("/{path}")))
    };
    let highest = kilohertz("cpuinfo_max_freq");
    Cpu {
        id,
        package: root.number(&format!("{dir}/topology/physical_package_id")).unwrap_or(0),
        siblings: list("thread_siblings_list").unwrap_or_else(|| vec![id]),
        kind: own.map_or_else(|| kind(root, info, id), |own| own.name.clone()),
        cluster: list("cluster_cpus_list"),
        highest: highest.as_ref().map(|k| k.value),
        clock: own
            .and_then(|own| own.clock.clone())
            .or_else(|| kilohertz("base_frequency"))
            .or_else(|| named_clock(info, id))
            .or(highest)
            .or_else(|| tree.clock(root, id))
            .or_else(|| counter_clock(info, id))
            .or_else(|| shown_clock(info, id)),
        governor: root.text(&format!("{dir}/cpufreq/scaling_governor")),
        caches: caches(root, info, tree, id, online),
    }
}

/// The type of a CPU whose type is not stated. On Arm, equal cores of a chip may have different
/// clocks; their capacity distinguishes them (Documentation/scheduler/sched-capacity.rst).
fn kind(root: &Root, info: &CpuInfo, id: u32) -> String {
    if info.x86() {
        return String::new();
    }
    let core = part(root, info, id).map(|(implementer, part)| {
        let name = cores::core(implementer, part).map(|core| core.name.to_owned());
        name.unwrap_or_else(|| format!("part {implementer:#x}:{part:#x}"))
    });
    let capacity = root.number(&format!("{SYSFS}/cpu{id}/cpu_capacity"));
    let capacity = capacity.map(|capacity| format!("capacity {capacity}"));
    core.into_iter().chain(capacity).collect::<Vec<_>>().join(", ")
}

/// Implementer and part: bits 31 to 24 and 15 to 4 of MIDR_EL1.
fn part(root: &Root, info: &CpuInfo, id: u32) -> Option<(u32, u32)> {
    let midr = root.hex(&format!("{SYSFS}/cpu{id}/regs/identification/midr_el1"));
    let split = |midr: u64| {
        let bits = |from: u32, count: u32| u32::try_from(midr >> from & ((1 << count) - 1)).ok();
        Some((bits(24, 8)?, bits(4, 12)?))
    };
    midr.and_then(split).or_else(|| info.part(id))
}

/// `... CPU @ 3.30GHz`: Intel writes the clock without turbo into the name (Intel SDM volume 2A,
/// CPUID, "The Processor Brand String Method").
fn named_clock(info: &CpuInfo, id: u32) -> Option<Known<u64>> {
    let (_, clock) = info.of(id, "model name")?.rsplit_once(" @ ")?;
    let (number, scale) = match (clock.strip_suffix("GHz"), clock.strip_suffix("MHz")) {
        (Some(number), _) => (number, 1e9),
        (_, Some(number)) => (number, 1e6),
        _ => return None,
    };
    let hz = hertz(number, scale)?;
    Some(Known::read(hz, format!("/{}, model name", cpuinfo::PATH)))
}

/// x86 kernels derive `bogomips` from the clock of the time stamp counter, two a cycle
/// (arch/x86/kernel/tsc.c); a constant one runs at the clock without turbo.
fn counter_clock(info: &CpuInfo, id: u32) -> Option<Known<u64>> {
    let bogomips = info.of(id, "bogomips").filter(|_| info.flag("constant_tsc"))?;
    let hz = hertz(bogomips, 0.5e6)?;
    Some(Known::read(hz, format!("/{}, bogomips / 2, the time stamp counter", cpuinfo::PATH)))
}

/// The clock at the time when the file was read.
fn shown_clock(info: &CpuInfo, id: u32) -> Option<Known<u64>> {
    let (key, text) = ["cpu MHz", "clock"].iter().find_map(|k| Some((k, info.of(id, k)?)))?;
    let hz = hertz(text.trim_end_matches("MHz"), 1e6)?;
    Some(Known::read(hz, format!("/{}, {key} as it was then", cpuinfo::PATH)))
}

/// A frequency in whole MHz: a clock that the kernel measures is no more exact.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 100,000 MHz")]
fn hertz(number: &str, scale: f64) -> Option<u64> {
    let megahertz = (number.trim().parse::<f64>().ok()? * scale / 1e6).round();
    (1.0..=1e5).contains(&megahertz).then_some(megahertz as u64 * 1_000_000)
}

fn caches(root: &Root, info: &CpuInfo, tree: &Tree, id: u32, online: &[u32]) -> Vec<Cache> {
    let mut caches: Vec<Cache> =
        (0..INDEXES).filter_map(|index| sysfs_cache(root, id, index, online)).collect();
    let mut stated = tree.caches(root, id);
    for cache in &mut stated {
        cache.shared.value.retain(|cpu| online.contains(cpu));
    }
    cache::merge(&mut caches, &stated);
    let table = table_caches(root, info, tree, id, online);
    if caches.is_empty() && !tree.compatible.is_empty() {
        cache::merge(&mut caches, &table);
    }
    cache::fill(&mut caches, &table);
    caches
}

fn sysfs_cache(root: &Root, id: u32, index: u32, online: &[u32]) -> Option<Cache> {
    let dir = format!("{SYSFS}/cpu{id}/cache/index{index}");
    let level = root.number(&format!("{dir}/level")).and_then(|l| u32::try_from(l).ok())?;
    let holds = root.parsed(&format!("{dir}/type"), "type of cache", Holds::parse)?;
    let known = |name: &str, value: Option<u64>| {
        value.filter(|&v| v > 0).map(|v| Known::read(v, format!("/{dir}/{name}")))
    };
    let number = |name: &str| known(name, root.number(&format!("{dir}/{name}")));
    Some(Cache {
        level,
        holds,
        size: known("size", root.parsed(&format!("{dir}/size"), "size", size)),
        ways: number("ways_of_associativity"),
        sets: number("number_of_sets"),
        line: number("coherency_line_size"),
        shared: sharing(root, &dir, online),
    })
}

/// The CPUs that share a cache. A cache without this information is taken to be shared by all.
fn sharing(root: &Root, dir: &str, online: &[u32]) -> Known<Vec<u32>> {
    let path = format!("{dir}/shared_cpu_list");
    match root.list(&path).filter(|list| !list.is_empty()) {
        Some(mut list) => {
            list.retain(|cpu| online.contains(cpu));
            Known::read(list, format!("/{path}"))
        }
        None => Known::assumed(
            online.to_vec(),
            format!("/{path} is not there; all CPUs"),
            "a kernel that shows it",
        ),
    }
}

/// `48K`, as the kernel writes it.
fn size(text: &str) -> Option<u64> {
    let (number, scale) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// Caches of a CPU from the tables.
fn table_caches(root: &Root, info: &CpuInfo, tree: &Tree, id: u32, online: &[u32]) -> Vec<Cache> {
    let Some(core) = part(root, info, id).and_then(|(i, p)| cores::core(i, p)) else {
        return Vec::new();
    };
    let manual = format!("{} TRM (recalled)", core.name);
    let make = |level, holds, shape: Option<cores::Shape>, shared: &[u32]| {
        let (size, ways) = shape?;
        let known = |v: u64| Known::table(v, manual.clone());
        let cache = Cache::at(level, holds, Known::table(shared.to_vec(), manual.clone()));
        let (size, line) = (size.map(known), core.line.map(known));
        Some(Cache { size, ways: Some(known(ways)), line, ..cache })
    };
    let mut second = make(2, Holds::Both, core.l2, online);
    if let (Some(second), Some(chip)) = (&mut second, cores::chip(&tree.compatible)) {
        second.size = Some(Known::table(chip.shared, chip.cite));
    }
    let first =
        [make(1, Holds::Data, core.l1d, &[id]), make(1, Holds::Instructions, core.l1i, &[id])];
    first.into_iter().chain([second]).flatten().collect()
}

/// Impossible statements of CPUs about each other.
pub fn contradictions(cpus: &[Cpu], info: &CpuInfo, online: &Known<Vec<u32>>) -> Vec<Note> {
    let mut notes = Vec::new();
    let named = info.cpus();
    if !named.is_empty() && named != online.value && !online.from.contains("cpuinfo") {
        notes.push(Note::new(
            "cores",
            format!(
                "{} says {}, and /{} lists {}; the first is taken",
                online.from,
                lists::show(&online.value),
                cpuinfo::PATH,
                lists::show(&named)
            ),
        ));
    }
    let by_id: BTreeMap<u32, &Cpu> = cpus.iter().map(|cpu| (cpu.id, cpu)).collect();
    let caches = cpus.iter().flat_map(|cpu| cpu.caches.iter().map(|cache| (cpu.id, cache)));
    // One for each level is enough.
    let levels: BTreeMap<String, Note> = caches
        .rev()
        .filter_map(|(id, cache)| one_sided(&by_id, id, cache))
        .map(|n| (n.key.clone(), n))
        .collect();
    notes.extend(levels.into_values());
    notes
}

/// A CPU that shares a cache with another one that does not share it back.
fn one_sided(cpus: &BTreeMap<u32, &Cpu>, id: u32, cache: &Cache) -> Option<Note> {
    let theirs =
        |other: &u32| cpus.get(other)?.caches.iter().find(|theirs| theirs.same_place(cache));
    let agrees = |other: &&u32| theirs(other).is_some_and(|c| c.shared.value == cache.shared.value);
    if !cache.shared.value.contains(&id) {
        return Some(Note::new(
            &format!("cache.l{}", cache.level),
            format!("{} does not list CPU {id} itself", cache.shared.from),
        ));
    }
    let other = cache.shared.value.iter().find(|other| !agrees(other))?;
    Some(Note::new(
        &format!("cache.l{}", cache.level),
        format!(
            "{} lists CPU {other}, and that CPU lists others; only CPUs that agree are described \
                together",
            cache.shared.from
        ),
    ))
}
