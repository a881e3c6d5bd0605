//! The event for accesses to memory, by name.
//!
//! Problem: a last-level miss has another number on every microarchitecture, the CPUs of a machine
//! may be of several, and in a virtual machine there may be none at all.
//! Rule: `llc-misses` is, for each CPU, the event that the table has for its type ([`Row`]). `rHEX`
//! is a raw event as `perf` writes it, with `,offcore_rsp=HEX` where it needs that register; each
//! is opened on the unit of counters that the CPU has. A software event stands in where there is no
//! counter, to try the mechanism, and then no bound of a plan holds.
//! Source: `table`, and perf_event_open(2).
//! Reads and writes apart: a miss of a store is a read, too (the line is fetched); writes to memory
//! are write-backs. In the table, only CPUs with a last level of one core or cluster count them
//! (L2D_CACHE_WB of the Arm architecture). Intel and AMD count them in the memory controller, which
//! knows no core. The table names the event that counts budgets of writes.
//! Does not cover: the uncore's counters (they know no core). The authors have tried no row of the
//! table on hardware: `solocore doctor` tests an event.

mod cpus;
mod known;
mod self_test;
mod table;

pub use known::{Tried, TriedCpu, TriedOn};
pub use table::{Counted, Row};

use crate::error::LinuxError;
use crate::host::machine::cpu_list;
use crate::sys::{PERF_DISABLED, PERF_EXCLUDE_KERNEL, PERF_PINNED, PerfAttr};
use cpus::Cpu;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Directory of the kernel's units of counters.
const DEVICES: &str = "/sys/bus/event_source/devices";

const PERF_HARDWARE: u32 = 0;
const PERF_SOFTWARE: u32 = 1;
const PERF_RAW: u32 = 4;
/// Shift of the unit's number in a generic event of a hybrid machine.
const UNIT_SHIFT: u32 = 32;

/// Smallest sample with a hardware counter, in accesses: an interrupt costs more than fewer
/// accesses do.
const LEAST_HARDWARE_SAMPLE: u64 = 100;

/// Software events: name and number in `linux/perf_event.h`.
const SOFTWARE: &[(&str, u64)] = &[("page-faults", 2), ("minor-faults", 5), ("major-faults", 6)];

/// Generic hardware events of the kernel.
const HARDWARE: &[(&str, u64)] = &[("cache-misses", 3)];

/// The kernel's generic events for a program's own work: name, kind and number.
const WORK: &[(&str, u32, u64)] = &[
    ("cycles", PERF_HARDWARE, 0),
    ("instructions", PERF_HARDWARE, 1),
    ("task-clock", PERF_SOFTWARE, 1),
    ("page-faults", PERF_SOFTWARE, 2),
];

/// CPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuType {
    /// Numbers of the CPUs; empty: all.
    pub cpus: Vec<u32>,
    /// Its row of the table.
    pub row: Option<&'static Row>,
}

impl CpuType {
    /// The CPUs, for people.
    pub fn cpus(&self) -> String {
        match self.cpus.as_slice() {
            [] => "this CPU".to_owned(),
            [one] => format!("CPU {one}"),
            many => format!("CPUs {}", cpu_list(many)),
        }
    }
}

/// The types of the CPUs that `/proc/cpuinfo` describes, in the order of their first CPUs.
pub fn types(cpuinfo: &str) -> Vec<CpuType> {
    types_of(&cpus::read(cpuinfo, Path::new(DEVICES)))
}

fn types_of(cpus: &[Cpu]) -> Vec<CpuType> {
    by_type(cpus.iter().map(|cpu| (cpu, table::fitting(cpu).next())))
}

/// Groups the CPUs by their row.
fn by_type<'a>(cpus: impl Iterator<Item = (&'a Cpu, Option<&'static Row>)>) -> Vec<CpuType> {
    let mut found: Vec<CpuType> = Vec::new();
    for (cpu, row) in cpus {
        match found.iter_mut().find(|t| t.row == row) {
            Some(of_row) => of_row.cpus.extend(cpu.number),
            None => found.push(CpuType { cpus: cpu.number.into_iter().collect(), row }),
        }
    }
    found
}

