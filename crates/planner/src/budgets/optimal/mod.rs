//! Optimal shares: the cores of the tasks, the cache and the budgets of a system, chosen together.
//!
//! Problem: even shares suit no task. A task that needs much of the cache gets a quarter of it, and
//! a core without deadlines may use as much bandwidth as one that has them. The price of a budget
//! depends on the placement, so that none of the three can be chosen alone. Rule: a [`Candidate`]
//! has the core of each task, and the ways of the shared cache of each core. Candidates put the
//! analysed tasks on few cores or on many, those that use memory most beside each other or apart,
//! and leave few ways or many to the others; even shares are one. Then tasks and ways move one by
//! one, and tasks swap cores, as long as that helps ([`search`]). For a candidate the budgets are
//! not searched: a core's bounds never fall when another core's budget grows, and never rise when
//! its own does (`analysis::interference`, test `monotone`). So the budgets with which all bounds
//! are met, beside given ones of the cores without deadlines, have a least solution, found from
//! below ([`attempt`]). The best value of the objective is found by bisection. Where a deadline or
//! the wanted slowdown is missed with all cores, fewer active cores are tried. Not covered: the
//! lock, and the other schemes as candidates; the choice of candidates is a heuristic, so only the
//! gap to the bound of [`Why::gap`] is proved.

mod analysed;
mod attempt;
mod candidate;
mod gap;
mod moves;
mod pages;
mod search;
mod solver;
mod speed;
#[cfg(test)]
mod tests;

use crate::core_plan::CorePlan;
use crate::resources::Resources;
use crate::work::Work;
use candidate::Candidate;
use search::Tried;
use solocore_model::system::Objective;
use solver::Solver;
use std::cmp::Ordering;

/// Value of a candidate: greater is better, in this order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Value {
    /// 2: deadlines and the wanted slowdown are met; 1: only deadlines; 0: not all deadlines. One
    /// half more where best effort has its floor besides.
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

    /// Is the wanted slowdown kept, too?
    pub fn keeps_wish(&self) -> bool {
        self.class >= 2.0
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
    /// The core that kept it from a better one, where that is known.
    pub critical: Option<u32>,
    /// Part of the budgets for writes, in thousandths.
    pub part: Option<u64>,
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
    /// Largest improvement by another choice, as a part of an upper bound on the objective, 0 to 1;
    /// 1 where a deadline or the wanted slowdown is missed.
    pub gap: f64,
    /// Number of candidates tried.
    pub tried: u64,
}

/// The number of candidates that a search tries besides the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A few: for one verdict of many.
    Least,
    /// Those of a plan.
    Usual,
    /// All, until no neighbour is better.
    Endless,
}

/// The aim of a choice, and its limits.
pub struct Asked<'a> {
    /// The objective.
    pub objective: Objective,
    /// The wanted slowdown, in thousandths.
    pub slowdown: Option<u64>,
    /// A placement for even shares.
    pub placement: &'a [u32],
    /// Even shares of fewer active cores, where their number may be chosen.
    pub fewer: Option<&'a dyn Fn(u32) -> Option<Resources>>,
    /// The number of candidates.
    pub effort: Effort,
    /// Is given the value of the best so far, and ends the search early.
    pub stop: &'a dyn Fn(&Value) -> bool,
}

/// Chooses the shares of a system with budgets. `even` are even shares.
pub fn choose(work: &[Work], even: &Resources, asked: &Asked) -> Found {
    let solver = Solver::new(work, even.clone(), asked.objective, asked.slowdown);
    let usual = Candidate {
        placement: asked.placement.to_vec(),
        ways: vec![even.ways; even.cores as usize],
    };
    let mut tried = Tried::default();
    search::all(&solver, Some(usual), asked, &mut tried);
    let all_cores = tried.best().value;
    let mut gap = solver.gap(&all_cores);
    let mut reasons = reasons(&tried, &solver, gap);
    let mut count = tried.count() as u64;
    let mut best = tried.into_best();
    if let Some((fewer, outcome)) = search::fewer(&solver, &best, asked, &mut count) {
        reasons = vec![with_fewer(&solver, &best, &outcome)];
        reasons.extend(fewer.missed_wish(&outcome.value));
        (best, gap) = (outcome, 1.0);
    }
    best.resources.verdict_only = even.verdict_only;
    if !best.value.meets() && !even.verdict_only {
        best.cores = best.cores.iter().map(|core| core.again(work, &best.resources)).collect();
    }
    Found { best, why: Why { reasons, gap, tried: count } }
}

/// The reason for fewer active cores.
fn with_fewer(solver: &Solver, all: &Outcome, chosen: &Outcome) -> String {
    let (few, cores) = (chosen.resources.cores, all.resources.cores);
    format!(
        "shares: optimal, on {few} of {cores} cores: {}; with all cores it would be {}. The other \
            cores must make no accesses (active_cores = {few}), which no part of `solocore run` \
            enforces",
        solver.words(&chosen.value),
        solver.words(&all.value)
    )
}

fn reasons(tried: &Tried, solver: &Solver, gap: f64) -> Vec<String> {
    let chosen = tried.best();
    let proved = if chosen.value.keeps_wish() {
        format!("no choice can be better by more than {:.0} % of what is possible", gap * 100.0)
    } else {
        "that no other choice would do is not proved".to_owned()
    };
    let even = if chosen.resources.explicit { "" } else { ", which are even shares" };
    let mut out = vec![format!(
        "shares: optimal, for {}: {}, the best of {} candidates{even}; {proved}",
        solver.objective_words(),
        solver.words(&chosen.value),
        tried.count(),
    )];
    let best_of = |with: &dyn Fn(&Outcome) -> bool| {
        tried.all().filter(|o| with(o)).reduce(|a, b| if b.value.better(&a.value) { b } else { a })
    };
    let on = |o: &Outcome| o.candidate.analysed_cores(solver.work);
    if let Some(next) = best_of(&|o| on(o) != on(chosen)) {
        out.push(format!(
            "cores: analysed tasks on {} of {} cores; on {} it would be {}",
            on(chosen),
            chosen.resources.cores,
            on(next),
            solver.words(&next.value)
        ));
    }
    let other_ways = |o: &Outcome| {
        o.candidate.placement == chosen.candidate.placement
            && o.candidate.ways != chosen.candidate.ways
    };
    if let Some(next) = best_of(&other_ways) {
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
