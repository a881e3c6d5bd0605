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
//! below ([`attempt`]). The best value of the objective is found by bisection. Budgets of
//! the best candidates are then set by the speed that they give ([`exchange`]). Where a deadline or
//! the wanted slowdown is missed with all cores, fewer active cores are tried. Not covered:
//! other policies (`crate::policies`) and schemes; the choice of candidates is a heuristic, so only
//! the gap to the bound of [`Why::gap`] is proved, unless the caller waits for [`exact`].

mod analysed;
mod attempt;
mod candidate;
mod certificate;
mod check;
mod check_core;
mod check_facts;
mod check_rounds;
mod check_speed;
mod check_totals;
mod check_ways;
mod exact;
#[cfg(test)]
mod exact_tests;
mod exchange;
mod gap;
mod moves;
mod outcome;
mod pages;
mod prices;
mod problem;
mod search;
mod sharing;
mod solver;
mod speed;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod totals_tests;

use crate::core_plan::CorePlan;
use crate::resources::Resources;
use crate::work::Work;
use candidate::Candidate;
pub use candidate::ways_tried;
use outcome::Outcome;
pub use outcome::Value;
use problem::Problem;
use search::Tried;
pub use search::{Asked, Effort};
use solocore_model::list;
use solocore_model::plan::{Choice, Proof, ProofResult};
use solver::Solver;
use speed::{Need, Share};

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
    /// Proof that there is no better choice, where the caller waited for one.
    pub proof: Option<Proof>,
    /// The price of each choice, where the caller asks for it.
    pub choices: Vec<Choice>,
    /// Mean speed of the best-effort programs, estimated.
    pub speed: f64,
    /// Number of candidates tried.
    pub tried: u64,
}

/// Chooses the shares of a system with budgets. `even` are even shares.
pub fn choose(work: &[Work], even: &Resources, asked: &Asked) -> Found {
    let solver = Solver::new(Problem::new(work, even.clone(), asked.objective, asked.slowdown));
    let usual = Candidate {
        placement: asked.placement.to_vec(),
        ways: vec![even.ways; even.cores as usize],
    };
    let mut tried = Tried::default();
    let mut proof = searched(&solver, usual, asked, &mut tried);
    let mut gap = solver.problem.gap(&tried.best().value);
    if proof.is_some_and(|proof| proof.result == ProofResult::Best) {
        gap = gap.min(exact::TOLERANCE);
    }
    let mut reasons = reasons(&tried, &solver.problem, gap, proof.as_ref());
    let mut count = tried.count() as u64;
    let mut best = tried.into_best();
    let all = (solver.problem.base.cores, best.value);
    let mut priced = None;
    if let Some((fewer, outcome)) = search::fewer(&solver, &best, asked, &mut count) {
        reasons = vec![with_fewer(&solver.problem, &best, &outcome)];
        reasons.extend(fewer.problem.missed_wish(&outcome.value));
        // What was proved is about all cores.
        (best, gap, proof) = (outcome, 1.0, None);
        priced = Some(fewer);
    }
    let left_out = asked.prices.and_then(|_| prices::left_out(work.len()));
    let ask = asked.prices.filter(|_| left_out.is_none() && best.value.meets());
    let choices = ask.and_then(|stop| prices::of(priced.as_ref().unwrap_or(&solver), &best, stop));
    let mut choices = choices.unwrap_or_default();
    if let Some(stop) = ask.filter(|_| !choices.is_empty()) {
        let cores = best.resources.cores;
        let of = |problem: &Problem, why, next| prices::active_cores(problem, cores, why, next);
        choices.extend(match &priced {
            Some(fewer) => Some(of(&fewer.problem, "more cores miss a limit", all)),
            None => search::one_less(&solver, asked, stop)
                .map(|next| of(&solver.problem, "no limit needs fewer", next)),
        });
    }
    reasons.extend(left_out);
    if !best.value.meets() && !even.verdict_only && best.resources.explicit {
        best = solver.late(&best);
    }
    best.resources.verdict_only = even.verdict_only;
    if !best.value.meets() && !even.verdict_only {
        best.cores = best.cores.iter().map(|core| core.again(work, &best.resources)).collect();
    }
    let speed = best.value.speed;
    Found { best, why: Why { reasons, gap, proof, choices, speed, tried: count } }
}

