//! Optimal shares: the cores of the tasks, the cache and the budgets of a system, chosen together.
//!
//! Problem: even shares suit no task. A task that needs much of the cache gets a quarter of it, and
//! a core without deadlines may use as much bandwidth as one that has them. The price of a budget
//! depends on the placement, so that none of the three can be chosen alone. Rule: a [`Candidate`]
//! has the core of each task, and the ways of the shared cache of each core. Candidates put the
//! analysed tasks on few cores or on many, and leave few ways or many to the others; then tasks and
//! ways move one by one, as long as that helps. For a candidate the budgets are not searched: a
//! core's bounds never fall when another core's budget grows, and never rise when its own does
//! (`analysis::interference`, test `monotone`). So the budgets with which all bounds are met,
//! beside given ones of the cores without deadlines, have a least solution, found from below
//! ([`budgets`]). The best value of the objective is found by bisection. Not covered: write
//! budgets, the lock, and the other schemes as candidates; the choice of candidates is a heuristic,
//! so only the gap to the bound of [`Why::gap`] is proved.

mod analysed;
mod budgets;
mod candidate;
mod gap;
mod pages;
mod speed;
#[cfg(test)]
mod tests;

use crate::core_plan::CorePlan;
use crate::resources::Resources;
use crate::work::Work;
use budgets::Solver;
use candidate::Candidate;
use solocore_model::System;
use solocore_model::system::Objective;
use std::cmp::Ordering;

/// Most candidates tried besides the first ones, unless the caller asks for more.
const MOVES: usize = 48;

/// Value of a candidate: greater is better, in this order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Value {
    /// 2: deadlines and the wanted slowdown are met; 1: only deadlines; 0: not all deadlines.
    pub class: f64,
    /// Value of the objective; where deadlines are missed, the excess, negative.
    pub objective: f64,
    /// Speed of the best-effort programs.
    pub speed: f64,
}

impl Value {
    /// Is every deadline met?
    pub fn meets(&self) -> bool {
        self.class >= 1.0
    }

    fn better(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Greater)
    }
}

/// A candidate with its budgets and bounds.
#[derive(Debug)]
pub struct Outcome {
    /// Core of each task, and ways of each core.
    pub candidate: Candidate,
    /// The cores' bounds.
    pub cores: Vec<CorePlan>,
    /// The resources, with the budgets.
    pub resources: Resources,
    /// The candidate's value.
    pub value: Value,
}

/// The choice.
#[derive(Debug)]
pub struct Found {
    /// The best candidate.
    pub best: Outcome,
    /// Reasons for that choice.
    pub why: Why,
}

/// Reasons for the choice of a candidate.
#[derive(Debug)]
pub struct Why {
    /// In words, with the price of the next best.
    pub reasons: Vec<String>,
    /// Largest improvement by another choice, as a part of an upper bound on the objective, 0 to 1.
    pub gap: f64,
}

/// Chooses the shares of a system with budgets. `even` are even shares, and `placement` is a
/// placement for them. `stop` is given the value of the best so far and ends the search early. An
/// `endless` search goes on until no neighbour is better.
pub fn choose(
    system: &System,
    work: &[Work],
    even: &Resources,
    placement: &[u32],
    endless: bool,
    stop: &dyn Fn(&Value) -> bool,
) -> Found {
    let objective = system.regulation.objective.unwrap_or(Objective::BestEffort);
    let solver = Solver::new(work, even, objective, system.regulation.slowdown_permille);
    let mut tried: Vec<Outcome> = Vec::new();
    let usual =
        Candidate { placement: placement.to_vec(), ways: vec![even.ways; even.cores as usize] };
    for candidate in std::iter::once(usual).chain(candidate::first(work, even)) {
        if !tried.is_empty() && stop(&tried[best_of(&tried)].value) {
            break;
        }
        if tried.iter().all(|o| o.candidate != candidate) {
            tried.push(solver.solve(candidate));
        }
    }
    let mut best = best_of(&tried);
    let (mut moves, most) = (0, if endless { usize::MAX } else { MOVES });
    'search: while moves < most && !stop(&tried[best].value) {
        for next in tried[best].candidate.neighbours(work, even) {
            if tried.iter().any(|o| o.candidate == next) {
                continue;
            }
            moves += 1;
            tried.push(solver.solve(next));
            if tried[tried.len() - 1].value.better(&tried[best].value) {
                best = tried.len() - 1;
                continue 'search;
            }
            if moves >= most || stop(&tried[best].value) {
                break 'search;
            }
        }
        break;
    }
    let gap = solver.gap(&tried[best].value);
    let reasons = reasons(&tried, best, &solver, gap);
    let mut best = tried.swap_remove(best);
    best.resources.verdict_only = even.verdict_only;
    if !best.value.meets() && !even.verdict_only {
        best.cores = best.cores.iter().map(|core| core.again(work, &best.resources)).collect();
    }
    Found { best, why: Why { reasons, gap } }
}

/// The first of the best candidates.
fn best_of(tried: &[Outcome]) -> usize {
    let mut best = 0;
    for (at, outcome) in tried.iter().enumerate() {
        if outcome.value.better(&tried[best].value) {
            best = at;
        }
    }
    best
}

fn reasons(tried: &[Outcome], best: usize, solver: &Solver, gap: f64) -> Vec<String> {
    let chosen = &tried[best];
    let mut out = vec![format!(
        "shares: optimal, for {}: {} of {} candidates; no choice can be better by more than {:.0} \
            % of what is possible",
        solver.objective_words(),
        solver.words(&chosen.value),
        tried.len(),
        gap * 100.0
    )];
    let on = |o: &Outcome| o.candidate.analysed_cores(solver.work);
    let others = tried.iter().filter(|o| on(o) != on(chosen));
    if let Some(next) = others.reduce(|a, b| if b.value.better(&a.value) { b } else { a }) {
        out.push(format!(
            "cores: analysed tasks on {} of {} cores; on {} it would be {}",
            on(chosen),
            chosen.resources.cores,
            on(next),
            solver.words(&next.value)
        ));
    }
    let same = |o: &&Outcome| {
        o.candidate.placement == chosen.candidate.placement
            && o.candidate.ways != chosen.candidate.ways
    };
    if let Some(next) =
        tried.iter().filter(same).reduce(|a, b| if b.value.better(&a.value) { b } else { a })
    {
        out.push(format!(
            "cache: ways {} by core; with {} it would be {}",
            list(&chosen.candidate.ways),
            list(&next.candidate.ways),
            solver.words(&next.value)
        ));
    }
    out.extend(solver.missed_wish(&chosen.value));
    out
}

fn list(ways: &[u32]) -> String {
    ways.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
