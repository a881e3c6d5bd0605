//! Ranks of threads inside the sched_ext engine.
//!
//! Rule: rank 1 runs before all others of its CPU, and a thread without a rank is an ordinary one
//! (bpf/sched_ext.bpf.c). Any thread of this process may give ranks, while the engine runs and
//! after it.

use crate::contract::{self, run_rank};
use crate::error::LinuxError;
use crate::sys::tasks;
use libbpf_rs::{Map, MapHandle};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Gives threads their ranks.
#[derive(Clone)]
pub struct Ranker(Arc<MapHandle>);

impl Ranker {
    /// For the map of an engine.
    ///
    /// # Errors
    /// The kernel refuses access to it.
    pub(super) fn new(ranks: &Map<'_>) -> Result<Self, LinuxError> {
        let handle = MapHandle::try_from(ranks);
        handle.map(|handle| Self(Arc::new(handle))).map_err(|e| {
            LinuxError::Machine(format!("the map of ranks: {e}; raise the limit of open files"))
        })
    }

    /// Gives a thread this rank. With `children_only`, the programs that it starts get the rank.
    ///
    /// # Errors
    /// The thread does not exist.
    pub fn rank(&self, thread: u32, rank: u32, children_only: bool) -> Result<(), LinuxError> {
        let fail = |e: &dyn std::fmt::Display| {
            LinuxError::Machine(format!("thread {thread} gets no rank: {e}; is it still running?"))
        };
        let fd = tasks::open_thread(thread).map_err(|e| fail(&e))?;
        let entry = run_rank { rank, children: u32::from(children_only) };
        contract::put(&*self.0, fd.as_raw_fd().cast_unsigned(), &entry).map_err(|e| fail(&e))
    }
}
