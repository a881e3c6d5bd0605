//! A task's programs on frames of its core's colours and banks.
//!
//! Problem: a program asks, before its first instruction and at its end, the process that gave it
//! its library (`solocore_space::coloured`), and a job waits for the answer. Rule: a thread for
//! each task answers at once. It adds up what it sees: processes that were coloured, their pages at
//! the end, and pages in wrong frames. Processes that go on are looked at every second; a page
//! counts as wrong if it is so twice in a row, because a page that is on its way is seen once. The
//! files of shared memory that its processes map are kept as well: message queues are such files.
//! Locked pages are counted by `lockdown`. Does not cover: processes that are killed, and files
//! that a program unmaps between two looks.

use super::lockdown::Lockdown;
use super::prefetch::Source;
use crate::error::LinuxError;
use solocore_model::run::{RunColoured, RunLocked};
use solocore_space::SpaceError;
use solocore_space::audit::{Look, SharedFile};
use solocore_space::coloured::{Coloured, Events};
use solocore_space::locked::Wanted;
use solocore_space::map::{Choice, Map};
use solocore_space::queues::Queues;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two checks for a request to end.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between two looks at the pages of running processes.
const AUDIT: Duration = Duration::from_secs(1);
/// Memory in its colours that is ready before a program starts, bytes, at least.
const READY: u64 = 2 << 20;
/// Number of faults that are told.
const TOLD: usize = 8;
/// Number of files of shared memory that are kept; beyond it, those of the last look and wrong
/// ones.
const FILES: usize = 1000;

impl From<SpaceError> for LinuxError {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Input(text) => Self::Input(text),
            SpaceError::Machine(text) => Self::Machine(text),
        }
    }
}

/// Variables of a program's environment.
pub type Environment = Vec<(&'static str, OsString)>;

/// Files of shared memory that the processes of a task were seen with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedMemory {
    /// Looks at processes so far.
    pub looks: u64,
    /// Files by their numbers, each with the most pages that a look found.
    pub files: BTreeMap<u64, SharedFile>,
}

impl SharedMemory {
    /// Adds a look at a process.
    pub fn add(&mut self, files: impl IntoIterator<Item = SharedFile>) {
        self.looks += 1;
        let mut now = BTreeSet::new();
        for file in files {
            now.insert(file.inode);
            let known = self.files.entry(file.inode).or_insert_with(|| file.clone());
            known.pages.resident = known.pages.resident.max(file.pages.resident);
            known.pages.wrong = known.pages.wrong.max(file.pages.wrong);
            // Its maker knows it by a number.
            if known.path.starts_with("/dev/shm/#") {
                known.path = file.path;
            }
        }
        // Each job may make one of its own.
        if self.files.len() > FILES {
            self.files.retain(|inode, file| file.pages.wrong > 0 || now.contains(inode));
        }
    }
}

/// Observations of a task.
#[derive(Default)]
struct Seen {
    run: RunColoured,
    memory: SharedMemory,
    before: Before,
    lockdown: Option<Lockdown>,
}

/// Wrong pages of processes at the last look at those that run.
#[derive(Default)]
struct Before {
    private: BTreeMap<u32, u64>,
    shared: BTreeMap<(u32, u64), u64>,
}

impl Seen {
    /// Adds events of processes.
    fn add(&mut self, events: Events) {
        if let Some(lockdown) = &mut self.lockdown {
            events.locked.iter().for_each(|found| lockdown.ended(found));
        }
        let run = &mut self.run;
        run.processes += events.coloured.len() as u64;
        run.within_jobs += events.unheld;
        for ended in events.ended {
            run.ended += 1;
            run.pages += ended.audit.anonymous.resident;
            run.wrong += ended.audit.anonymous.wrong;
            run.moved_back += u64::from(ended.moved_back);
            self.memory.add(ended.shared);
        }
        let uncoloured =
            events.uncoloured.iter().map(|what| format!("{what}: it ran without colours"));
        let failed = events.failed.iter().map(|(pid, why)| format!("process {pid}: {why}"));
        for fault in uncoloured.chain(failed).chain(events.notes) {
            if run.faults.len() < TOLD && !run.faults.contains(&fault) {
                run.faults.push(fault);
            }
        }
    }

