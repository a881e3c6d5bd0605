//! The event of this machine whose samples have the addresses of accesses to memory.
//!
//! Rule: what the kernel's own files say is taken, so that no table of models is needed. Intel's
//! precise load-latency event is `mem-loads` of its unit, with `mem-loads-aux` to lead it where
//! that is there. AMD's instruction sampling is the unit `ibs_op`. Both say of each sample where
//! its data came from; only those from beyond the last cache count. Elsewhere page faults stand in:
//! they have addresses too, but are first touches of pages, not misses. Source:
//! `linux/perf_event.h` (`perf_mem_data_src`); the kernel's Documentation/ABI/testing of
//! `/sys/bus/event_source/devices`; perf-mem(1), perf-amd-ibs(1). Does not cover: Arm's Statistical
//! Profiling Extension, whose records lie in an auxiliary buffer in another format; the reason is
//! told.

use crate::host::machine::parse_cpu_list;
use crate::sys::{PERF_EXCLUDE_KERNEL, PERF_PRECISE_SHIFT, PerfAttr};
use std::fs;
use std::path::Path;

/// Fewest cycles of a load that is sampled: more than a second-level cache takes.
const LEAST_LATENCY: u64 = 32;
/// Loads from one sample to the next; a prime, so that no loop keeps step with it.
const LOADS: u64 = 1009;
/// Operations from one sample of AMD to the next: a multiple of 16.
const OPERATIONS: u64 = 65_536;

/// An event whose samples have addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressEvent {
    /// As the kernel calls it.
    pub name: String,
    /// What it really counts, where it only stands in for accesses to memory.
    pub stands_in: Option<String>,
    /// Events from one sample to the next.
    pub period: u64,
    pub(super) attributes: PerfAttr,
    /// The event that must lead its group.
    pub(super) leader: Option<PerfAttr>,
}

impl AddressEvent {
    /// The best one for a CPU, by the folder of the kernel's units, and why there is no better one.
    /// `period`: events from one sample to the next; `None`: as suits the event.
    #[must_use]
    pub fn find(devices: &Path, cpu: u32, period: Option<u64>) -> (Self, Option<String>) {
        if let Some(event) = ["cpu", "cpu_core", "cpu_atom"]
            .iter()
            .filter_map(|unit| intel(&devices.join(unit), cpu, period))
            .chain(amd(&devices.join("ibs_op"), period))
            .next()
        {
            return (event, None);
        }
        let spe = fs::read_dir(devices).is_ok_and(|names| {
            names.flatten().any(|n| n.file_name().to_string_lossy().starts_with("arm_spe"))
        });
        let why = if spe {
            "Arm's SPE is not read: its records lie in an auxiliary buffer in another format"
        } else {
            "no unit of this CPU samples addresses (mem-loads of Intel, ibs_op of AMD)"
        };
        (Self::stand_in(period), Some(why.to_owned()))
    }

    /// Page faults.
    #[must_use]
    pub fn stand_in(period: Option<u64>) -> Self {
        Self {
            name: "page-faults".to_owned(),
            stands_in: Some("page faults of the kernel, first touches of pages".to_owned()),
            period: period.unwrap_or(1),
            attributes: PerfAttr { kind: 1, config: 2, ..PerfAttr::default() },
            leader: None,
        }
    }

    /// Did the sampled data come from beyond the last cache? Yes for an event that is only a
    /// substitute.
    pub(super) fn is_of_memory(&self, source: u64) -> bool {
        const MISS: u64 = 0x04;
        const L3: u64 = 0x40;
        const MEMORIES: u64 = 0x80 | 0x100 | 0x200;
        let level = source >> 5 & 0x3fff;
        let number = source >> 33 & 0xf;
        // 9: CXL, 13: RAM, 14: persistent memory.
        self.stands_in.is_some()
            || level & MEMORIES != 0
            || level & (L3 | MISS) == L3 | MISS
            || matches!(number, 9 | 13 | 14)
    }
}

fn number_of(unit: &Path) -> Option<u32> {
    fs::read_to_string(unit.join("type")).ok()?.trim().parse().ok()
}

/// A key of an event's file, as `event=0xcd,umask=0x1,ldlat=3`.
fn key(text: &str, name: &str) -> Option<u64> {
    let pair = |part: &str| {
        let (key, value) = part.trim().split_once('=')?;
        let digits = value.strip_prefix("0x")?;
        (key == name).then(|| u64::from_str_radix(digits, 16).ok())?
    };
    text.split(',').find_map(pair)
}