/// Number of an event for `perf_event_open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    kind: u32,
    config: u64,
    config1: u64,
}

impl Code {
    fn new(kind: u32, config: u64) -> Self {
        Self { kind, config, config1: 0 }
    }

    fn of_row(row: &Row) -> Self {
        let kind = if row.generic { PERF_HARDWARE } else { PERF_RAW };
        Self { kind, config: row.config, config1: row.config1 }
    }

    /// The event on a CPU's unit of counters.
    fn on(self, cpu: &Cpu) -> Self {
        match (&cpu.unit, self.kind) {
            (Some(unit), PERF_RAW) => Self { kind: unit.kind, ..self },
            (Some(unit), PERF_HARDWARE) => {
                Self { config: self.config | u64::from(unit.kind) << UNIT_SHIFT, ..self }
            }
            _ => self,
        }
    }
}

/// An event to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    name: String,
    /// Its number on every CPU that `elsewhere` does not name.
    code: Code,
    /// CPUs with another number.
    elsewhere: BTreeMap<u32, Code>,
    software: bool,
    /// Whether the kernel's own work is left out.
    programs_only: bool,
    /// Rows of the table for it, with their CPUs.
    known: Vec<CpuType>,
}

impl Event {
    /// The event of this name; `cpuinfo` is the text of `/proc/cpuinfo`. With `:u` at its end, as
    /// `perf` writes it, only the programs' own work counts, not the kernel's.
    ///
    /// # Errors
    /// An unknown name, or `llc-misses` on a CPU that the table lacks.
    pub fn find(name: &str, cpuinfo: &str) -> Result<Self, LinuxError> {
        Self::find_for(name, &cpus::read(cpuinfo, Path::new(DEVICES)))
    }

    fn find_for(name: &str, cpus: &[Cpu]) -> Result<Self, LinuxError> {
        match name.strip_suffix(":u") {
            None => Self::of_name(name, cpus),
            Some(plain) => Self::of_name(plain, cpus).map(Self::of_programs),
        }
    }

    fn of_name(name: &str, cpus: &[Cpu]) -> Result<Self, LinuxError> {
        let known = |table: &[(&str, u64)]| {
            table.iter().find(|(n, _)| *n == name).map(|&(_, config)| config)
        };
        if let Some(config) = known(SOFTWARE) {
            return Ok(Self::same(name, Code::new(PERF_SOFTWARE, config), &[]));
        }
        if let Some(config) = known(HARDWARE) {
            return Ok(Self::same(name, Code::new(PERF_HARDWARE, config), cpus));
        }
        if name == "llc-misses" {
            return Self::of_table(name, cpus);
        }
        if let Some(code) = raw(name) {
            return Ok(Self::same(name, code, cpus));
        }
        let mut all = String::from("llc-misses");
        for (n, _) in HARDWARE.iter().chain(SOFTWARE) {
            let _ = write!(all, ", {n}");
        }
        Err(LinuxError::Input(format!(
            "no event is called `{name}`; there are {all}, and rHEX for a raw event (with \
                ,offcore_rsp=HEX where it needs that register), each also with :u (programs only)"
        )))
    }

    /// An event for a program's own work; `None` for another name.
    pub(crate) fn of_work(name: &str, cpuinfo: &str) -> Option<Self> {
        let (_, kind, config) = WORK.iter().find(|(n, ..)| *n == name)?;
        let cpus = cpus::read(cpuinfo, Path::new(DEVICES));
        Some(Self::same(name, Code::new(*kind, *config), &cpus))
    }

    /// The same event without the kernel's work.
    pub(crate) fn of_programs(self) -> Self {
        Self { name: format!("{}:u", self.name), programs_only: true, ..self }
    }

