//! The colours of the shared cache, as far as they can be known.
//!
//! Problem: sysfs gives the sets of the whole cache. If a hash of the address chooses a slice, only
//! the sets of one slice are indexed by address bits, and no interface gives the number of slices.
//! Rule: without slices, colours are the index bits above the page offset. Intel's shared caches
//! since 2008 have slices of 2048 sets (measured by many, stated in none of its manuals): bits 12
//! to 16, 32 colours. A platform file states its slices. Elsewhere, a number of sets that is not a
//! power of two means a hash that is not known, and there are no colours to rely on. Does not
//! cover: guests. A guest's frames are not the machine's, unless the hypervisor maps memory in huge
//! pages.

use crate::error::SpaceError;
use crate::map::{Map, PAGE_BITS};
use solocore_model::Platform;
use std::fs;
use std::path::Path;

/// Sets of one slice of Intel's shared caches.
const INTEL_SLICE_SETS: u64 = 2048;

/// A cache, and the source of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Name of the cache, for messages.
    pub name: String,
    /// Sets that address bits choose: those of one slice.
    pub sets: u64,
    /// Bytes of a line.
    pub line: u64,
    /// Source of the number of sets of a slice.
    pub source: String,
    /// One slice is assumed; no file states the number.
    pub assumed: bool,
}

impl Geometry {
    /// The shared cache of a board.
    ///
    /// # Errors
    /// Its sets are not a power of two.
    pub fn of_platform(platform: &Platform) -> Result<Self, SpaceError> {
        let llc = &platform.llc;
        let sets =
            llc.size.0 / (u64::from(llc.ways) * llc.line.0).max(1) / u64::from(llc.slices).max(1);
        Self {
            name: format!("shared cache of {}", platform.name),
            sets,
            line: llc.line.0,
            source: format!("the platform's, {} slices", llc.slices),
            assumed: false,
        }
        .checked()
    }

    /// The last cache that CPU 0 of this machine shares.
    ///
    /// # Errors
    /// The kernel does not give it, or its sets are chosen by an unknown hash.
    pub fn of_machine() -> Result<Self, SpaceError> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self::of_sysfs(
            Path::new("/sys/devices/system/cpu/cpu0/cache"),
            cpuinfo.contains("GenuineIntel"),
        )
    }

    fn of_sysfs(dir: &Path, intel: bool) -> Result<Self, SpaceError> {
        let remedy = "name a board (--platform) or give a map with colours (--map)";
        let text =
            |index: u32, name: &str| fs::read_to_string(dir.join(format!("index{index}/{name}")));
        let number =
            |index, name| text(index, name).ok().and_then(|t| t.trim().parse::<u64>().ok());
        let last = (0..8)
            .filter(|&i| text(i, "type").is_ok_and(|t| t.trim() != "Instruction"))
            .max_by_key(|&i| number(i, "level"))
            .ok_or_else(|| {
                SpaceError::Machine(format!("{}: no cache is described; {remedy}", dir.display()))
            })?;
        let (Some(level), Some(sets), Some(line)) = (
            number(last, "level"),
            number(last, "number_of_sets"),
            number(last, "coherency_line_size"),
        ) else {
            let path = dir.join(format!("index{last}"));
            return Err(SpaceError::Machine(format!(
                "{}: sets and line are not told; {remedy}",
                path.display()
            )));
        };
        let name = format!("level {level} cache, {sets} sets of {line}-byte lines");
        let (sets, source, assumed) = if intel
            && level >= 3
            && sets.is_multiple_of(INTEL_SLICE_SETS)
        {
            let slices = sets / INTEL_SLICE_SETS;
            (
                INTEL_SLICE_SETS,
                format!(
                    "Intel's usual slices of {INTEL_SLICE_SETS} sets, here {slices}; not told by \
                        the CPU"
                ),
                false,
            )
        } else {
            // Last caches of level 2 belong to small chips, which have no slices.
            (sets, "sysfs, taken as one slice".into(), level >= 3)
        };
        Self { name, sets, line, source, assumed }.checked()
    }

    fn checked(self) -> Result<Self, SpaceError> {
        let colours = self.line.checked_mul(self.sets).unwrap_or(0) >> PAGE_BITS;
        if self.sets.is_power_of_two()
            && self.line.is_power_of_two()
            && (2..=1 << 12).contains(&colours)
        {
            return Ok(self);
        }
        let why = if colours < 2 {
            "span one page, so it has no colours"
        } else {
            "are chosen by a hash that is not known"
        };
        Err(SpaceError::Machine(format!(
            "{}: its {} sets {why}; give a map with colours (--map), or isolate by ways",
            self.name, self.sets
        )))
    }

    /// The functions of its colours.
    pub fn colours(&self) -> Vec<u64> {
        let top = (self.sets * self.line).trailing_zeros();
        (PAGE_BITS..top).map(|bit| 1 << bit).collect()
    }

    /// A map with these colours and no banks.
    pub fn map(&self) -> Map {
        Map { colours: self.colours(), banks: Vec::new(), slices: Vec::new() }
    }
}

/// Does this kernel run in a guest? Then the hypervisor places its frames.
pub fn in_guest() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags.lines().any(|l| l.starts_with("flags") && l.split_whitespace().any(|f| f == "hypervisor"))
        || Path::new("/sys/hypervisor/type").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(level: &str, sets: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (index, kind, level, sets) in
            [(0, "Data", "1", "64"), (1, "Instruction", "1", "64"), (3, "Unified", level, sets)]
        {
            let at = dir.path().join(format!("index{index}"));
            fs::create_dir(&at).expect("created");
            for (name, value) in [
                ("type", kind),
                ("level", level),
                ("number_of_sets", sets),
                ("coherency_line_size", "64"),
            ] {
                fs::write(at.join(name), format!("{value}\n")).expect("written");
            }
        }
        dir
    }

    #[test]
    fn slices_of_intel_have_32_colours() {
        // 105 MiB, 15 ways: 56 slices.
        let dir = tree("3", "114688");
        let geometry = Geometry::of_sysfs(dir.path(), true).expect("known");
        assert_eq!(geometry.colours(), (12..17).map(|b| 1 << b).collect::<Vec<u64>>());
        assert!(geometry.source.contains("56") && !geometry.assumed);
        let error = Geometry::of_sysfs(dir.path(), false).expect_err("hash");
        assert!(error.to_string().contains("hash that is not known; "), "{error}");
        let dir = tree("3", "32768");
        assert!(Geometry::of_sysfs(dir.path(), false).expect("known").assumed);
    }

    #[test]
    fn plain_caches_use_all_index_bits() {
        // 1 MiB, 16 ways.
        let dir = tree("2", "1024");
        let geometry = Geometry::of_sysfs(dir.path(), false).expect("known");
        assert_eq!((geometry.map().colour_count(), geometry.assumed), (16, false));
        let dir = tree("2", "64");
        let error = Geometry::of_sysfs(dir.path(), false).expect_err("one page").to_string();
        assert!(error.contains("no colours; "), "{error}");
        let dir = tempfile::tempdir().expect("a directory");
        assert!(matches!(Geometry::of_sysfs(dir.path(), true), Err(SpaceError::Machine(_))));
    }

    #[test]
    fn boards_state_their_slices() {
        let board = Platform::find("core-i5-2500k", Path::new(".")).expect("a preset");
        // 6 MiB, 12 ways, 4 slices.
        assert_eq!(Geometry::of_platform(&board).expect("known").map().colour_count(), 32);
    }
}
