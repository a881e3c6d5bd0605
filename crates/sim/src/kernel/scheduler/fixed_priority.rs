//! Partitioned fixed priorities: each core runs the most urgent of its tasks that has a job
//! (`ready_set.h`).

use super::interface::{Call, JobTimes, Pick, Scheduler};
use super::places::{core_of, ranks};
use crate::kernel::config::{KernelError, TaskSpec};
use solocore_policy::UNLIMITED;
use solocore_policy::ready_set::ReadySet;

/// See the module.
pub struct FixedPriority {
    core: Vec<usize>,
    rank: Vec<u32>,
    /// Task of each rank.
    order: Vec<usize>,
    /// By core: ranks of tasks that have a job.
    ready: Vec<ReadySet>,
}

impl FixedPriority {
    pub fn new(tasks: &[TaskSpec], cores: usize) -> Result<Self, KernelError> {
        let core = tasks.iter().map(|t| core_of(t, cores)).collect::<Result<_, _>>()?;
        let (rank, order) = ranks(tasks);
        Ok(Self { core, rank, order, ready: vec![ReadySet::new(); cores] })
    }
}

impl Scheduler for FixedPriority {
    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        self.ready[self.core[task]].remove(self.rank[task]);
        call.dirty.insert(self.core[task]);
    }

    fn woken(&mut self, task: usize, _: JobTimes, call: &mut Call<'_>) {
        self.ready[self.core[task]].add(self.rank[task]);
        call.dirty.insert(self.core[task]);
    }

    fn pick(&mut self, core: usize, _: &mut Call<'_>) -> Pick {
        Pick::new(self.ready[core].first().map(|rank| self.order[rank as usize]), UNLIMITED)
    }

    fn home(&self, task: usize) -> usize {
        self.core[task]
    }
}
