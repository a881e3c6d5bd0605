//! The core of each task.
//!
//! Problem: worst fit asks for each task whether a core stays schedulable with it. Each answer
//! needs the response times of all of the core's tasks: the cost is quadratic in the number of
//! tasks. Rule: tasks as stated, else worst fit by decreasing utilisation on the cores that stay
//! schedulable; best effort goes to the cores with the fewest analysed tasks. The response times
//! are computed seldom. A core that is schedulable with all its tasks is schedulable with fewer,
//! because no task's part of a bound shortens another's (`solocore_analysis::response`, test
//! `monotone`). Locked pages only go to others. So a number of tasks is put on the least loaded
//! cores at once, then the cores are tested. Where a core has too many, half the number is tried,
//! and the task that missed its deadline is remembered. A core on which it would miss it again is
//! passed over; the window of that task's first job is kept for this question ([`Late`]). The
//! outcome is that of a test for each task. Does not cover: tasks with deadlines beyond a hundred
//! periods, and pages that can be locked where cores are nearly full: these tasks are tested one by
//! one.

use super::late::{Late, Place};
use crate::core_plan::{CoreBounds, CorePlan, HardTasks, lockable};
use crate::resources::Resources;
use crate::work::Work;
use std::cmp::Ordering;

/// Most tasks for which a core's utilisation is summed again each time, in the order of priorities.
/// The sum of floating point numbers depends on their order, and the sum decides between cores.
/// With more tasks, it is summed in the order of placement.
const SUMMED: usize = 512;
/// Most tasks of a core that are remembered because they may miss their deadlines.
const REMEMBERED: usize = 4;

/// Core of every task. `share` is told the part of the tasks that is placed, 0 to 1.
pub fn place(work: &[Work], resources: &Resources, share: &dyn Fn(f64)) -> Vec<u32> {
    let together = work.iter().filter(|w| w.hard()).all(HardTasks::within_reach);
    let mut cores = Cores::new(work, resources, together);
    let mut open: Vec<(usize, f64)> = (0..work.len())
        .filter(|&t| work[t].task.core.is_none() && work[t].hard())
        .map(|t| (t, cores.load_of(0, &[t])))
        .collect();
    open.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let open: Vec<usize> = open.into_iter().map(|(task, _)| task).collect();
    let (mut at, mut stride) = (0, if together { open.len() } else { 1 });
    while at < open.len() {
        stride = stride.min(open.len() - at);
        let put = cores.put_all(&open[at..at + stride]);
        if put > 0 {
            at += put;
            stride *= if together { 2 } else { 1 };
        } else if stride > 1 {
            stride /= 2;
        } else {
            cores.put_where_it_fits(open[at]);
            at += 1;
        }
        share(at as f64 / open.len() as f64);
    }
    cores.with_best_effort()
}

/// Analysed tasks on their cores so far.
struct Cores<'a> {
    work: &'a [Work<'a>],
    resources: &'a Resources,
    placed: Vec<Option<u32>>,
    on: Vec<Vec<usize>>,
    loads: Vec<f64>,
    /// Is some deadline missed? Then it is missed with more tasks, too.
    full: Vec<bool>,
    together: bool,
    /// By core, the lowest priority of its tasks; 0 without tasks.
    lowest: Vec<u32>,
    /// Tasks that may miss their deadlines on a core with one task more.
    late: Vec<Vec<Late>>,
    /// Could pages be locked? Then a task's demand depends on the others of its core.
    lockable: bool,
    /// Neither pages can be locked, nor are lines read again after a preemption.
    plain: bool,
}

