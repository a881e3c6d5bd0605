//! Does an analysed task keep to its limits, beside other cores with given budgets?
//!
//! Rule: its job beside the other cores takes at most the limit's part of its time alone, and its
//! response time at most the limit's part of its deadline. A window that is too long counts as
//! late, but only where the deadline may be exceeded.

use crate::core_plan::CoreBounds;
use solocore_analysis::response::{Demand as Asked, RtaTask, Window, response_time};
use std::cell::Cell;

/// Most steps of a response time that may be late. How late only ranks candidates, and on a core
/// that is almost full a busy window has thousands of jobs.
const LATE_STEPS: u32 = 200;

/// The whole, in the unit of [`Limits`].
pub const WHOLE: u64 = 1_000_000;

/// Limits of the bounds, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit of response times, relative to their deadlines.
    pub deadline: u64,
    /// Limit of executions beside the other cores, relative to the time alone.
    pub slowdown: u64,
}

/// An analysed task with its pages locked.
#[derive(Debug)]
pub struct Analysed {
    /// The task, last, and the tasks that can preempt it.
    pub tasks: Vec<RtaTask>,
    /// Do tasks of lower priority share the core?
    pub company: bool,
    /// Demand of a job, without the cost of preemptions.
    pub asked: Asked,
    /// Time alone with the whole cache, ps.
    pub alone_ps: u64,
}

/// The same with its tasks among those of others.
#[derive(Clone, Copy, Debug)]
pub struct Borrowed<'t> {
    /// As in [`Analysed::tasks`].
    pub tasks: &'t [RtaTask],
    /// Demand of a job, without the cost of preemptions.
    pub asked: Asked,
    /// Time alone with the whole cache, ps.
    pub alone_ps: u64,
}

impl Analysed {
    /// Does it keep to the limits?
    pub fn keeps(&self, bounds: &CoreBounds, limits: Limits) -> bool {
        let once = [bounds.once(false), bounds.once(self.company)];
        let own = Borrowed { tasks: &self.tasks, asked: self.asked, alone_ps: self.alone_ps };
        own.within(&|asked| bounds.stall(asked), once, limits)
    }
}

impl Borrowed<'_> {
    /// Does it keep to the limits with this stall, and the stall that is charged once: by a job
    /// alone, and in a busy window.
    pub fn within(
        &self,
        stall: &dyn Fn(Asked) -> u64,
        [alone, window]: [u64; 2],
        limits: Limits,
    ) -> bool {
        let scaled = |value: u64, limit: u64| {
            let part = u128::from(value) * u128::from(limit) / u128::from(WHOLE);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        if limits.slowdown != u64::MAX {
            let stall = stall(self.asked).saturating_add(alone);
            if self.asked.work_ps.saturating_add(stall) > scaled(self.alone_ps, limits.slowdown) {
                return false;
            }
        }
        let Some(own) = self.tasks.last() else { return true };
        let steps = Cell::new(0);
        let stall = |asked: Asked| {
            steps.set(steps.get() + 1);
            if limits.deadline > WHOLE && steps.get() > LATE_STEPS {
                return u64::MAX;
            }
            stall(asked)
        };
        let window = Window { once_ps: window, stall: &stall };
        response_time(
            self.tasks,
            self.tasks.len() - 1,
            &window,
            scaled(own.deadline_ps, limits.deadline),
        )
        .is_some()
    }
}
