//! What is counted: an event for accesses to memory, by name.
//!
//! Problem: a last-level miss has another number on every microarchitecture, and in a virtual
//! machine none at all.
//! Rule: `llc-misses` is the event of the table below that fits this CPU; `rHEX` is a raw event as
//! `perf` writes it; a software event stands in where there is no counter, to try the mechanism,
//! and then no bound of a plan holds.
//! Source: Intel SDM vol. 3, table 19-1 (architectural events, from Nehalem on); AMD PPR for
//! families 17h, 19h, 1Ah, PMCx043; Arm Cortex-A53, A72, A76 and Neoverse N1 TRMs, PMU events.
//! Reads and writes apart: a miss of a store is a read, too (the line is fetched); what is written
//! to memory are write-backs. Of the CPUs in the table only those whose last level is a core's or a
//! cluster's own count them (L2D_CACHE_WB of the Arm architecture); Intel and AMD count them in the
//! memory controller, which knows no core. The table names the event; budgets of writes are counted
//! by it.
//! Does not cover: the uncore's counters (they know no core). Of the table, none has been tried on
//! hardware by its authors: `solocore doctor` tests whether an event counts.

use crate::error::LinuxError;
use crate::sys::{self, PERF_DISABLED, PERF_EXCLUDE_KERNEL, PERF_PINNED, PerfAttr, Whom};
use std::fmt::Write as _;

const PERF_HARDWARE: u32 = 0;
const PERF_SOFTWARE: u32 = 1;
const PERF_RAW: u32 = 4;

/// Fewest accesses a sample may have with a hardware counter: one interrupt for fewer costs more
/// than they do.
const LEAST_HARDWARE_SAMPLE: u64 = 100;

/// Software events: name and number in `linux/perf_event.h`.
const SOFTWARE: &[(&str, u64)] = &[("page-faults", 2), ("minor-faults", 5), ("major-faults", 6)];

/// Generic hardware events of the kernel.
const HARDWARE: &[(&str, u64)] = &[("cache-misses", 3)];

/// A family of CPUs, and its raw event for last-level misses (reads and, where it says so, writes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Microarchitecture {
    /// For people.
    pub title: &'static str,
    /// Raw event.
    pub config: u64,
    /// Its name in the vendor's manual.
    pub event: &'static str,
    /// Write-backs of the last level, apart from it: raw event and name, where the CPU's own
    /// counters know them.
    pub write_backs: Option<(u64, &'static str)>,
}

const INTEL: Microarchitecture = Microarchitecture {
    title: "Intel, Nehalem or later",
    config: 0x412e,
    event: "LONGEST_LAT_CACHE.MISS",
    write_backs: None,
};
const ZEN: Microarchitecture = Microarchitecture {
    title: "AMD Zen",
    config: 0x4843,
    event: "LS_DMND_FILLS_FROM_SYS, local and remote memory",
    write_backs: None,
};
const ARM_L2: Microarchitecture = Microarchitecture {
    title: "Arm Cortex-A53 or A72 (level 2 is the last)",
    config: 0x17,
    event: "L2D_CACHE_REFILL",
    write_backs: Some((0x18, "L2D_CACHE_WB")),
};
const ARM_LL: Microarchitecture = Microarchitecture {
    title: "Arm Cortex-A76 or Neoverse",
    config: 0x37,
    event: "LL_CACHE_MISS_RD",
    write_backs: None,
};

/// The entry for the CPU that `/proc/cpuinfo` describes.
pub fn microarchitecture(cpuinfo: &str) -> Option<Microarchitecture> {
    let field = |name: &str| {
        let line =
            cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let family = field("cpu family").and_then(number);
    match (field("vendor_id"), family) {
        // Nehalem is model 26 of family 6; from family 18 on it goes on.
        (Some("GenuineIntel"), Some(6)) => {
            return field("model").and_then(number).is_some_and(|m| m >= 26).then_some(INTEL);
        }
        (Some("GenuineIntel"), Some(18..)) => return Some(INTEL),
        (Some("AuthenticAMD"), Some(0x17..)) => return Some(ZEN),
        _ => {}
    }
    match (field("CPU implementer").and_then(number), field("CPU part").and_then(number)) {
        (Some(0x41), Some(0xd03 | 0xd08)) => Some(ARM_L2),
        // Cortex-A76; Neoverse N1, V1, N2, V2.
        (Some(0x41), Some(0xd0b | 0xd0c | 0xd40 | 0xd49 | 0xd4f)) => Some(ARM_LL),
        _ => None,
    }
}

/// An event to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    name: String,
    kind: u32,
    config: u64,
    /// Not in the kernel.
    programs_only: bool,
}

