//! A candidate with its pages, its budgets and its value.
//!
//! Rule: pages are locked where they save most, as even shares do it. Where the board counts
//! writes, budgets are tried with several parts for writes ([`PARTS`]). Then the pages of the task
//! closest to its limits get more weight, and the budgets are found again, as long as that helps
//! ([`ROUNDS`], [`IN_VAIN`]). Budgets: `attempt`. Does not cover: a part for writes that differs
//! between cores, or that later rounds change.

use super::analysed::{Limits, WHOLE};
use super::attempt::Attempt;
use super::candidate::Candidate;
use super::outcome::Outcome;
use super::pages::{self, UNITY};
use super::problem::Problem;
use crate::core_plan::{CorePlan, TaskPlan, lockable};
use crate::resources::Resources;
use solocore_model::system::Objective;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Most rounds in which the pages' weights are set again.
const ROUNDS: usize = 16;
/// Most rounds in sequence without a better result.
const IN_VAIN: usize = 4;
/// A task whose closeness to its limits is above this part of the largest gets more pages.
const CLOSE: f64 = 0.97;
/// Parts of the budgets for writes, in thousandths; those of even shares are among them.
const PARTS: [u64; 5] = [100, 200, 300, 400, 500];

/// Changes that do not change the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// The least budgets.
    Little,
    /// Budgets that stop no core without need, and that can be enforced.
    Much,
    /// Such budgets that give best effort more speed, too; `thorough`: as much as can be found.
    Most { thorough: bool },
}

/// What budgets are looked for.
#[derive(Clone, Copy, Debug)]
struct Sought {
    /// Their part for writes, in thousandths.
    part: Option<u64>,
    /// See [`Attempt::late`].
    most: u64,
}

impl Sought {
    /// Also those that miss deadlines, however late.
    const fn all(part: Option<u64>) -> Self {
        Self { part, most: u64::MAX }
    }
}

/// Core, tasks, and ways of the core.
type CoreKey = (u32, Vec<usize>, u32);

/// Solves one candidate after the other.
#[derive(Debug)]
pub struct Solver<'a> {
    /// What is the same for all of them.
    pub problem: Problem<'a>,
    /// Cores with the pages that even shares would lock.
    usual: RefCell<HashMap<CoreKey, Rc<CorePlan>>>,
}

impl<'a> Solver<'a> {
    pub fn new(problem: Problem<'a>) -> Self {
        Self { problem, usual: RefCell::default() }
    }

    /// The machine with the ways of a candidate.
    pub fn resources(&self, candidate: &Candidate) -> Resources {
        let mut resources = self.problem.base.clone();
        resources.set_ways(candidate.ways.clone());
        resources.explicit = true;
        resources.stated = None;
        // The lateness does not matter here, and takes long to compute where a core is almost full.
        resources.verdict_only = true;
        resources
    }

    /// Finds budgets and bounds of a candidate with the pages that save most, or most of the
    /// multiples of the times alone.
    /// `most`: see [`Attempt::late`].
    pub fn solve(&self, candidate: &Candidate, most: u64) -> Outcome {
        let resources = self.resources(candidate);
        let usual: Vec<_> =
            (0..resources.cores).map(|core| self.as_usual(core, candidate)).collect();
        let best = self.with_any_part(candidate, &usual, &resources, most);
        if !self.multiples() || !self.lockable(candidate) {
            return best;
        }
        let level = self.locked(candidate, &HashMap::new(), &resources);
        let outcome = self.with_part(
            candidate,
            &level,
            &resources,
            Sought { part: best.part, most },
            Care::Little,
        );
        if outcome.value.better(&best.value) { outcome } else { best }
    }

    /// Finds budgets and bounds of a candidate with the pages that save most, even if deadlines are
    /// missed with them, and one budget for reads and writes.
    pub fn plain(&self, candidate: &Candidate) -> Outcome {
        let resources = self.resources(candidate);
        let pages = self.locked(candidate, &HashMap::new(), &resources);
        self.with_part(candidate, &pages, &resources, Sought::all(None), Care::Little)
    }

