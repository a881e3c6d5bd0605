//! A thread of this process that a VCPU holds, before it begins to work.
//!
//! Problem: no VCPU holds the threads of this process (bpf/vcpu_core.h), and the time of some of
//! them is to be charged. Rule: such a thread begins when it has been put into its VCPU.

use crate::error::LinuxError;
use crate::regulate::bpf;
use crate::sys::tasks;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread before it may begin.
pub(super) struct Waiting {
    thread: JoinHandle<()>,
    tid: u32,
    go: mpsc::Sender<()>,
}

impl Waiting {
    /// Starts the thread, which waits until it may begin. It ends if this is dropped before.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Self, LinuxError> {
        let (tell, told) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = tell.send(tasks::thread_number());
            if may_go.recv().is_ok() {
                work();
            }
        });
        let thread = thread.map_err(|e| {
            let who = format!("the thread of {name}");
            LinuxError::of_io(&who, &e, "raise the limit (ulimit -u)")
        })?;
        let tid = told.recv().map_err(|_| bpf::inside("a thread ended at once"))?;
        Ok(Self { thread, tid, go })
    }

    /// The kernel's number of the thread.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Lets the thread begin.
    pub fn begin(self) -> Result<JoinHandle<()>, LinuxError> {
        self.go.send(()).map_err(|_| bpf::inside("a thread ended before it began"))?;
        Ok(self.thread)
    }
}

/// A value that the thread shares with the run. It is consistent at any time, also after a panic of
/// the thread.
pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for the run, which must not wait: the thread may be out of budget with the lock.
pub(super) fn lock_now<T>(of: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match of.try_lock() {
        Ok(value) => Some(value),
        Err(TryLockError::Poisoned(value)) => Some(value.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits until a thread of this process sleeps, so that it is not charged to a VCPU in the middle
/// of a run that began outside of it. A thread that goes on for 0.2 s is not waited for.
pub(super) fn wait_until_asleep(tid: u32) {
    for _ in 0..200 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
        let stat = stat.unwrap_or_default();
        // The name before the state may have parentheses of its own.
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
