//! The budgets of a candidate: the least with which all bounds are met, and the use of the rest for
//! the objective.
//!
//! Rule: a core that shares no channel with an analysed task has a budget that never limits it.
//! Others without analysed tasks have a budget of `t` for each program there, and `t` for each
//! best-effort program beside analysed ones. From these floors on, a core whose bounds are not met
//! gets the least budget with which they are, beside the others' as they are; again until nothing
//! changes. All steps are necessary, as larger budgets of the others never lower a bound: so the
//! result is the least solution, or there is none. The objective is monotone in `t`, or in the
//! limit of the bounds, so bisection finds its best value. Pages are locked where they save most.
//! Then the pages of the task closest to its limits get more weight, and the search is repeated.

use super::analysed::{Analysed, Limits};
use super::candidate::Candidate;
use super::pages::{self, UNITY};
use super::speed::Need;
use super::{Outcome, Value};
use crate::core_plan::{CoreBounds, CorePlan, TaskPlan};
use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::system::Objective;
use std::collections::HashMap;

/// Most rounds in which the pages' weights are set anew.
const ROUNDS: usize = 16;
/// Most rounds in sequence without a better result.
const IN_VAIN: usize = 4;
/// A task whose closeness to its limits is above this part of the largest gets more pages.
const CLOSE: f64 = 0.97;
/// Least accesses in a period that a counter's interrupts can enforce: `solocore run` counts by
/// samples of 100, and a budget must be several samples.
const LEAST: u64 = 800;
/// Largest slowdown that the objective `bounds` considers, in thousandths.
const WORST: u64 = 1_000_000;

/// Values that are the same for all candidates.
#[derive(Debug)]
pub struct Solver<'a> {
    /// The tasks.
    pub work: &'a [Work<'a>],
    pub(super) base: &'a Resources,
    pub(super) objective: Objective,
    pub(super) wish: Option<u64>,
    /// Time alone with the whole cache, by task, ps.
    pub(super) alone: Vec<u64>,
    pub(super) needs: Vec<Need>,
    /// Accesses a period that no core can exceed.
    pub(super) bus: u64,
    /// `t` beyond which no program gets faster.
    pub(super) most: u64,
    /// `t` that other objectives keep for best effort.
    pub(super) floor: u64,
}

