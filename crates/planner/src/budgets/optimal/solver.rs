//! A candidate with its pages, its budgets and its value.
//!
//! Rule: pages are locked where they save most, as even shares do it. Where the board counts
//! writes, budgets are tried with several parts for writes ([`PARTS`]). Then the pages of the task
//! closest to its limits get more weight, and the budgets are found again, as long as that helps
//! ([`ROUNDS`], [`IN_VAIN`]). Budgets: `attempt`. Does not cover: a part for writes that differs
//! between cores, or that later rounds change.

use super::attempt::{Attempt, Limits};
use super::candidate::Candidate;
use super::pages::{self, UNITY};
use super::speed::Need;
use super::{Outcome, Value};
use crate::core_plan::{CorePlan, TaskPlan, lockable};
use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::system::Objective;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Most rounds in which the pages' weights are set anew.
const ROUNDS: usize = 16;
/// Most rounds in sequence without a better result.
const IN_VAIN: usize = 4;
/// A task whose closeness to its limits is above this part of the largest gets more pages.
const CLOSE: f64 = 0.97;
/// Parts of the budgets for writes, in thousandths; those of even shares are among them.
const PARTS: [u64; 5] = [100, 200, 300, 400, 500];

/// Care for what does not change the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// The least budgets.
    Little,
    /// Budgets that stop no core without need, and that can be enforced.
    Much,
}

/// Core, tasks, and ways of the core.
type CoreKey = (u32, Vec<usize>, u32);

/// Values that are the same for all candidates.
#[derive(Debug)]
pub struct Solver<'a> {
    /// The tasks.
    pub work: &'a [Work<'a>],
    /// The machine, with even shares.
    pub base: Resources,
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
    /// Can budgets have a part for writes?
    apart: bool,
    /// Cores with the pages that even shares would lock.
    usual: RefCell<HashMap<CoreKey, Rc<CorePlan>>>,
}

