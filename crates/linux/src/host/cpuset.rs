//! Other programs kept off the cores of analysed tasks, by control groups (version 2) and by
//! affinity.
//!
//! Problem: any program may run anywhere, and the plan's tasks share their cores with programs that
//! the plan does not know. Rule: where version 2 of control groups has the cpuset controller, every
//! group that holds neither solocore nor a task of the plan is limited to the other cores
//! (`cpuset.cpus`). Other programs are limited by their affinity, again every two seconds for new
//! ones. No program is moved to another group. A partition (`cpuset.cpus.partition`) is not made:
//! it would take the cores from solocore's own threads, too. A thread whose affinity allows no
//! other core was bound there by another program or a user: it stays, and so does its group; its
//! budget holds it. A limited group may be changed by another program: it turns the controller off,
//! or writes another list. Then the run's promise is broken, and the group is limited again, three
//! times at most. A group that was removed and made again, because its unit started again, is
//! limited like a newcomer. An empty `cpuset.cpus` of a group in which the controller was on before
//! is put back as all CPUs of its parent: the kernel empties none that has members. Does not cover:
//! kernel threads; groups of version 1, and ones with a control character in their name (programs
//! of these are limited by affinity).

use super::cgroup::{self, group_of};
use super::threads::{self, Thread, ThreadChange, What, printable};
use crate::host::keeper::Changes;
use crate::host::machine::{cpu_list, parse_cpu_list};
use crate::sys::tasks;
use solocore_model::run::RunConfined;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Times that a group is limited again, after other programs have changed it.
const REPAIRS: u32 = 3;

/// Keeps others off some cores.
pub(crate) struct Confiner {
    /// CPUs for other programs.
    rest: Vec<u32>,
    /// Processes that stay: solocore and the plan's tasks.
    ours: HashSet<u32>,
    seen: HashSet<(u32, u64)>,
    /// Whether it has looked before.
    swept: bool,
    /// Groups whose controller was turned on here, for those below them.
    enabled: BTreeSet<PathBuf>,
    /// Numbers of the limited groups' directories: one that is made again has another number.
    numbers: BTreeMap<String, u64>,
    /// Groups that could not be limited, each with the reason.
    pub unlimited: Vec<String>,
    /// Times that a limited group let its programs run elsewhere.
    lapses: BTreeMap<String, u32>,
    /// Reason for the first of them.
    pub lapsed: Option<String>,
    pub confined: RunConfined,
}