    /// The same event on all CPUs, each on its own unit.
    fn same(name: &str, code: Code, cpus: &[Cpu]) -> Self {
        let codes = cpus.iter().map(|cpu| (cpu, code)).collect();
        let mut event = Self::of_cpus(name, code, codes);
        event.software = code.kind == PERF_SOFTWARE;
        event
    }

    /// An event with a number for each CPU; `code` for those that are not listed.
    fn of_cpus(name: &str, code: Code, codes: Vec<(&Cpu, Code)>) -> Self {
        let known =
            by_type(codes.iter().map(|(cpu, code)| {
                (*cpu, table::fitting(cpu).find(|row| Code::of_row(row) == *code))
            }));
        let all: Vec<_> = codes.iter().map(|(cpu, code)| (cpu.number, code.on(cpu))).collect();
        let first = all.first().map_or(code, |(_, code)| *code);
        let elsewhere = all
            .into_iter()
            .filter_map(|(cpu, code)| Some((cpu?, code)))
            .filter(|(_, code)| *code != first)
            .collect();
        let (name, software, programs_only) = (name.to_owned(), false, false);
        Self { name, code: first, elsewhere, software, programs_only, known }
    }

    fn of_table(name: &str, cpus: &[Cpu]) -> Result<Self, LinuxError> {
        let codes: Vec<_> = cpus
            .iter()
            .filter_map(|cpu| Some((cpu, Code::of_row(table::fitting(cpu).next()?))))
            .collect();
        match codes.first() {
            Some(&(_, code)) if codes.len() == cpus.len() => Ok(Self::of_cpus(name, code, codes)),
            known => {
                let lacking = types_of(cpus).into_iter().find(|t| t.row.is_none());
                let which = lacking
                    .filter(|_| known.is_some())
                    .map_or_else(|| "this CPU".to_owned(), |t| t.cpus());
                Err(LinuxError::Machine(format!(
                    "the table of events lacks {which}; give its event for last-level misses as \
                        --event rHEX (raw, as perf writes it)"
                )))
            }
        }
    }

    /// The event that counts writes: without a name, the table's for every CPU; `None` where it has
    /// none.
    ///
    /// # Errors
    /// An unknown name.
    pub fn find_writes(name: Option<&str>, cpuinfo: &str) -> Result<Option<Self>, LinuxError> {
        let cpus = cpus::read(cpuinfo, Path::new(DEVICES));
        let of_table: Option<Vec<_>> =
            cpus.iter().map(|cpu| Some((cpu, table::fitting(cpu).next()?.write_backs?))).collect();
        let of_table = of_table.filter(|all| !all.is_empty());
        let event = |all: Vec<(&Cpu, (u64, &str))>| {
            let (config, name) = all.first()?.1;
            let code = |config| Code::new(PERF_RAW, config);
            let codes = all.into_iter().map(|(cpu, (config, _))| (cpu, code(config))).collect();
            Some(Self::of_cpus(name, code(config), codes))
        };
        match (name, of_table) {
            (Some("llc-misses"), _) => Err(LinuxError::Input(
                "--write-event llc-misses: --event already counts misses; give an event of \
                    write-backs, as rHEX"
                    .to_owned(),
            )),
            (Some(name), Some(all)) if all.iter().any(|(_, (_, known))| *known == name) => {
                Ok(event(all))
            }
            (Some(name), _) => Self::find_for(name, &cpus).map(Some),
            (None, found) => Ok(found.and_then(event)),
        }
    }

    /// Whether it leaves out the kernel's work.
    pub fn is_of_programs_only(&self) -> bool {
        self.programs_only
    }

    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it only is a substitute for accesses to memory.
    pub fn is_software(&self) -> bool {
        self.software
    }

    /// Rows of the table for the CPUs of each type; without a row, nothing is known.
    pub fn known(&self) -> &[CpuType] {
        &self.known
    }

