//! The facts of a platform file.
//!
//! Problem: the planner needs every key of a platform file; a machine gives half of them. Rule:
//! given values are taken. Missing values are assumed to be slow, where slower is safe. Sizes and
//! ways of caches are never assumed, as neither side is safe. Where cores are of several types, the
//! file has the lowest clock and the smallest private caches, and for each type its clock and the
//! private caches that are not these. Source:
//! crates/model/src/platform/mod.rs for the keys; the head of platforms/*.toml for the meaning of
//! their times. Does not cover: facts without a key in a platform file; crate::remarks has them.

use crate::cache::{Cache, Holds};
use crate::cpus::{Cpu, SYSFS};
use crate::description::Description;
use crate::domain::{self, Domain, Kind};
use crate::dram;
use crate::error::MachineError;
use crate::known::{Fact, Known, Note};
use crate::lists;
use crate::machine::Machine;
use crate::remarks;
use crate::root::Root;
use crate::shape::{self, Shape};
use crate::stated;
use crate::text;
use solocore_model::platform::{Partition, Platform};
use solocore_model::units::{Bytes, Frequency};
use std::path::Path;

/// Sets of a slice of Intel's shared caches.
const INTEL_SLICE_SETS: u64 = 2048;

const DATA_SHEET: &str = "the manual of the CPU";
const MEASURE: &str = "`solocore platform measure`";

/// Describes the machine below a root; `asked`: only these CPUs of it.
///
/// # Errors
/// A key without a source or with an impossible value; CPUs that cannot be described together.
pub fn describe(root: &Root, asked: Option<&[u32]>) -> Result<Description, MachineError> {
    let machine = Machine::read(root)?;
    let domain = domain::choose(&machine.cpus, asked)?;
    let notes = machine.notes.clone();
    let mut writer =
        Writer { root, machine: &machine, domain, facts: Vec::new(), own: Vec::new(), notes };
    let llc = writer.facts()?;
    let Writer { facts, notes, domain, .. } = writer;
    let text = text::keys(&facts);
    let platform = Platform::parse(Path::new("platform file"), &text).map_err(|e| {
        root.lack(format!(
            "the facts that were found make no platform file: {e}; copy the nearest \
            preset (`solocore platform list`) and correct it"
        ))
    })?;
    let (found, more) = remarks::of(&machine, &domain, &llc, &facts, &platform);
    let mut notes: Vec<Note> = notes.into_iter().chain(more).collect();
    notes.sort();
    notes.dedup();
    let highest_of = |kind: Kind| kind.cpus.iter().filter_map(|cpu| cpu.highest).max();
    let highest = domain.kinds().into_iter().map(highest_of).collect();
    let threads = domain.kinds().into_iter().map(|kind| kind.threads).collect();
    let cpus = domain.ids();
    let apart = |other: &Vec<u32>| other.iter().all(|cpu| !cpus.contains(cpu));
    let all = domain::domains(&machine.cpus);
    let others = all.iter().map(Domain::ids).filter(apart).collect();
    Ok(Description { platform, facts, found, notes, highest, threads, cpus, others })
}

/// The lowest of the guaranteed clocks of CPUs.
fn clock(cpus: &[&Cpu]) -> Known<u64> {
    let clocks = cpus.iter().filter_map(|cpu| cpu.clock.clone());
    clocks
        .min_by_key(|clock| clock.value)
        .unwrap_or_else(|| Known::assumed(1_000_000_000, "no file states a clock", DATA_SHEET))
}

struct Writer<'a> {
    root: &'a Root,
    machine: &'a Machine,
    domain: Domain<'a>,
    facts: Vec<Fact>,
    /// For each private cache its key, and the shapes that differ from the file's, by type.
    own: Vec<(&'static str, Vec<Option<Shape>>)>,
    notes: Vec<Note>,
}