impl<'a> Solver<'a> {
    pub fn new(
        work: &'a [Work<'a>],
        base: &'a Resources,
        objective: Objective,
        wish: Option<u64>,
    ) -> Self {
        let period = base.regulation.period_ps;
        let needs: Vec<Need> = work
            .iter()
            .enumerate()
            .filter(|(_, w)| !w.hard())
            .map(|(t, w)| Need::of(t, w, base))
            .collect();
        let bus = (period / base.platform.dram.t_burst.ps().max(1)).max(1);
        let most = needs.iter().map(|n| n.most(period as f64)).fold(0.0, f64::max).ceil() as u64;
        let most =
            if needs.is_empty() { period / base.platform.row_hit().ps().max(1) } else { most };
        let even = base.budgets.as_ref().and_then(|b| b.first()).copied().unwrap_or(1);
        // Best effort cannot come first where there is none and every core runs analysed tasks or
        // nothing.
        let objective = if objective == Objective::BestEffort && needs.is_empty() {
            Objective::Margin
        } else {
            objective
        };
        let alone = work.iter().map(|w| alone_ps(w, base)).collect();
        Self {
            work,
            base,
            objective,
            wish,
            alone,
            needs,
            bus,
            most: most.clamp(1, bus),
            floor: (even / 4).max(1),
        }
    }

    /// Accesses a period that no core can exceed.
    #[cfg(test)]
    pub const fn bus(&self) -> u64 {
        self.bus
    }

    /// Accesses a period for a best-effort program beyond which it gets no faster.
    #[cfg(test)]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Finds budgets, pages and bounds of a candidate.
    pub fn solve(&self, candidate: Candidate) -> Outcome {
        let mut resources = self.base.clone();
        resources.set_ways(candidate.ways.clone());
        resources.explicit = true;
        resources.stated = None;
        // The lateness does not matter here, and takes long to compute where a core is almost full.
        resources.verdict_only = true;
        let mut weights: HashMap<usize, u64> = HashMap::new();
        let multiples = self.objective == Objective::Bounds || self.wish.is_some();
        let alone = multiples.then_some(&self.alone[..]);
        let mut best: Option<Outcome> = None;
        let mut in_vain = 0;
        for round in 0..ROUNDS {
            let lock = |core: u32| match round {
                // As even shares do it.
                0 => CorePlan::best(core, candidate.on(core), self.work, &resources),
                _ => pages::lock(core, &candidate.on(core), &weights, alone, self.work, &resources),
            };
            let locked: Vec<CorePlan> = (0..resources.cores).map(lock).collect();
            let outcome = self.with_pages(&candidate, &locked, &resources);
            let close = self.closest(&outcome.cores);
            for task in close.iter().filter(|_| round > 0) {
                let weight = weights.entry(*task).or_insert(UNITY);
                // A small change, where pages already go by the right measure.
                *weight += *weight / if multiples { 16 } else { 2 };
            }
            in_vain += 1;
            if best.as_ref().is_none_or(|b| outcome.value.better(&b.value)) {
                (best, in_vain) = (Some(outcome), 0);
            }
            if close.is_empty() || in_vain >= IN_VAIN {
                break;
            }
        }
        best.unwrap_or_else(|| unreachable!("there is at least one round"))
    }

    fn with_pages(
        &self,
        candidate: &Candidate,
        pages: &[CorePlan],
        resources: &Resources,
    ) -> Outcome {
        let wanted = Limits { deadline: 1000, slowdown: self.wish.unwrap_or(u64::MAX) };
        let relaxed = Limits { slowdown: u64::MAX, ..wanted };
        let mut attempt = Attempt::new(self, candidate, pages, resources);
        for (class, limits) in [(2.0, wanted), (1.0, relaxed)] {
            if let Some((budgets, limits)) = attempt.best(limits) {
                let budgets = attempt.raised(budgets, limits);
                let budgets = attempt.enforceable(budgets, limits);
                return attempt.outcome(budgets, class);
            }
        }
        // Best effort gets the least that it needs, the others get the rest.
        let budgets = (0..resources.cores)
            .map(|c| if candidate.analysed(c, self.work) { self.bus } else { 1 })
            .collect();
        attempt.outcome(budgets, 0.0)
    }

    /// Demand of the analysed tasks of a core; it does not depend on the budgets.
    fn jobs(&self, core: &CorePlan, resources: &Resources) -> Vec<Analysed> {
        let locked = |t: usize| core.tasks().iter().find(|p| p.index == t).map_or(0, |p| p.locked);
        let of = |level: crate::core_plan::Level| Analysed {
            tasks: level.tasks.iter().map(|(_, t)| *t).collect(),
            company: level.company,
            asked: self.work[level.index].asked(locked(level.index), resources),
            alone_ps: self.alone[level.index],
        };
        core.levels(self.work, resources).into_iter().map(of).collect()
    }

    /// Closeness of a task to its limits; 1 and above: it exceeds them.
    fn closeness(&self, task: &TaskPlan) -> f64 {
        let w = &self.work[task.index];
        let deadline = w.task.deadline.map_or(f64::INFINITY, |d| d.ps() as f64);
        let by_deadline = task.response_ps.map_or(f64::INFINITY, |r| r as f64 / deadline);
        let slowdown = self.slowdown(task);
        match (self.objective, self.wish) {
            (Objective::Bounds, _) => slowdown,
            (_, Some(wish)) => by_deadline.max(slowdown * 1000.0 / wish as f64),
            _ => by_deadline,
        }
    }

    fn slowdown(&self, task: &TaskPlan) -> f64 {
        task.wcet_ps.saturating_add(task.stall_ps) as f64 / self.alone[task.index].max(1) as f64
    }

    /// The tasks that come closest to their limits.
    fn closest(&self, cores: &[CorePlan]) -> Vec<usize> {
        let hard = || cores.iter().flat_map(CorePlan::tasks).filter(|t| self.work[t.index].hard());
        let most = hard().map(|t| self.closeness(t)).fold(0.0, f64::max);
        hard().filter(|t| self.closeness(t) >= most * CLOSE).map(|t| t.index).collect()
    }

    pub fn objective_words(&self) -> &'static str {
        match self.objective {
            Objective::Margin => "the largest part of a deadline that a response takes",
            Objective::Bounds => "the largest slowdown that a bound allows",
            _ => "the speed of what is not analysed",
        }
    }

    /// A value in words.
    pub fn words(&self, value: &Value) -> String {
        if !value.meets() {
            return "not schedulable".to_owned();
        }
        let missed = if value.class < 2.0 { " (the wanted slowdown is missed)" } else { "" };
        match self.objective {
            Objective::Margin => {
                format!("{:.1} % of the deadline{missed}", -100.0 * value.objective)
            }
            Objective::Bounds => format!("{:.3} times the time alone{missed}", -value.objective),
            _ => format!("{:.1} % of the speed alone, estimated{missed}", 100.0 * value.objective),
        }
    }

    /// Message that the wanted slowdown cannot be reached; `None` if it is.
    pub fn missed_wish(&self, value: &Value) -> Option<String> {
        let wish = self.wish.filter(|_| value.class < 2.0)? as f64 / 1000.0;
        Some(format!(
            "slowdown: no candidate keeps all bounds within {wish} times the time alone; raise \
                [regulation] slowdown, set objective = \"bounds\" for the least there is, or use \
                fewer active_cores"
        ))
    }
}

