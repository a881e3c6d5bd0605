//! The end of a task's first job, while tasks above it are added and taken back.
//!
//! # Problem
//! A placement asks for each task whether another one would still meet its deadline with it.
//! [`crate::response_time`] begins each answer with the jobs of all tasks, which is a square.
//!
//! # Rule
//! The first job ends at the least solution of the recurrence of [`crate::response`]. A further
//! task only adds to the demand, and the stall is monotone. So no job that was counted leaves the
//! window, and the recurrence goes on from there. The tasks wait in order of the instant up to
//! which their jobs are counted, as in [`crate::busy_window`]. A log keeps each count, so that it
//! can be taken back.
//!
//! # Why the answers are those of [`crate::response_time`]
//! With a limit of at most the period, the response time is the end of the first job, or there is
//! none. Both recurrences go up to the same least solution. This one begins further up, and so
//! makes no more steps.
//!
//! # Not covered
//! Limits beyond the period, and preemptions whose cost depends on the tasks below.

use crate::response::{Demand, MAX_STEPS, RtaTask, Window};
use std::collections::BTreeSet;

/// A task by a number that the caller gives it.
pub type TaskOf<'a> = &'a dyn Fn(usize) -> RtaTask;

/// The window of a task's first job.
#[derive(Clone, Debug)]
pub struct FirstJob {
    /// The instant up to which all jobs of each task above are counted, ps, with its number.
    covered: BTreeSet<(u64, usize)>,
    demand: Demand,
    /// Latest end, ps.
    limit_ps: u64,
    /// Changes of `covered` since [`FirstJob::keep`].
    log: Vec<Change>,
    /// The demand then.
    kept: Demand,
}

/// The jobs of a task are counted up to a later instant.
#[derive(Clone, Copy, Debug)]
struct Change {
    number: usize,
    /// Zero: the task was not there.
    from_ps: u64,
    to_ps: u64,
}

impl FirstJob {
    /// The first job of a task without tasks above. `None` where the limit, in picoseconds, lies
    /// beyond the period.
    #[must_use]
    pub fn of(task: &RtaTask, limit_ps: u64) -> Option<Self> {
        let demand = Demand::of(task);
        (limit_ps <= task.period_ps).then(|| Self {
            covered: BTreeSet::new(),
            demand,
            limit_ps,
            log: Vec::new(),
            kept: demand,
        })
    }

    /// Adds tasks above by their numbers, none of which is there yet. False: the job may then end
    /// after the limit, or a number does not fit in 64 bits; nothing has changed. `window` must
    /// charge no less than before.
    pub fn add(&mut self, numbers: &[usize], task_of: TaskOf<'_>, window: &Window<'_>) -> bool {
        let before = (self.log.len(), self.demand);
        let added = numbers.iter().all(|&number| {
            let task = task_of(number);
            task.period_ps > 0 && self.count(&task, 1, (number, 0, task.period_ps)).is_some()
        });
        let ends = added && self.settle(task_of, window).is_some();
        if !ends {
            self.back_to(before);
        }
        ends
    }

    /// Would the job end by its limit with this task above, too? See [`FirstJob::add`].
    pub fn ends_with(&mut self, number: usize, task_of: TaskOf<'_>, window: &Window<'_>) -> bool {
        let before = (self.log.len(), self.demand);
        let ends = self.add(&[number], task_of, window);
        self.back_to(before);
        ends
    }

    /// [`FirstJob::back`] takes none of the jobs back that were added so far.
    pub fn keep(&mut self) {
        self.log = Vec::new();
        self.kept = self.demand;
    }

    /// Takes back all tasks since [`FirstJob::keep`].
    pub fn back(&mut self) {
        self.back_to((0, self.kept));
    }

    fn back_to(&mut self, (length, demand): (usize, Demand)) {
        for Change { number, from_ps, to_ps } in self.log.drain(length..).rev() {
            self.covered.remove(&(to_ps, number));
            if from_ps > 0 {
                self.covered.insert((from_ps, number));
            }
        }
        self.demand = demand;
    }

    /// Counts further jobs of a task: its number, and the instants up to which all are counted
    /// before and after.
    fn count(&mut self, task: &RtaTask, jobs: u64, change: (usize, u64, u64)) -> Option<()> {
        let (number, from_ps, to_ps) = change;
        self.demand = self.demand.plus(task, jobs, true)?;
        self.covered.remove(&(from_ps, number));
        self.covered.insert((to_ps, number));
        self.log.push(Change { number, from_ps, to_ps });
        Some(())
    }