/// Mean speeds of the best-effort programs on these cores, one for each of these budgets, which
/// every core has; 1 is the speed alone on the machine.
pub fn mean_speeds(cores: &[CorePlan], work: &[Work], r: &Resources, budgets: &[u64]) -> Vec<f64> {
    let mut placement = vec![0; work.len()];
    for core in cores {
        core.tasks().iter().for_each(|t| placement[t.index] = core.core);
    }
    let candidate =
        Candidate { placement, ways: cores.iter().map(|c| r.ways_of(c.core)).collect() };
    let best_effort = (0..work.len()).filter(|&t| !work[t].hard());
    let needs: Vec<Need> = best_effort.map(|t| Need::of(t, &work[t], r)).collect();
    let shares = Share::all(&needs, work, &candidate, cores, r);
    let none = vec![None; cores.len()];
    let with = |&budget: &u64| {
        speed::mean(&shares, &r.with_budgets(vec![budget; cores.len()], none.clone()))
    };
    budgets.iter().map(with).collect()
}

/// Tries candidates. Where the caller waits for more, looks for a proof that there are no better
/// ones, in the time that is left once nothing near is better.
fn searched(solver: &Solver, usual: Candidate, asked: &Asked, tried: &mut Tried) -> Option<Proof> {
    search::with_verdict(solver, Some(&usual), asked, tried);
    let waits = asked.effort == Effort::Endless;
    waits.then(|| exact::prove(solver, tried, asked)).flatten().map(|proved| proved.proof)
}

/// What is proved of the other choices.
fn proved(value: &Value, gap: f64, proof: Option<ProofResult>) -> String {
    let what = if value.meets() { "the slowdown" } else { "a deadline" };
    match proof {
        Some(ProofResult::Best) => format!(
            "it is proved that no other choice of cores and ways is better by more than {:.0} %, \
                if each locks pages by the planner's rule",
            gap * 100.0
        ),
        Some(ProofResult::Impossible) => {
            format!(
                "it is proved that every other choice of cores and ways misses {what} too, if each locks \
                    pages by the planner's rule"
            )
        }
        _ if value.keeps_wish() => format!(
            "no other choice is better by more than {:.0} % of the best possible value",
            gap * 100.0
        ),
        _ => format!("it is not proved that every other choice misses {what} too"),
    }
}

/// The reason for fewer active cores.
fn with_fewer(problem: &Problem, all: &Outcome, chosen: &Outcome) -> String {
    let (few, cores) = (chosen.resources.cores, all.resources.cores);
    format!(
        "shares: optimal, on {few} of {cores} cores: {}; with all cores it would be {}. The other \
            cores must make no accesses (active_cores = {few}), which no part of `solocore run` \
            enforces",
        problem.words(&chosen.value),
        problem.words(&all.value)
    )
}

fn reasons(tried: &Tried, problem: &Problem, gap: f64, proof: Option<&Proof>) -> Vec<String> {
    let chosen = tried.best();
    let proved = proved(&chosen.value, gap, proof.map(|proof| proof.result));
    let even = if chosen.resources.explicit { "" } else { ", which are even shares" };
    let mut out = vec![format!(
        "shares: optimal, for {}: {}, the best of {} candidates{even}; {proved}",
        problem.objective_words(),
        problem.words(&chosen.value),
        tried.count(),
    )];
    let best_of = |with: &dyn Fn(&Outcome) -> bool| {
        tried.all().filter(|o| with(o)).reduce(|a, b| if b.value.better(&a.value) { b } else { a })
    };
    let on = |o: &Outcome| o.candidate.analysed_cores(problem.work);
    if let Some(next) = best_of(&|o| on(o) != on(chosen)) {
        out.push(format!(
            "cores: analysed tasks on {} of {} cores; on {} it would be {}",
            on(chosen),
            chosen.resources.cores,
            on(next),
            problem.words(&next.value)
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
            problem.words(&next.value)
        ));
    }
    out.extend(problem.missed_wish(&chosen.value));
    out
}
