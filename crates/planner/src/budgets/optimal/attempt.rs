//! The budgets of a candidate with its pages: the least with which all bounds are met, and the use
//! of the rest for the objective.
//!
//! Rule: a core that shares no channel with an analysed task has a budget that never limits it.
//! Others without analysed tasks have a budget of `t` for each program there, and `t` for each
//! best-effort program beside analysed ones; a core without any program has at most [`LEAST`]. For
//! the speed of best effort, programs on cores without analysed tasks that cannot use the largest
//! `t` get as much as they can use, and `t` grows again for the rest. From these floors on, a core
//! whose bounds are not met gets the least budget with which they are, to a part in [`FINE`],
//! beside the others' as they are; again until nothing changes. All steps are necessary, as larger
//! budgets of the others never lower a bound: so the result is the least solution, or there is
//! none. A part for writes grows with its budget; its bounds are not quite monotone, and there the
//! result is a solution, but maybe not the least. The objective is monotone in `t`, or in the limit
//! of the bounds, so bisection finds its best value. Where there is no solution, the least factor
//! for all deadlines with which there is one says how far it is.

use super::analysed::{Analysed, Limits, WHOLE};
use super::candidate::Candidate;
use super::outcome::{Outcome, Value};
use super::problem::{LEAST, Problem};
use super::speed::{self, Share};
use crate::budgets::known::Accesses;
use crate::core_plan::{CoreBounds, CorePlan, Level, TaskPlan};
use crate::resources::Resources;
use solocore_model::system::Objective;
use std::rc::Rc;

/// Budgets are found to this part of themselves.
const FINE: u64 = 500;
/// Largest slowdown that the objective `bounds` considers.
const WORST: u64 = 1000 * WHOLE;
/// Largest factor for deadlines that is tried, and the steps of the bisection. Busy
/// windows of late tasks grow long with it: a factor of 4 took a hundred times as long.
const LATEST: (u64, u32) = (2 * WHOLE, 3);
/// The factor tried for a verdict alone.
pub const LATE: u64 = 5 * WHOLE / 4;
/// Excess of a core with more work than time, for its utilization.
const OVERLOAD: f64 = 2.0;

/// Budgets for the objective.
#[derive(Debug)]
pub struct Budgets {
    /// Accesses in a period, by core.
    pub budgets: Vec<u64>,
    /// Limits that the bounds keep beside them.
    pub limits: Limits,
    /// Has each best-effort program its floor?
    pub floor: bool,
}

/// One way to lock pages for a candidate.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The question.
    pub problem: &'a Problem<'a>,
    /// The core of each task, and the ways of each core.
    pub candidate: &'a Candidate,
    pages: Vec<Rc<CorePlan>>,
    jobs: Vec<Vec<Analysed>>,
    resources: Resources,
    /// Part of each budget that is for writes, in thousandths; `None`: one budget for both kinds.
    pub part: Option<u64>,
    /// Accesses of the jobs, where others make none.
    known: Option<Accesses>,
    /// Budgets of the cores without tasks with which the rivals' jobs were set.
    idle: Vec<u64>,
    /// The last core for which no budget was found.
    failed: Option<u32>,
    /// Do programs on cores without analysed tasks get no more than they can use?
    spare: bool,
}

impl<'a> Attempt<'a> {
    pub fn new(
        problem: &'a Problem<'a>,
        candidate: &'a Candidate,
        pages: &[Rc<CorePlan>],
        resources: &Resources,
        part: Option<u64>,
    ) -> Self {
        let jobs = pages.iter().map(|p| jobs(problem, p, resources)).collect();
        let known = Accesses::of(pages.iter().map(Rc::as_ref), problem.work, resources);
        let resources = resources.clone();
        let (idle, failed) = (Vec::new(), None);
        Self {
            problem,
            candidate,
            pages: pages.to_vec(),
            jobs,
            resources,
            part,
            known,
            idle,
            failed,
            spare: false,
        }
    }

    /// The most for each program of a core without analysed tasks.
    fn usable(&self, core: u32) -> u64 {
        if self.spare { self.problem.usable(core, &self.candidate.on(core)) } else { u64::MAX }
    }

