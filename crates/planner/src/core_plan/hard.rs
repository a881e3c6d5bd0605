//! The analysed tasks of one core as the response-time analysis sees them.
//!
//! Problem: the cost of a task for those below it grows with the lines that they use, so that each
//! level sees other numbers of the tasks above. One list for each level would be quadratic. Rule: a
//! task is kept once, with the reloads of others after it; [`BusyWindow`] raises that from level to
//! level, and keeps the jobs that a level counted for the levels below. Does not cover: tasks in
//! the windows of a partition (`crate::windows`).

use super::bounds::{CoreBounds, Level, preemption_ps};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::response::{Demand as Asked, RtaTask, Window, response_time};
use solocore_analysis::{BusyWindow, Derivation, response};
use std::collections::HashMap;

/// Changes a number of a task, given by the task's number in the system; `None`: the changed number
/// does not fit.
pub type Change<'a> = &'a dyn Fn(usize, &RtaTask) -> Option<RtaTask>;

/// One task.
#[derive(Debug)]
struct Hard {
    index: usize,
    asked: Asked,
    /// Most accesses that a job of another task makes it repeat.
    reload: u64,
    period_ps: u64,
    deadline_ps: Option<u64>,
}

/// All analysed tasks of a core, highest priority first.
#[derive(Debug)]
pub struct HardTasks {
    core: u32,
    tasks: Vec<Hard>,
    best_effort: bool,
}

impl HardTasks {
    /// The analysed tasks among `order` on this core. `order` has the highest priority first, and
    /// this number of pages of each is locked.
    pub fn of(
        core: u32,
        order: &[usize],
        locked: &HashMap<usize, usize>,
        work: &[Work],
        resources: &Resources,
    ) -> Self {
        let hard = |index: &&usize| work[**index].hard();
        let tasks: Vec<Hard> = order
            .iter()
            .filter(hard)
            .map(|&index| {
                let w = &work[index];
                Hard {
                    index,
                    asked: w.asked_on(core, locked.get(&index).copied().unwrap_or(0), resources),
                    reload: w.reload(resources),
                    period_ps: w.task.period.map_or(u64::MAX, |p| p.ps()),
                    deadline_ps: w.task.deadline.map(|d| d.ps()),
                }
            })
            .collect();
        let best_effort = resources.other_programs || order.len() > tasks.len();
        Self { core, tasks, best_effort }
    }

    /// Number of the tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The number in the system of the task at a place.
    pub fn index(&self, at: usize) -> usize {
        self.tasks[at].index
    }

    /// Demand of a job of the task at a place, alone.
    pub fn asked(&self, at: usize) -> Asked {
        self.tasks[at].asked
    }

    /// Deadline of the task at a place, ps; [`u64::MAX`] without one.
    pub fn deadline_ps(&self, at: usize) -> u64 {
        self.tasks[at].deadline_ps.unwrap_or(u64::MAX)
    }

    /// Has each task a deadline within a hundred of its periods? Response times are computed up to
    /// that limit.
    pub fn within_reach(w: &Work) -> bool {
        let (period, deadline) = (w.task.period, w.task.deadline);
        deadline.is_some_and(|d| period.is_none_or(|p| d.ps() <= p.ps().saturating_mul(100)))
    }

    fn company(&self, at: usize) -> bool {
        self.best_effort || at + 1 < self.tasks.len()
    }

    /// A task whose jobs make others repeat `reload` accesses: half of them reads, half
    /// write-backs.
    fn task(&self, at: usize, reload: u64, resources: &Resources) -> RtaTask {
        let hard = &self.tasks[at];
        RtaTask {
            wcet_ps: hard.asked.work_ps,
            misses: hard.asked.misses.saturating_add(reload),
            reads: hard.asked.reads.saturating_add(reload),
            writes: hard.asked.writes.saturating_add(reload),
            period_ps: hard.period_ps,
            deadline_ps: self.deadline_ps(at),
            preemption_ps: preemption_ps(self.core, reload, resources),
        }
    }