/// Time alone with the whole shared cache, ps: from the profile with DRAM's row hits, or as stated.
fn alone_ps(w: &Work, r: &Resources) -> u64 {
    match w.demand {
        Demand::Profiled { .. } => w.demand.alone(&r.platform).0,
        _ => w.wcet_ps(usize::MAX, r),
    }
}

/// One way to lock pages for a candidate.
#[derive(Debug)]
pub struct Attempt<'a> {
    solver: &'a Solver<'a>,
    candidate: &'a Candidate,
    pages: &'a [CorePlan],
    jobs: Vec<Vec<Analysed>>,
    resources: Resources,
}

impl<'a> Attempt<'a> {
    pub fn new(
        solver: &'a Solver<'a>,
        candidate: &'a Candidate,
        pages: &'a [CorePlan],
        resources: &Resources,
    ) -> Self {
        let jobs = pages.iter().map(|p| solver.jobs(p, resources)).collect();
        Self { solver, candidate, pages, jobs, resources: resources.clone() }
    }

    /// Budgets of cores without deadlines, with `t` for each program.
    fn floors(&self, t: u64) -> Vec<u64> {
        let of = |core: u32| {
            let programs = self.candidate.best_effort(core, self.solver.work);
            let least = u64::from(!self.candidate.analysed(core, self.solver.work));
            let harms = |&other: &u32| self.candidate.analysed(other, self.solver.work);
            if least == 1 && !self.resources.rivals(core).iter().any(harms) {
                return self.solver.bus;
            }
            t.saturating_mul(programs.max(least)).clamp(1, self.solver.bus)
        };
        (0..self.resources.cores).map(of).collect()
    }

    /// Does a core keep to the limits beside these budgets?
    fn keeps(&mut self, core: usize, budgets: &[u64], limits: Limits) -> bool {
        if self.jobs[core].is_empty() {
            return true;
        }
        self.resources.set_budgets(budgets.to_vec(), vec![None; budgets.len()]);
        let bounds = CoreBounds {
            core: u32::try_from(core).unwrap_or(u32::MAX),
            resources: &self.resources,
        };
        self.jobs[core].iter().all(|job| job.keeps(&bounds, limits))
    }

