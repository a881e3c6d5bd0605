//! The plan's locked pages, read into ways that no other program may fill.
//!
//! Problem: a plan relies on hits in the hottest pages of its tasks, and stock Linux locks no
//! lines. Rule: with `--resctrl`, some of a core's ways are kept for its locked pages
//! (host/resctrl/shares.rs): no running thread is in their group, so no other line replaces theirs.
//! The daemon joins that group and reads the pages of the running process from outside
//! (process_vm_readv), line by line: a line that is not in the cache yet goes into these ways. A
//! page is read once the process has used it (it is present), and again with every look, some
//! twenty times a second. A line that was already in the cache, in the ways of others, is evicted
//! some time later, and comes back into the right ways. Pages are named by region and offset
//! (profile). Those of anonymous mappings (`mmap#N`) are counted as not found: only a program in
//! its colours says which mapping is the Nth. The locks end with the process. Source:
//! single-core-equivalence, section 2.3 (Colored Lockdown; deferred to the first use of a page).
//! Does not cover: the time between a loss and the next look; more pages of one colour than the
//! ways kept for them; jobs that end before the first look at them. So a bound that rests on locked
//! pages is only approximated, not enforced: the figures give the numbers of pages found and read.

use super::lockdown;
use super::placed::{How, Placed};
use super::prefetch::{Pages, Source, join};
use solocore_model::profile::PageName;
use solocore_model::run::RunLocked;
use solocore_space::named::Mappings;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A task with locked pages.
struct LockerTask {
    group: PathBuf,
    attached: Option<u32>,
    pages: Vec<PageName>,
    /// Those that the process has used.
    used: Arc<Pages>,
    run: RunLocked,
    last: Option<u32>,
    spent_ns: u64,
}

/// Reader of the tasks' locked pages.
pub(crate) struct Locker {
    home: PathBuf,
    tasks: Vec<LockerTask>,
}

impl Locker {
    /// A reader for tasks on cores with ways for locked pages: `groups` has the files for joining
    /// them, by core; `home` is the file of the first group.
    pub fn new(
        placed: &[Placed],
        pages: &BTreeMap<String, Vec<PageName>>,
        groups: &BTreeMap<u32, PathBuf>,
        home: PathBuf,
    ) -> Self {
        let one = |p: &Placed| {
            let (pages, group) = (pages.get(&p.name)?.clone(), groups.get(&p.core)?.clone());
            let attached = if let How::Attach(pid) = p.how { Some(pid) } else { None };
            let run = RunLocked {
                task: p.name.clone(),
                pages: pages.len() as u64,
                ..RunLocked::default()
            };
            (!pages.is_empty()).then_some(LockerTask {
                group,
                attached,
                pages,
                used: Arc::default(),
                run,
                last: None,
                spent_ns: 0,
            })
        };
        Self { home, tasks: placed.iter().filter_map(one).collect() }
    }

    /// Reads the pages of the running tasks; `running` are the processes of the started ones.
    pub fn look(&mut self, running: &[(String, u32)]) {
        for task in &mut self.tasks {
            let started = running.iter().find(|(name, _)| *name == task.run.task).map(|r| r.1);
            let Some(pid) = task.attached.or(started) else { continue };
            let addresses = task.find(pid);
            task.used.set(pid, addresses.clone());
            if addresses.is_empty() || join(&task.group).is_err() {
                continue;
            }
            lockdown::read(pid, &addresses, &mut task.run, &mut task.spent_ns);
            // A daemon that stayed would put its own lines there.
            let _ = join(&self.home);
        }
    }

    /// The pages for the begins of windows, by task.
    pub fn sources(&self) -> impl Iterator<Item = (String, Source)> {
        self.tasks.iter().map(|t| {
            let group = Some((t.group.clone(), self.home.clone()));
            (t.run.task.clone(), Source { pages: Arc::clone(&t.used), group })
        })
    }

    /// Counts of the reads.
    pub fn runs(&self) -> Vec<RunLocked> {
        self.tasks.iter().map(|t| t.run.clone()).collect()
    }
}

impl LockerTask {
    /// Addresses of the pages that the process has used.
    fn find(&mut self, pid: u32) -> Vec<u64> {
        let Some(mappings) = Mappings::of(pid) else { return Vec::new() };
        let mut addresses: Vec<u64> =
            self.pages.iter().filter_map(|p| mappings.address(p)).collect();
        if self.last.replace(pid) != Some(pid) {
            self.run.processes += 1;
        }
        self.run.found = addresses.len() as u64;
        let Ok(mut pagemap) = fs::File::open(format!("/proc/{pid}/pagemap")) else {
            return Vec::new();
        };
        addresses.retain(|&address| present(&mut pagemap, address));
        self.run.present = addresses.len() as u64;
        addresses
    }
}

/// Whether the page is in memory. Reading an absent page would bring it there before its process
/// needs it.
fn present(pagemap: &mut fs::File, address: u64) -> bool {
    let mut entry = [0; 8];
    let read = pagemap
        .seek(SeekFrom::Start(address / PAGE * 8))
        .and_then(|_| pagemap.read_exact(&mut entry));
    read.is_ok() && u64::from_le_bytes(entry) >> 63 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::prefetch::Prefetch;
    use crate::sys::tasks;

    /// The pages of this test's own process are found, and read from outside.
    #[test]
    fn a_process_is_read() {
        let used = vec![7u8; 3 * PAGE as usize];
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_string_lossy().into_owned();
        let place = tempfile::tempdir().unwrap();
        let group = place.path().join("locked");
        let home = place.path().join("home");
        let pages = vec![
            PageName { region: program, offset: 0 },
            PageName { region: "stack".to_owned(), offset: 0 },
            PageName { region: "mmap#3".to_owned(), offset: 0 },
        ];
        let me = std::process::id();
        let placed = Placed::new("t", 1, How::Attach(me));
        let mut locker = Locker::new(
            &[placed],
            &[("t".to_owned(), pages)].into(),
            &[(1, group.clone())].into(),
            home.clone(),
        );
        locker.look(&[]);
        locker.look(&[]);
        let run = locker.runs().remove(0);
        assert_eq!((run.pages, run.found, run.processes), (3, 2, 1), "{run:?}");
        assert!(
            run.present >= 1 && run.reads == 2 * run.present && run.mean_read_ns > 0,
            "{run:?}"
        );
        let of_windows: Prefetch = locker.sources().collect();
        assert_eq!(of_windows.read(["t"].into_iter()), run.present, "the same pages");
        let me = format!("{}\n", tasks::thread_number());
        assert_eq!(
            (fs::read_to_string(group).unwrap(), fs::read_to_string(home).unwrap()),
            (me.clone(), me)
        );
        assert_eq!(used[5], 7);
    }

    #[test]
    fn without_ways_for_them_no_page_is_read() {
        let locker = Locker::new(&[], &BTreeMap::new(), &BTreeMap::new(), PathBuf::new());
        assert!(locker.runs().is_empty());
    }
}