impl<'a> Cores<'a> {
    /// With the tasks of stated cores. `together`: a core that is schedulable stays so with fewer
    /// tasks.
    fn new(work: &'a [Work<'a>], resources: &'a Resources, together: bool) -> Self {
        let cores = resources.cores as usize;
        let all: Vec<usize> = (0..work.len()).collect();
        let lockable =
            (0..resources.cores).any(|c| lockable(&all, work, resources.lock_capacity_of(c)));
        let mut out = Self {
            work,
            resources,
            placed: work.iter().map(|w| w.task.core).collect(),
            on: vec![Vec::new(); cores],
            loads: Vec::new(),
            full: vec![false; cores],
            lowest: vec![0; cores],
            late: std::iter::repeat_with(Vec::new).take(cores).collect(),
            lockable,
            plain: !lockable && work.iter().all(|w| w.demand.lines() == 0),
            together,
        };
        for (task, w) in work.iter().enumerate().filter(|(_, w)| w.hard()) {
            let own = w.task.core.map_or(cores, |core| core as usize);
            if let Some(on) = out.on.get_mut(own) {
                on.push(task);
                out.lowest[own] = out.lowest[own].max(w.priority);
            }
        }
        out.loads = (0..resources.cores)
            .map(|c| CorePlan::best(c, out.on[c as usize].clone(), work, resources).utilization)
            .collect();
        if together && !out.lockable {
            out.full = (0..resources.cores).map(|core| !out.fits(core)).collect();
        }
        out
    }

    /// Utilisation of a core with these tasks and the pages that save most.
    fn load_of(&self, core: u32, tasks: &[usize]) -> f64 {
        CorePlan::load(core, tasks, self.work, self.resources)
    }

    /// Utilisation of a core with its tasks and a new last one.
    fn load_with(&self, core: u32, task: usize) -> f64 {
        let own = core as usize;
        if self.work.len() <= SUMMED || self.lockable {
            return self.load_of(core, &self.on[own]);
        }
        let (w, bounds) = (&self.work[task], CoreBounds { core, resources: self.resources });
        self.loads[own] + bounds.utilization(w, w.asked_on(core, 0, self.resources))
    }

    fn by_load(&self, a: u32, b: u32) -> Ordering {
        self.loads[a as usize].total_cmp(&self.loads[b as usize]).then(a.cmp(&b))
    }

    /// The least loaded core that may still have room for the task. If no core has, so that
    /// deadlines are missed anyway, the least loaded of all.
    fn next(&mut self, task: usize) -> Option<u32> {
        let all = 0..self.resources.cores;
        let first = all.clone().min_by(|&a, &b| self.by_load(a, b))?;
        if self.full.iter().all(|&full| full) || !self.refuses(first, task) {
            return Some(first);
        }
        let mut others: Vec<u32> = all.filter(|&core| core != first).collect();
        others.sort_by(|&a, &b| self.by_load(a, b));
        others.into_iter().find(|&core| !self.refuses(core, task))
    }

    /// Is a deadline surely missed with this task added?
    fn refuses(&mut self, core: u32, task: usize) -> bool {
        let own = core as usize;
        let (work, resources) = (self.work, self.resources);
        let place = Place { core, on: &self.on[own], work, resources, lowest: self.lowest[own] };
        self.full[own] || self.late[own].iter_mut().any(|late| late.misses_beside(task, &place))
    }

    /// Puts a task on a core behind all others.
    fn push(&mut self, core: u32, task: usize) {
        let own = core as usize;
        if self.full[own] {
            // It refuses every task.
            self.late[own].clear();
        }
        let (work, resources) = (self.work, self.resources);
        let place = Place { core, on: &self.on[own], work, resources, lowest: self.lowest[own] };
        for late in &mut self.late[own] {
            late.admit(task, &place);
            late.here |= late.task == task;
        }
        self.lowest[own] = self.lowest[own].max(work[task].priority);
        self.on[own].push(task);
    }

    /// Takes the last task of a core back.
    fn pop(&mut self, core: u32) {
        let own = core as usize;
        if let Some(task) = self.on[own].pop() {
            self.late[own].iter_mut().for_each(|late| late.here &= late.task != task);
        }
    }

    /// Puts each task on the core that is then the least loaded, up to the first that fits nowhere.
    /// If a core that met its deadlines does not meet them with these tasks, none is put. Returns
    /// the number of tasks put.
    fn put_all(&mut self, tasks: &[usize]) -> usize {
        self.late.iter_mut().flatten().for_each(Late::keep);
        let mut before: Vec<(u32, f64, u32)> = Vec::with_capacity(tasks.len());
        let mut touched = vec![false; self.on.len()];
        for &task in tasks {
            let Some(core) = self.next(task) else { break };
            let own = core as usize;
            before.push((core, self.loads[own], self.lowest[own]));
            touched[own] = !self.full[own];
            self.push(core, task);
            self.loads[own] = self.load_with(core, task);
        }
        let fits = (0..self.resources.cores).all(|c| !touched[c as usize] || self.fits(c));
        if !fits {
            for &(core, load, lowest) in before.iter().rev() {
                self.pop(core);
                (self.loads[core as usize], self.lowest[core as usize]) = (load, lowest);
            }
            self.late.iter_mut().flatten().for_each(Late::back);
            return 0;
        }
        for (&(core, ..), &task) in before.iter().zip(tasks) {
            self.placed[task] = Some(core);
        }
        before.len()
    }

    /// Does the core meet its deadlines? A task that does not is remembered.
    fn fits(&mut self, core: u32) -> bool {
        let own = core as usize;
        let late = CorePlan::late(core, &self.on[own], self.work, self.resources);
        // With reloads, and with other pages locked, fewer tasks above may cost more or less.
        if let Some(late) = late.filter(|_| self.together && self.plain)
            && self.late[own].iter().all(|known| known.task != late)
        {
            self.late[own].truncate(REMEMBERED - 1);
            self.late[own].insert(0, Late::new(late));
        }
        late.is_none()
    }

    /// Puts a task on the first core, least loaded first, that meets its deadlines with it, or on
    /// the least loaded.
    fn put_where_it_fits(&mut self, task: usize) {
        let mut order: Vec<u32> = (0..self.resources.cores).collect();
        order.sort_by(|&a, &b| self.by_load(a, b));
        let mut first = None;
        for core in order {
            let (load, fits) = self.with_one_more(core, task);
            first.get_or_insert((core, load));
            if fits {
                return self.put(task, core, load);
            }
        }
        let (core, load) = first.unwrap_or_default();
        self.put(task, core, load);
        self.full[core as usize] = self.together && !self.lockable;
    }

    /// Utilisation of a core with one task more, and whether all deadlines are met.
    fn with_one_more(&mut self, core: u32, task: usize) -> (f64, bool) {
        let own = core as usize;
        let refused = !self.lockable && self.refuses(core, task);
        self.on[own].push(task);
        let found = if self.lockable {
            let plan = CorePlan::best(core, self.on[own].clone(), self.work, self.resources);
            (plan.utilization, plan.schedulable())
        } else {
            let fits = !refused && self.fits(core);
            (self.load_with(core, task), fits)
        };
        self.pop(core);
        found
    }

    fn put(&mut self, task: usize, core: u32, load: f64) {
        self.placed[task] = Some(core);
        self.push(core, task);
        self.loads[core as usize] = load;
    }

    /// Adds best effort to the cores with the fewest tasks.
    fn with_best_effort(mut self) -> Vec<u32> {
        let analysed: Vec<usize> = self.on.iter().map(Vec::len).collect();
        let mut all = vec![0; analysed.len()];
        for core in self.placed.iter().flatten() {
            if let Some(count) = all.get_mut(*core as usize) {
                *count += 1;
            }
        }
        for place in self.placed.iter_mut().filter(|place| place.is_none()) {
            let core = (0..self.resources.cores)
                .min_by_key(|&c| (all[c as usize], analysed[c as usize], c));
            if let Some(count) = core.and_then(|core| all.get_mut(core as usize)) {
                *count += 1;
            }
            *place = core;
        }
        self.placed.into_iter().map(|core| core.unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Demand;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use solocore_model::System;
    use std::fmt::Write as _;
    use std::path::Path;

    /// Worst fit as the papers have it: each task is tested on each core, the least loaded first.
    fn one_by_one(work: &[Work], resources: &Resources) -> Vec<u32> {
        let load = |core: u32, on: &[usize]| CorePlan::load(core, on, work, resources);
        let mut open: Vec<usize> = (0..work.len()).collect();
        open.sort_by(|&a, &b| load(0, &[b]).total_cmp(&load(0, &[a])).then(a.cmp(&b)));
        let mut on = vec![Vec::new(); resources.cores as usize];
        let mut placed = vec![0; work.len()];
        for task in open {
            let mut order: Vec<u32> = (0..resources.cores).collect();
            let of = |core: u32| load(core, &on[core as usize]);
            order.sort_by(|&a, &b| of(a).total_cmp(&of(b)).then(a.cmp(&b)));
            let fits = |core: &u32| {
                let with = [&on[*core as usize][..], &[task]].concat();
                CorePlan::late(*core, &with, work, resources).is_none()
            };
            let core = order.iter().copied().find(fits).unwrap_or(order[0]);
            on[core as usize].push(task);
            placed[task] = core;
        }
        placed
    }

    /// Many tasks put at once, and taken back, end where a test for each task puts them. A
    /// remembered task that is not on its core any more would refuse others there.
    #[test]
    fn the_outcome_is_that_of_a_test_for_each_task() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut apart = 0;
        for case in 0..60 {
            let mut text = String::from("platform = \"core-i5-2500k\"\n");
            let tasks = rng.random_range(12..40u32);
            let load = rng.random_range(1.5..4.5) / f64::from(tasks);
            for i in 0..tasks {
                let period = 2000.0 * 100f64.powf(rng.random_range(0.0..1.0));
                let (wcet, misses) = (period * load * rng.random_range(0.2..1.8), i % 3 * 50);
                writeln!(
                    text,
                    "[[task]]\nname = \"t{i}\"\nperiod = \"{period:.0} us\"\nwcet = \"{wcet:.1} \
                        us\"\nmisses = {misses}"
                )
                .unwrap();
            }
            let system = System::parse(Path::new("system.toml"), &text).unwrap();
            let demands: Vec<Demand> =
                system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
            let resources = Resources::of(&system).unwrap();
            let mut order: Vec<usize> = (0..demands.len()).collect();
            order.sort_by_key(|&t| (system.tasks[t].period, t));
            let priority = |t: usize| order.iter().position(|&o| o == t).unwrap() as u32 + 1;
            let work: Vec<Work> = (0..demands.len())
                .map(|t| Work {
                    task: &system.tasks[t],
                    demand: &demands[t],
                    priority: priority(t),
                })
                .collect();
            let wanted = one_by_one(&work, &resources);
            assert_eq!(place(&work, &resources, &|_| {}), wanted, "case {case}\n{text}");
            let count = |core: u32| wanted.iter().filter(|&&on| on == core).count();
            apart += usize::from(count(0) != count(1));
        }
        assert!(apart > 10, "{apart}");
    }
}