    /// The outcome of a candidate after all rounds; `first` is that of [`Solver::solve`].
    pub fn refined(&self, first: Outcome) -> Outcome {
        let candidate = &first.candidate.clone();
        let resources = self.resources(candidate);
        let part = first.part;
        let mut best = first;
        if best.value.meets() && !self.problem.quick() {
            let same = self.pages_of(&best, &resources);
            let raised =
                self.with_part(candidate, &same, &resources, Sought::all(part), Care::Much);
            if !best.value.better(&raised.value) {
                best = raised;
            }
        }
        let mut weights: HashMap<usize, u64> = HashMap::new();
        let mut in_vain = 0;
        let rounds = if self.lockable(candidate) { ROUNDS } else { 0 };
        for _ in 0..rounds {
            if in_vain >= IN_VAIN || (self.problem.quick() && best.value.meets()) {
                break;
            }
            let locked = self.locked(candidate, &weights, &resources);
            // How late the tasks are says which of them need more pages.
            let sought = Sought::all(part);
            let outcome = self.with_part(candidate, &locked, &resources, sought, Care::Much);
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

    /// [`Solver::refined`], and then with budgets by the speed that they give to best effort, where
    /// that is better.
    pub fn finished(&self, first: Outcome, thorough: bool) -> Outcome {
        let refined = self.refined(first);
        if !refined.value.meets() || !self.gains_by_speed(&refined.candidate) {
            return refined;
        }
        let outcome = self.by_speed(&refined, thorough);
        if outcome.value.better(&refined.value) { outcome } else { refined }
    }

    /// An outcome with the same pages, and with budgets by the speed that they give to best effort.
    /// `thorough`: see [`Attempt::raised_by_speed`].
    pub fn by_speed(&self, outcome: &Outcome, thorough: bool) -> Outcome {
        let candidate = &outcome.candidate;
        let resources = self.resources(candidate);
        let same = self.pages_of(outcome, &resources);
        self.with_part(
            candidate,
            &same,
            &resources,
            Sought::all(outcome.part),
            Care::Most { thorough },
        )
    }

    /// Can a candidate gain by [`Solver::by_speed`]: has a core programs beside analysed tasks?
    pub fn gains_by_speed(&self, candidate: &Candidate) -> bool {
        let mixed = |core| candidate.mixed(core, self.problem.work);
        let speed = self.problem.objective == Objective::BestEffort && !self.problem.quick();
        speed && (0..self.problem.base.cores).any(mixed)
    }

    /// A late outcome with the budgets of a plan. Candidates are compared as if all others kept
    /// their deadlines; a late plan cannot count on that.
    pub fn late(&self, outcome: &Outcome) -> Outcome {
        let candidate = &outcome.candidate;
        let resources = self.resources(candidate);
        let same = self.pages_of(outcome, &resources);
        Attempt::new(&self.problem, candidate, &same, &resources, outcome.part)
            .beside_unknown_jobs()
            .late(u64::MAX, true)
    }

    /// An outcome with other budgets and the same pages.
    pub fn with_budgets(&self, outcome: &Outcome, budgets: Vec<u64>) -> Outcome {
        let candidate = &outcome.candidate;
        let resources = self.resources(candidate);
        let same = self.pages_of(outcome, &resources);
        Attempt::new(&self.problem, candidate, &same, &resources, outcome.part).outcome(
            budgets,
            outcome.value.class,
            outcome.value.objective,
        )
    }

    /// An outcome with other locked pages of one core's tasks, by number, and the same budgets.
    pub fn with_locked(
        &self,
        outcome: &Outcome,
        core: u32,
        locked: &HashMap<usize, usize>,
    ) -> Outcome {
        let candidate = &outcome.candidate;
        let resources = self.resources(candidate);
        let mut pages = self.pages_of(outcome, &resources);
        let (work, on_core) = (self.problem.work, candidate.on(core));
        pages[core as usize] =
            Rc::new(CorePlan::with_pages(core, &on_core, locked, work, &resources));
        let budgets = outcome.resources.budgets.clone().unwrap_or_default();
        Attempt::new(&self.problem, candidate, &pages, &resources, outcome.part).outcome(
            budgets,
            outcome.value.class,
            outcome.value.objective,
        )
    }

    /// The cores of an outcome with the same pages, before it had budgets.
    fn pages_of(&self, outcome: &Outcome, resources: &Resources) -> Vec<Rc<CorePlan>> {
        let again = |core: &CorePlan| Rc::new(core.again(self.problem.work, resources));
        outcome.cores.iter().map(again).collect()
    }

    /// Do pages go to the tasks with the largest multiples of their times alone?
    fn multiples(&self) -> bool {
        self.problem.objective == Objective::Bounds || self.problem.wish.is_some()
    }

    /// Has a core a page to lock?
    fn lockable(&self, candidate: &Candidate) -> bool {
        (0..).zip(&candidate.ways).any(|(core, &ways)| {
            lockable(
                &candidate.on(core),
                self.problem.work,
                self.problem.base.lock_capacity_in(ways),
            )
        })
    }

    /// The cores with pages locked by weight.
    fn locked(
        &self,
        candidate: &Candidate,
        weights: &HashMap<usize, u64>,
        resources: &Resources,
    ) -> Vec<Rc<CorePlan>> {
        let alone = self.multiples().then_some(&self.problem.alone[..]);
        let lock = |core: u32| {
            let on = candidate.on(core);
            Rc::new(pages::lock(core, &on, weights, alone, self.problem.work, resources))
        };
        (0..resources.cores).map(lock).collect()
    }

    /// Even shares as they are, as a candidate.
    pub fn as_even(&self, candidate: Candidate) -> Outcome {
        let pages: Vec<_> = (0..self.problem.base.cores)
            .map(|core| {
                Rc::new(CorePlan::best(
                    core,
                    candidate.on(core),
                    self.problem.work,
                    &self.problem.base,
                ))
            })
            .collect();
        let mut even = self.problem.base.clone();
        even.verdict_only = true;
        Attempt::new(&self.problem, &candidate, &pages, &even, None).stated()
    }

    /// A core with the pages that even shares would lock.
    fn as_usual(&self, core: u32, candidate: &Candidate) -> Rc<CorePlan> {
        let key = (core, candidate.on(core), candidate.ways[core as usize]);
        if let Some(known) = self.usual.borrow().get(&key) {
            return Rc::clone(known);
        }
        let resources = self.resources(candidate);
        let made = Rc::new(CorePlan::best(core, candidate.on(core), self.problem.work, &resources));
        self.usual.borrow_mut().insert(key, Rc::clone(&made));
        made
    }

    /// The best part of the budgets for writes.
    fn with_any_part(
        &self,
        candidate: &Candidate,
        pages: &[Rc<CorePlan>],
        resources: &Resources,
        most: u64,
    ) -> Outcome {
        let mut best =
            self.with_part(candidate, pages, resources, Sought { part: None, most }, Care::Little);
        let apart = self.problem.base.platform.dram.counts_writes;
        for part in PARTS.into_iter().filter(|_| apart) {
            if self.problem.quick() && best.value.meets() {
                break;
            }
            let sought = Sought { part: Some(part), most: most.min(best.value.latest(1.0)) };
            let outcome = self.with_part(candidate, pages, resources, sought, Care::Little);
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
        Sought { part, most }: Sought,
        care: Care,
    ) -> Outcome {
        let wanted = Limits { deadline: WHOLE, slowdown: self.problem.wished() };
        let mut attempt = Attempt::new(&self.problem, candidate, pages, resources, part);
        let relaxed = Limits { slowdown: u64::MAX, ..wanted };
        for (class, limits) in [(2.0, wanted), (1.0, relaxed)] {
            if let Some(found) = attempt.best(limits) {
                let (least, limits) = (found.budgets, found.limits);
                let care = if self.problem.quick() { Care::Little } else { care };
                let raised = match care {
                    Care::Little => None,
                    Care::Much => Some(attempt.raised(least.clone(), limits)),
                    Care::Most { thorough } => {
                        Some(attempt.raised_by_speed(least.clone(), limits, thorough))
                    }
                };
                let budgets = match raised {
                    Some(raised) => attempt.enforceable(raised, limits),
                    None => least,
                };
                return attempt.outcome(budgets, class + if found.floor { 0.5 } else { 0.0 }, 0.0);
            }
            if self.problem.wish.is_none() {
                break;
            }
        }
        attempt.late(most, false)
    }

    /// Closeness of a task to its limits; 1 and above: it exceeds them.
    fn closeness(&self, task: &TaskPlan) -> f64 {
        let w = &self.problem.work[task.index];
        let deadline = w.task.deadline.map_or(f64::INFINITY, |d| d.ps() as f64);
        let by_deadline = task.response_ps.map_or(f64::INFINITY, |r| r as f64 / deadline);
        let slowdown = self.problem.slowdown(task);
        match (self.problem.objective, self.problem.wish) {
            (Objective::Bounds, _) => slowdown,
            (_, Some(wish)) => by_deadline.max(slowdown * 1000.0 / wish as f64),
            _ => by_deadline,
        }
    }

    /// The tasks that come closest to their limits.
    fn closest(&self, cores: &[CorePlan]) -> Vec<usize> {
        let hard =
            || cores.iter().flat_map(CorePlan::tasks).filter(|t| self.problem.work[t.index].hard());
        let most = hard().map(|t| self.closeness(t)).fold(0.0, f64::max);
        hard().filter(|t| self.closeness(t) >= most * CLOSE).map(|t| t.index).collect()
    }
}
