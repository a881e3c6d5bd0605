//! Response times of all tasks of a core from one busy window that grows level by level.
//!
//! # Problem
//! [`response_time`] begins each level's busy window again. With `n` tasks on a core that counts
//! the jobs of all tasks above `n` times, and each step of a recurrence looks at all of them.
//!
//! # Rule
//! A job one level down ends only when the window of the level above has ended
//! ([`crate::response`]). So the jobs that a level counted are in the windows of all levels below,
//! and these begin with them. The tasks above wait in a queue by the instant up to which their jobs
//! are counted: a step looks only at those that release a job before the window's end. All levels
//! together then cost what their jobs cost, each the logarithm of the number of tasks.
//!
//! The cost of a task's preemptions may grow from level to level (`reload`): the task reloads as
//! much as the largest of the tasks between it and the level uses. A level that reloads more than
//! all before it raises that cost of the tasks directly above, and of no others.
//!
//! # Why the results are those of [`response_time`]
//! Both find the least solution of the same recurrence, from below. The limit on steps is on steps
//! from the beginning. A level that finds a response after more jobs than that is computed by
//! [`response_time`] itself, unless the core has more than [`MANY`] tasks. With more, the limit is
//! on the steps that the level makes here: fewer, so that a response may be found where
//! [`response_time`] gives up. It is equally valid. A level that finds none here finds none there,
//! in more steps; one without tasks above makes the same steps.
//!
//! # Not covered
//! Windows of partitions ([`crate::window`]).

