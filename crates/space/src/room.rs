//! How much memory may be taken before others suffer, and what makes a reserve impossible.
//!
//! Problem: taking nearly all free memory, even for a moment, can starve other programs. Rule:
//! memory is taken only while more is free than the kernel's own marks (/proc/zoneinfo) and a
//! margin, and while tasks do not wait for memory (/proc/pressure/memory). Conditions that no step
//! could change are refused beforehand: limits of memory cgroups, several nodes of memory, and
//! colours that are more than can be missed. Source: Documentation/accounting/psi.rst and
//! admin-guide/mm/concepts.rst of Linux. Does not cover: limits that change later.

use crate::error::SpaceError;
use std::fs;
use std::path::Path;

/// Part of the memory, one in 64, that stays free beside the kernel's marks.
const MARGIN: u64 = 64;

/// State of the memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the machine that the kernel hands out.
    pub total: u64,
    /// Free memory.
    pub free: u64,
    /// Memory that is available without swapping.
    pub available: u64,
    /// The sum of the marks from which on the kernel looks for memory to free.
    pub marks: u64,
}

impl Memory {
    /// The state, from the files below `root`.
    ///
    /// # Errors
    /// /proc/meminfo has no such numbers.
    pub fn of(root: &Path) -> Result<Self, SpaceError> {
        let path = root.join("proc/meminfo");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let number = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
        };
        let all = (number("MemTotal:"), number("MemFree:"), number("MemAvailable:"));
        let (Some(total), Some(free), Some(available)) = all else {
            return Err(SpaceError::Machine(format!(
                "{} does not tell the free memory; is /proc mounted?",
                path.display()
            )));
        };
        let zones = fs::read_to_string(root.join("proc/zoneinfo")).unwrap_or_default();
        let high = zones.lines().filter_map(|l| l.trim().strip_prefix("high "));
        let marks: u64 = high.filter_map(|n| n.trim().parse::<u64>().ok()).sum::<u64>() * 4096;
        Ok(Self { total, free, available, marks })
    }

    /// Memory that is left to others at every moment.
    pub fn floor(&self) -> u64 {
        self.marks + (self.total / MARGIN).max(16 << 20)
    }

    /// Memory that may be taken now.
    pub fn room(&self) -> u64 {
        self.free.min(self.available).saturating_sub(self.floor())
    }
}

/// Time that some task has waited for memory since the start, in microseconds; `None`: the kernel
/// does not tell.
pub fn stalled_us(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/pressure/memory")).ok()?;
    let some = text.lines().find_map(|l| l.strip_prefix("some "))?;
    some.split_whitespace().find_map(|w| w.strip_prefix("total=")?.parse().ok())
}

/// Pages that the kernel has moved to other frames since the start, of all processes; `None`: the
/// kernel does not tell (`pgmigrate_success` of /proc/vmstat).
pub fn moved_pages(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/vmstat")).ok()?;
    number_behind(&text, "pgmigrate_success ")
}

/// First frame of the last zone with memory, which the kernel hands out first to programs
/// (Documentation/mm/physical_memory.rst); 0: the kernel does not tell.
pub fn first_of_last_zone(root: &Path) -> u64 {
    start_of(&last_zone(root))
}

/// CPUs with the number of free pages on their own lists of the last zone with memory. The zone's
/// free lists do not contain these pages (`pagesets` of /proc/zoneinfo). Empty: the kernel does not
/// tell.
pub fn lists_of_cpus(root: &Path) -> Vec<(u32, u64)> {
    let of = |text: &str| {
        let cpu = text.lines().next()?.trim().parse().ok()?;
        Some((cpu, number_behind(text, "count:")?))
    };
    last_zone(root).split("\n    cpu:").skip(1).filter_map(of).collect()
}

/// The lines about the last zone with memory.
fn last_zone(root: &Path) -> String {
    let zones = fs::read_to_string(root.join("proc/zoneinfo")).unwrap_or_default();
    zones.split("\nNode ").max_by_key(|zone| start_of(zone)).unwrap_or_default().to_owned()
}

fn start_of(zone: &str) -> u64 {
    number_behind(zone, "start_pfn:").unwrap_or(0)
}

fn number_behind(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim().parse().ok())
}

/// Checks that a share of the machine's frames (0 to 1) can be reserved at all.
///
/// # Errors
/// The obstacle, with its remedy.
pub fn check(root: &Path, share: f64) -> Result<(), SpaceError> {
    let refused = |what: String| Err(SpaceError::Machine(what));
    let nodes =
        fs::read_to_string(root.join("sys/devices/system/node/has_memory")).unwrap_or_default();
    if nodes.trim().contains(['-', ',']) {
        return refused(format!(
            "NUMA: nodes {} have memory of their own, and the kernel would take frames of one after \
                the other; a reserve needs a machine with one node",
            nodes.trim()
        ));
    }
    let memory = Memory::of(root)?;
    if let Some((path, limit)) = limits(root).into_iter().find(|(_, limit)| *limit < memory.total) {
        return refused(format!(
            "cgroup: {path} allows {} MiB, and nearly all of the machine's {} MiB are taken for a \
                moment; start it in a cgroup without a limit",
            limit >> 20,
            memory.total >> 20
        ));
    }
    let wanted = (memory.total as f64 * share) as u64;
    if memory.available < wanted + memory.floor() {
        return refused(format!(
            "memory: these colours and banks have {} MiB, and only {} MiB of {} can be missed by \
                others; reserve fewer, or end other programs",
            wanted >> 20,
            memory.available.saturating_sub(memory.floor()) >> 20,
            memory.total >> 20
        ));
    }
    Ok(())
}

