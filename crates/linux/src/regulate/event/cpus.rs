//! The CPUs of this machine, each by itself, for the table of events.
//!
//! Problem: the CPUs of one machine may be of several types (big.LITTLE, hybrid), each with its own
//! event. On hybrid Intel the counters of each type are a unit of their own, and a raw event
//! without its number opens on the fast cores only.
//! Rule: `/proc/cpuinfo` has a block for each CPU, with its vendor and model; a block without a
//! number stands for every CPU. `/sys/bus/event_source/devices/UNIT/cpus` lists the CPUs of a
//! hybrid's unit, `type` has its number for `perf_event_open`.
//! Source: proc(5); Linux, arch/x86/events/intel/core.c (`hybrid_pmu_type`), arch/*/kernel/cpuinfo.
//! Does not cover: Arm's units; the kernel finds the CPU's unit itself.

use crate::host::machine::parse_cpu_list;
use std::fs;
use std::path::Path;

/// The units of hybrid CPUs, the fastest first.
const UNITS: &[&str] = &["cpu_core", "cpu_atom", "cpu_lowpower"];

/// Properties of a CPU that the table compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Id {
    /// Architecture: `x86`, `arm` or `riscv`; empty if the block has no known key.
    pub arch: &'static str,
    /// Vendor: `vendor_id`, the implementer's number in hexadecimal, or `sbi`.
    pub vendor: String,
    /// Family, on x86 only.
    pub family: u64,
    /// Model; on Arm, the part.
    pub model: u64,
    /// Stepping, on x86 only.
    pub stepping: u64,
    /// Whether this kernel runs in a virtual machine, which has no registers for offcore events.
    pub guest: bool,
}

/// A unit of counters of a hybrid machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Name: `cpu_core` and so on.
    pub name: &'static str,
    /// Its number for `perf_event_open`.
    pub kind: u32,
    cpus: Vec<u32>,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    /// Number of the CPU; `None`: the block stands for all.
    pub number: Option<u32>,
    pub id: Id,
    /// Its unit, on a hybrid machine.
    pub unit: Option<Unit>,
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn id(block: &str) -> Id {
    let field = |name: &str| {
        let line =
            block.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let value = |name: &str| field(name).and_then(number);
    if let (Some(vendor), Some(family)) = (field("vendor_id"), value("cpu family")) {
        return Id {
            arch: "x86",
            vendor: vendor.to_owned(),
            family,
            model: value("model").unwrap_or(u64::MAX),
            stepping: value("stepping").unwrap_or(0),
            guest: field("flags").is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor")),
        };
    }
    if let (Some(implementer), Some(model)) = (value("CPU implementer"), value("CPU part")) {
        let vendor = format!("{implementer:x}");
        return Id { arch: "arm", vendor, model, ..Id::default() };
    }
    if field("isa").is_some_and(|isa| isa.starts_with("rv")) {
        return Id { arch: "riscv", vendor: "sbi".to_owned(), ..Id::default() };
    }
    Id::default()
}

/// The units of a hybrid machine; none on others.
fn units(devices: &Path) -> Vec<Unit> {
    let unit = |&name: &&'static str| {
        let text = |file: &str| fs::read_to_string(devices.join(name).join(file)).ok();
        let kind = text("type")?.trim().parse().ok()?;
        Some(Unit { name, kind, cpus: parse_cpu_list(&text("cpus")?) })
    };
    UNITS.iter().filter_map(unit).collect()
}

/// The CPUs that the text of `/proc/cpuinfo` describes, and their units below `devices`.
pub(super) fn read(cpuinfo: &str, devices: &Path) -> Vec<Cpu> {
    let units = units(devices);
    let cpu = |block: &str| {
        let line = block.lines().find(|l| l.starts_with("processor"));
        let number = line.and_then(|l| l.split_once(':')?.1.trim().parse().ok());
        let of = |cpu: u32| units.iter().find(|u| u.cpus.contains(&cpu)).cloned();
        Cpu { number, id: id(block), unit: number.and_then(of) }
    };
    let found: Vec<Cpu> =
        cpuinfo.split("\n\n").filter(|block| !block.trim().is_empty()).map(cpu).collect();
    // A last block may describe the board, and not a CPU.
    found.into_iter().filter(|c| c.number.is_some() || !c.id.arch.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_a_cpu() {
        let text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\n\
            processor\t: 4\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\nHardware\t: a board\n";
        let cpus = read(text, Path::new("/nonexistent"));
        let seen: Vec<_> = cpus.iter().map(|c| (c.number, c.id.model)).collect();
        assert_eq!(seen, [(Some(0), 0xd03), (Some(4), 0xd08)]);
        assert_eq!(cpus[0].id.vendor, "41");
        assert!(read("", Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn guests_and_instruction_sets_are_known() {
        let of = |text: &str| read(text, Path::new("/nonexistent"))[0].id.clone();
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 63\n\
            stepping\t: 2\nflags\t\t: fpu hypervisor lm\n";
        let id = of(x86);
        assert_eq!((id.family, id.model, id.stepping, id.guest), (6, 63, 2, true));
        assert!(!of(&x86.replace(" hypervisor", "")).guest);
        assert_eq!(of("processor\t: 0\nhart\t: 0\nisa\t: rv64imafdc\n").arch, "riscv");
        assert_eq!(of("processor\t: 0\nmodel name\t: strange\n").arch, "");
    }

    #[test]
    fn a_hybrids_units_have_their_cpus() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind, cpus) in [("cpu_core", "4\n", "0-1\n"), ("cpu_atom", "10\n", "2\n")] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("type"), kind).unwrap();
            fs::write(dir.path().join(name).join("cpus"), cpus).unwrap();
        }
        let text = "processor: 0\n\nprocessor: 2\n\nprocessor: 3\n";
        let of = |c: &Cpu| c.unit.as_ref().map(|u| (u.name, u.kind));
        let found: Vec<_> = read(text, dir.path()).iter().map(of).collect();
        assert_eq!(found, [Some(("cpu_core", 4)), Some(("cpu_atom", 10)), None]);
    }
}
