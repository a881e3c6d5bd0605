//! Control groups that a VCPU runs as a whole: those of services and slices.
//!
//! Problem: a service has many processes, and systemd starts further ones, which are children of no
//! thread of the VCPU. Rule: a group is kept by its path. Its threads, and those of the groups
//! below it, are bound at once; a look of the run finds new ones and binds them. A group below that
//! was bound by itself keeps its own VCPU. A thread that was bound by itself later, or that leaves
//! the group, keeps the VCPU that it has. A unit that starts again has the same path. Does not
//! cover: groups of version 1; new threads until the next look, which are best effort if their
//! parent is.

use crate::error::LinuxError;
use crate::host::threads::printable;
use crate::host::{cgroup, machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// File of a group that lists its threads.
const THREADS: &str = "cgroup.threads";
/// Ends of the names of units that have groups.
const KINDS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];

/// Binds a thread to a VCPU; `None`: to best effort.
type Bind<'a> = dyn Fn(u32, Option<u32>) -> Result<(), LinuxError> + 'a;

/// A control group, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Its path: with the mount point, or as /proc/PID/cgroup has it.
    Path(String),
    /// Name of a unit of systemd: of a service, a scope or a slice.
    Unit(String),
}

impl Group {
    /// Path of the group below the mount.
    fn find(&self, root: &Path) -> Result<PathBuf, LinuxError> {
        match self {
            Self::Path(path) => by_path(root, path),
            Self::Unit(name) => by_unit(root, name),
        }
    }
}

fn by_path(root: &Path, text: &str) -> Result<PathBuf, LinuxError> {
    let wrong = |what: &str| LinuxError::Input(format!("--cgroup {}: {what}", printable(text)));
    let path = Path::new(text);
    let path = path.strip_prefix(root).unwrap_or(path);
    let path = path.strip_prefix("/").unwrap_or(path);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(wrong("the path has . or ..; write it as in /proc/PID/cgroup"));
    }
    let path: PathBuf = path.components().collect();
    if path.as_os_str().is_empty() {
        return Err(wrong(
            "the root group has every process of the machine; name a group below it",
        ));
    }
    if !root.join(&path).join(THREADS).is_file() {
        return Err(wrong("there is no such control group; `systemd-cgls` shows all of them"));
    }
    Ok(path)
}

fn by_unit(root: &Path, text: &str) -> Result<PathBuf, LinuxError> {
    let wrong = |what: String| LinuxError::Input(format!("--unit {}: {what}", printable(text)));
    if text.is_empty() || text.contains('/') {
        return Err(wrong("this is not the name of a unit; give a path with --cgroup".to_owned()));
    }
    let whole = KINDS.iter().any(|kind| text.ends_with(kind));
    let name = if whole { text.to_owned() } else { format!("{text}.service") };
    // systemd puts a `_` before a name that a file of the group could have.
    let escaped = format!("_{name}");
    let of_unit = |path: &PathBuf| {
        path.file_name().is_some_and(|last| last == name.as_str() || last == escaped.as_str())
    };
    let found: Vec<PathBuf> = tree(root, Path::new(""), &[]).into_iter().filter(of_unit).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(wrong(
            "no unit of this name runs; start it first (systemctl start), or give --cgroup"
                .to_owned(),
        )),
        [first, second, ..] => Err(wrong(format!(
            "{} groups have this name, among them {} and {}; give one of them with --cgroup",
            found.len(),
            shown(first),
            shown(second)
        ))),
    }
}

/// The path of a group, as people write it.
fn shown(path: &Path) -> String {
    printable(&format!("/{}", path.display()))
}

/// A group and all groups below it, without those of `apart` and theirs; paths below the mount.
fn tree(root: &Path, top: &Path, apart: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![top.to_owned()]);
    while let Some(group) = open.pop() {
        let below = fs::read_dir(root.join(&group)).into_iter().flatten().flatten();
        let groups = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let paths = groups.map(|entry| group.join(entry.file_name()));
        open.extend(paths.filter(|path| !apart.contains(path)));
        found.push(group);
    }
    found
}

