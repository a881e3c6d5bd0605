//! The keepers of windows: a thread on each core with windows of partitions.
//!
//! Rule: as in `schedule/windows.rs`. When a window begins, the locked pages of its tasks are read
//! first (`schedule/prefetch.rs`), and then their jobs go on. The plan charges the reads to the
//! window, so they make its start late only by the time beyond that charge.
//! Does not cover: tasks under a scheduler of solocore, which keeps the windows itself.

use super::job_task::JobTask;
use super::{Jobs, no_thread, sleep_until, wait_for};
use crate::error::LinuxError;
use crate::schedule::placed::{How, windows_on_core};
use crate::schedule::prefetch::Prefetch;
use crate::schedule::windows::{self, Turns, Window};
use crate::sys::{Scheduling, tasks};
use rustix::process::Signal;
use solocore_model::run::RunWindow;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};

impl Jobs {
    /// Starts the threads that keep the windows, one for each core with windows.
    pub(super) fn keep_windows(
        &mut self,
        prefetch: &Prefetch,
        ready: &Sender<Result<(), LinuxError>>,
        first: &Arc<OnceLock<u64>>,
    ) -> Result<(), LinuxError> {
        for guard in self.guards(prefetch) {
            let (ready, first) = (ready.clone(), Arc::clone(first));
            let thread = std::thread::Builder::new().name(format!("solocore:{}", guard.core));
            let spawned = thread.spawn(move || guard.keep(ready, &first));
            self.threads.push(spawned.map_err(|e| no_thread(&e))?);
        }
        Ok(())
    }

    fn guards(&self, prefetch: &Prefetch) -> Vec<Guard> {
        let started = || self.tasks.iter().filter(|t| matches!(t.placed.how, How::Start(_)));
        let mut cores: Vec<u32> =
            started().filter(|t| t.placed.window.is_some()).map(|t| t.placed.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let guard = |core| Guard {
            core,
            windows: windows_on_core(started().map(|t| &t.placed), core),
            tasks: started().filter(|t| t.placed.core == core).map(Arc::clone).collect(),
            prefetch: prefetch.clone(),
            stop: Arc::clone(&self.stop),
            seen: Arc::clone(&self.windows),
        };
        cores.into_iter().map(guard).collect()
    }
}

/// The keeper of a core's windows. It stays bound to its core when that was offline for a while.
struct Guard {
    core: u32,
    windows: Vec<Window>,
    tasks: Vec<Arc<JobTask>>,
    prefetch: Prefetch,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<RunWindow>>>,
}

impl Guard {
    fn keep(&self, ready: Sender<Result<(), LinuxError>>, first: &OnceLock<u64>) {
        let placed = tasks::bind(0, &[self.core])
            .and_then(|()| Scheduling::fifo_inherited(windows::PRIORITY).apply())
            .map_err(|e| {
                LinuxError::of_io(&format!("windows on CPU {}", self.core), &e, "run as root")
            });
        let failed = placed.is_err();
        let _ = ready.send(placed);
        drop(ready);
        let Some(begun) = wait_for(first, &self.stop).filter(|_| !failed) else { return };
        let mut turns = vec![Turns::default(); self.windows.len()];
        loop {
            let _ = tasks::bind(0, &[self.core]);
            let now = tasks::monotonic_ns().saturating_sub(begun);
            // Windows that end come first: no two are open at a time.
            let mut opening = Vec::new();
            for (window, turns) in self.windows.iter().zip(&mut turns) {
                let due = turns.due(window, now);
                if let Some((false, expected)) = due {
                    self.turn(window, false, begun, expected);
                }
                // A window that ended late may have to open again at once.
                let next = due.filter(|(opens, _)| *opens).or_else(|| turns.due(window, now));
                opening.extend(next.map(|(_, expected)| (window, expected)));
            }
            for (window, expected) in opening {
                self.turn(window, true, begun, expected);
            }
            let next = self.windows.iter().map(|w| w.next_edge(now)).min().unwrap_or(u64::MAX);
            if !sleep_until(begun.saturating_add(next), &self.stop) {
                return;
            }
        }
    }

    /// Tasks of a window.
    fn inside(&self, window: &Window) -> impl Iterator<Item = &Arc<JobTask>> {
        self.tasks.iter().filter(move |t| t.placed.window.as_ref() == Some(window))
    }

    /// Reads the locked pages of the window's running jobs. Returns their number, and the time.
    fn read_locked(&self, window: &Window) -> (u64, u64) {
        let since = tasks::monotonic_ns();
        let running = self.inside(window).filter(|t| t.state().running.is_some());
        let pages = self.prefetch.read(running.map(|t| t.placed.name.as_str()));
        (pages, if pages > 0 { tasks::monotonic_ns().saturating_sub(since) } else { 0 })
    }

    /// Opens or closes a window, which was to happen at `expected` ns from the first release.
    fn turn(&self, window: &Window, opens: bool, begun: u64, expected: u64) {
        let (pages, read_ns) = if opens { self.read_locked(window) } else { (0, 0) };
        let signal = if opens { Signal::CONT } else { Signal::STOP };
        for task in self.inside(window) {
            if let Some((leader, _)) = task.state().running {
                tasks::signal_group(leader, signal);
            }
        }
        let late = tasks::monotonic_ns().saturating_sub(begun).saturating_sub(expected);
        let late = late.saturating_sub(read_ns.min(window.prefetch_ns));
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        let at = seen.iter().position(|s| s.partition == window.partition).unwrap_or_else(|| {
            let partition = window.partition.clone();
            seen.push(RunWindow { partition, core: self.core, ..RunWindow::default() });
            seen.len() - 1
        });
        let seen = &mut seen[at];
        let longest = if opens { &mut seen.max_start_late_ns } else { &mut seen.max_late_ns };
        *longest = late.max(*longest);
        if opens {
            seen.prefetched_pages = pages;
            seen.max_prefetch_ns = seen.max_prefetch_ns.max(read_ns);
        }
        seen.windows += u64::from(!opens);
    }
}
