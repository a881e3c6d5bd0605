//! The table of events for traffic to memory, one row for each type of CPU.
//!
//! Problem: a last-level miss has another number on every microarchitecture, and each leaves out
//! other parts of a core's traffic.
//! Rule: `scripts/pmu-events.py` makes `events.csv`, and explains the choice of an event. The type
//! of a CPU is the first row that fits its vendor, family, model, stepping and unit; a row with an
//! offcore register fits no CPU of a virtual machine.
//! Source: tools/perf/pmu-events of Linux, in the version that the first line of the table names.
//! Does not cover: hardware. The authors of this file have tried no row on it.

use super::cpus::{Cpu, Id};
use std::sync::OnceLock;

const TABLE: &str = include_str!("events.csv");

/// Names of the kinds of traffic for people, in the order of the table's columns.
pub const TRAFFIC: [&str; 8] = [
    "reads",
    "instruction fetches",
    "stores",
    "first-level prefetches",
    "second-level prefetches",
    "last-level prefetches",
    "non-temporal stores",
    "write-backs",
];

/// Whether a kind of traffic is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It is counted, by the vendor's documents.
    Yes,
    /// It is left out.
    No,
    /// The vendor's documents do not say.
    Unknown,
    /// CPUs of this type make no such traffic.
    NoSuch,
}

/// Inclusive ranges; without any, all numbers.
type Ranges = Vec<(u64, u64)>;

/// A type of CPU, and its event for traffic to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    arch: &'static str,
    vendor: &'static str,
    family: Ranges,
    model: Ranges,
    stepping: Ranges,
    /// The unit of a hybrid machine; empty: any.
    unit: &'static str,
    /// Name of the type in the kernel's files.
    pub title: &'static str,
    /// The event's name in the vendor's spelling; `+` joins units of one event.
    pub event: &'static str,
    /// Whether it is the kernel's number of a generic event, not the CPU's own.
    pub generic: bool,
    /// Its number.
    pub config: u64,
    /// The value of the offcore register that it needs; 0: none.
    pub config1: u64,
    /// Whether each kind of [`TRAFFIC`] is counted.
    pub counts: [Counted; TRAFFIC.len()],
    /// Whether it also counts accesses that a cache beyond the counted one answers.
    pub cache_hits: Counted,
    /// The event of write-backs to memory: number and name, where cores can count them.
    pub write_backs: Option<(u64, &'static str)>,
}

impl Row {
    fn fits(&self, cpu: &Cpu) -> bool {
        let Id { arch, vendor, family, model, stepping, guest } = &cpu.id;
        let within = |ranges: &Ranges, number: u64| {
            ranges.is_empty() || ranges.iter().any(|r| (r.0..=r.1).contains(&number))
        };
        // A hybrid's CPU in a guest has no unit: it is taken for a fast one.
        let unit = cpu.unit.as_ref().map_or("cpu_core", |u| u.name);
        self.arch == *arch
            && self.vendor == vendor
            && within(&self.family, *family)
            && within(&self.model, *model)
            && within(&self.stepping, *stepping)
            && (self.unit.is_empty() || self.unit == unit)
            && !(*guest && self.config1 != 0)
    }

    /// The kinds of traffic with this answer.
    pub fn that_are(&self, counted: Counted) -> Vec<&'static str> {
        let kinds = TRAFFIC.iter().zip(self.counts);
        kinds.filter(|(_, c)| *c == counted).map(|(kind, _)| *kind).collect()
    }

    /// Spelling for `--event`.
    pub fn spelling(&self) -> String {
        match (self.generic, self.config1) {
            (true, _) => "cache-misses".to_owned(),
            (false, 0) => format!("r{:x}", self.config),
            (false, value) => format!("r{:x},offcore_rsp={value:x}", self.config),
        }
    }
}

fn ranges(text: &str, radix: u32) -> Option<Ranges> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((u64::from_str_radix(first, radix).ok()?, u64::from_str_radix(last, radix).ok()?))
    };
    text.split_whitespace().map(range).collect()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn counted(text: &str) -> Option<Counted> {
    Some(match text {
        "yes" => Counted::Yes,
        "no" => Counted::No,
        "unknown" => Counted::Unknown,
        "none" => Counted::NoSuch,
        _ => return None,
    })
}

/// Reads a line of the table.
fn row(line: &'static str) -> Option<Row> {
    let cells: Vec<&'static str> = line.split(',').collect();
    let [
        arch,
        vendor,
        family,
        model,
        stepping,
        unit,
        title,
        event,
        kind,
        config,
        config1,
        rest @ ..,
    ] = cells.as_slice()
    else {
        return None;
    };
    let (counts, rest) = rest.split_at_checked(TRAFFIC.len())?;
    let [hits, write_event, write_config] = rest else { return None };
    let counts: Vec<Counted> = counts.iter().map(|c| counted(c)).collect::<Option<_>>()?;
    let write_backs = if write_event.is_empty() { None } else { Some(hex(write_config)?) };
    Some(Row {
        arch,
        vendor,
        family: ranges(family, 10)?,
        model: ranges(model, 16)?,
        stepping: ranges(stepping, 16)?,
        unit,
        title,
        event,
        generic: *kind == "hardware",
        config: hex(config)?,
        config1: if config1.is_empty() { 0 } else { hex(config1)? },
        counts: counts.try_into().ok()?,
        cache_hits: counted(hits)?,
        write_backs: write_backs.map(|config| (config, *write_event)),
    })
}