    /// The kinds of traffic that it leaves out on some CPU, as far as its vendor documents that.
    pub fn leaves_out(&self) -> Vec<&'static str> {
        let rows = || self.known.iter().filter_map(|t| t.row);
        let left_out = |kind: &&'static str| rows().any(|r| r.that_are(Counted::No).contains(kind));
        table::TRAFFIC.iter().copied().filter(left_out).collect()
    }

    /// Smallest sample, in accesses.
    pub fn least_sample(&self) -> u64 {
        if self.is_software() { 1 } else { LEAST_HARDWARE_SAMPLE }
    }

    /// Attributes on a CPU of a counter that interrupts every `sample` accesses; 0: it only counts.
    pub(crate) fn attributes(&self, cpu: u32, sample: u64) -> PerfAttr {
        self.attributes_of(self.elsewhere.get(&cpu).copied().unwrap_or(self.code), sample)
    }

    fn attributes_of(&self, code: Code, sample: u64) -> PerfAttr {
        // A counter that is displaced for a while would miss accesses.
        let pinned = if self.is_software() { 0 } else { PERF_PINNED };
        PerfAttr {
            kind: code.kind,
            config: code.config,
            config1: code.config1,
            sample_period: sample,
            flags: PERF_DISABLED
                | pinned
                | if self.programs_only { PERF_EXCLUDE_KERNEL } else { 0 },
            ..PerfAttr::default()
        }
    }
}