    /// Goes up to the least solution; `None` if it lies beyond the limit.
    fn settle(&mut self, task_of: TaskOf<'_>, window: &Window<'_>) -> Option<()> {
        for _ in 0..MAX_STEPS {
            let work_ps = self.demand.work_ps.checked_add(window.once_ps)?;
            let end_ps = work_ps.checked_add((window.stall)(self.demand))?;
            if end_ps == u64::MAX || end_ps > self.limit_ps {
                return None;
            }
            if !self.cover(end_ps, task_of)? {
                return Some(());
            }
        }
        None
    }

    /// Counts every job released before `end_ps`; true if a new one was counted.
    fn cover(&mut self, end_ps: u64, task_of: TaskOf<'_>) -> Option<bool> {
        let mut grew = false;
        while let Some(&(from_ps, number)) = self.covered.first()
            && from_ps < end_ps
        {
            let task = task_of(number);
            let jobs = (end_ps - from_ps).div_ceil(task.period_ps);
            let to_ps = from_ps.checked_add(jobs.checked_mul(task.period_ps)?)?;
            self.count(&task, jobs, (number, from_ps, to_ps))?;
            grew = true;
        }
        Some(grew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::response_time;
    use proptest::prelude::*;

    fn tasks() -> impl Strategy<Value = Vec<RtaTask>> {
        let task =
            (0u64..40, 0u64..9, 1u64..300).prop_map(|(wcet_ps, misses, period_ps)| RtaTask {
                preemption_ps: misses % 3,
                ..RtaTask::new(wcet_ps, misses, period_ps, period_ps)
            });
        prop::collection::vec(task, 1..12)
    }

    proptest! {
        /// Each answer is that of a response time from the beginning, also after tasks were taken
        /// back, and with a charge that grows on the way.
        #[test]
        fn the_answers_are_those_of_response_times(
            tasks in tasks(), own in 1u64..30, limit_ps in 1u64..400, each in 0u64..4,
            steps in prop::collection::vec((0u8..4, 0u64..3), 1..40),
        ) {
            let stall = |asked: Demand| asked.misses * each + asked.work_ps / 7 * 2;
            let late = RtaTask::new(own, 2, 400, limit_ps);
            let mut first = FirstJob::of(&late, limit_ps).unwrap();
            let (mut above, mut kept, mut once_ps) = (Vec::<usize>::new(), Vec::new(), 0);
            let ends = |above: &[usize], window: &Window<'_>| {
                let all: Vec<RtaTask> =
                    above.iter().map(|&n| tasks[n % tasks.len()]).chain([late]).collect();
                response_time(&all, all.len() - 1, window, limit_ps).is_some()
            };
            let task_of = |number: usize| tasks[number % tasks.len()];
            let mut kept_once = once_ps;
            for (number, (what, more)) in steps.into_iter().enumerate() {
                match what {
                    0 => { first.keep(); kept = above.clone(); kept_once = once_ps; }
                    1 => { first.back(); above = kept.clone(); once_ps = kept_once; }
                    _ => {
                        once_ps += more;
                        let window = Window { once_ps, stall: &stall };
                        let with = [&above[..], &[number]].concat();
                        let wanted = ends(&with, &window);
                        prop_assert_eq!(first.ends_with(number, &task_of, &window), wanted);
                        prop_assert_eq!(first.add(&[number], &task_of, &window), wanted);
                        if wanted { above = with; }
                    }
                }
            }
        }
    }

    /// A question costs what the jobs cost that the new task brings. A response time from the
    /// beginning would look at each of the tasks above, some hundreds, at least once.
    #[test]
    fn a_question_does_not_look_at_all_tasks() {
        const QUESTIONS: usize = 2000;
        let looks = std::cell::Cell::new(0);
        let task_of = |number: usize| {
            looks.set(looks.get() + 1);
            RtaTask::new(10, 0, 5000 + number as u64 * 13 % 5000, 5000)
        };
        let window = Window { once_ps: 0, stall: &|_| 0 };
        let mut first = FirstJob::of(&RtaTask::new(10, 0, 20_000, 20_000), 20_000).unwrap();
        let mut above = 0;
        for number in 0..QUESTIONS {
            if first.ends_with(number, &task_of, &window) {
                above += usize::from(first.add(&[number], &task_of, &window));
            }
        }
        assert!((300..QUESTIONS / 2).contains(&above), "{above}");
        assert!(looks.get() < QUESTIONS * 100, "{} looks", looks.get());
    }

    /// A limit beyond the period has answers that the first job does not give.
    #[test]
    fn limits_beyond_the_period_are_refused() {
        let task = RtaTask::new(1, 0, 10, 20);
        assert!(FirstJob::of(&task, 10).is_some() && FirstJob::of(&task, 11).is_none());
    }
}