/// The lines of the table that hold rows.
fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|l| !l.starts_with('#')).skip(1)
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    // A test sees to it that every line is a row.
    ROWS.get_or_init(|| lines().filter_map(row).collect())
}

/// The rows that fit a CPU, the one to use first.
pub(super) fn fitting(cpu: &Cpu) -> impl Iterator<Item = &'static Row> {
    rows().iter().filter(|row| row.fits(cpu))
}

#[cfg(test)]
mod tests {
    use super::super::cpus;
    use super::*;
    use std::path::Path;

    #[test]
    fn every_line_is_a_row() {
        for line in lines() {
            assert!(row(line).is_some(), "{line}");
        }
        assert_eq!(rows().len(), lines().count());
        assert!(rows().len() > 80 && TABLE.starts_with("# Made by scripts/pmu-events.py"));
        assert!(row("x86,GenuineIntel,6").is_none());
    }

    fn first(cpuinfo: &str) -> Option<&'static Row> {
        fitting(&cpus::read(cpuinfo, Path::new("/nonexistent"))[0]).next()
    }

    fn x86(vendor: &str, family: u64, model: u64, stepping: u64) -> String {
        format!(
            "processor: 0\nvendor_id: {vendor}\ncpu family: {family}\nmodel: {model}\n\
            stepping: {stepping}\nflags: fpu\n"
        )
    }

    #[track_caller]
    fn is(row: Option<&Row>, title: &str, spelling: &str) {
        assert_eq!(row.map(|r| (r.title, r.spelling())), Some((title, spelling.to_owned())));
    }

    #[test]
    fn intel() {
        let of = |model, stepping| first(&x86("GenuineIntel", 6, model, stepping));
        is(of(0x2a, 7), "sandybridge", "r412e");
        is(of(0x6a, 6), "icelakex", "r412e");
        is(of(0x2c, 2), "westmereep-dp", "r1b7,offcore_rsp=f8ff");
        is(of(0x3f, 2), "haswellx", "r1b7,offcore_rsp=3fbfc08fff");
        is(of(0x55, 4), "skylakex", "r412e");
        is(of(0x55, 7), "cascadelakex", "r1b7,offcore_rsp=3fbc0007f7");
        let guest = x86("GenuineIntel", 6, 0x3f, 2).replace("fpu", "fpu hypervisor");
        is(first(&guest), "haswellx", "r412e");
        // A CPU that the kernel's files do not know yet, and family 18.
        is(of(0xfe, 0), "intel", "r412e");
        is(first(&x86("GenuineIntel", 18, 1, 0)), "intel", "r412e");
        assert_eq!(of(0xf, 0), None, "before Nehalem");
    }

    #[test]
    fn amd_and_hygon() {
        let of = |family, model| first(&x86("AuthenticAMD", family, model, 0));
        is(of(0x17, 0x01), "amdzen1", "r4843");
        is(of(0x17, 0x71), "amdzen2", "r4843");
        is(of(0x19, 0x01), "amdzen3", "r4844");
        is(of(0x19, 0x61), "amdzen4", "r4844");
        is(of(0x1a, 0x44), "amdzen5", "r100004865");
        is(first(&x86("HygonGenuine", 0x18, 1, 1)), "dhyana", "r4843");
        assert_eq!((of(0x15, 2), of(0x1b, 0)), (None, None));
        let left_out = of(0x17, 0x71).unwrap().that_are(Counted::No);
        assert!(left_out.contains(&"first-level prefetches"), "{left_out:?}");
        let left_out = of(0x19, 0x61).unwrap().that_are(Counted::No);
        assert!(!left_out.contains(&"first-level prefetches"), "{left_out:?}");
        assert!(left_out.contains(&"second-level prefetches"), "{left_out:?}");
        let left_out = of(0x1a, 0x44).unwrap().that_are(Counted::No);
        assert_eq!(left_out, ["non-temporal stores", "write-backs"]);
    }

    #[test]
    fn arm_and_risc_v() {
        let of = |implementer: u64, part: u64| {
            first(&format!("CPU implementer: {implementer:#x}\nCPU part: {part:#x}\n"))
        };
        for (part, title) in
            [(0xd03, "cortex-a53"), (0xd08, "cortex-a57-a72"), (0xd04, "cortex-a35")]
        {
            is(of(0x41, part), title, "r17");
            assert_eq!(of(0x41, part).unwrap().write_backs, Some((0x18, "L2D_CACHE_WB")));
        }
        for (part, title) in [
            (0xd0b, "cortex-a76"),
            (0xd41, "cortex-a78"),
            (0xd44, "cortex-x1"),
            (0xd0c, "neoverse-n1"),
            (0xd40, "neoverse-v1"),
            (0xd49, "neoverse-n2-v2"),
            (0xd42, "cortex-a78ae"),
        ] {
            is(of(0x41, part), title, "r37");
            assert_eq!(of(0x41, part).unwrap().write_backs, None);
        }
        is(of(0x4e, 4), "carmel", "r17");
        is(of(0xc0, 0xac3), "ampereone", "r17");
        assert_eq!(of(0xc0, 0xac3).unwrap().cache_hits, Counted::Yes);
        assert_eq!(of(0x41, 0xfff), None);
        is(first("processor: 0\nhart: 0\nisa: rv64imafdc\n"), "sbi", "cache-misses");
    }
}