impl<'a> Solver<'a> {
    pub fn new(
        work: &'a [Work<'a>],
        base: Resources,
        objective: Objective,
        wish: Option<u64>,
    ) -> Self {
        let period = base.regulation.period_ps;
        let needs: Vec<Need> = work
            .iter()
            .enumerate()
            .filter(|(_, w)| !w.hard())
            .map(|(t, w)| Need::of(t, w, &base))
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
        let alone = work.iter().map(|w| alone_ps(w, &base)).collect();
        Self {
            work,
            objective,
            wish,
            alone,
            needs,
            bus,
            most: most.clamp(1, bus),
            floor: (even / 4).max(1),
            apart: base.platform.dram.counts_writes,
            usual: RefCell::default(),
            base,
        }
    }

    /// Are verdicts all that is asked for?
    pub const fn quick(&self) -> bool {
        self.base.verdict_only
    }

    /// The machine with the ways of a candidate.
    pub fn resources(&self, candidate: &Candidate) -> Resources {
        let mut resources = self.base.clone();
        resources.set_ways(candidate.ways.clone());
        resources.explicit = true;
        resources.stated = None;
        // The lateness does not matter here, and takes long to compute where a core is almost full.
        resources.verdict_only = true;
        resources
    }

    /// Finds budgets and bounds of a candidate with the pages that save most, or most of the
    /// multiples of the times alone.
    pub fn solve(&self, candidate: &Candidate) -> Outcome {
        let resources = self.resources(candidate);
        let usual: Vec<_> =
            (0..resources.cores).map(|core| self.as_usual(core, candidate)).collect();
        let best = self.with_any_part(candidate, &usual, &resources);
        if !self.multiples() || !self.lockable(candidate) {
            return best;
        }
        let level = self.locked(candidate, &HashMap::new(), &resources);
        let outcome = self.with_part(candidate, &level, &resources, best.part, Care::Little);
        if outcome.value.better(&best.value) { outcome } else { best }
    }

    /// The outcome of a candidate after all rounds; `first` is that of [`Solver::solve`].
    pub fn refined(&self, first: Outcome) -> Outcome {
        let candidate = &first.candidate.clone();
        let resources = self.resources(candidate);
        let part = first.part;
        let mut best = first;
        if best.value.meets() && !self.quick() {
            let again = |core: &CorePlan| Rc::new(core.again(self.work, &resources));
            let same: Vec<_> = best.cores.iter().map(again).collect();
            best = self.with_part(candidate, &same, &resources, part, Care::Much);
        }
        let mut weights: HashMap<usize, u64> = HashMap::new();
        let mut in_vain = 0;
        let rounds = if self.lockable(candidate) { ROUNDS } else { 0 };
        for _ in 0..rounds {
            if in_vain >= IN_VAIN || (self.quick() && best.value.meets()) {
                break;
            }
            let locked = self.locked(candidate, &weights, &resources);
            let outcome = self.with_part(candidate, &locked, &resources, part, Care::Much);
            let close = self.closest(&outcome.cores);
            for task in &close {
                let weight = weights.entry(*task).or_insert(UNITY);
                // A small change, where pages already go by the right measure.
                *weight += *weight / if self.multiples() { 16 } else { 2 };
            }
            in_vain += 1;
            if outcome.value.better(&best.value) {
                (best, in_vain) = (outcome, 0);
            }
            if close.is_empty() {
                break;
            }
        }
        best
    }

    /// Do pages go to the tasks with the largest multiples of their times alone?
    fn multiples(&self) -> bool {
        self.objective == Objective::Bounds || self.wish.is_some()
    }

    /// Has a core a page to lock?
    fn lockable(&self, candidate: &Candidate) -> bool {
        (0..).zip(&candidate.ways).any(|(core, &ways)| {
            lockable(&candidate.on(core), self.work, self.base.lock_capacity_in(ways))
        })
    }

    /// The cores with pages locked by weight.
    fn locked(
        &self,
        candidate: &Candidate,
        weights: &HashMap<usize, u64>,
        resources: &Resources,
    ) -> Vec<Rc<CorePlan>> {
        let alone = self.multiples().then_some(&self.alone[..]);
        let lock = |core: u32| {
            let on = candidate.on(core);
            Rc::new(pages::lock(core, &on, weights, alone, self.work, resources))
        };
        (0..resources.cores).map(lock).collect()
    }

    /// Even shares as they are, as a candidate.
    pub fn as_even(&self, candidate: Candidate) -> Outcome {
        let pages: Vec<_> = (0..self.base.cores)
            .map(|core| Rc::new(CorePlan::best(core, candidate.on(core), self.work, &self.base)))
            .collect();
        let mut even = self.base.clone();
        even.verdict_only = true;
        Attempt::new(self, &candidate, &pages, &even, None).stated()
    }

    /// A core with the pages that even shares would lock.
    fn as_usual(&self, core: u32, candidate: &Candidate) -> Rc<CorePlan> {
        let key = (core, candidate.on(core), candidate.ways[core as usize]);
        if let Some(known) = self.usual.borrow().get(&key) {
            return Rc::clone(known);
        }
        let resources = self.resources(candidate);
        let made = Rc::new(CorePlan::best(core, candidate.on(core), self.work, &resources));
        self.usual.borrow_mut().insert(key, Rc::clone(&made));
        made
    }

    /// The best part of the budgets for writes.
    fn with_any_part(
        &self,
        candidate: &Candidate,
        pages: &[Rc<CorePlan>],
        resources: &Resources,
    ) -> Outcome {
        let mut best = self.with_part(candidate, pages, resources, None, Care::Little);
        for part in PARTS.into_iter().filter(|_| self.apart) {
            if self.quick() && best.value.meets() {
                break;
            }
            let outcome = self.with_part(candidate, pages, resources, Some(part), Care::Little);
            if outcome.value.better(&best.value) {
                best = outcome;
            }
        }
        best
    }

    fn with_part(
        &self,
        candidate: &Candidate,
        pages: &[Rc<CorePlan>],
        resources: &Resources,
        part: Option<u64>,
        care: Care,
    ) -> Outcome {
        let wanted = Limits { deadline: 1000, slowdown: self.wish.unwrap_or(u64::MAX) };
        let mut attempt = Attempt::new(self, candidate, pages, resources, part);
        let relaxed = Limits { slowdown: u64::MAX, ..wanted };
        for (class, limits) in [(2.0, wanted), (1.0, relaxed)] {
            if let Some(found) = attempt.best(limits) {
                let budgets = if self.quick() || care == Care::Little {
                    found.budgets
                } else {
                    let raised = attempt.raised(found.budgets, found.limits);
                    attempt.enforceable(raised, found.limits)
                };
                return attempt.outcome(budgets, class + if found.floor { 0.5 } else { 0.0 }, 0.0);
            }
            if self.wish.is_none() {
                break;
            }
        }
        attempt.late()
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

    pub(super) fn slowdown(&self, task: &TaskPlan) -> f64 {
        task.wcet_ps.saturating_add(task.stall_ps) as f64 / self.alone[task.index].max(1) as f64
    }

    /// The tasks that come closest to their limits.
    fn closest(&self, cores: &[CorePlan]) -> Vec<usize> {
        let hard = || cores.iter().flat_map(CorePlan::tasks).filter(|t| self.work[t.index].hard());
        let most = hard().map(|t| self.closeness(t)).fold(0.0, f64::max);
        hard().filter(|t| self.closeness(t) >= most * CLOSE).map(|t| t.index).collect()
    }

    /// The objective in words.
    pub fn objective_words(&self) -> &'static str {
        match self.objective {
            Objective::Margin => "the largest part of a deadline that a response takes",
            Objective::Bounds => "the largest slowdown that a bound allows",
            _ => "the speed of best effort",
        }
    }

    /// A value in words.
    pub fn words(&self, value: &Value) -> String {
        if !value.meets() {
            return "not schedulable".to_owned();
        }
        let missed = if value.keeps_wish() { "" } else { " (the wanted slowdown is missed)" };
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
        let wish = self.wish.filter(|_| !value.keeps_wish())? as f64 / 1000.0;
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