impl Event {
    /// The event of this name; `cpuinfo` is the text of `/proc/cpuinfo`. With `:u` at its end, as
    /// `perf` writes it, only what programs do themselves counts, not what the kernel does.
    ///
    /// # Errors
    /// An unknown name, or `llc-misses` on a CPU that the table lacks.
    pub fn find(name: &str, cpuinfo: &str) -> Result<Self, LinuxError> {
        match name.strip_suffix(":u") {
            None => Self::of_name(name, cpuinfo),
            Some(plain) => {
                let event = Self::of_name(plain, cpuinfo)?;
                Ok(Self { name: name.to_owned(), programs_only: true, ..event })
            }
        }
    }

    fn of_name(name: &str, cpuinfo: &str) -> Result<Self, LinuxError> {
        let known = |table: &[(&str, u64)]| {
            table.iter().find(|(n, _)| *n == name).map(|&(_, config)| config)
        };
        let of =
            |kind, config| Ok(Self { name: name.to_owned(), kind, config, programs_only: false });
        if let Some(config) = known(SOFTWARE) {
            return of(PERF_SOFTWARE, config);
        }
        if let Some(config) = known(HARDWARE) {
            return of(PERF_HARDWARE, config);
        }
        if name == "llc-misses" {
            return match microarchitecture(cpuinfo) {
                Some(m) => of(PERF_RAW, m.config),
                None => Err(LinuxError::Machine(
                    "the table of events lacks this CPU; give its event for last-level misses as \
                        --event rHEX (raw, as perf writes it)"
                        .to_owned(),
                )),
            };
        }
        if let Some(config) =
            name.strip_prefix('r').and_then(|hex| u64::from_str_radix(hex, 16).ok())
        {
            return of(PERF_RAW, config);
        }
        let mut all = String::from("llc-misses");
        for (n, _) in HARDWARE.iter().chain(SOFTWARE) {
            let _ = write!(all, ", {n}");
        }
        Err(LinuxError::Input(format!(
            "no event is called `{name}`; there are {all}, and rHEX for a raw event, each also \
                with :u (programs only)"
        )))
    }

    /// The event that counts writes: the table's for this CPU without a name; `None` where it has
    /// none.
    ///
    /// # Errors
    /// An unknown name.
    pub fn find_writes(name: Option<&str>, cpuinfo: &str) -> Result<Option<Self>, LinuxError> {
        let of_table = || microarchitecture(cpuinfo).and_then(|m| m.write_backs);
        match (name, of_table()) {
            (Some("llc-misses"), _) => Err(LinuxError::Input(
                "--write-event llc-misses: misses are what --event counts; give an event of \
                    write-backs, as rHEX"
                    .to_owned(),
            )),
            (Some(name), Some((config, known))) if name == known => {
                Ok(Some(Self::raw(name, config)))
            }
            (Some(name), _) => Self::find(name, cpuinfo).map(Some),
            (None, found) => Ok(found.map(|(config, name)| Self::raw(name, config))),
        }
    }

    fn raw(name: &str, config: u64) -> Self {
        Self { name: name.to_owned(), kind: PERF_RAW, config, programs_only: false }
    }

    /// Does it leave out what the kernel does?
    pub fn is_of_programs_only(&self) -> bool {
        self.programs_only
    }

    /// As given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does it only stand in for accesses to memory?
    pub fn is_software(&self) -> bool {
        self.kind == PERF_SOFTWARE
    }

    /// Fewest of them that a sample may have.
    pub fn least_sample(&self) -> u64 {
        if self.is_software() { 1 } else { LEAST_HARDWARE_SAMPLE }
    }

    /// For a counter that interrupts after `sample` of them; 0: it only counts.
    pub(crate) fn attributes(&self, sample: u64) -> PerfAttr {
        // A counter that gave way to another one for a while would miss accesses.
        let pinned = if self.is_software() { 0 } else { PERF_PINNED };
        PerfAttr {
            kind: self.kind,
            config: self.config,
            sample_period: sample,
            flags: PERF_DISABLED
                | pinned
                | if self.programs_only { PERF_EXCLUDE_KERNEL } else { 0 },
            ..PerfAttr::default()
        }
    }

    /// Counts known traffic: what should be counted, and what was.
    ///
    /// # Errors
    /// The event cannot be opened, or it counts less than half or (software) more than twice the
    /// traffic.
    pub fn self_test(&self) -> Result<(u64, u64), LinuxError> {
        self.test(false)
    }

    /// The same for an event of writes: lines are written, and pushed out by others.
    ///
    /// # Errors
    /// As [`Self::self_test`].
    pub fn self_test_of_writes(&self) -> Result<(u64, u64), LinuxError> {
        self.test(true)
    }