    /// The least budgets from `floors` on with which all cores keep to the limits.
    fn least(&mut self, floors: Vec<u64>, limits: Limits) -> Option<Vec<u64>> {
        let mut budgets = floors;
        loop {
            let mut grew = false;
            for core in 0..budgets.len() {
                if self.keeps(core, &budgets, limits) {
                    continue;
                }
                let (mut fails, mut works) = (budgets[core], self.solver.bus);
                budgets[core] = works;
                if fails == works || !self.keeps(core, &budgets, limits) {
                    return None;
                }
                while works - fails > 1 {
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

    /// The best for the objective: budgets, and the limits that they keep.
    pub fn best(&mut self, limits: Limits) -> Option<(Vec<u64>, Limits)> {
        let floor = self.floors(self.solver.floor);
        match self.solver.objective {
            Objective::Margin => {
                self.tightest(&floor, 1000, |deadline| Limits { deadline, ..limits })
            }
            Objective::Bounds => {
                let most = limits.slowdown.min(WORST);
                self.tightest(&floor, most, |slowdown| Limits { slowdown, ..limits })
            }
            _ => {
                let (mut works, mut fails) = (0, self.solver.most + 1);
                let mut found = None;
                // All first: where working sets fit into the cache, it often does.
                let mut t = self.solver.most;
                while fails - works > 1 + works / 100 {
                    match self.least(self.floors(t), limits) {
                        Some(budgets) => (works, found) = (t, Some(budgets)),
                        None => fails = t,
                    }
                    t = works + (fails - works) / 2;
                }
                found.map(|budgets| (budgets, limits))
            }
        }
    }

    /// The least limit, up to `most`, that budgets can keep, with those budgets.
    fn tightest(
        &mut self,
        floors: &[u64],
        most: u64,
        of: impl Fn(u64) -> Limits,
    ) -> Option<(Vec<u64>, Limits)> {
        let mut found = self.least(floors.to_vec(), of(most))?;
        let (mut fails, mut works) = (0, most);
        while works - fails > 1 {
            let middle = fails + (works - fails) / 2;
            match self.least(floors.to_vec(), of(middle)) {
                Some(budgets) => (works, found) = (middle, budgets),
                None => fails = middle,
            }
        }
        Some((found, of(works)))
    }

    /// Budgets of cores with deadlines, raised together while all cores still keep to the limits:
    /// stopping them serves no task.
    fn raised(&mut self, budgets: Vec<u64>, limits: Limits) -> Vec<u64> {
        let bus = self.solver.bus;
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
            if (0..cores).all(|core| self.keeps(core, &tried, limits)) {
                works = middle
            } else {
                fails = middle
            }
        }
        times(works, self)
    }

    /// Raises budgets, core by core, to the least that a kernel can enforce, where all limits allow
    /// it: an interrupt for less would cost more than it saves.
    fn enforceable(&mut self, budgets: Vec<u64>, limits: Limits) -> Vec<u64> {
        let mut chosen = budgets;
        for core in 0..chosen.len() {
            let mut tried = chosen.clone();
            tried[core] = tried[core].max(LEAST);
            if tried != chosen && (0..chosen.len()).all(|c| self.keeps(c, &tried, limits)) {
                chosen = tried;
            }
        }
        chosen
    }

    fn outcome(mut self, budgets: Vec<u64>, class: f64) -> Outcome {
        self.resources.set_budgets(budgets, vec![None; self.pages.len()]);
        let cores: Vec<CorePlan> =
            self.pages.iter().map(|p| p.again(self.solver.work, &self.resources)).collect();
        let speed = self.speed(&cores);
        let hard =
            || cores.iter().flat_map(CorePlan::tasks).filter(|t| self.solver.work[t.index].hard());
        let deadline = |t: &TaskPlan| {
            self.solver.work[t.index].task.deadline.map_or(f64::INFINITY, |d| d.ps() as f64)
        };
        let late = |t: &TaskPlan| t.response_ps.map_or(f64::INFINITY, |r| r as f64 / deadline(t));
        // Only a few tasks that may miss their deadlines, on cores that are far from full.
        let misses = |core: &CorePlan| {
            core.tasks().iter().filter(|t| !t.meets).count() as f64 * (1.0 + core.utilization)
        };
        let objective = match self.solver.objective {
            _ if class < 1.0 => -cores.iter().map(misses).sum::<f64>(),
            Objective::Margin => -hard().map(late).fold(0.0, f64::max),
            Objective::Bounds => -hard().map(|t| self.solver.slowdown(t)).fold(0.0, f64::max),
            _ => speed,
        };
        let value = Value { class, objective, speed };
        Outcome { candidate: self.candidate.clone(), cores, resources: self.resources, value }
    }

    /// Mean speed of the best-effort programs.
    fn speed(&self, cores: &[CorePlan]) -> f64 {
        let (r, solver) = (&self.resources, self.solver);
        let period = r.regulation.period_ps as f64;
        let of = |need: &Need| {
            let core = self.candidate.placement[need.task];
            let plan = &cores[core as usize];
            let programs = self.candidate.best_effort(core, solver.work) as f64;
            let hard = || plan.tasks().iter().filter(|t| solver.work[t.index].hard());
            let locked: usize = hard().map(|t| t.locked).sum();
            let per_way = (r.platform.pages_per_way() as usize).max(1);
            // Of a cache that all cores share, about an even part.
            let own =
                if r.pages.is_own() { r.ways_of(core) } else { r.platform.llc.ways / r.cores };
            let ways =
                own.saturating_sub(u32::try_from(locked.div_ceil(per_way)).unwrap_or(u32::MAX));
            let rate = |n: u64, t: &TaskPlan| {
                n as f64 / solver.work[t.index].task.period.map_or(f64::INFINITY, |p| p.ps() as f64)
            };
            // Average time of the analysed jobs: their time alone, and their accesses.
            let time = 1.0 - hard().map(|t| rate(t.wcet_ps, t)).sum::<f64>();
            let taken = hard().map(|t| rate(t.misses, t) * period).sum::<f64>();
            let budget = r.budgets.as_ref().map_or(f64::INFINITY, |b| b[core as usize] as f64);
            let accesses = (budget - taken).max(0.0) / programs;
            need.speed(time.max(0.0) / programs, accesses, period, ways / (programs as u32).max(1))
        };
        if solver.needs.is_empty() {
            0.0
        } else {
            solver.needs.iter().map(of).sum::<f64>() / solver.needs.len() as f64
        }
    }
}
