//! A task that may miss its deadline on a core with one task more.
//!
//! Problem: near the load that fits, a placement asks this for each further task; a response time
//! from the beginning looks at all tasks of the core. Rule: the window of the task's first job is
//! kept, and goes on with each task that is put above it ([`FirstJob`]). Tasks that are taken back
//! from the core are taken back there. Tasks with deadlines beyond their periods are answered by a
//! response time. Does not cover: demands that depend on the other tasks of the core, such as those
//! with locked pages or reloads after preemptions.

use crate::core_plan::CoreBounds;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::FirstJob;
use solocore_analysis::response::{Demand, RtaTask, Window, response_time};

/// A core with its tasks so far.
pub struct Place<'a> {
    /// Number of the core.
    pub core: u32,
    /// Its analysed tasks, by their numbers in the system.
    pub on: &'a [usize],
    /// All tasks.
    pub work: &'a [Work<'a>],
    /// The shares of the machine.
    pub resources: &'a Resources,
    /// The lowest priority of its tasks; 0 without tasks.
    pub lowest: u32,
}

impl Place<'_> {
    fn rank(&self, task: usize) -> u32 {
        self.work[task].priority
    }

    fn task(&self, task: usize) -> RtaTask {
        let (w, asked) = (&self.work[task], self.work[task].asked_on(self.core, 0, self.resources));
        RtaTask {
            reads: asked.reads,
            writes: asked.writes,
            ..RtaTask::new(
                asked.work_ps,
                asked.misses,
                w.task.period.map_or(u64::MAX, |p| p.ps()),
                w.task.deadline.map_or(u64::MAX, |d| d.ps()),
            )
        }
    }

    /// The tasks above one. Their order does not matter.
    fn above(&self, late: usize) -> Vec<usize> {
        self.on.iter().copied().filter(|&t| self.rank(t) < self.rank(late)).collect()
    }

    /// Asks with the charges of the window of a task.
    fn in_window<T>(&self, late: usize, ask: impl FnOnce(&Window<'_>) -> T) -> T {
        let bounds = CoreBounds { core: self.core, resources: self.resources };
        let stall = |asked: Demand| bounds.stall(asked);
        let once_ps = bounds.once(self.lowest > self.rank(late));
        ask(&Window { once_ps, stall: &stall })
    }
}

/// A task that may miss its deadline.
#[derive(Debug)]
pub struct Late {
    /// Its number in the system.
    pub task: usize,
    /// Is it on the core? A task that was taken back, or put elsewhere, delays no other's place.
    pub here: bool,
    first: First,
    /// Is `first` what it was at [`Late::keep`], but for tasks that were added since?
    kept: bool,
}

/// Its first job beside the tasks of the core.
#[derive(Debug)]
enum First {
    /// Not computed yet.
    Unknown,
    /// It ends in time.
    Ends(FirstJob),
    /// It may end too late.
    Misses,
}

impl Late {
    /// A task of the core.
    pub const fn new(task: usize) -> Self {
        Self { task, here: true, first: First::Unknown, kept: false }
    }

    /// Is it on the core, and would it miss its deadline beside this task, which preempts it?
    pub fn misses_beside(&mut self, task: usize, place: &Place<'_>) -> bool {
        if !self.here || place.rank(task) > place.rank(self.task) {
            return false;
        }
        let own = place.task(self.task);
        if own.deadline_ps > own.period_ps {
            return self.misses_from_the_beginning(task, place);
        }
        if matches!(self.first, First::Unknown) {
            self.compute(&own, place);
        }
        match &mut self.first {
            First::Ends(first) => place
                .in_window(self.task, |window| !first.ends_with(task, &|t| place.task(t), window)),
            First::Unknown | First::Misses => true,
        }
    }

    fn misses_from_the_beginning(&self, task: usize, place: &Place<'_>) -> bool {
        let above = place.above(self.task).into_iter().chain([task, self.task]);
        let tasks: Vec<RtaTask> = above.map(|t| place.task(t)).collect();
        let at = tasks.len() - 1;
        place.in_window(self.task, |window| {
            response_time(&tasks, at, window, tasks[at].deadline_ps).is_none()
        })
    }

    fn compute(&mut self, own: &RtaTask, place: &Place<'_>) {
        let ends = FirstJob::of(own, own.deadline_ps).and_then(|mut first| {
            let above = place.above(self.task);
            let ends =
                place.in_window(self.task, |window| first.add(&above, &|t| place.task(t), window));
            ends.then_some(first)
        });
        (self.first, self.kept) = (ends.map_or(First::Misses, First::Ends), false);
    }

    /// Notes that a task was put on the core; `place` is the core without it.
    pub fn admit(&mut self, task: usize, place: &Place<'_>) {
        if place.rank(task) >= place.rank(self.task) {
            return;
        }
        let ends = match &mut self.first {
            First::Ends(first) => {
                place.in_window(self.task, |window| first.add(&[task], &|t| place.task(t), window))
            }
            First::Unknown | First::Misses => return,
        };
        if !ends {
            (self.first, self.kept) = (First::Misses, false);
        }
    }

    /// The tasks that are on the core stay there.
    pub fn keep(&mut self) {
        if let First::Ends(first) = &mut self.first {
            first.keep();
        }
        self.kept = true;
    }

    /// The tasks that were put on the core since [`Late::keep`] are taken back.
    pub fn back(&mut self) {
        if !self.kept {
            self.first = First::Unknown;
        } else if let First::Ends(first) = &mut self.first {
            first.back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Demand as Given;
    use solocore_model::System;
    use std::path::Path;

    /// Each answer is that of a response time from the beginning, while tasks are put on the core
    /// and taken back. The papers' model charges more once a task of lower priority is there.
    #[test]
    fn the_answers_are_those_from_the_beginning() {
        const LATE: usize = 45;
        let mut text = String::from("platform = \"p4080\"\n[regulation]\nmodel = \"sce\"\n");
        for i in 0..60 {
            text += &format!(
                "[[task]]\nname = \"t{i}\"\nperiod = \"{} ms\"\nwcet = \"{} us\"\nmisses = {}\n",
                2 + i * 37 % 90,
                400 + i * 130 % 500,
                i * 7 % 40
            );
        }
        let system = System::parse(Path::new("system.toml"), &text).expect("a system");
        let demands: Vec<Given> =
            system.tasks.iter().filter_map(|t| Given::stated(&t.demand)).collect();
        let resources = Resources::of(&system).expect("even shares");
        let work: Vec<Work> = (1..)
            .zip(system.tasks.iter().zip(&demands))
            .map(|(priority, (task, demand))| Work { task, demand, priority })
            .collect();
        let (mut on, mut kept, mut seen) = (Vec::<usize>::new(), Vec::new(), [0, 0]);
        let mut late = Late::new(LATE);
        for step in 0..600 {
            let task = step * 31 % work.len();
            match step % 11 {
                4 => {
                    late.keep();
                    kept.clone_from(&on);
                }
                9 => {
                    late.back();
                    on.clone_from(&kept);
                }
                _ if on.contains(&task) => {}
                _ => {
                    let lowest = on.iter().map(|&t| work[t].priority).max().unwrap_or(0);
                    let place =
                        Place { core: 0, on: &on, work: &work, resources: &resources, lowest };
                    let misses = late.misses_beside(task, &place);
                    let above = work[task].priority <= work[LATE].priority;
                    let wanted = above && late.misses_from_the_beginning(task, &place);
                    assert_eq!(misses, wanted, "step {step}");
                    seen[usize::from(misses)] += 1;
                    if !misses {
                        late.admit(task, &place);
                        on.push(task);
                    }
                }
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}