    /// Budgets of cores without deadlines, with `t` for each program.
    fn floors(&self, t: u64) -> Vec<u64> {
        let of = |core: u32| {
            let programs = self.candidate.best_effort(core, self.problem.work);
            let analysed = self.candidate.analysed(core, self.problem.work);
            let harms = |&other: &u32| self.candidate.analysed(other, self.problem.work);
            if !analysed && !self.resources.rivals(core).iter().any(harms) {
                return self.problem.bus;
            }
            let all = match (programs, analysed, self.resources.other_programs) {
                (0, false, true) => t,
                (0, false, false) => t.min(LEAST),
                (_, true, _) => t.saturating_mul(programs),
                _ => t.min(self.usable(core)).saturating_mul(programs),
            };
            all.clamp(1, self.problem.bus)
        };
        (0..self.resources.cores).map(of).collect()
    }

    /// The parts of budgets for writes.
    fn writes(&self, budgets: &[u64]) -> Vec<Option<u64>> {
        let of = |&budget: &u64| {
            let writes = u64::try_from(u128::from(budget) * u128::from(self.part?) / 1000).ok()?;
            (writes > 0 && writes < budget).then_some(writes)
        };
        budgets.iter().map(of).collect()
    }

    /// Sets the budgets beside which the bounds of a core are asked for.
    fn set(&mut self, core: u32, budgets: &[u64]) {
        let writes = self.writes(budgets);
        self.resources.try_budgets(core, budgets, &writes);
        let Some(known) = &self.known else { return };
        let of_idle = |(core, &budget): (u32, &u64)| if known.idle(core) { budget } else { 0 };
        let idle: Vec<u64> = (0..).zip(budgets).map(of_idle).collect();
        if self.idle != idle {
            let rivals = known.rivals(self.problem.work, &self.resources);
            self.resources.set_rivals(&rivals);
            self.idle = idle;
        }
    }

    /// Does a core keep to the limits beside these budgets?
    pub fn keeps(&mut self, core: usize, budgets: &[u64], limits: Limits) -> bool {
        if self.jobs[core].is_empty() {
            return true;
        }
        let at = u32::try_from(core).unwrap_or(u32::MAX);
        self.set(at, budgets);
        let bounds = CoreBounds { core: at, resources: &self.resources };
        self.jobs[core].iter().all(|job| job.keeps(&bounds, limits))
    }

    fn all_keep(&mut self, budgets: &[u64], limits: Limits) -> bool {
        (0..budgets.len()).all(|core| self.keeps(core, budgets, limits))
    }

    /// The least budgets from these on with which all cores keep to the limits.
    pub fn least(&mut self, from: Vec<u64>, limits: Limits) -> Option<Vec<u64>> {
        let mut budgets = from;
        loop {
            let mut grew = false;
            for core in 0..budgets.len() {
                if self.keeps(core, &budgets, limits) {
                    continue;
                }
                let (mut fails, mut works) = (budgets[core], self.problem.bus);
                budgets[core] = works;
                if fails == works || !self.keeps(core, &budgets, limits) {
                    self.failed = u32::try_from(core).ok();
                    return None;
                }
                while works - fails > 1 + works / FINE {
                    // A budget matters by its ratio.
                    let middle =
                        ((fails as f64 * works as f64).sqrt() as u64).clamp(fails + 1, works - 1);
                    budgets[core] = middle;
                    if self.keeps(core, &budgets, limits) { works = middle } else { fails = middle }
                }
                budgets[core] = works;
                grew = true;
            }
            if !grew {
                return Some(budgets);
            }
        }
    }

    /// The least budgets with `t` for each program, which are not below `least`.
    fn with_floors(&mut self, t: u64, least: &[u64], limits: Limits) -> Option<Vec<u64>> {
        let mut from = self.floors(t);
        from.iter_mut().zip(least).for_each(|(floor, &least)| *floor = least.max(*floor));
        self.least(from, limits)
    }

