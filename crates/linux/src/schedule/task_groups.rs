//! Control groups of the plan's tasks, looked at while they run.
//!
//! Problem: another program may freeze the control group of a task, take the task's core from that
//! group or from one above it, move the task to another group, or limit the group's time. The
//! plan's bounds do not hold then. Rule: every two seconds, the group in which each task is now is
//! compared with the needs of the task. The first reason against it stays until the end of the run,
//! and breaks the task's promise. Nothing is written here: these groups belong to others. Does not
//! cover: groups of version 1; limits of time (`cpu.max`) that were there at the start, which
//! `solocore doctor` names.

use super::placed::{How, Placed};
use crate::host::cgroup::{self, group_of};
use crate::host::machine::{self, cpu_list, parse_cpu_list};
use crate::host::threads::{printable, start_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// The groups of a run's tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskGroups {
    looked: Option<Instant>,
    tasks: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Start time of an attached process, as another one may have its number later.
    start: Option<u64>,
    /// Limits of time at the first look.
    limits: BTreeSet<String>,
    why: Option<String>,
}

/// The needs of a task.
#[derive(Clone, Copy, Debug)]
struct Needs {
    /// Its core; `None`: any CPU, or its core is offline now.
    core: Option<u32>,
    /// Whether limits of time hold for it.
    ordinary: bool,
}

impl TaskGroups {
    /// Reason why a task could not always run on its core.
    pub fn why(&self, task: &str) -> Option<&str> {
        self.tasks.get(task)?.why.as_deref()
    }

    /// Whether it is time for another look.
    pub fn is_due(&self) -> bool {
        self.looked.is_none_or(|at| at.elapsed() >= EVERY)
    }

    /// Looks at the groups. `running`: the processes of running jobs; `ordinary`: whether
    /// limits of time are kept, so that they hold for tasks without a rank or a real-time priority.
    /// Returns a message for each task with a new reason.
    pub fn look(
        &mut self,
        placed: &[Placed],
        running: &[(String, u32)],
        ordinary: bool,
    ) -> Vec<String> {
        self.looked = Some(Instant::now());
        let (Some(mount), Ok(online)) = (cgroup::mount(), machine::online_cpus()) else {
            return Vec::new();
        };
        let (proc, me) = (Path::new("/proc"), std::process::id());
        let mut messages = Vec::new();
        for task in placed.iter().filter(|task| task.how != How::NotRun) {
            let job = running.iter().find(|(name, _)| *name == task.name).map(|(_, pid)| *pid);
            let (pid, start) = match task.how {
                How::Attach(pid) => (pid, start_of(pid, pid)),
                // Its next job begins in the group of this process.
                _ => (job.unwrap_or(me), None),
            };
            let Some(group) = group_of(proc, pid) else { continue };
            let needs = Needs {
                core: Some(task.core).filter(|core| !task.free && online.contains(core)),
                ordinary: ordinary && task.fifo.is_none() && task.rank.is_none(),
            };
            let seen = self.tasks.entry(task.name.clone()).or_insert_with(|| Seen {
                start,
                limits: limits(&mount, &group),
                why: None,
            });
            if seen.why.is_some() || seen.start != start {
                continue;
            }
            if let Some(why) = hindrance(&mount, &group, needs, &seen.limits) {
                messages.push(format!("task `{}`: {why}", task.name));
                seen.why = Some(why);
            }
        }
        messages
    }
}

/// Reason why a task cannot have what it needs in this group.
fn hindrance(mount: &Path, group: &str, needs: Needs, known: &BTreeSet<String>) -> Option<String> {
    let name = printable(group);
    if is_frozen(&mount.join(group)) {
        return Some(format!(
            "its control group /{name} was frozen; thaw that group (write 0 to cgroup.freeze)"
        ));
    }
    let cpus = cpus_of(mount, group);
    if let (Some(core), Some(cpus)) = (needs.core, cpus)
        && !cpus.contains(&core)
    {
        return Some(format!(
            "its control group /{name} has CPUs {} but not its core, CPU {core}; add that CPU to the \
                group (cpuset.cpus), or move the task back",
            cpu_list(&cpus)
        ));
    }
    let limit = limits(mount, group).into_iter().find(|limit| !known.contains(limit));
    limit.filter(|_| needs.ordinary).map(|limit| {
        format!("a limit of its time was set meanwhile: {limit}; write max to cpu.max there")
    })
}

