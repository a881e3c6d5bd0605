//! Other programs kept off the cores of analysed tasks, by control groups (version 2) and by
//! affinity.
//!
//! Problem: any program may run anywhere, and the plan's tasks share their cores with programs that
//! the plan does not know.
//! Rule: where version 2 of control groups has the cpuset controller, every group that holds
//! neither solocore nor a task of the plan is limited to the other cores (`cpuset.cpus`). Other
//! programs are limited by their affinity, again every two seconds for new ones. No program is
//! moved to another group. A partition (`cpuset.cpus.partition`) is not made: it would take the
//! cores from solocore's own threads, too. A thread whose affinity allows no other core was bound
//! there by another program or a user: it stays, and so does its group; its budget holds it.
//! An empty `cpuset.cpus` of a group in which the controller was on before is put back as all CPUs
//! of its parent: the kernel empties none that has members.
//! Does not cover: kernel threads; groups of version 1, and ones with a control character in their
//! name (programs of these are limited by affinity).

use super::threads::{self, Thread, ThreadChange, What};
use crate::host::keeper::Changes;
use crate::host::machine::cpu_list;
use crate::sys::tasks;
use solocore_model::run::RunConfined;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Keeps others off some cores.
pub(crate) struct Confiner {
    /// CPUs for other programs.
    rest: Vec<u32>,
    /// Processes that stay: solocore and the plan's tasks.
    ours: HashSet<u32>,
    seen: HashSet<(u32, u64)>,
    /// Whether it has looked before.
    swept: bool,
    pub confined: RunConfined,
}

/// Mount point of the groups of version 2, if their root has the cpuset controller.
pub(crate) fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(mounted)?;
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|c| c == "cpuset").then_some(mount)
}

fn mounted(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ")
        .then(|| PathBuf::from(place.split_whitespace().nth(4).unwrap_or("/")))
}

/// The group of a process, below the mount, without the leading slash.
fn group_of(proc: &Path, pid: u32) -> Option<String> {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    text.lines().find_map(|l| l.strip_prefix("0::/")).map(str::to_owned)
}