    /// The best for the objective: budgets, and the limits that they keep.
    pub fn best(&mut self, limits: Limits) -> Option<Budgets> {
        // Where this is not possible, nothing is: more for best effort only raises bounds.
        let least = self.with_floors(1, &[], limits)?;
        if self.problem.quick() {
            return Some(Budgets { budgets: least, limits, floor: true });
        }
        match self.problem.objective {
            Objective::Margin => {
                let (budgets, t) = self.most_for_others((1, self.problem.floor), least, limits);
                let floor = t == self.problem.floor;
                Some(self.tightest(budgets, floor, WHOLE, |deadline| Limits { deadline, ..limits }))
            }
            Objective::Bounds => {
                let most = limits.slowdown.min(WORST);
                let of = |slowdown| Limits { slowdown, ..limits };
                let (budgets, t) = self.most_for_others((1, self.problem.floor), least, limits);
                Some(self.tightest(budgets, t == self.problem.floor, most, of))
            }
            _ => {
                let most = self.problem.most;
                let (budgets, t) = self.most_for_others((1, most), least.clone(), limits);
                let more = if t < most { self.more_for_some(t, &least, limits) } else { None };
                Some(Budgets { budgets: more.unwrap_or(budgets), limits, floor: true })
            }
        }
    }

    /// The least budgets with a larger `t`, where programs that cannot use `t` leave the rest of it
    /// to others; `None` if there are none. `least` are those with 1.
    fn more_for_some(&mut self, t: u64, least: &[u64], limits: Limits) -> Option<Vec<u64>> {
        let wastes = |core: u32| {
            self.candidate.best_effort(core, self.problem.work) > 0
                && !self.candidate.analysed(core, self.problem.work)
                && self.problem.usable(core, &self.candidate.on(core)) < t
        };
        // Of a budget with a part for writes, a program can use a part that depends on its own
        // writes.
        if self.part.is_some() || !(0..self.resources.cores).any(wastes) {
            return None;
        }
        self.spare = true;
        let most = self.problem.most;
        let from = self.with_floors(t, least, limits);
        let found = from.map(|from| self.most_for_others((t, most), from, limits).0);
        self.spare = false;
        found
    }

    /// The least budgets with the largest `t` from `works` up to `most` for each program, and that
    /// `t`. `least` are those with `works`.
    fn most_for_others(
        &mut self,
        (mut works, most): (u64, u64),
        least: Vec<u64>,
        limits: Limits,
    ) -> (Vec<u64>, u64) {
        // All first: where working sets fit into the cache, it often does.
        if let Some(budgets) = self.with_floors(most, &least, limits) {
            return (budgets, most);
        }
        let (mut fails, mut found) = (most, least);
        while fails - works > 1 + works / 100 {
            let t = ((works as f64 * fails as f64).sqrt() as u64).clamp(works + 1, fails - 1);
            match self.with_floors(t, &found, limits) {
                Some(budgets) => (works, found) = (t, budgets),
                None => fails = t,
            }
        }
        (found, works)
    }

    /// The least limit, up to `most`, that budgets from these on can keep, with those budgets.
    fn tightest(
        &mut self,
        from: Vec<u64>,
        floor: bool,
        most: u64,
        of: impl Fn(u64) -> Limits,
    ) -> Budgets {
        let (mut fails, mut works, mut found) = (0, most, from);
        while works - fails > 1 + works / 1000 {
            let middle = fails + (works - fails) / 2;
            // Tighter limits need no smaller budgets.
            match self.least(found.clone(), of(middle)) {
                Some(budgets) => (works, found) = (middle, budgets),
                None => fails = middle,
            }
        }
        Budgets { budgets: found, limits: of(works), floor }
    }

