//! Control groups of version 2: their mount, the group of a process, and the shares of CPU time
//! that they state.
//!
//! Problem: a sched_ext scheduler decides which task runs, and the kernel's own shares of control
//! groups (`cpu.max`, `cpu.weight`) hold for its own scheduler only. Of solocore's, the engine of
//! budgets keeps `cpu.max` (bpf/groups.h). Rule: groups with shares are found, so that a run can
//! list the shares that do not hold while it lasts.
//! Does not cover: groups of version 1.

use super::threads::printable;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Files that state shares, each with the first word of its default.
pub(crate) const LIMIT: (&str, &str) = ("cpu.max", "max");
pub(crate) const WEIGHT: (&str, &str) = ("cpu.weight", "100");

/// Mount point of the groups.
pub(crate) fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(mounted)
}

fn mounted(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ")
        .then(|| PathBuf::from(place.split_whitespace().nth(4).unwrap_or("/")))
}

/// The group of a process, below the mount, without the leading slash.
pub(crate) fn group_of(proc: &Path, pid: u32) -> Option<String> {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    text.lines().find_map(|l| l.strip_prefix("0::/")).map(str::to_owned)
}

/// Groups with a share other than the default in one of these files, as paths below the mount, with
/// the share.
pub(crate) fn shares_below(root: &Path, files: &[(&str, &str)]) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(group) = open.pop() {
        let mut below: Vec<PathBuf> = fs::read_dir(&group)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .map(|e| e.path())
            .collect();
        below.sort();
        open.extend(below.into_iter().rev());
        for &(file, usual) in files {
            let Ok(text) = fs::read_to_string(group.join(file)) else { continue };
            if text.split_whitespace().next().is_some_and(|first| first != usual) {
                let name = group.strip_prefix(root).unwrap_or(&group).display().to_string();
                found.push((name, format!("{file} {}", text.trim())));
            }
        }
    }
    found
}

/// The first of them, with a name that is safe for a log, and the number of the others.
pub(crate) fn first_of(found: &[(String, String)]) -> Option<String> {
    let (group, share) = found.first()?;
    let more = match found.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{} ({share}){more}", printable(group)))
}

/// The shares in these files, which do not hold under a sched_ext scheduler, for the user;
/// `instead`: the way to have them kept.
pub(crate) fn note(files: &[(&str, &str)], scheduler: &str, instead: &str) -> Option<String> {
    note_of(&mount().unwrap_or_else(|| ROOT.into()), files, scheduler, instead)
}

fn note_of(root: &Path, files: &[(&str, &str)], scheduler: &str, instead: &str) -> Option<String> {
    let first = first_of(&shares_below(root, files))?;
    Some(format!("shares of control groups do not hold under {scheduler}: {first}; {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_among_others() {
        assert_eq!(
            mounted("31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw"),
            Some("/sys/fs/cgroup".into())
        );
        assert_eq!(mounted("31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(mounted("nonsense"), None);
    }

    #[test]
    fn groups_with_shares_of_their_own_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let group = |name: &str, max: &str, weight: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cpu.max"), max).unwrap();
            fs::write(path.join("cpu.weight"), weight).unwrap();
        };
        group("a", "max 100000\n", "100\n");
        let both = [LIMIT, WEIGHT];
        assert_eq!(shares_below(dir.path(), &both), []);
        group("a/b", "10000 100000\n", "100\n");
        group("c", "max 100000\n", "50\n");
        let found = shares_below(dir.path(), &both);
        let expected = [("a/b", "cpu.max 10000 100000"), ("c", "cpu.weight 50")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(shares_below(dir.path(), &[WEIGHT]), expected[1..]);
        assert_eq!(shares_below(&dir.path().join("none"), &both), []);
    }

    /// Fails when a run beside limited groups says nothing.
    #[test]
    fn shares_that_do_not_hold_are_said() {
        let dir = tempfile::tempdir().unwrap();
        let said = || note_of(dir.path(), &[LIMIT], "the scheduler", "end it");
        assert_eq!(said(), None);
        fs::create_dir_all(dir.path().join("batch")).unwrap();
        fs::write(dir.path().join("batch/cpu.max"), "10000 100000\n").unwrap();
        let expected = "shares of control groups do not hold under the scheduler: \
            batch (cpu.max 10000 100000); end it";
        assert_eq!(said().as_deref(), Some(expected));
    }

    #[test]
    fn a_groups_name_writes_no_line_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let name = "x\n<2>kernel: out of memory\x1b[2J";
        fs::create_dir_all(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("cpu.weight"), "50\n").unwrap();
        let first = first_of(&shares_below(dir.path(), &[WEIGHT])).unwrap();
        assert_eq!(first, "x?<2>kernel: out of memory?[2J (cpu.weight 50)");
    }
}
