//! Global earliest deadline first: one queue for all cores (`heap.h`), no budgets.
//!
//! A job keeps its deadline until it is done, also after it: tardiness bounds assume this (Devi and
//! Anderson). Jobs of one task run one after the other. With equal deadlines, the running task goes
//! on, then the lower index is chosen. A released job takes an idle core, or the one whose job has
//! the latest deadline if that is later than its own.

use super::interface::{Call, JobTimes, Pick, Scheduler};
use super::places::id;
use crate::kernel::cores::CoreSet;
use solocore_policy::UNLIMITED;
use solocore_policy::heap::Heap;

/// See the module.
pub struct GlobalEdf {
    /// Jobs that are ready and run nowhere, by deadline.
    waiting: Box<Heap>,
    /// By core: task and its deadline.
    running: Vec<Option<(usize, u64)>>,
}

impl GlobalEdf {
    pub fn new(cores: usize) -> Self {
        Self { waiting: Heap::new(), running: vec![None; cores] }
    }

    fn core_of(&self, task: usize) -> Option<usize> {
        self.running.iter().position(|r| r.is_some_and(|(t, _)| t == task))
    }

    /// The core with the largest value is the one that a new job takes: idle ones first, then the
    /// latest deadline.
    fn urgency(&self, core: usize) -> u64 {
        self.running[core].map_or(UNLIMITED, |(_, deadline)| deadline)
    }

    fn enqueue(&mut self, task: usize, deadline_ps: u64, dirty: &mut CoreSet) {
        self.waiting.push(deadline_ps, id(task));
        (0..self.running.len())
            .filter(|&c| self.running[c].is_none_or(|(_, d)| d > deadline_ps))
            .for_each(|c| dirty.insert(c));
    }
}

impl Scheduler for GlobalEdf {
    fn next_job(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>) {
        if let Some(core) = self.core_of(task) {
            self.running[core] = Some((task, job.deadline_ps));
            call.dirty.insert(core);
        }
    }

    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        self.waiting.remove(id(task));
        if let Some(core) = self.core_of(task) {
            self.running[core] = None;
            call.dirty.insert(core);
        }
    }

    fn woken(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>) {
        self.enqueue(task, job.deadline_ps, call.dirty);
    }

    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick {
        let (current, top) = (self.running[core], self.waiting.top());
        if let Some((deadline, task)) =
            top.filter(|&(deadline, _)| current.is_none_or(|(_, d)| deadline < d))
        {
            self.waiting.remove(task);
            self.running[core] = Some((task as usize, deadline));
            if let Some((displaced, deadline)) = current {
                self.enqueue(displaced, deadline, call.dirty);
            }
        }
        Pick::new(self.running[core].map(|(task, _)| task), UNLIMITED)
    }

    fn next_core(&self, dirty: CoreSet) -> Option<usize> {
        dirty.iter().min_by_key(|&core| (std::cmp::Reverse(self.urgency(core)), core))
    }

    fn home(&self, _: usize) -> usize {
        0
    }
}