    /// Budgets of cores with deadlines, raised together while all cores still keep to the limits:
    /// stopping them serves no task.
    pub fn raised(&mut self, budgets: Vec<u64>, limits: Limits) -> Vec<u64> {
        let bus = self.problem.bus;
        let cores = budgets.len();
        let times = |factor: u64, this: &Self| -> Vec<u64> {
            let of = |core: usize| {
                let raised = u128::from(budgets[core]) * u128::from(factor) / 1000;
                if this.jobs[core].is_empty() {
                    budgets[core]
                } else {
                    u64::try_from(raised).unwrap_or(bus).min(bus)
                }
            };
            (0..cores).map(of).collect()
        };
        let (mut works, mut fails) = (1000, bus.saturating_mul(1000).saturating_add(1));
        while fails - works > 1 + works / 100 {
            let middle = ((works as f64 * fails as f64).sqrt() as u64).clamp(works + 1, fails - 1);
            let tried = times(middle, self);
            if self.all_keep(&tried, limits) { works = middle } else { fails = middle }
        }
        times(works, self)
    }

    /// The resources with these budgets.
    pub fn with(&mut self, budgets: &[u64]) -> &Resources {
        self.set(0, budgets);
        &self.resources
    }

    /// The shares of the best-effort programs on their cores.
    pub fn shares(&self) -> Vec<Share<'a>> {
        let Problem { needs, work, .. } = self.problem;
        Share::all(needs, work, self.candidate, &self.pages, &self.resources)
    }

    /// Raises budgets, core by core, to the least that a kernel can enforce, where all limits allow
    /// it: an interrupt for less would cost more than it saves.
    pub fn enforceable(&mut self, budgets: Vec<u64>, limits: Limits) -> Vec<u64> {
        let mut chosen = budgets;
        for core in 0..chosen.len() {
            let mut tried = chosen.clone();
            tried[core] = tried[core].max(LEAST);
            if tried != chosen && self.all_keep(&tried, limits) {
                chosen = tried;
            }
        }
        chosen
    }

    /// The same without the others' jobs, which are known only where all deadlines are met.
    #[must_use]
    pub fn beside_unknown_jobs(mut self) -> Self {
        if self.known.take().is_some() {
            self.resources.set_rivals(&vec![None; self.jobs.len()]);
        }
        self
    }

    /// The outcome where no budgets meet all deadlines: those with which the deadlines would be
    /// exceeded by the least factor. Where there are none either, best effort gets the least that
    /// it needs, and the others get the rest. That is so at once on a core with more work than
    /// time: its response times have no end, and finding that out takes long. `most`: a factor
    /// above which it does not matter how late they are. `raise`: budgets that stop no core without
    /// need.
    pub fn late(mut self, most: u64, raise: bool) -> Outcome {
        let load = self.jobs.iter().map(|jobs| utilization(jobs)).fold(0.0, f64::max);
        if load > 1.0 {
            let budgets = self.most_for_analysed();
            return self.outcome(budgets, 0.0, -OVERLOAD * load);
        }
        let limits = |deadline| Limits { deadline, slowdown: u64::MAX };
        let (latest, steps) = if self.problem.quick() { (LATE, 0) } else { LATEST };
        let (mut fails, mut works) = (WHOLE, latest);
        // A candidate that is later than `most` is not bisected; the same steps rank the others.
        let matters =
            most >= latest || (most > WHOLE && self.with_floors(1, &[], limits(most)).is_some());
        let mut found = matters.then(|| self.with_floors(1, &[], limits(works))).flatten();
        if found.is_some() {
            for _ in 0..steps {
                let middle = (fails as f64 * works as f64).sqrt() as u64;
                match self.with_floors(1, &[], limits(middle)) {
                    Some(budgets) => (works, found) = (middle, Some(budgets)),
                    None => fails = middle,
                }
            }
            let excess = -(works as f64) / WHOLE as f64;
            let mut budgets = found.unwrap_or_default();
            if raise {
                budgets = self.raised(budgets, limits(works));
            }
            return self.outcome(budgets, 0.0, excess);
        }
        let budgets = self.most_for_analysed();
        self.outcome(budgets, 0.0, f64::NEG_INFINITY)
    }

    /// All that the bus carries for cores with analysed tasks, and next to nothing for the others.
    fn most_for_analysed(&self) -> Vec<u64> {
        let analysed = |core| self.candidate.analysed(core, self.problem.work);
        (0..self.resources.cores).map(|c| if analysed(c) { self.problem.bus } else { 1 }).collect()
    }

    /// The outcome with the budgets of the resources.
    pub fn stated(mut self) -> Outcome {
        let budgets = self.resources.budgets.clone().unwrap_or_default();
        let writes = self.resources.write_budgets.clone();
        let wish = self.problem.wished();
        if let (Some(&budget), Some(&Some(part))) = (budgets.first(), writes.first()) {
            // Rounded up: the part of the budget is then the stated one.
            self.part = Some((u128::from(part) * 1000).div_ceil(u128::from(budget.max(1))) as u64);
        }
        let mut class = 0.0;
        for (with, slowdown) in [(2.5, wish), (1.5, u64::MAX)] {
            if self.all_keep(&budgets, Limits { deadline: WHOLE, slowdown }) {
                class = with;
                break;
            }
        }
        let excess = if class < 1.0 { f64::NEG_INFINITY } else { 0.0 };
        self.outcome(budgets, class, excess)
    }

    /// The outcome with budgets of a class. `excess`: value of the objective where deadlines are
    /// missed; infinite: by the number of tasks.
    pub fn outcome(mut self, budgets: Vec<u64>, class: f64, excess: f64) -> Outcome {
        let writes = self.writes(&budgets);
        let problem = self.problem;
        let mut settled = self.resources.with_budgets(budgets, writes);
        // Only where all deadlines are met are the others' jobs known.
        let known = self.known.take().filter(|_| class >= 1.0);
        let none = vec![None; settled.stalls.len()];
        let rivals = known.map_or(none, |known| known.rivals(problem.work, &settled));
        settled.set_rivals(&rivals);
        let cores: Vec<CorePlan> =
            self.pages.iter().map(|p| p.again(problem.work, &settled)).collect();
        let hard =
            || cores.iter().flat_map(CorePlan::tasks).filter(|t| problem.work[t.index].hard());
        let deadline = |t: &TaskPlan| {
            problem.work[t.index].task.deadline.map_or(f64::INFINITY, |d| d.ps() as f64)
        };
        let late = |t: &TaskPlan| t.response_ps.map_or(f64::INFINITY, |r| r as f64 / deadline(t));
        // Only a few tasks that may miss their deadlines, on cores that are far from full.
        let misses = |core: &CorePlan| {
            core.tasks().iter().filter(|t| !t.meets).count() as f64 * (1.0 + core.utilization)
        };
        let shares = Share::all(&problem.needs, problem.work, self.candidate, &cores, &settled);
        let speed = speed::mean(&shares, &settled);
        let objective = match problem.objective {
            _ if class < 1.0 && excess.is_finite() => excess,
            _ if class < 1.0 => -1e6 - cores.iter().map(misses).sum::<f64>(),
            Objective::Margin => -hard().map(late).fold(0.0, f64::max),
            Objective::Bounds => -hard().map(|t| problem.slowdown(t)).fold(0.0, f64::max),
            _ => speed,
        };
        let value = Value { class, objective, speed };
        let (candidate, critical) = (self.candidate.clone(), self.failed);
        Outcome { candidate, cores, resources: settled, value, critical, part: self.part }
    }
}

/// Work of the jobs of a core without any stall, relative to the time that there is.
fn utilization(jobs: &[Analysed]) -> f64 {
    let of = |job: &Analysed| {
        let period = job.tasks.last().map_or(u64::MAX, |own| own.period_ps);
        job.asked.work_ps as f64 / period as f64
    };
    jobs.iter().map(of).sum()
}

/// Demand of the analysed tasks of a core; it does not depend on the budgets.
fn jobs(problem: &Problem, core: &CorePlan, resources: &Resources) -> Vec<Analysed> {
    let locked = |t: usize| core.tasks().iter().find(|p| p.index == t).map_or(0, |p| p.locked);
    let of = |level: Level| Analysed {
        tasks: level.tasks.iter().map(|(_, t)| *t).collect(),
        company: level.company,
        asked: problem.work[level.index].asked_on(core.core, locked(level.index), resources),
        alone_ps: problem.alone[level.index],
    };
    core.levels(problem.work, resources).into_iter().map(of).collect()
}