    fn test(&self, writes: bool) -> Result<(u64, u64), LinuxError> {
        let fail = |what: String| {
            LinuxError::Machine(format!(
                "event {}: {what}; choose another --event (`solocore doctor`)",
                self.name
            ))
        };
        let attr =
            PerfAttr { flags: self.attributes(0).flags & !PERF_DISABLED, ..self.attributes(0) };
        let event = sys::perf_open(&attr, Whom::Me).map_err(|e| {
            let reason = match e.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                    "this machine has no such counter".to_owned()
                }
                Some(libc::EACCES | libc::EPERM) => {
                    format!("{e}: CAP_PERFMON is missing; run as root")
                }
                _ => e.to_string(),
            };
            fail(reason)
        })?;
        let read = || {
            sys::perf_read(&event)
                .map_err(|e| fail(format!("cannot be read: {e} (is the counter in use?)")))
        };
        let before = read()?;
        let expected = if self.is_software() { touch_pages() } else { miss_caches(writes) };
        let counted = read()?.saturating_sub(before);
        if self.name == "major-faults" {
            return Ok((0, counted));
        }
        if counted < expected / 2 || (self.is_software() && counted > expected * 2) {
            return Err(fail(format!("counted {counted} where {expected} were made")));
        }
        Ok((expected, counted))
    }
}

/// Touches fresh pages, one fault each; returns how many.
fn touch_pages() -> u64 {
    const PAGE: usize = 4096;
    const PAGES: usize = 256;
    // A size that the allocator takes from the kernel anew, and below a huge page.
    let mut memory: Vec<u8> = Vec::with_capacity(PAGES * PAGE);
    let fresh = memory.spare_capacity_mut();
    for page in fresh.chunks_mut(PAGE) {
        page[0].write(1);
        std::hint::black_box(&page);
    }
    PAGES as u64
}

/// Reads (or writes) lines far apart in a buffer that no cache holds, in an order no prefetcher
/// guesses; returns how many. Of the lines written, those that are still in a cache have not been
/// written back: a small part of so many.
fn miss_caches(writes: bool) -> u64 {
    const BYTES: usize = 256 << 20;
    const READS: usize = 1 << 16;
    let mut memory = vec![1u8; BYTES];
    let (mut at, mut sum) = (12_345_usize, 0u64);
    for _ in 0..READS {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let byte = &mut memory[(at >> 16) % BYTES];
        sum += u64::from(*byte);
        if writes {
            *byte = byte.wrapping_add(1);
        }
    }
    std::hint::black_box(sum);
    READS as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_its_cpus() {
        let of = |text: &str| microarchitecture(text).map(|m| m.config);
        assert_eq!(
            of("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon"),
            Some(0x412e)
        );
        assert_eq!(of("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 15\n"), None);
        assert_eq!(of("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"), Some(0x4843));
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd08\n"), Some(0x17));
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), Some(0x37));
        assert_eq!(of(""), None);
        let writes = |text: &str| microarchitecture(text).and_then(|m| m.write_backs).map(|w| w.0);
        assert_eq!(writes("CPU implementer\t: 0x41\nCPU part\t: 0xd03\n"), Some(0x18));
        assert_eq!(writes("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"), None);
    }

    #[test]
    fn writes_have_events_of_their_own() {
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd08\n";
        let found = |name, cpu| Event::find_writes(name, cpu).unwrap();
        let by_itself = found(None, arm).unwrap();
        assert_eq!(
            (by_itself.name(), by_itself.kind, by_itself.config),
            ("L2D_CACHE_WB", PERF_RAW, 0x18)
        );
        assert_eq!(found(Some("L2D_CACHE_WB"), arm), Some(by_itself));
        assert_eq!(found(None, ""), None, "this CPU counts no write-backs");
        assert_eq!(found(Some("r18"), "").map(|e| e.config), Some(0x18));
        assert!(found(Some("minor-faults"), arm).unwrap().is_software());
        assert!(Event::find_writes(Some("L2D_CACHE_WB"), "").is_err());
        assert!(Event::find_writes(Some("llc-misses"), arm).is_err());
    }

    #[test]
    fn names_lead_to_events() {
        let event = Event::find("page-faults", "").unwrap();
        assert!(event.is_software());
        assert_eq!((event.kind, event.config, event.least_sample()), (1, 2, 1));
        let raw = Event::find("r412e", "").unwrap();
        assert_eq!((raw.kind, raw.config, raw.least_sample()), (4, 0x412e, 100));
        let of_programs = Event::find("r11:u", "").unwrap();
        assert_eq!((of_programs.name(), of_programs.config), ("r11:u", 0x11));
        assert_eq!(of_programs.attributes(1).flags & !raw.attributes(1).flags, PERF_EXCLUDE_KERNEL);
        assert!(matches!(Event::find("llc-misses", ""), Err(LinuxError::Machine(_))));
        for wrong in ["", "r", "rxyz", "llc", "page-faults ", ":u", "r11:k"] {
            let error = Event::find(wrong, "").unwrap_err();
            assert!(
                matches!(&error, LinuxError::Input(t) if t.contains("page-faults")),
                "{wrong}: {error}"
            );
        }
    }
}