impl Writer<'_> {
    fn lack(&self, key: &str, why: &str) -> MachineError {
        self.root.lack(format!(
            "{key}: {why}; a container or a guest may hide it: run `solocore platform collect` on \
                the host and use --from, or copy the nearest preset (`solocore platform list`)"
        ))
    }

    /// Collects all keys; returns the shared cache.
    fn facts(&mut self) -> Result<Shape, MachineError> {
        let llc = self.domain.first.last().cloned();
        let llc = llc.ok_or_else(|| {
            self.lack(
                "llc.size",
                "neither sysfs nor a device tree describes a shared cache of its CPUs",
            )
        })?;
        let clock = self.clock();
        self.whole(&clock)?;
        let line = self.line(&llc)?;
        self.first("l1i", Holds::Instructions, line.value)?;
        self.first("l1d", Holds::Data, line.value)?;
        self.second(&llc, line.value)?;
        let shape = self.shared(&llc, &line)?;
        let clock = Frequency(clock.value);
        let dram = dram::facts(self.machine, &self.domain, clock, &mut self.notes);
        let dram = dram.ok_or_else(|| {
            self.lack("dram.capacity", "/proc/meminfo has no MemTotal, and SMBIOS lists no module")
        })?;
        self.facts.extend(dram);
        self.kinds();
        Ok(shape)
    }

    fn put<T>(&mut self, key: &str, known: &Known<T>, value: impl std::fmt::Display) {
        self.facts.push(known.fact(key, value.to_string()));
    }

    fn quote<T>(&mut self, key: &str, known: &Known<T>, value: impl std::fmt::Display) {
        self.put(key, known, text::quoted(&value.to_string()));
    }

    /// The lowest clock of its types.
    fn clock(&self) -> Known<u64> {
        let clocks = self.domain.kinds().into_iter().map(|kind| clock(&kind.cpus));
        clocks.min_by_key(|clock| clock.value).unwrap_or_else(|| clock(&[]))
    }

    /// The types of its cores, where there are several.
    fn kinds(&mut self) {
        let kinds = self.domain.kinds();
        for (at, kind) in (1..).zip(kinds.iter().filter(|_| kinds.len() > 1)) {
            let key = |name: &str| format!("core_type[{at}].{name}");
            let name = match kind.first.kind.as_str() {
                "" => "other",
                name => name,
            };
            let unit = format!("sys/devices/cpu_{name}/cpus");
            let from = if self.root.has(stated::BOARD) {
                format!("/{}", stated::BOARD)
            } else if self.root.has(&unit) {
                format!("/{unit}")
            } else {
                format!("/{SYSFS}/cpu*/cpu_capacity, and part numbers")
            };
            self.quote(&key("name"), &Known::read((), from), name);
            let from = format!("/{SYSFS}/cpu*/topology, CPUs {}", lists::show(&kind.heads));
            let threads = if kind.cpus.len() > kind.cores.len() { ", one thread each" } else { "" };
            let cores = format!("{:?}", kind.cores);
            self.put(&key("cores"), &Known::read((), format!("{from}{threads}")), cores);
            let clock = clock(&kind.cpus);
            self.quote(&key("frequency"), &clock, Frequency(clock.value));
            self.own_caches(at - 1, &key);
        }
    }

    /// The private caches of a type that are not those of the file.
    fn own_caches(&mut self, kind: usize, key: &dyn Fn(&str) -> String) {
        let own: Vec<(&str, Shape)> = self
            .own
            .iter()
            .filter_map(|(cache, shapes)| Some((*cache, shapes.get(kind)?.clone()?)))
            .collect();
        for (cache, shape) in own {
            let (size, ways) = (key(&format!("{cache}.size")), key(&format!("{cache}.ways")));
            self.quote(&size, &shape.size, Bytes(shape.size.value));
            self.put(&ways, &shape.ways, shape.ways.value);
            if cache == "l2" {
                self.second_latency(&key("l2.latency"));
            }
        }
    }

    /// Cores of the CPUs described.
    fn cores(&self) -> Known<usize> {
        let (online, ids) = (&self.machine.online, self.domain.ids());
        let cores = online.with(self.domain.cores());
        if cores.value == online.value.len() {
            return cores;
        }
        cores.remark(&format!("CPUs {} of these are described", lists::show(&ids)))
    }

    /// Keys before the first table, and the memory time that a core hides.
    fn whole(&mut self, clock: &Known<u64>) -> Result<(), MachineError> {
        let title = self.machine.title.clone();
        self.quote("name", &title, text::slug(&title.value));
        self.quote("title", &title, &title.value);
        let isa = self.machine.isa.clone();
        let isa = isa.ok_or_else(|| {
            self.lack("isa", "neither /proc/sys/kernel/arch nor /proc/cpuinfo states an instruction set that solocore knows")
        })?;
        self.quote("isa", &isa, isa.value);
        let cores = self.cores();
        self.put("cores", &cores, cores.value);
        self.quote("frequency", clock, Frequency(clock.value));
        let cpi = Known::assumed((), "twice that of the boards that come with solocore", MEASURE);
        self.put("cpi", &cpi, "2.0");
        let page = self.machine.page.clone();
        let page = page.unwrap_or_else(|| {
            Known::assumed(4096, "as most kernels use it", "`getconf PAGESIZE`")
        });
        self.quote("page", &page, Bytes(page.value));
        let mshrs = Known::assumed(
            (),
            "the number of large cores, because more make larger bounds",
            "`solocore platform measure`, or the manual of the CPU",
        );
        self.put("pipeline.mshrs", &mshrs, 16);
        let window = Known::assumed((), "a core that hides nothing of its memory time", DATA_SHEET);
        self.quote("pipeline.window", &window, "0 cycles");
        Ok(())
    }

    /// The line of the shared cache; a platform file has one for all levels.
    fn line(&mut self, llc: &Cache) -> Result<Known<u64>, MachineError> {
        let firsts = self.firsts();
        let caches: Vec<&Cache> = firsts.iter().flat_map(|cpu| &cpu.caches).collect();
        let line = llc.line.clone().or_else(|| caches.iter().find_map(|c| c.line.clone()));
        let line =
            line.ok_or_else(|| self.lack("llc.line", "no file states the size of a line"))?;
        let other = |c: &&&Cache| c.line.as_ref().is_some_and(|l| l.value != line.value);
        if let Some(Cache { line: Some(theirs), .. }) = caches.iter().find(other).copied() {
            let text = format!(
                "{} says {}, and {} says {}; a platform file has one line for all levels, the last",
                theirs.from, theirs.value, line.from, line.value
            );
            self.notes.push(Note::new("llc.line", text));
        }
        Ok(line)
    }

    /// The shape of a cache, for the platform's key.
    fn shape(&mut self, cache: &Cache, key: &str, line: u64) -> Result<Shape, MachineError> {
        let shape = shape::of(cache, key, line, &mut self.notes);
        shape.map_err(|(part, why)| self.lack(&format!("{key}.{part}"), &why))
    }

    /// Writes the smallest of the types' caches, the first of several, and keeps the others for
    /// their types.
    fn private(
        &mut self,
        caches: &[Cache],
        key: &'static str,
        line: u64,
    ) -> Result<(), MachineError> {
        let mut shapes = Vec::with_capacity(caches.len());
        for cache in caches {
            shapes.push(self.shape(cache, key, line)?);
        }
        let smallest = shapes.iter().min_by_key(|shape| shape.size.value).cloned();
        let shape = smallest.ok_or_else(|| self.lack(key, "no file describes this cache"))?;
        self.write(key, &shape);
        let same =
            |own: &Shape| (own.size.value, own.ways.value) == (shape.size.value, shape.ways.value);
        let own = shapes.into_iter().map(|own| Some(own).filter(|own| !same(own))).collect();
        self.own.push((key, own));
        Ok(())
    }

    fn write(&mut self, key: &str, shape: &Shape) {
        self.quote(&format!("{key}.size"), &shape.size, Bytes(shape.size.value));
        self.put(&format!("{key}.ways"), &shape.ways, shape.ways.value);
    }

    /// The first CPU of each type.
    fn firsts(&self) -> Vec<Cpu> {
        self.domain.kinds().iter().map(|kind| kind.first.clone()).collect()
    }

    /// A first-level cache. One for instructions and data counts as both.
    fn first(&mut self, key: &'static str, holds: Holds, line: u64) -> Result<(), MachineError> {
        let of = |cpu: &Cpu| cpu.cache(1, holds).or_else(|| cpu.cache(1, Holds::Both)).cloned();
        let caches: Option<Vec<Cache>> = self.firsts().iter().map(of).collect();
        let caches = caches.ok_or_else(|| {
            self.lack(
                &format!("{key}.size"),
                "neither sysfs nor a device tree describes this cache",
            )
        })?;
        self.private(&caches, key, line)
    }

    /// A second level that is private to a core. Where a type has none, the others have their own.
    fn second(&mut self, llc: &Cache, line: u64) -> Result<(), MachineError> {
        let mut caches = Vec::new();
        for cpu in self.firsts() {
            let second = cpu.cache(2, Holds::Both).filter(|_| llc.level > 2);
            let is_shared =
                |c: &&Cache| c.shared.value.iter().any(|other| !cpu.siblings.contains(other));
            if let Some(second) = second.filter(is_shared) {
                self.notes.push(remarks::shared_second(second));
            }
            caches.push(second.filter(|c| !is_shared(c)).cloned());
        }
        let all: Vec<Cache> = caches.iter().flatten().cloned().collect();
        if all.len() < caches.len() {
            let mut own = Vec::with_capacity(caches.len());
            for cache in &caches {
                own.push(cache.as_ref().map(|c| self.shape(c, "l2", line)).transpose()?);
            }
            self.own.push(("l2", own));
            return Ok(());
        }
        self.private(&all, "l2", line)?;
        self.second_latency("l2.latency");
        Ok(())
    }

    fn second_latency(&mut self, key: &str) {
        let latency = Known::assumed(
            (),
            "more than twice that of the boards that come with solocore",
            MEASURE,
        );
        self.quote(key, &latency, "20 cycles");
    }

    fn shared(&mut self, llc: &Cache, line: &Known<u64>) -> Result<Shape, MachineError> {
        let shape = self.shape(llc, "llc", line.value)?;
        self.write("llc", &shape);
        let cycles = if llc.level > 2 { 150 } else { 40 };
        let why = "more than any board that comes with solocore has at this level";
        let latency = Known::assumed((), why, MEASURE);
        self.quote("llc.latency", &latency, format!("{cycles} cycles"));
        let partition = self.partition(llc.level);
        let name = match partition.value {
            Partition::Lock => "lock",
            Partition::Way => "way",
            Partition::Colour => "colour",
        };
        self.quote("llc.partition", &partition, name);
        let slices = self.slices(llc.level, &shape);
        self.put("llc.slices", &slices, slices.value);
        self.quote("llc.line", line, Bytes(line.value));
        Ok(shape)
    }

    fn partition(&self, level: u32) -> Known<Partition> {
        let name = format!("L{level}");
        let machine = self.machine;
        if let Some(r) = machine.resctrl.iter().find(|r| r.resource.starts_with(&name)) {
            let from = format!("/sys/fs/resctrl/info/{}/cbm_mask", r.resource);
            return Known::read(Partition::Way, from);
        }
        if let Some((_, why)) = machine.divisible.iter().find(|(l, _)| *l == level) {
            return Known::read(Partition::Way, *why);
        }
        if machine.lockable {
            return Known::read(Partition::Lock, "the device tree's arm,pl310-cache");
        }
        Known::assumed(Partition::Colour, "no file states masks or locks", DATA_SHEET)
    }

    /// Slices of the shared cache, as crates/space/src/geometry.rs assumes them.
    fn slices(&self, level: u32, shape: &Shape) -> Known<u64> {
        if self.machine.intel && level >= 3 && shape.all_sets.is_multiple_of(INTEL_SLICE_SETS) {
            let why =
                "slices of 2048 sets, measured on Intel's CPUs since 2008 (MARACAS section VI)";
            let all = shape.all_sets / INTEL_SLICE_SETS;
            let known = Known::table((shape.sets / INTEL_SLICE_SETS).max(1), why);
            return if all == known.value { known } else { known.remark(&format!("here {all}")) };
        }
        let why =
            "no interface states whether a hash chooses slices; a hash would leave fewer colours";
        Known::assumed(1, why, DATA_SHEET)
    }
}
