//! A task's programs on frames of its core's colours and banks.
//!
//! Problem: a program asks, before its first instruction and at its end, the process that gave it
//! its library (`solocore_space::coloured`), and a job waits for the answer. Rule: a thread for each
//! task answers at once. It adds up what it sees: processes that were coloured, their pages at the
//! end, and pages in wrong frames. Processes that go on are looked at every second; a page counts as
//! wrong if it is so twice in a row, because a page that is on its way is seen once.
//! Does not cover: processes that are killed: nobody looks at their pages.

use crate::error::LinuxError;
use solocore_model::run::RunColoured;
use solocore_space::SpaceError;
use solocore_space::audit::Audit;
use solocore_space::coloured::Coloured;
use solocore_space::map::{Choice, Map};
use solocore_space::queues::Queues;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two checks for a request to end.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between two looks at the pages of running processes.
const AUDIT: Duration = Duration::from_secs(1);
/// Memory in its colours that is ready before a program starts, bytes.
const READY: u64 = 2 << 20;
/// Number of faults that are told.
const TOLD: usize = 8;

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

/// The server of one task, until this is dropped.
pub(crate) struct Space {
    environment: Environment,
    seen: Arc<Mutex<RunColoured>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Space {
    /// Serves a task; `seen` has its name and its place so far.
    pub fn start(
        map: &Map,
        choice: &Choice,
        seen: RunColoured,
        queues: Option<&Queues>,
    ) -> Result<Self, LinuxError> {
        let space = Coloured::new(map.clone(), choice.clone(), READY, Some(&seen.task))?;
        let mut environment: Environment = space.environment(std::env::var_os("LD_PRELOAD")).into();
        environment.extend(queues.map(Queues::variable));
        let name = format!("task `{}`", seen.task);
        let (seen, stop) = (Arc::new(Mutex::new(seen)), Arc::new(AtomicBool::new(false)));
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
        locked(&self.seen).clone()
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

fn locked(seen: &Mutex<RunColoured>) -> MutexGuard<'_, RunColoured> {
    seen.lock().unwrap_or_else(|e| e.into_inner())
}

fn serve(mut space: Coloured, seen: &Mutex<RunColoured>, stop: &AtomicBool) {
    let (mut before, mut looked) = (BTreeMap::new(), Instant::now());
    loop {
        let ends = stop.load(Ordering::SeqCst);
        space.serve(if ends { Duration::ZERO } else { LOOK });
        let events = std::mem::take(&mut space.events);
        let mut seen = locked(seen);
        seen.processes += events.coloured.len() as u64;
        for ended in &events.ended {
            seen.ended += 1;
            seen.pages += ended.audit.anonymous.resident;
            seen.wrong += ended.audit.anonymous.wrong;
            seen.moved_back += u64::from(ended.moved_back);
        }
        let uncoloured =
            events.uncoloured.iter().map(|what| format!("{what}: it ran without colours"));
        let failed = events.failed.iter().map(|(pid, why)| format!("process {pid}: {why}"));
        for fault in uncoloured.chain(failed).chain(events.notes) {
            if seen.faults.len() < TOLD && !seen.faults.contains(&fault) {
                seen.faults.push(fault);
            }
        }
        if looked.elapsed() >= AUDIT {
            looked = Instant::now();
            seen.wrong += twice_wrong(&mut before, &space.running());
        }
        if ends {
            return;
        }
    }
}

/// Wrong pages of processes that had some at the last look, too.
fn twice_wrong(before: &mut BTreeMap<u32, u64>, now: &[(u32, Audit)]) -> u64 {
    let wrong: BTreeMap<u32, u64> = now.iter().map(|(pid, a)| (*pid, a.anonymous.wrong)).collect();
    let both = |(pid, n): (&u32, &u64)| before.get(pid).map_or(0, |old| *n.min(old));
    let count = wrong.iter().map(both).sum();
    *before = wrong;
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_space::audit::Share;
    use solocore_space::queues::QUEUES;

    #[test]
    fn the_programs_of_a_task_get_the_names_of_its_queues() {
        let map = Map { colours: vec![1 << 12], banks: Vec::new() };
        let choice = Choice::new(&map, Some(&[0]), None).unwrap();
        let queues = "/frames,1234".parse::<Queues>().unwrap();
        for (queues, want) in [(Some(&queues), Some("/frames,0x4d2")), (None, None)] {
            let seen = RunColoured { task: "t".into(), ..RunColoured::default() };
            let space = Space::start(&map, &choice, seen, queues).unwrap();
            let found = space.environment().into_iter().find(|(name, _)| *name == QUEUES);
            assert_eq!(found.map(|(_, list)| list), want.map(OsString::from));
        }
    }

    #[test]
    fn a_page_on_its_way_is_not_wrong_and_one_that_stays_is() {
        let look = |pairs: &[(u32, u64)]| -> Vec<(u32, Audit)> {
            let audit =
                |wrong| Audit { anonymous: Share { resident: 9, wrong }, ..Audit::default() };
            pairs.iter().map(|&(pid, wrong)| (pid, audit(wrong))).collect()
        };
        let mut before = BTreeMap::new();
        assert_eq!(twice_wrong(&mut before, &look(&[(1, 3), (2, 0)])), 0, "seen once");
        assert_eq!(twice_wrong(&mut before, &look(&[(1, 0), (2, 5)])), 0, "moved back, or new");
        assert_eq!(twice_wrong(&mut before, &look(&[(1, 1), (2, 4)])), 4);
        assert_eq!(twice_wrong(&mut before, &look(&[(2, 7)])), 4);
        assert_eq!(twice_wrong(&mut before, &look(&[])), 0);
    }
}