    /// Adds a look at the processes that run.
    fn look(&mut self, running: Vec<(u32, Look)>) {
        let private = running.iter().map(|(pid, look)| (*pid, look.audit.anonymous.wrong));
        self.run.wrong += twice(&mut self.before.private, private.collect()).values().sum::<u64>();
        let files = |(pid, look): &(u32, Look)| {
            let pid = *pid;
            let of = |file: &SharedFile| ((pid, file.inode), file.pages.wrong);
            look.shared.iter().map(of).collect::<Vec<_>>()
        };
        let shared = running.iter().flat_map(files).collect();
        let wrong = twice(&mut self.before.shared, shared);
        for (pid, look) in running {
            self.memory.add(look.shared.into_iter().map(|mut file| {
                file.pages.wrong = wrong.get(&(pid, file.inode)).copied().unwrap_or(0);
                file
            }));
        }
    }
}

/// The server of one task, until this is dropped.
pub(crate) struct Space {
    environment: Environment,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Space {
    /// Serves a task; `seen` has its name and its place so far. Locked pages get their colours,
    /// first and count.
    pub fn start(
        map: &Map,
        choice: &Choice,
        seen: RunColoured,
        queues: Option<&Queues>,
        locked: Option<(Wanted, (u32, u32))>,
    ) -> Result<Self, LinuxError> {
        let mut space = Coloured::new(map.clone(), choice.clone(), READY, Some(&seen.task))?;
        let mut lockdown = None;
        if let Some((wanted, colours)) = locked {
            lockdown = Some(Lockdown::new(&seen.task, wanted.pages.len() as u64, colours));
            space = space.locking(wanted)?;
        }
        let mut environment: Environment = space.environment(std::env::var_os("LD_PRELOAD")).into();
        environment.extend(queues.map(Queues::variable));
        let name = format!("task `{}`", seen.task);
        let seen = Arc::new(Mutex::new(Seen { run: seen, lockdown, ..Seen::default() }));
        let stop = Arc::new(AtomicBool::new(false));
        let (counts, ended) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("solocore:colours".to_owned());
        let thread = thread
            .spawn(move || serve(space, &counts, &ended))
            .map_err(|e| LinuxError::of_io(&name, &e, "raise the limit of threads (ulimit -u)"))?;
        Ok(Self { environment, seen, stop, thread: Some(thread) })
    }

    /// Variables for the task's programs.
    pub fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// Counts so far.
    pub fn seen(&self) -> RunColoured {
        locked(&self.seen).run.clone()
    }

    /// Counts of locked pages so far; `None`: the task has none in colours of their own.
    pub fn lockdown(&self) -> Option<RunLocked> {
        locked(&self.seen).lockdown.as_ref().map(Lockdown::run)
    }

    /// Locked pages for the begins of windows; `None` as for [`Self::lockdown`].
    pub fn source(&self) -> Option<Source> {
        let pages = locked(&self.seen).lockdown.as_ref().map(Lockdown::used)?;
        Some(Source { pages, group: None })
    }

    /// Files of shared memory so far.
    pub fn memory(&self) -> SharedMemory {
        locked(&self.seen).memory.clone()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(|e| e.into_inner())
}

fn serve(mut space: Coloured, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let (mut looked, mut read) = (Instant::now(), Instant::now());
    loop {
        let ends = stop.load(Ordering::SeqCst);
        space.serve(if ends { Duration::ZERO } else { LOOK });
        let events = std::mem::take(&mut space.events);
        // Before the lock, for which the daemon may wait.
        let (mut found, mut running) = (None, None);
        if read.elapsed() >= LOOK {
            (read, found) = (Instant::now(), space.locked());
        }
        if looked.elapsed() >= AUDIT {
            (looked, running) = (Instant::now(), Some(space.running()));
        }
        let mut seen = locked(seen);
        seen.add(events);
        if let (Some(lockdown), Some(found)) = (&mut seen.lockdown, &found) {
            lockdown.look(found);
        }
        if let Some(running) = running {
            seen.look(running);
        }
        if ends {
            return;
        }
    }
}

/// Wrong pages that were there at the last look, too, by their owner.
fn twice<K: Ord + Copy>(before: &mut BTreeMap<K, u64>, now: BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let both = |(owner, n): (&K, &u64)| (*owner, before.get(owner).map_or(0, |old| *n.min(old)));
    let wrong = now.iter().map(both).collect();
    *before = now;
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_space::audit::{Audit, Share};
    use solocore_space::queues::QUEUES;

    #[test]
    fn the_programs_of_a_task_get_the_names_of_its_queues() {
        let map = Map { colours: vec![1 << 12], banks: Vec::new(), slices: Vec::new() };
        let choice = Choice::new(&map, Some(&[0]), None).unwrap();
        let queues = "/frames,1234".parse::<Queues>().unwrap();
        for (queues, want) in [(Some(&queues), Some("/frames,0x4d2")), (None, None)] {
            let seen = RunColoured { task: "t".into(), ..RunColoured::default() };
            let space = Space::start(&map, &choice, seen, queues, None).unwrap();
            let found = space.environment().into_iter().find(|(name, _)| *name == QUEUES);
            assert_eq!(found.map(|(_, list)| list), want.map(OsString::from));
        }
    }

    /// A look at processes, each with wrong private pages, and wrong pages of the file 7.
    fn looks(pairs: &[(u32, u64, u64)]) -> Vec<(u32, Look)> {
        let of = |&(pid, private, wrong): &(u32, u64, u64)| {
            let anonymous = Share { resident: 9, wrong: private };
            let audit = Audit { anonymous, ..Audit::default() };
            (pid, Look { audit, shared: vec![file("/dev/shm/#7", wrong)] })
        };
        pairs.iter().map(of).collect()
    }

    fn file(path: &str, wrong: u64) -> SharedFile {
        SharedFile { inode: 7, path: path.to_owned(), pages: Share { resident: 9, wrong } }
    }

    #[test]
    fn a_page_on_its_way_is_not_wrong_and_one_that_stays_is() {
        let mut seen = Seen::default();
        let mut look = |pairs: &[(u32, u64, u64)]| {
            seen.look(looks(pairs));
            (seen.run.wrong, seen.memory.files.get(&7).map_or(0, |file| file.pages.wrong))
        };
        assert_eq!(look(&[(1, 3, 1), (2, 0, 0)]), (0, 0), "seen once");
        assert_eq!(look(&[(1, 0, 0), (2, 5, 2)]), (0, 0), "moved back, or new");
        assert_eq!(look(&[(1, 1, 0), (2, 4, 2)]), (4, 2));
        assert_eq!(look(&[(2, 7, 0)]), (8, 2), "a queue that was wrong once is not kept");
        assert_eq!(look(&[]), (8, 2));
    }

    #[test]
    fn a_file_of_each_job_does_not_take_memory_without_end() {
        let (mut memory, jobs) = (SharedMemory::default(), 2 * FILES as u64);
        (0..jobs).for_each(|inode| memory.add([SharedFile { inode, ..file("/dev/shm/#7", 0) }]));
        assert!(memory.files.len() <= FILES && memory.files.contains_key(&(jobs - 1)));
    }

    #[test]
    fn files_have_a_name_if_a_process_knows_it() {
        let mut memory = SharedMemory::default();
        memory.add([file("/dev/shm/#7", 0)]);
        memory.add([file("/dev/shm/solocore-queue-a", 0)]);
        memory.add([file("/dev/shm/#7", 3)]);
        let pages = Share { resident: 9, wrong: 3 };
        let want = SharedFile { inode: 7, path: "/dev/shm/solocore-queue-a".to_owned(), pages };
        assert_eq!(memory.looks, 3);
        assert_eq!(memory.files.into_values().collect::<Vec<_>>(), [want]);
    }
}