/// The threads of these groups. A process of another namespace has the number 0.
fn threads(root: &Path, groups: &[PathBuf]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for group in groups {
        let text = fs::read_to_string(root.join(group).join(THREADS)).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
    }
    found.remove(&0);
    found
}

/// Whether this process has the thread: solocore may be moved into a group that is kept.
fn is_own(thread: u32) -> bool {
    Path::new("/proc/self/task").join(thread.to_string()).exists()
}

/// Checks that a process runs and is not this one. Threads of this one start the jobs of other
/// VCPUs, and its monitor has a VCPU of its own, which would no longer hold it.
pub(super) fn check_process(pid: u32) -> Result<(), LinuxError> {
    machine::threads_of(pid)?;
    if is_own(pid) {
        return Err(LinuxError::Input(format!(
            "process {pid} is the solocore that schedules the VCPUs; name another process"
        )));
    }
    Ok(())
}

/// A group that is kept.
struct Kept {
    /// Its path below the mount.
    path: PathBuf,
    /// Its VCPU; `None`: best effort.
    vcpu: Option<u32>,
    /// Its threads that were bound.
    bound: BTreeSet<u32>,
}

impl Kept {
    /// Binds its new threads. Returns the last refusal; such a thread is tried again at the next
    /// look.
    fn look(&mut self, root: &Path, apart: &[PathBuf], bind: &Bind<'_>) -> Option<LinuxError> {
        let now = threads(root, &tree(root, &self.path, apart));
        self.bound.retain(|thread| now.contains(thread));
        let mut refused = None;
        for thread in now {
            if self.bound.contains(&thread) || is_own(thread) {
                continue;
            }
            match bind(thread, self.vcpu) {
                Ok(()) => {
                    self.bound.insert(thread);
                }
                Err(error) => refused = Some(error),
            }
        }
        refused
    }
}

/// All groups that are kept.
#[derive(Default)]
pub(super) struct Groups {
    /// Mount point, once a group is kept.
    mount: Option<PathBuf>,
    kept: Vec<Kept>,
}

impl Groups {
    /// Binds a group to a VCPU (`None`: to best effort) from now on. Returns its path, and the
    /// number of its threads.
    ///
    /// # Errors
    /// There is no such group, it contains this process, or the kernel refuses a thread. The group
    /// is not kept then, and its threads are best effort, or again those of the group that had
    /// them.
    pub fn add(
        &mut self,
        group: &Group,
        vcpu: Option<u32>,
        bind: &Bind<'_>,
    ) -> Result<(String, usize), LinuxError> {
        let mount = self.mount.clone().or_else(cgroup::mount).ok_or_else(|| {
            LinuxError::Machine(
                "no control groups of version 2 are mounted; bind processes by their numbers"
                    .to_owned(),
            )
        })?;
        let path = group.find(&mount)?;
        let name = shown(&path);
        if threads(&mount, &tree(&mount, &path, &[])).contains(&std::process::id()) {
            return Err(LinuxError::Input(format!(
                "control group {name} has the solocore that schedules the VCPUs; name another, or \
                    a group below it"
            )));
        }
        let apart = self.paths();
        let mut kept = Kept { path, vcpu, bound: BTreeSet::new() };
        // A thread that ended meanwhile is refused the first time only.
        let refused = kept.look(&mount, &apart, bind).and_then(|_| kept.look(&mount, &apart, bind));
        if let Some(error) = refused {
            for &thread in &kept.bound {
                let _ = bind(thread, None);
            }
            // A group that is kept, this one or one above it, binds them again at its next look.
            let tried = threads(&mount, &tree(&mount, &kept.path, &apart));
            for other in &mut self.kept {
                other.bound.retain(|thread| !tried.contains(thread));
            }
            return Err(error.of(&format!("control group {name}")));
        }
        let threads = kept.bound.len();
        self.kept.retain(|other| other.path != kept.path);
        self.kept.push(kept);
        self.mount = Some(mount);
        Ok((name, threads))
    }