    /// Input of the response-time analysis for the task at a place.
    pub fn level(&self, at: usize, resources: &Resources) -> Level {
        let mut reload = 0;
        let mut tasks: Vec<(usize, RtaTask)> = Vec::with_capacity(at + 1);
        for above in (0..=at).rev() {
            tasks.push((self.tasks[above].index, self.task(above, reload, resources)));
            reload = reload.max(self.tasks[above].reload);
        }
        tasks.reverse();
        Level { index: self.tasks[at].index, tasks, company: self.company(at) }
    }

    /// Response time of the task at a place, ps; `None` above the limit. `busy` comes from the
    /// tasks above, and is updated for the task below.
    pub fn response(
        &self,
        at: usize,
        busy: &mut BusyWindow,
        bounds: &CoreBounds,
        change: Change<'_>,
        limit_ps: u64,
    ) -> Option<u64> {
        let stall = |asked: Asked| bounds.stall(asked);
        let company = self.company(at);
        let window = Window { once_ps: bounds.once(company), stall: &stall };
        // For the last task, less may be charged once: the jobs that the levels above counted are
        // then not sure to be in the window.
        if !company && window.once_ps < bounds.once(true) {
            let level = self.level(at, bounds.resources);
            let tasks: Option<Vec<RtaTask>> =
                level.tasks.iter().map(|(index, task)| change(*index, task)).collect();
            return response_time(&tasks?, at, &window, limit_ps);
        }
        let task = |at: usize, reload: u64| {
            change(self.tasks[at].index, &self.task(at, reload, bounds.resources))
        };
        busy.next(self.tasks[at].reload, &task, &window, limit_ps)
    }

    /// Response times in order, ps, computed up to a hundred of the longest period above, and only
    /// up to the deadlines where only verdicts are needed.
    pub fn responses(&self, bounds: &CoreBounds) -> Vec<Option<u64>> {
        let (mut busy, mut longest_ps) = (self.busy(), 0);
        (0..self.tasks.len())
            .map(|at| {
                longest_ps = self.tasks[at].period_ps.max(longest_ps);
                let most =
                    if bounds.resources.verdict_only { self.deadline_ps(at) } else { u64::MAX };
                let limit_ps = longest_ps.saturating_mul(100).min(most);
                self.response(at, &mut busy, bounds, &|_, t| Some(*t), limit_ps)
            })
            .collect()
    }

    /// The number of the first task that may miss its deadline, by the rules of
    /// [`HardTasks::responses`].
    pub fn late(&self, bounds: &CoreBounds) -> Option<usize> {
        let (mut busy, mut longest_ps) = (self.busy(), 0);
        let late = (0..self.tasks.len()).find(|&at| {
            longest_ps = self.tasks[at].period_ps.max(longest_ps);
            self.tasks[at].deadline_ps.is_none_or(|deadline_ps| {
                let limit_ps = longest_ps.saturating_mul(100).min(deadline_ps);
                self.response(at, &mut busy, bounds, &|_, t| Some(*t), limit_ps).is_none()
            })
        });
        late.map(|at| self.tasks[at].index)
    }

    /// The busy window of the first level.
    pub fn busy(&self) -> BusyWindow {
        BusyWindow::of(self.tasks.len())
    }

    /// Derivation of the response time of the task at a place.
    pub fn explain(&self, at: usize, bounds: &CoreBounds, found: Option<u64>) -> Derivation {
        let stall = |asked: Asked| bounds.stall(asked);
        let window = Window { once_ps: bounds.once(self.company(at)), stall: &stall };
        let level = self.level(at, bounds.resources);
        let tasks: Vec<RtaTask> = level.tasks.iter().map(|(_, t)| *t).collect();
        response::explain(&tasks, at, &window, found)
    }
}