fn intel(unit: &Path, cpu: u32, period: Option<u64>) -> Option<AddressEvent> {
    let of_unit = fs::read_to_string(unit.join("cpus"));
    if of_unit.is_ok_and(|cpus| !parse_cpu_list(&cpus).contains(&cpu)) {
        return None;
    }
    let kind = number_of(unit)?;
    let file = |name: &str| fs::read_to_string(unit.join("events").join(name)).ok();
    let of = |text: &str| {
        let config = key(text, "event")? | key(text, "umask").unwrap_or(0) << 8;
        Some(PerfAttr { kind, config, ..PerfAttr::default() })
    };
    let attributes = PerfAttr {
        config1: LEAST_LATENCY,
        flags: PERF_EXCLUDE_KERNEL | 2 << PERF_PRECISE_SHIFT,
        ..of(&file("mem-loads")?)?
    };
    let leader = match file("mem-loads-aux") {
        Some(text) => Some(PerfAttr { flags: PERF_EXCLUDE_KERNEL, ..of(&text)? }),
        None => None,
    };
    let name = "mem-loads".to_owned();
    let period = period.unwrap_or(LOADS);
    Some(AddressEvent { name, stands_in: None, period, attributes, leader })
}

fn amd(unit: &Path, period: Option<u64>) -> Option<AddressEvent> {
    let kind = number_of(unit)?;
    let bit = |name: &str| {
        let text = fs::read_to_string(unit.join("format").join(name)).ok()?;
        let bit: u32 = text.trim().strip_prefix("config:")?.parse().ok()?;
        1u64.checked_shl(bit)
    };
    // Count operations, not cycles; tag only those that miss the last cache, where the CPU can.
    let config = bit("cnt_ctl")? | bit("l3missonly").unwrap_or(0);
    let attributes = PerfAttr { kind, config, ..PerfAttr::default() };
    let period = period.unwrap_or(OPERATIONS).next_multiple_of(16);
    let name = "ibs_op".to_owned();
    Some(AddressEvent { name, stands_in: None, period, attributes, leader: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of units with these files.
    fn units(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const LOADS_FILE: (&str, &str) = ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");

    #[test]
    fn intels_event_is_that_of_the_kernels_file() {
        let path = |unit: &str| format!("{unit}/{}", LOADS_FILE.0);
        let root = units(&[("cpu/type", "4\n"), (&path("cpu"), LOADS_FILE.1)]);
        let (event, why) = AddressEvent::find(root.path(), 3, None);
        assert_eq!((event.attributes.kind, event.attributes.config), (4, 0x1cd));
        assert_eq!((event.attributes.config1, event.period, why), (32, 1009, None));
        assert!(event.leader.is_none() && event.stands_in.is_none());
        // A hybrid: each CPU has the unit of its type, and the fast ones need a leader.
        let root = units(&[
            ("cpu_core/type", "4\n"),
            ("cpu_core/cpus", "0-3\n"),
            (&path("cpu_core"), LOADS_FILE.1),
            ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82\n"),
            ("cpu_atom/type", "10\n"),
            ("cpu_atom/cpus", "4-7\n"),
            (&path("cpu_atom"), "event=0xd0,umask=0x5,ldlat=3\n"),
        ]);
        let (fast, _) = AddressEvent::find(root.path(), 2, Some(7));
        assert_eq!(fast.leader.map(|l| l.config), Some(0x8203));
        let (small, _) = AddressEvent::find(root.path(), 5, Some(7));
        assert_eq!((small.attributes.kind, small.attributes.config), (10, 0x5d0));
        assert!(small.leader.is_none() && small.period == 7);
    }

    #[test]
    fn amds_unit_counts_operations_and_misses_alone_where_it_can() {
        let zen2 = [("ibs_op/type", "9\n"), ("ibs_op/format/cnt_ctl", "config:19\n")];
        let (event, _) = AddressEvent::find(units(&zen2).path(), 0, Some(1000));
        assert_eq!((event.attributes.kind, event.attributes.config), (9, 1 << 19));
        assert_eq!(event.period, 1008, "a multiple of 16");
        let zen4 = [zen2[0], zen2[1], ("ibs_op/format/l3missonly", "config:16\n")];
        let (event, _) = AddressEvent::find(units(&zen4).path(), 0, None);
        assert_eq!(event.attributes.config, 1 << 19 | 1 << 16);
    }

    #[test]
    fn elsewhere_page_faults_stand_in_and_the_reason_is_told() {
        let none = units(&[("cpu/type", "4\n"), ("software/type", "1\n")]);
        let (event, why) = AddressEvent::find(none.path(), 0, None);
        assert!(event.stands_in.is_some() && why.unwrap().contains("no unit"));
        let arm = units(&[("arm_spe_0/type", "11\n")]);
        let (event, why) = AddressEvent::find(arm.path(), 0, None);
        assert!(event.stands_in.is_some() && why.unwrap().contains("SPE is not read"));
    }

    #[test]
    fn only_data_from_beyond_the_last_cache_count() {
        let hit = |level: u64| (level | 0x02) << 5;
        let loads = AddressEvent { stands_in: None, ..AddressEvent::stand_in(None) };
        for memory in [hit(0x80), hit(0x100), (0x44) << 5, 13 << 33, 9 << 33] {
            assert!(loads.is_of_memory(memory), "{memory:#x}");
        }
        for cache in [0, hit(0x08), hit(0x20), hit(0x40), 3 << 33, 12 << 33, 0x0c << 5] {
            assert!(!loads.is_of_memory(cache), "{cache:#x}");
        }
        assert!(AddressEvent::stand_in(None).is_of_memory(0));
    }
}