    /// Binds the threads that are new in the groups.
    pub fn look(&mut self, bind: &Bind<'_>) {
        let Some(mount) = self.mount.clone() else { return };
        let apart = self.paths();
        for kept in &mut self.kept {
            // A refused thread has ended, or is tried again.
            let _ = kept.look(&mount, &apart, bind);
        }
    }

    /// Forgets the groups of a VCPU that is destroyed.
    pub fn forget(&mut self, vcpu: u32) {
        self.kept.retain(|kept| kept.vcpu != Some(vcpu));
    }

    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// Paths of the groups of a VCPU.
    pub fn of(&self, vcpu: u32) -> Vec<String> {
        self.kept.iter().filter(|kept| kept.vcpu == Some(vcpu)).map(|k| shown(&k.path)).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.kept.iter().map(|kept| kept.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    type Seen = RefCell<Vec<(u32, Option<u32>)>>;

    /// A mount with these groups and their threads.
    fn mount(groups: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        groups.iter().for_each(|(path, threads)| has(&dir, path, threads));
        dir
    }

    fn has(dir: &tempfile::TempDir, path: &str, threads: &str) {
        let path = dir.path().join(path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(THREADS), threads).unwrap();
    }

    fn below(dir: &tempfile::TempDir) -> Groups {
        Groups { mount: Some(dir.path().to_owned()), kept: Vec::new() }
    }

    /// Records what is bound, and refuses this thread.
    fn bind(seen: &Seen, refused: u32) -> impl Fn(u32, Option<u32>) -> Result<(), LinuxError> {
        move |thread, vcpu| {
            seen.borrow_mut().push((thread, vcpu));
            if thread == refused { Err(LinuxError::Machine("no; why".to_owned())) } else { Ok(()) }
        }
    }

    fn path(text: &str) -> Group {
        Group::Path(text.to_owned())
    }

    #[test]
    fn groups_are_found_by_path_and_by_unit() {
        let dir = mount(&[
            ("system.slice", ""),
            ("system.slice/camera.service", "11\n"),
            ("system.slice/_memory.service", "12\n"),
            ("user.slice/user-1.slice/app.slice", ""),
            ("user.slice/user-2.slice/app.slice", ""),
        ]);
        let said = |group: &Group| {
            let found = group.find(dir.path());
            found.map_or_else(|e| e.to_string(), |path| path.display().to_string())
        };
        let unit = |text: &str| said(&Group::Unit(text.to_owned()));
        let mounted = format!("{}/system.slice/camera.service/", dir.path().display());
        for text in
            ["/system.slice/camera.service", "system.slice/camera.service", mounted.as_str()]
        {
            assert_eq!(said(&path(text)), "system.slice/camera.service");
        }
        for text in ["camera", "camera.service"] {
            assert_eq!(unit(text), "system.slice/camera.service");
        }
        assert_eq!(unit("memory"), "system.slice/_memory.service");
        assert_eq!(unit("system.slice"), "system.slice");
        for (said, word) in [
            (said(&path("/")), "root group"),
            (said(&path("")), "root group"),
            (said(&path("system.slice/../user.slice")), ".."),
            (said(&path("/none")), "no such control group"),
            (unit("none"), "no unit of this name runs"),
            (unit("a/b"), "--cgroup"),
            (unit("app.slice"), "2 groups have this name"),
        ] {
            assert!(said.contains(word) && said.contains("; "), "{said}");
        }
    }

    #[test]
    fn threads_that_come_later_are_bound_once() {
        let dir = mount(&[("a", "1\n2\n"), ("a/b", "3\n0\n")]);
        let (mut groups, seen) = (below(&dir), Seen::default());
        let bind = bind(&seen, 0);
        assert_eq!(groups.add(&path("/a"), Some(7), &bind), Ok(("/a".to_owned(), 3)));
        assert_eq!(seen.take(), [(1, Some(7)), (2, Some(7)), (3, Some(7))]);
        groups.look(&bind);
        assert_eq!(seen.take(), []);
        // One ends, one is new, and another group appears below.
        has(&dir, "a", "2\n4\n");
        has(&dir, "a/c", "5\n");
        groups.look(&bind);
        assert_eq!(seen.take(), [(4, Some(7)), (5, Some(7))]);
        // The unit ends and starts again.
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        groups.look(&bind);
        has(&dir, "a", "2\n");
        groups.look(&bind);
        assert_eq!(seen.take(), [(2, Some(7))]);
        assert_eq!(groups.of(7), ["/a"]);
        groups.forget(7);
        has(&dir, "a", "9\n");
        groups.look(&bind);
        assert_eq!((seen.take(), groups.of(7)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_group_below_keeps_its_own_vcpu() {
        let dir = mount(&[("a", "1\n"), ("a/b", "2\n")]);
        let (mut groups, seen) = (below(&dir), Seen::default());
        let bind = bind(&seen, 0);
        for (group, vcpu) in [("a/b", Some(8)), ("a", Some(7)), ("a", None)] {
            groups.add(&path(group), vcpu, &bind).unwrap();
        }
        assert_eq!(seen.take(), [(2, Some(8)), (1, Some(7)), (1, None)]);
        has(&dir, "a/b", "2\n3\n");
        groups.look(&bind);
        assert_eq!(seen.take(), [(3, Some(8))]);
        assert_eq!((groups.of(7), groups.of(8)), (Vec::new(), vec!["/a/b".to_owned()]));
    }

    #[test]
    fn a_refused_group_is_not_kept() {
        let dir = mount(&[("a", "1\n2\n"), ("own", &format!("{}\n", std::process::id()))]);
        let (mut groups, seen) = (below(&dir), Seen::default());
        let said = groups.add(&path("a"), Some(7), &bind(&seen, 2)).unwrap_err();
        assert_eq!(said, LinuxError::Machine("control group /a: no; why".to_owned()));
        assert_eq!(seen.take(), [(1, Some(7)), (2, Some(7)), (2, Some(7)), (1, None)]);
        let said = groups.add(&path("/own"), Some(7), &bind(&seen, 0)).unwrap_err().to_string();
        assert!(said.contains("has the solocore that schedules the VCPUs"), "{said}");
        assert_eq!((seen.take(), groups.of(7)), (Vec::new(), Vec::new()));
        // It is moved into a group that is kept.
        has(&dir, "own", "3\n");
        groups.add(&path("own"), Some(7), &bind(&seen, 0)).unwrap();
        has(&dir, "own", &format!("3\n{}\n", std::process::id()));
        groups.look(&bind(&seen, 0));
        assert_eq!(seen.take(), [(3, Some(7))]);
    }

    #[test]
    fn a_refusal_leaves_the_threads_to_the_group_that_had_them() {
        let dir = mount(&[("a", "1\n"), ("a/b", "2\n3\n")]);
        let (mut groups, seen) = (below(&dir), Seen::default());
        groups.add(&path("a"), Some(7), &bind(&seen, 0)).unwrap();
        seen.take();
        groups.add(&path("a/b"), Some(8), &bind(&seen, 3)).unwrap_err();
        assert_eq!(seen.take(), [(2, Some(8)), (3, Some(8)), (3, Some(8)), (2, None)]);
        groups.look(&bind(&seen, 0));
        assert_eq!(seen.take(), [(2, Some(7)), (3, Some(7))]);
    }

    #[test]
    fn a_thread_that_ended_meanwhile_is_no_refusal() {
        let dir = mount(&[("a", "1\n2\n")]);
        let gone = |thread: u32, _: Option<u32>| {
            has(&dir, "a", "1\n");
            if thread == 2 { Err(LinuxError::Machine("gone".to_owned())) } else { Ok(()) }
        };
        assert_eq!(below(&dir).add(&path("a"), Some(7), &gone), Ok(("/a".to_owned(), 1)));
    }
}