use crate::response::{Demand, MAX_STEPS, RtaTask, Window, response_time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Largest number of tasks of a core for which a limit on steps counts from the beginning.
pub const MANY: usize = 512;

/// A task of the core by its place (0 is the highest priority), in the state in which a job of it
/// makes others reload this number of accesses. `None`: its numbers do not fit in 64 bits.
pub type TaskAt<'a> = &'a dyn Fn(usize, u64) -> Option<RtaTask>;

/// A task above the level.
#[derive(Clone, Debug)]
struct Above {
    task: RtaTask,
    reload: u64,
    /// Jobs counted so far.
    jobs: u64,
}

/// The busy window of a level, with all tasks above it.
#[derive(Clone, Debug, Default)]
pub struct BusyWindow {
    above: Vec<Above>,
    /// Tasks by the instant up to which all their jobs are counted.
    covered: BinaryHeap<Reverse<(u64, usize)>>,
    demand: Demand,
    /// Jobs counted of all tasks above.
    jobs: u64,
    /// A number did not fit in 64 bits, and does not fit at lower levels either.
    ended: bool,
    /// Has the core more than [`MANY`] tasks? Then the limit on steps is counted separately.
    many: bool,
}

impl BusyWindow {
    /// The state of a core with this number of tasks, before the first level.
    #[must_use]
    pub fn of(tasks: usize) -> Self {
        Self { many: tasks > MANY, ..Self::default() }
    }

    /// Worst-case response time of the next task in picoseconds. A job of it makes tasks above
    /// reload `reload` accesses. Afterwards the task is one of those above. From level to level
    /// `window` must charge no less.
    ///
    /// `None` as [`response_time`] gives it: no end of the window, a response above `limit_ps`, a
    /// period of zero, or a number that does not fit in 64 bits.
    pub fn next(
        &mut self,
        reload: u64,
        task_at: TaskAt<'_>,
        window: &Window<'_>,
        limit_ps: u64,
    ) -> Option<u64> {
        let index = self.above.len();
        let task = task_at(index, 0).filter(|task| task.period_ps > 0);
        let (Some(task), false) = (task, self.ended) else {
            self.ended = true;
            return None;
        };
        if self.reload(reload, task_at).is_none() {
            self.ended = true;
            return None;
        }
        let (found, own_jobs) = self.response(&task, window, limit_ps);
        let cut = self.jobs.saturating_add(own_jobs) > u64::from(MAX_STEPS) && !self.many;
        let anew = cut && found.is_some() && !self.above.is_empty();
        let found = if anew { self.anew(&task, window, limit_ps) } else { found };
        if self.admit(task).is_none() {
            self.ended = true;
        }
        found
    }

    /// The response of the level, computed from the beginning.
    fn anew(&self, task: &RtaTask, window: &Window<'_>, limit_ps: u64) -> Option<u64> {
        let tasks: Vec<RtaTask> = self.above.iter().map(|a| a.task).chain([*task]).collect();
        response_time(&tasks, tasks.len() - 1, window, limit_ps)
    }

    /// Least number of accesses that the tasks above reload.
    fn reload(&mut self, reload: u64, task_at: TaskAt<'_>) -> Option<()> {
        // The further up, the more accesses.
        for index in (0..self.above.len()).rev() {
            let above = &mut self.above[index];
            if above.reload >= reload {
                break;
            }
            let task = task_at(index, reload)?;
            self.demand =
                self.demand.less(&above.task, above.jobs)?.plus(&task, above.jobs, true)?;
            (above.task, above.reload) = (task, reload);
        }
        Some(())
    }

    /// Counts one job of a task, released as the window opens.
    fn admit(&mut self, task: RtaTask) -> Option<()> {
        self.demand = self.demand.plus(&task, 1, true)?;
        self.jobs = self.jobs.checked_add(1)?;
        self.covered.push(Reverse((task.period_ps, self.above.len())));
        self.above.push(Above { task, reload: 0, jobs: 1 });
        Some(())
    }

    /// Counts every job released before `window_ps`; true if a new one was counted.
    fn cover(&mut self, window_ps: u64) -> Option<bool> {
        let mut grew = false;
        while let Some(mut first) = self.covered.peek_mut() {
            let Reverse((covered_ps, index)) = *first;
            if covered_ps >= window_ps {
                break;
            }
            let above = &mut self.above[index];
            let jobs = (window_ps - covered_ps).div_ceil(above.task.period_ps);
            let to_ps = covered_ps.checked_add(jobs.checked_mul(above.task.period_ps)?)?;
            self.demand = self.demand.plus(&above.task, jobs, true)?;
            above.jobs += jobs;
            self.jobs = self.jobs.checked_add(jobs)?;
            *first = Reverse((to_ps, index));
            grew = true;
        }
        Some(grew)
    }

    /// The response time of `task`, and the number of its jobs that were examined.
    fn response(
        &mut self,
        task: &RtaTask,
        window: &Window<'_>,
        limit_ps: u64,
    ) -> (Option<u64>, u64) {
        let (mut worst_ps, mut release_ps, mut own_jobs) = (0, 0u64, 0);
        let mut own = Demand::default();
        let mut steps = 0;
        loop {
            let Some(more) = own.plus(task, 1, false) else { return (None, own_jobs) };
            own = more;
            own_jobs += 1;
            let window_ps = loop {
                steps += 1;
                let end = self.demand.and(own).and_then(|all| {
                    all.work_ps.checked_add(window.once_ps)?.checked_add((window.stall)(all))
                });
                let end = end.filter(|&end_ps| {
                    end_ps < u64::MAX
                        && steps <= MAX_STEPS
                        && end_ps.saturating_sub(release_ps) <= limit_ps
                });
                let Some(end_ps) = end else { return (None, own_jobs) };
                match self.cover(end_ps) {
                    Some(true) => {}
                    Some(false) => break end_ps,
                    None => {
                        self.ended = true;
                        return (None, own_jobs);
                    }
                }
            };
            worst_ps = worst_ps.max(window_ps.saturating_sub(release_ps));
            let Some(next_ps) = release_ps.checked_add(task.period_ps) else {
                return (None, own_jobs);
            };
            release_ps = next_ps;
            if window_ps <= release_ps {
                return (Some(worst_ps), own_jobs);
            }
        }
    }
}