/// Mount point of the groups of version 2, if their root has the cpuset controller.
fn mount() -> Option<PathBuf> {
    let mount = cgroup::mount()?;
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|c| c == "cpuset").then_some(mount)
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
            enabled: BTreeSet::new(),
            numbers: BTreeMap::new(),
            unlimited: Vec::new(),
            lapses: BTreeMap::new(),
            lapsed: None,
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
            for group in self.groups(&mount, &self.others()) {
                match limit(changes, &mount, &group, &self.rest, &mut self.enabled) {
                    Ok(()) => {
                        let number = number(&mount.join(&group));
                        self.numbers.extend(number.map(|n| (group.clone(), n)));
                        self.confined.groups.push(group);
                    }
                    Err(e) => self.unlimited.push(format!("/{} ({e})", printable(&group))),
                }
            }
        }
        self.sweep(changes);
    }

    /// Looks at the limited groups, and limits them again where another program has changed them.
    /// Returns a message for each of these.
    pub fn look_at_groups(&mut self) -> Vec<String> {
        mount().map_or_else(Vec::new, |mount| self.look_below(&mount))
    }

    fn look_below(&mut self, mount: &Path) -> Vec<String> {
        let mut messages = Vec::new();
        for group in &self.confined.groups {
            let dir = mount.join(group);
            let Some(lapse) = lapse(&dir, &self.rest) else { continue };
            let Some(now) = number(&dir) else { continue };
            if self.numbers.get(group).is_some_and(|&before| before != now) {
                // Until it can be limited, each of its threads is.
                if limit_again(&dir, &self.rest, &self.enabled).is_ok() {
                    self.numbers.insert(group.clone(), now);
                }
                continue;
            }
            let times = self.lapses.entry(group.clone()).or_default();
            *times += 1;
            if *times > REPAIRS + 1 {
                continue;
            }
            let repaired = if *times > REPAIRS {
                Err(io::Error::other(format!("it was changed {times} times")))
            } else {
                limit_again(&dir, &self.rest, &self.enabled)
            };
            let outcome = match repaired {
                Ok(()) => "it is limited again".to_owned(),
                Err(e) => format!(
                    "it is not limited again: {e}; end the program that changes it, and start again"
                ),
            };
            let message = format!("control group /{}: {lapse}; {outcome}", printable(group));
            self.lapsed.get_or_insert_with(|| message.clone());
            messages.push(message);
        }
        messages
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
) -> io::Result<()> {
    let dir = mount.join(group);
    let parent = dir.parent().unwrap_or(mount).to_owned();
    let control = parent.join("cgroup.subtree_control");
    let has = fs::read_to_string(&control).unwrap_or_default();
    if !has.split_whitespace().any(|c| c == "cpuset") {
        changes.set_with_way_back(&text(&control), "+cpuset", "-cpuset")?;
        enabled.insert(parent.clone());
    }
    let (path, list) = (text(&dir.join("cpuset.cpus")), cpu_list(cpus));
    if enabled.contains(&parent) {
        // The setting vanishes with the controller.
        return changes.set_without_way_back(&path, &list);
    }
    let old = fs::read_to_string(&path).unwrap_or_default();
    if !old.trim().is_empty() {
        return changes.set(&path, &list).map(drop);
    }
    // The kernel empties no list of a group that has members: all that its parent has means the
    // same.
    let all = fs::read_to_string(parent.join("cpuset.cpus.effective")).unwrap_or_default();
    if all.trim().is_empty() {
        return Err(io::Error::other("the group above it has no list of CPUs"));
    }
    changes.set_with_way_back(&path, &list, all.trim())
}

/// Number of a group's directory.
fn number(dir: &Path) -> Option<u64> {
    Some(fs::metadata(dir).ok()?.ino())
}

/// Reason why the programs of a limited group may run on other CPUs than these; `None`: they may
/// not, or the group has gone.
fn lapse(dir: &Path, cpus: &[u32]) -> Option<String> {
    match fs::read_to_string(dir.join("cpuset.cpus.effective")) {
        Ok(list) => {
            let mut more = parse_cpu_list(&list);
            more.retain(|cpu| !cpus.contains(cpu));
            (!more.is_empty())
                .then(|| format!("another program allowed it CPUs {} as well", cpu_list(&more)))
        }
        Err(_) if dir.is_dir() => Some("another program turned its cpuset off".to_owned()),
        Err(_) => None,
    }
}

/// Limits a group again. The keeper has the way back already. A controller that was on before the
/// run is not turned on again: another program has decided so.
fn limit_again(dir: &Path, cpus: &[u32], enabled: &BTreeSet<PathBuf>) -> io::Result<()> {
    let list = dir.join("cpuset.cpus");
    if let Some(parent) = dir.parent().filter(|parent| enabled.contains(*parent))
        && !list.exists()
    {
        write(&parent.join("cgroup.subtree_control"), "+cpuset")?;
    }
    write(&list, &cpu_list(cpus))?;
    match lapse(dir, cpus) {
        None => Ok(()),
        Some(_) => Err(io::Error::other("its list of CPUs has no effect")),
    }
}