/// The limits of this process's memory cgroup and of those above it, by file.
fn limits(root: &Path) -> Vec<(String, u64)> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (top, files): (_, &[_]) = if controllers.is_empty() {
            ("sys/fs/cgroup", &["memory.max", "memory.high"])
        } else if controllers.split(',').any(|c| c == "memory") {
            ("sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
        } else {
            continue;
        };
        for above in Path::new(group.trim_start_matches('/')).ancestors() {
            for file in files {
                let path = Path::new(top).join(above).join(file);
                let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
                // "max" is none.
                found.extend(
                    text.trim().parse().ok().map(|limit| (format!("/{}", path.display()), limit)),
                );
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with 4 GiB; 3 GiB are free.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("made");
        put(
            root.path(),
            "proc/meminfo",
            "MemTotal: 4194304 kB\nMemFree: 3145728 kB\nMemAvailable: 3276800 kB\n",
        );
        put(
            root.path(),
            "proc/zoneinfo",
            "Node 0, zone DMA32\n  pages free 9\n        min  1\n        high     4096\n    cpu: 0\n              count:    7\n  \
             start_pfn:           4096\nNode 0, zone Normal\n        high     4096\n  pagesets\n    cpu: 0\n              count:    380\n              \
             high:  7\n    cpu: 12\n              count: 0\n              high:  7\n  start_pfn:           \
             1048576\nNode 0, zone Movable\n  pages free 0\n",
        );
        put(root.path(), "sys/devices/system/node/has_memory", "0\n");
        put(root.path(), "proc/self/cgroup", "0::/system.slice/a\n");
        root
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("one")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn refusal(root: &Path, share: f64) -> String {
        check(root, share).expect_err("refused").to_string()
    }

    #[test]
    fn others_keep_the_marks_and_a_margin() {
        let root = machine();
        let memory = Memory::of(root.path()).expect("read");
        assert_eq!(memory.marks, 8192 * 4096);
        assert_eq!(memory.floor(), (32 + 64) << 20);
        assert_eq!(memory.room(), (3072 - 96) << 20);
        assert!(check(root.path(), 0.5).is_ok());
        assert!(Memory::of(&root.path().join("none")).is_err());
        assert_eq!(first_of_last_zone(root.path()), 1 << 20);
        assert_eq!(lists_of_cpus(root.path()), [(0, 380), (12, 0)]);
        assert_eq!(lists_of_cpus(&root.path().join("none")), []);
        assert_eq!(first_of_last_zone(&root.path().join("none")), 0);
    }

    #[test]
    fn what_makes_it_impossible_is_named() {
        let root = machine();
        let root = root.path();
        assert!(refusal(root, 0.9).starts_with("memory: "), "{}", refusal(root, 0.9));
        put(root, "sys/fs/cgroup/system.slice/memory.max", "max\n");
        put(root, "sys/fs/cgroup/system.slice/a/memory.high", "8589934592\n");
        assert!(check(root, 0.25).is_ok());
        put(root, "sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        let why = refusal(root, 0.25);
        assert!(
            why.contains("cgroup: /sys/fs/cgroup/system.slice/memory.max allows 1024"),
            "{why}"
        );
        put(root, "proc/self/cgroup", "4:cpu,memory:/b\n1:name=systemd:/c\n");
        assert!(check(root, 0.25).is_ok());
        put(root, "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "4096\n");
        assert!(refusal(root, 0.25).starts_with("cgroup: "));
        put(root, "sys/devices/system/node/has_memory", "0-1\n");
        assert!(refusal(root, 0.25).starts_with("NUMA: "));
    }

    #[test]
    fn moved_pages_are_read_where_the_kernel_counts_them() {
        let root = machine();
        assert_eq!(moved_pages(root.path()), None);
        put(root.path(), "proc/vmstat", "pgfault 9\npgmigrate_success 41\npgmigrate_fail 7\n");
        assert_eq!(moved_pages(root.path()), Some(41));
    }

    #[test]
    fn stalls_are_read_where_the_kernel_tells_them() {
        let root = machine();
        assert_eq!(stalled_us(root.path()), None);
        put(
            root.path(),
            "proc/pressure/memory",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=9\n",
        );
        assert_eq!(stalled_us(root.path()), Some(123));
    }
}