/// Reads `rHEX`, or `rHEX,offcore_rsp=HEX`.
fn raw(name: &str) -> Option<Code> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let rest = name.strip_prefix('r')?;
    let (config, config1) = match rest.split_once(",offcore_rsp=") {
        Some((config, value)) => (config, hex(value)?),
        None => (rest, 0),
    };
    Some(Code { kind: PERF_RAW, config: hex(config)?, config1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_table_knows_its_cpus() {
        let of =
            |text: &str| Event::find("llc-misses", text).ok().map(|e| (e.code.kind, e.code.config));
        assert_eq!(
            of("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon"),
            Some((4, 0x412e))
        );
        assert_eq!(of("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 15\n"), None);
        // Zen 3 and later count fills for any reason (0x44); 0x43 leaves out prefetched lines.
        let zen3 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n";
        assert_eq!(of(zen3), Some((4, 0x4844)));
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd08\n"), Some((4, 0x17)));
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), Some((4, 0x37)));
        assert_eq!(of("processor: 0\nhart: 0\nisa: rv64gc\n"), Some((0, 3)));
        assert_eq!(of(""), None);
        let haswell = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 63\nflags: fpu\n";
        let offcore = Event::find("llc-misses", haswell).unwrap().attributes(0, 0);
        assert_eq!((offcore.config, offcore.config1), (0x1b7, 0x3f_bfc0_8fff));
    }

    #[test]
    fn each_cpu_of_big_little_has_its_own() {
        let part = |cpu: u32, part: &str| {
            format!("processor: {cpu}\nCPU implementer: 0x41\nCPU part: {part}\n\n")
        };
        let text = part(0, "0xd05") + &part(1, "0xd05") + &part(2, "0xd08");
        let event = Event::find("llc-misses", &text).unwrap();
        let configs = [0, 1, 2, 3].map(|cpu| event.attributes(cpu, 0).config);
        assert_eq!(configs, [0x37, 0x37, 0x17, 0x37]);
        let known: Vec<_> =
            event.known().iter().map(|t| (t.cpus(), t.row.unwrap().title)).collect();
        let expected = [("CPUs 0-1", "cortex-a55"), ("CPU 2", "cortex-a57-a72")];
        assert_eq!(known, expected.map(|(cpus, title)| (cpus.to_owned(), title)));
        assert_eq!(Event::find_writes(None, &text).unwrap(), None, "the A55 counts none");
        let error = Event::find("llc-misses", &(text + &part(7, "0xfff"))).unwrap_err();
        assert!(error.to_string().contains("lacks CPU 7;"), "{error}");
    }

    #[test]
    fn each_cpu_of_a_hybrid_has_its_own_unit() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind, cpus) in [("cpu_core", "4", "0"), ("cpu_atom", "10", "1")] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("type"), kind).unwrap();
            fs::write(dir.path().join(name).join("cpus"), cpus).unwrap();
        }
        let block = |cpu: u32| {
            format!("processor: {cpu}\nvendor_id: GenuineIntel\ncpu family: 6\nmodel: 151\n\n")
        };
        let cpus = cpus::read(&(block(0) + &block(1)), dir.path());
        let of = |name: &str| {
            let event = Event::find_for(name, &cpus).unwrap();
            [0, 1].map(|cpu| event.attributes(cpu, 0)).map(|a| (a.kind, a.config))
        };
        assert_eq!(of("llc-misses"), [(4, 0x412e), (10, 0x412e)]);
        assert_eq!(of("r11"), [(4, 0x11), (10, 0x11)]);
        assert_eq!(of("cache-misses"), [(0, 4 << 32 | 3), (0, 10 << 32 | 3)]);
        assert_eq!(of("page-faults"), [(1, 2), (1, 2)]);
        let units: Vec<_> = types_of(&cpus).iter().map(|t| t.cpus.clone()).collect();
        assert_eq!(units, [[0], [1]], "what they count differs");
    }

    #[test]
    fn what_is_left_out_is_known() {
        let zen4 = "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 97\n";
        let left_out = Event::find("llc-misses", zen4).unwrap().leaves_out();
        assert_eq!(
            left_out,
            [
                "instruction fetches",
                "second-level prefetches",
                "non-temporal stores",
                "write-backs"
            ]
        );
        assert_eq!(Event::find("r4844", zen4).unwrap().leaves_out(), left_out);
        let other = Event::find("r4843", zen4).unwrap();
        assert!(other.leaves_out().is_empty() && other.known()[0].row.is_none());
        assert!(Event::find("page-faults", zen4).unwrap().known().is_empty());
    }

    #[test]
    fn writes_have_events_of_their_own() {
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd08\n";
        let found = |name, cpu| Event::find_writes(name, cpu).unwrap();
        let by_itself = found(None, arm).unwrap();
        assert_eq!((by_itself.name(), by_itself.code), ("L2D_CACHE_WB", Code::new(PERF_RAW, 0x18)));
        assert_eq!(found(Some("L2D_CACHE_WB"), arm), Some(by_itself));
        assert_eq!(found(None, ""), None, "this CPU counts no write-backs");
        assert_eq!(found(Some("r18"), "").map(|e| e.code.config), Some(0x18));
        assert!(found(Some("minor-faults"), arm).unwrap().is_software());
        assert!(Event::find_writes(Some("L2D_CACHE_WB"), "").is_err());
        assert!(Event::find_writes(Some("llc-misses"), arm).is_err());
    }

    #[test]
    fn names_lead_to_events() {
        let event = Event::find("page-faults", "").unwrap();
        assert!(event.is_software());
        assert_eq!((event.code, event.least_sample()), (Code::new(1, 2), 1));
        let raw = Event::find("r412e", "").unwrap();
        assert_eq!((raw.code, raw.least_sample()), (Code::new(4, 0x412e), 100));
        let offcore = Event::find("r1b7,offcore_rsp=f8ff", "").unwrap();
        assert_eq!((offcore.code.config, offcore.attributes(0, 0).config1), (0x1b7, 0xf8ff));
        let of_programs = Event::find("r11:u", "").unwrap();
        assert_eq!((of_programs.name(), of_programs.code.config), ("r11:u", 0x11));
        let flags = |event: &Event| event.attributes(0, 1).flags;
        assert_eq!(flags(&of_programs) & !flags(&raw), PERF_EXCLUDE_KERNEL);
        assert!(matches!(Event::find("llc-misses", ""), Err(LinuxError::Machine(_))));
        for wrong in ["", "r", "rxyz", "llc", "page-faults ", ":u", "r11:k", "r11,offcore_rsp="] {
            let error = Event::find(wrong, "").unwrap_err();
            assert!(
                matches!(&error, LinuxError::Input(t) if t.contains("page-faults")),
                "{wrong}: {error}"
            );
        }
    }
}