/// Writes a file of the kernel, which must be there.
fn write(path: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
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

    /// Each look forgets the threads that have ended, so that programs that come and go take no
    /// memory.
    #[test]
    fn threads_that_have_ended_are_forgotten() {
        // All CPUs are for others, so that nothing is changed.
        let all: Vec<u32> = (0..4096).collect();
        let mut confiner = Confiner::new(&all, []);
        let mut changes = Changes::begin().unwrap();
        confiner.seen.extend((0..1000).map(|n| (n, 0)));
        confiner.sweep(&mut changes);
        // No thread began with the machine and is not the kernel's, but the first.
        assert!(confiner.seen.iter().all(|&(number, start)| start > 0 || number == 1));
    }

    /// A mount with a limited group `a`.
    fn limited() -> (tempfile::TempDir, Confiner) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        for file in ["cpuset.cpus", "cpuset.cpus.effective"] {
            fs::write(dir.path().join("a").join(file), "0,2-3").unwrap();
        }
        let mut confiner = Confiner::new(&[0, 2, 3], []);
        confiner.confined.groups.push("a".to_owned());
        (dir, confiner)
    }

    #[test]
    fn a_group_that_was_widened_is_limited_again_a_few_times() {
        let (dir, mut confiner) = limited();
        let file = |name: &str| dir.path().join("a").join(name);
        assert_eq!(confiner.look_below(dir.path()), Vec::<String>::new());
        assert_eq!(confiner.lapsed, None);
        let mut said = Vec::new();
        for _ in 0..10 {
            fs::write(file("cpuset.cpus"), "0-3").unwrap();
            fs::write(file("cpuset.cpus.effective"), "0-3").unwrap();
            said.extend(confiner.look_below(dir.path()));
        }
        assert_eq!(said.len(), REPAIRS as usize + 1, "{said:?}");
        assert!(said[0].contains("/a: another program allowed it CPUs 1 as well"), "{said:?}");
        assert!(said[3].contains("it was changed 4 times"), "{said:?}");
        assert_eq!(confiner.lapsed.as_ref(), said.first());
        assert_eq!(fs::read_to_string(file("cpuset.cpus")).unwrap(), "0-3", "it is left so");
    }

    /// Widens the group. The kernel makes the effective list of the other; here they are one file.
    fn widen(dir: &tempfile::TempDir) {
        let file = |name: &str| dir.path().join("a").join(name);
        let _ = fs::remove_file(file("cpuset.cpus.effective"));
        std::os::unix::fs::symlink(file("cpuset.cpus"), file("cpuset.cpus.effective")).unwrap();
        fs::write(file("cpuset.cpus"), "0-3\n").unwrap();
    }

    #[test]
    fn a_group_that_was_made_again_is_limited_without_a_word() {
        let (dir, mut confiner) = limited();
        let before = number(&dir.path().join("a")).unwrap() + 1;
        confiner.numbers.insert("a".to_owned(), before);
        widen(&dir);
        assert_eq!(confiner.look_below(dir.path()), Vec::<String>::new());
        assert_eq!(confiner.lapsed, None);
        let list = fs::read_to_string(dir.path().join("a/cpuset.cpus")).unwrap();
        assert!(list.starts_with("0,2-3"), "{list}");
        widen(&dir);
        assert_eq!(confiner.look_below(dir.path()).len(), 1, "it is another program's work now");
    }

    #[test]
    fn the_list_of_a_widened_group_is_written_again() {
        let (dir, mut confiner) = limited();
        let file = |name: &str| dir.path().join("a").join(name);
        widen(&dir);
        let said = confiner.look_below(dir.path());
        assert!(said.len() == 1 && said[0].ends_with("; it is limited again"), "{said:?}");
        assert!(fs::read_to_string(file("cpuset.cpus")).unwrap().starts_with("0,2-3"));
        assert!(confiner.lapsed.is_some(), "the promise was broken meanwhile");
    }

    #[test]
    fn a_controller_that_was_turned_off_is_turned_on_where_it_is_ours() {
        let (dir, mut confiner) = limited();
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        assert_eq!(confiner.look_below(dir.path()), Vec::<String>::new(), "a group may go");
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), "").unwrap();
        let control = || fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap();
        let said = confiner.look_below(dir.path());
        assert!(said[0].contains("turned its cpuset off; it is not limited again"), "{said:?}");
        assert_eq!(control(), "", "it was on before the run");
        confiner.enabled.insert(dir.path().to_owned());
        confiner.look_below(dir.path());
        assert_eq!(control(), "+cpuset");
    }
}