/// Whether `group` is this one or below it.
fn within(group: &str, of: &str) -> bool {
    group.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Confiner {
    pub fn new(rest: &[u32], ours: impl IntoIterator<Item = u32>) -> Self {
        let ours = ours.into_iter().chain([std::process::id()]).collect();
        Self {
            rest: rest.to_vec(),
            ours,
            seen: HashSet::new(),
            swept: false,
            confined: RunConfined::default(),
        }
    }

    /// Threads of other programs than solocore, the plan's tasks and the kernel, each with its
    /// allowed CPUs.
    fn others(&self) -> Vec<(Thread, Vec<u32>)> {
        // Children of solocore are the plan's tasks, and so are their children.
        let all = threads::all(Path::new("/proc"), None);
        let started: HashSet<u32> = threads::family(&all, std::process::id()).into_iter().collect();
        let other =
            |t: &Thread| !t.kernel && !self.ours.contains(&t.tgid) && !started.contains(&t.tid);
        let with_cpus = |t: Thread| tasks::affinity_of(t.tid).ok().map(|cpus| (t, cpus));
        all.into_iter().filter(other).filter_map(with_cpus).collect()
    }

    /// Counts the groups and threads that would be limited now.
    pub fn preview(&mut self) {
        let others = self.others();
        self.confined.bound = self.bound(&others);
        let outside = |cpus: &[u32]| cpus.iter().any(|c| !self.rest.contains(c));
        self.confined.threads = others
            .iter()
            .filter(|(t, cpus)| outside(cpus) && !self.confined.bound.contains(&t.tid))
            .count() as u64;
        self.confined.groups = mount().map(|m| self.groups(&m, &others)).unwrap_or_default();
    }

    fn bound(&self, others: &[(Thread, Vec<u32>)]) -> Vec<u32> {
        let nowhere = |cpus: &[u32]| !cpus.iter().any(|c| self.rest.contains(c));
        others.iter().filter(|(_, cpus)| nowhere(cpus)).map(|(t, _)| t.tid).collect()
    }

    /// The outermost groups below the mount without a process that stays.
    fn groups(&self, mount: &Path, others: &[(Thread, Vec<u32>)]) -> Vec<String> {
        let bound = self.bound(others);
        let proc = Path::new("/proc");
        let staying: Vec<String> =
            self.ours.iter().chain(&bound).filter_map(|&pid| group_of(proc, pid)).collect();
        let mut found = Vec::new();
        outermost(mount, "", &staying, &mut found);
        found
    }

    /// Limits groups, then the remaining threads.
    pub fn begin(&mut self, changes: &mut Changes) {
        if let Some(mount) = mount() {
            let mut enabled = BTreeSet::new();
            for group in self.groups(&mount, &self.others()) {
                if limit(changes, &mount, &group, &self.rest, &mut enabled) {
                    self.confined.groups.push(group);
                }
            }
        }
        self.sweep(changes);
    }

    /// Limits every program that may run on a core of analysed tasks.
    pub fn sweep(&mut self, changes: &mut Changes) {
        let at_the_start = !self.swept;
        self.swept = true;
        let others = self.others();
        self.confined.bound = self.bound(&others);
        // Threads that have ended are forgotten.
        let live: HashSet<_> = others.iter().map(|(t, _)| (t.tid, t.start)).collect();
        self.seen.retain(|seen| live.contains(seen));
        for (thread, cpus) in others {
            let new: Vec<u32> = cpus.iter().copied().filter(|c| self.rest.contains(c)).collect();
            let change = ThreadChange {
                tid: thread.tid,
                start: thread.start,
                what: What::Cpus(cpus.clone(), new.clone()),
            };
            let first = self.seen.insert((thread.tid, thread.start));
            if new.is_empty() {
                continue;
            }
            if new == cpus {
                // The children of a thread that was bound like this at the start have nothing to be
                // put back. Later, it may be the child of a limited thread.
                if at_the_start && changes.note(&change).is_err() {
                    return;
                }
                continue;
            }
            match changes.change(&change) {
                Ok(()) => self.confined.threads += 1,
                Err(_) if first => self.confined.refused += 1,
                Err(_) => {}
            }
        }
    }
}

/// Groups below `group` without a process that stays, where a parent has one.
fn outermost(mount: &Path, group: &str, staying: &[String], found: &mut Vec<String>) {
    let mut children: Vec<String> = fs::read_dir(mount.join(group))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .filter_map(|e| e.file_name().into_string().ok())
        // The keeper's lines end at such a character, and so would messages.
        .filter(|name| !name.contains(char::is_control))
        .collect();
    children.sort();
    for child in children {
        let child = if group.is_empty() { child } else { format!("{group}/{child}") };
        if staying.iter().any(|s| within(s, &child)) {
            outermost(mount, &child, staying, found);
        } else {
            found.push(child);
        }
    }
}

/// Limits a group to some CPUs; its parent must let it.
fn limit(
    changes: &mut Changes,
    mount: &Path,
    group: &str,
    cpus: &[u32],
    enabled: &mut BTreeSet<PathBuf>,
) -> bool {
    let dir = mount.join(group);
    let parent = dir.parent().unwrap_or(mount).to_owned();
    let control = parent.join("cgroup.subtree_control");
    let has = fs::read_to_string(&control).unwrap_or_default();
    if !has.split_whitespace().any(|c| c == "cpuset") {
        if changes.set_with_way_back(&text(&control), "+cpuset", "-cpuset").is_err() {
            return false;
        }
        enabled.insert(parent.clone());
    }
    let (path, list) = (text(&dir.join("cpuset.cpus")), cpu_list(cpus));
    if enabled.contains(&parent) {
        // The setting vanishes with the controller.
        return changes.set_without_way_back(&path, &list).is_ok();
    }
    let old = fs::read_to_string(&path).unwrap_or_default();
    if !old.trim().is_empty() {
        return changes.set(&path, &list).is_ok();
    }
    // The kernel empties no list of a group that has members: all that its parent has means the
    // same.
    let all = fs::read_to_string(parent.join("cpuset.cpus.effective")).unwrap_or_default();
    !all.trim().is_empty() && changes.set_with_way_back(&path, &list, all.trim()).is_ok()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_groups_without_who_stays() {
        let dir = tempfile::tempdir().unwrap();
        for group in
            ["init.scope", "system.slice/a.service", "system.slice/ab.service/x", "user.slice/u/s"]
        {
            fs::create_dir_all(dir.path().join(group)).unwrap();
        }
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        let of = |staying: &[&str]| {
            let staying: Vec<String> = staying.iter().map(|&s| s.to_owned()).collect();
            let mut found = Vec::new();
            outermost(dir.path(), "", &staying, &mut found);
            found
        };
        assert_eq!(of(&[]), ["init.scope", "system.slice", "user.slice"]);
        assert_eq!(
            of(&["system.slice/a.service"]),
            ["init.scope", "system.slice/ab.service", "user.slice"]
        );
        assert_eq!(
            of(&["user.slice/u", "system.slice/ab.service"]),
            ["init.scope", "system.slice/a.service", "system.slice/ab.service/x", "user.slice/u/s"]
        );
        assert_eq!(
            of(&[""]),
            ["init.scope", "system.slice", "user.slice"],
            "the root is in no group"
        );
        // A line of the keeper ends its path at the first tab.
        fs::create_dir(dir.path().join("init.scope\t9")).unwrap();
        assert_eq!(of(&[]), ["init.scope", "system.slice", "user.slice"]);
    }

    #[test]
    fn the_mount_is_found_among_others() {
        assert_eq!(
            mounted("31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw"),
            Some("/sys/fs/cgroup".into())
        );
        assert_eq!(mounted("31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(mounted("nonsense"), None);
    }
}
