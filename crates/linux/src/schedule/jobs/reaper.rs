//! Processes of jobs that have ended, taken off the kernel's list.
//!
//! Problem: as a process is reaped, the kernel takes its entries of /proc away. If another task
//! uses one at that moment, the kernel waits for it in a loop. A real-time thread that reaps then
//! waits for ever if the other task was to run on its CPU. This was seen for ten minutes, where
//! real-time tasks had no limit (`sched_rt_runtime_us` -1). SIGKILL did not end it. Rule: the
//! threads of tasks, which are real-time ones, look at an ended process without reaping it. One
//! ordinary thread reaps all of them, off the cores of real-time tasks where there are others: no
//! budget stops a thread of solocore.

use crate::schedule::placed::Placed;
use crate::sys::{Scheduling, tasks};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Takes the numbers of processes that have ended, or will soon.
pub(super) type Dead = Sender<u32>;

/// The thread that reaps, until all its [`Dead`] are dropped. It leaves the CPUs of these tasks.
pub(super) fn start(placed: &[Placed]) -> io::Result<(Dead, JoinHandle<()>)> {
    let mut cpus = tasks::affinity_of(0).unwrap_or_default();
    let analysed = |cpu| {
        placed.iter().any(|p| p.core == cpu && (p.free || p.fifo.is_some() || p.rank.is_some()))
    };
    cpus.retain(|&cpu| !analysed(cpu));
    let (dead, ended) = channel();
    let thread = std::thread::Builder::new().name("solocore:reaper".to_owned());
    let thread = thread.spawn(move || {
        // It inherits nothing that would make it a real-time thread.
        let _ = Scheduling::ordinary().apply();
        let _ = tasks::bind(0, &cpus);
        for child in ended {
            let _ = tasks::reap(child);
        }
    });
    Ok((dead, thread?))
}