fn is_frozen(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "frozen 1")
}

/// A group and those above it, the innermost first. The mount itself is left out.
fn upwards(mount: &Path, group: &str) -> Vec<PathBuf> {
    let dir = mount.join(group);
    dir.ancestors().take_while(|at| *at != mount).map(Path::to_owned).collect()
}

/// CPUs of the innermost group that has a list; `None`: none has one.
fn cpus_of(mount: &Path, group: &str) -> Option<Vec<u32>> {
    let list = |dir: &PathBuf| fs::read_to_string(dir.join("cpuset.cpus.effective")).ok();
    let all = upwards(mount, group);
    // Without the controller below the mount, a partition may still have taken CPUs from it.
    let list = all.iter().find_map(list).or_else(|| list(&mount.to_owned()))?;
    Some(parse_cpu_list(&list))
}

/// Limits of time of a group and those above it, in words.
fn limits(mount: &Path, group: &str) -> BTreeSet<String> {
    let limit = |dir: &PathBuf| {
        let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
        let name = dir.strip_prefix(mount).unwrap_or(dir).display().to_string();
        (!text.starts_with("max")).then(|| format!("/{} cpu.max {}", printable(&name), text.trim()))
    };
    upwards(mount, group).iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount with the group `a/b`.
    fn groups() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        write(&dir, "cpuset.cpus.effective", "0-3\n");
        write(&dir, "a/cgroup.events", "populated 1\nfrozen 0\n");
        write(&dir, "a/b/cgroup.events", "populated 1\nfrozen 0\n");
        write(&dir, "a/cpu.max", "50000 100000\n");
        write(&dir, "a/b/cpu.max", "max 100000\n");
        dir
    }

    fn write(dir: &tempfile::TempDir, file: &str, text: &str) {
        fs::write(dir.path().join(file), text).unwrap();
    }

    fn said(dir: &tempfile::TempDir, needs: Needs) -> String {
        let known = BTreeSet::from(["/a cpu.max 50000 100000".to_owned()]);
        hindrance(dir.path(), "a/b", needs, &known).unwrap_or_default()
    }

    const HARD: Needs = Needs { core: Some(1), ordinary: false };
    const SOFT: Needs = Needs { core: Some(1), ordinary: true };

    #[test]
    fn a_group_as_it_was_hinders_nobody() {
        let dir = groups();
        assert_eq!((said(&dir, HARD).as_str(), said(&dir, SOFT).as_str()), ("", ""));
        assert_eq!(hindrance(&dir.path().join("none"), "a", SOFT, &BTreeSet::new()), None);
    }

    #[test]
    fn a_frozen_group_is_named() {
        let dir = groups();
        write(&dir, "a/b/cgroup.events", "populated 1\nfrozen 1\n");
        assert!(said(&dir, HARD).starts_with("its control group /a/b was frozen"));
    }

    #[test]
    fn a_core_that_the_group_lost_is_named() {
        let dir = groups();
        write(&dir, "a/cpuset.cpus.effective", "0,2-3\n");
        let why = said(&dir, HARD);
        assert!(why.contains("has CPUs 0,2-3 but not its core, CPU 1"), "{why}");
        assert_eq!(said(&dir, Needs { core: None, ..HARD }), "");
        write(&dir, "a/b/cpuset.cpus.effective", "1\n");
        assert_eq!(said(&dir, HARD), "", "the innermost list counts");
        // Another program made a partition of the core.
        let dir = groups();
        write(&dir, "cpuset.cpus.effective", "0,2-3\n");
        assert!(said(&dir, HARD).contains("not its core"));
    }

    #[test]
    fn a_new_limit_of_time_counts_for_ordinary_tasks() {
        let dir = groups();
        write(&dir, "a/b/cpu.max", "1000 100000\n");
        assert_eq!(said(&dir, HARD), "");
        assert!(said(&dir, SOFT).contains("/a/b cpu.max 1000 100000"));
        // One that was there is lowered.
        let dir = groups();
        write(&dir, "a/cpu.max", "1000 100000\n");
        assert!(said(&dir, SOFT).contains("/a cpu.max 1000 100000"));
    }
}
