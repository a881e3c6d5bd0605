//! A task with its jobs, as its thread and the looks at the run share it.

use super::reaper::Dead;
use crate::clients::OwnPage;
use crate::regulate::engine::Ranker;
use crate::schedule::placed::Placed;
use crate::sys::latest::Latest;
use solocore_model::run::{RunJob, RunTask};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Interval between two checks of a waiting thread for a request to end.
pub(super) const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct State {
    pub run: RunTask,
    pub latest: Latest,
    pub response_sum: u128,
    pub in_a_row: u64,
    /// Release of a job that is being started; it is not `running` yet.
    pub starting: Option<u64>,
    /// Leader of the running job's process group, and its release.
    pub running: Option<(u32, u64)>,
    /// Whether the running job is done, and only its process has not ended.
    pub done: bool,
    /// Leader of the process group that waits for the next release.
    pub prepared: Option<u32>,
    /// The thread that gives its jobs their scheduling.
    pub thread: Option<u32>,
}

pub(super) struct JobTask {
    pub placed: Placed,
    pub directory: PathBuf,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Page that tells the regulator of its jobs, during which others are limited.
    pub signal: Option<Arc<OwnPage>>,
    /// Ranks for its processes that are prepared.
    pub ranks: Option<Ranker>,
    /// Where its processes go that have ended.
    pub dead: Dead,
    pub state: Mutex<State>,
}

impl JobTask {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    /// Whether a job runs or is being started.
    pub fn has_job(&self) -> bool {
        self.starting.is_some() || self.running.is_some()
    }

    pub fn record(&mut self, job: RunJob, result: Option<(bool, u64)>, deadline_ns: Option<u64>) {
        let Some((true, cpu_ns)) = result else {
            self.run.failed += 1;
            self.in_a_row += 1;
            return;
        };
        let response = job.end_ns.saturating_sub(job.release_ns);
        self.in_a_row = 0;
        self.run.jobs += 1;
        self.run.misses_deadline += u64::from(deadline_ns.is_some_and(|d| response > d));
        self.run.max_response_ns = self.run.max_response_ns.max(response);
        self.run.max_cpu_ns = self.run.max_cpu_ns.max(cpu_ns);
        self.response_sum += u128::from(response);
        self.latest.add(job);
    }
}
