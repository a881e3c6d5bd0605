//! The order in which candidates are tried.
//!
//! Rule: even shares, the first candidates, then the neighbours of the best one. A better neighbour
//! becomes the best at once, and its neighbours are next ([`MOVES`]). Above [`PROMPT`] tasks, the
//! first candidate that meets all deadlines is the answer, unless the caller waits for more. Fewer
//! active cores are tried where a deadline or the wanted slowdown is missed with all of them, and
//! the first number with which it is not is taken, from the largest on. A candidate that is worse
//! than the best one without the pages' weights set again is not refined. If deadlines are exceeded
//! by about a quarter at most, the candidates of a verdict are tried as well. At the end, the best
//! candidates get budgets by the speed that these give to best effort. The search itself compares
//! candidates without that, so the end is never worse for it. In small systems, candidates with
//! best effort beside analysed tasks and the neighbours of the best one get such budgets, too, as
//! long as one of them is better, up to [`MOVES`]. Does not cover: a proof that no other candidate
//! is better.

use super::attempt::LATE;
use super::candidate::{self, Candidate};
use super::outcome::{Outcome, Value};
use super::problem::Problem;
use super::solver::Solver;
use crate::resources::Resources;
use solocore_model::system::Objective;
use std::collections::HashSet;

/// Most candidates tried besides the first ones, unless the caller asks for more.
const MOVES: usize = 64;
/// The same for a verdict alone.
const FEW_MOVES: usize = 16;
/// Factor by which deadlines are exceeded beyond which no neighbour is tried: one task or one way
/// more does not make up for it.
const HOPELESS: f64 = 3.0;
/// Number of tasks above which the first answer is given at once.
pub const PROMPT: usize = 64;
/// Factor for the excess of the best candidate up to which another one is refined.
const NEAR: f64 = 1.1;
/// Part of the best objective from which on a candidate's budgets are set by speed.
const SLOWER: f64 = 0.8;
/// Most candidates of which these are set, the best first.
const NEXT: usize = 8;
/// Most tasks of a system in which the neighbours of the best one get them, too.
const SMALL: usize = 12;

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
    /// Asks for the price of each choice, and ends that early.
    pub prices: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Is given the value of the best so far, and ends the search early.
    pub stop: &'a (dyn Fn(&Value) -> bool + Sync),
}

/// Candidates with their outcomes.
#[derive(Debug, Default)]
pub struct Tried {
    outcomes: Vec<Outcome>,
    seen: HashSet<Candidate>,
    best: usize,
    /// Number of candidates of a search for a verdict.
    elsewhere: usize,
}

impl Tried {
    /// Number of candidates.
    pub fn count(&self) -> usize {
        self.outcomes.len() + self.elsewhere
    }

    /// All candidates, in order.
    pub fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter()
    }

    /// The first of the best.
    pub fn best(&self) -> &Outcome {
        &self.outcomes[self.best]
    }

    /// The first of the best.
    pub fn into_best(mut self) -> Outcome {
        self.outcomes.swap_remove(self.best)
    }

    /// Adds an outcome; is it the best?
    pub fn add(&mut self, outcome: Outcome) -> bool {
        let better = self.outcomes.is_empty() || outcome.value.better(&self.best().value);
        if better {
            self.best = self.outcomes.len();
        }
        self.outcomes.push(outcome);
        better
    }

    /// Solves a candidate with the pages that save most; is it the best? `thorough`: its budgets
    /// are set by speed even if it is slow before that.
    pub fn try_plainly(&mut self, solver: &Solver, candidate: &Candidate, thorough: bool) -> bool {
        let mut outcome = solver.plain(candidate);
        if self.may_gain(solver, &outcome, if thorough { 0.0 } else { SLOWER }) {
            outcome = solver.by_speed(&outcome, thorough);
        }
        if !outcome.value.better(&self.best().value) {
            return false;
        }
        self.seen.insert(candidate.clone());
        self.add(solver.finished(outcome, thorough))
    }

    /// Sets the budgets of the candidates near the best one by the speed that they give to best
    /// effort, until the caller ends it.
    pub fn by_speed(&mut self, solver: &Solver, stop: &dyn Fn(&Value) -> bool) {
        let mut found: Vec<usize> = (0..self.outcomes.len())
            .filter(|&at| self.may_gain(solver, &self.outcomes[at], SLOWER))
            .collect();
        let objective = |at: usize| self.outcomes[at].value.objective;
        found.sort_by(|&a, &b| objective(b).total_cmp(&objective(a)).then(a.cmp(&b)));
        for at in found.into_iter().take(NEXT) {
            if stop(&self.best().value) {
                return;
            }
            let outcome = solver.by_speed(&self.outcomes[at], false);
            if outcome.value.better(&self.best().value) {
                self.add(outcome);
            }
        }
    }

    /// The same for some candidates with all best effort beside analysed tasks, and for the
    /// neighbours of the best one: a better one becomes the best at once. The search before
    /// compares candidates without such budgets, which can hide a better one.
    fn climb_by_speed(&mut self, solver: &Solver, stop: &dyn Fn(&Value) -> bool) {
        let (work, base) = (solver.problem.work, &solver.problem.base);
        let mut seen = HashSet::new();
        let beside: Vec<Candidate> = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.value.meets())
            .map(|outcome| outcome.candidate.beside_analysed(work))
            .collect();
        for candidate in beside {
            if seen.len() >= NEXT || stop(&self.best().value) {
                break;
            }
            if seen.insert(candidate.clone()) {
                self.try_plainly(solver, &candidate, false);
            }
        }
        'search: loop {
            let best = self.best();
            if !best.value.meets() {
                return;
            }
            for next in best.candidate.neighbours(work, base, best) {
                if seen.len() >= MOVES || stop(&self.best().value) {
                    return;
                }
                if seen.insert(next.clone()) && self.try_plainly(solver, &next, false) {
                    continue 'search;
                }
            }
            return;
        }
    }

    /// May an outcome be the best with budgets by the speed that they give?
    fn may_gain(&self, solver: &Solver, outcome: &Outcome, slower: f64) -> bool {
        let (value, best) = (&outcome.value, &self.best().value);
        value.meets()
            && value.class == best.class
            && value.objective >= slower * best.objective
            && outcome.resources.explicit
            && solver.gains_by_speed(&outcome.candidate)
    }

    /// Solves a candidate that is new, and refines it if it may be the best; is it?
    fn solve(&mut self, solver: &Solver, candidate: Candidate) -> Option<bool> {
        if !self.seen.insert(candidate.clone()) {
            return None;
        }
        let near = self.outcomes.get(self.best).map_or(u64::MAX, |best| best.value.latest(NEAR));
        let outcome = solver.solve(&candidate, near);
        let promising = self.outcomes.is_empty() || {
            let (value, best) = (&outcome.value, &self.best().value);
            let near = !value.meets() && !best.meets() && value.objective > NEAR * best.objective;
            near || value.better(best)
        };
        Some(self.add(if promising { solver.refined(outcome) } else { outcome }))
    }
}

/// Tries candidates on all cores of the solver; `usual` has the placement of even shares.
pub fn all(solver: &Solver, usual: Option<Candidate>, asked: &Asked, tried: &mut Tried) {
    let (work, base) = (solver.problem.work, &solver.problem.base);
    let endless = asked.effort == Effort::Endless;
    let prompt = work.len() > PROMPT && !endless;
    let ends = |tried: &Tried| {
        let value = &tried.best().value;
        (asked.stop)(value) || (prompt && value.meets())
    };
    if let Some(usual) = &usual {
        tried.add(solver.as_even(usual.clone()));
    }
    for candidate in usual.into_iter().chain(candidate::first(work, base)) {
        if tried.count() > 0 && ends(tried) {
            return;
        }
        tried.solve(solver, candidate);
    }
    let most = match asked.effort {
        Effort::Least => FEW_MOVES,
        Effort::Usual => MOVES,
        Effort::Endless => usize::MAX,
    };
    let mut moves = 0;
    'search: while tried.count() > 0 {
        let best = tried.best();
        if !endless && !best.value.meets() && best.value.objective < -HOPELESS {
            return;
        }
        for next in best.candidate.neighbours(work, base, best) {
            if moves >= most || ends(tried) {
                return;
            }
            match tried.solve(solver, next) {
                None => {}
                Some(better) => {
                    moves += 1;
                    if better {
                        continue 'search;
                    }
                }
            }
        }
        return;
    }
}

/// Tries candidates, and where deadlines are missed by little those of a verdict. The best of them
/// get budgets by speed.
pub fn with_verdict(solver: &Solver, usual: Option<&Candidate>, asked: &Asked, tried: &mut Tried) {
    all(solver, usual.cloned(), asked, tried);
    as_verdict(solver, usual.cloned(), asked, tried);
    if solver.problem.work.len() <= PROMPT || asked.effort == Effort::Endless {
        tried.by_speed(solver, asked.stop);
    }
    let fast = solver.problem.objective == Objective::BestEffort && !solver.problem.quick();
    if fast && solver.problem.work.len() <= SMALL {
        tried.climb_by_speed(solver, asked.stop);
    }
}

/// Tries what a search for a verdict alone finds, where deadlines are missed by little. A verdict's
/// search does not rank late candidates, so it refines more of them.
fn as_verdict(solver: &Solver, usual: Option<Candidate>, asked: &Asked, tried: &mut Tried) {
    let problem = &solver.problem;
    let near = |best: &Outcome| !best.value.meets() && best.value.latest(1.0) <= LATE + LATE / 10;
    if problem.quick() || !tried.outcomes.get(tried.best).is_some_and(near) {
        return;
    }
    let mut base = problem.base.clone();
    base.verdict_only = true;
    let quick = Solver::new(Problem::new(problem.work, base, asked.objective, asked.slowdown));
    let stop = |value: &Value| value.meets() || (asked.stop)(value);
    let least = Asked { effort: Effort::Least, stop: &stop, ..*asked };
    let mut found = Tried::default();
    all(&quick, usual, &least, &mut found);
    tried.elsewhere += found.count();
    // With the pages of that outcome the deadlines are met here, too.
    if found.best().value.meets() && tried.add(solver.refined(found.into_best())) {
        all(solver, None, asked, tried);
    }
}

/// The choice with fewer active cores, where that keeps more than `all` does.
pub fn fewer<'a>(
    solver: &Solver<'a>,
    all: &Outcome,
    asked: &Asked,
    count: &mut u64,
) -> Option<(Solver<'a>, Outcome)> {
    let of = asked.fewer.filter(|_| !all.value.keeps_wish())?;
    let stated =
        solver.problem.work.iter().filter_map(|w| w.task.core).max().map_or(1, |core| core + 1);
    // No core has more work done in its time than the fastest.
    let base = &solver.problem.base;
    let fastest = base.platform.fastest_pace();
    let hard = solver.problem.work.iter().filter(|w| w.hard());
    let least: f64 = hard.map(|w| candidate::load_at(w, base, fastest)).sum();
    for cores in (stated..solver.problem.base.cores).rev() {
        if f64::from(cores) < least || (asked.stop)(&all.value) {
            break;
        }
        let Some(base) = of(cores) else { continue };
        let (fewer, tried) = on_cores(base, solver, asked);
        *count += tried.count() as u64;
        if tried.count() > 0 && tried.best().value.class.floor() > all.value.class.floor() {
            return Some((fewer, tried.into_best()));
        }
    }
    None
}

/// Value of the best choice with one active core less, where their number may be chosen. `None`
/// also where `stop` ended the search.
pub fn one_less(
    solver: &Solver,
    asked: &Asked,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<(u32, Value)> {
    let (work, cores) = (solver.problem.work, solver.problem.base.cores.checked_sub(1)?);
    if cores == 0 || work.iter().any(|w| w.task.core.is_some_and(|core| core >= cores)) {
        return None;
    }
    let ends = |_: &Value| stop();
    let asked = Asked { effort: Effort::Usual, stop: &ends, ..*asked };
    let (_, tried) = on_cores(asked.fewer?(cores)?, solver, &asked);
    (tried.count() > 0 && !stop()).then(|| (cores, tried.best().value))
}

/// The choices on the cores of this machine with even shares.
fn on_cores<'a>(base: Resources, all: &Solver<'a>, asked: &Asked) -> (Solver<'a>, Tried) {
    let work = all.problem.work;
    let solver = Solver::new(Problem::new(work, base, asked.objective, asked.slowdown));
    let mut tried = Tried::default();
    with_verdict(&solver, None, asked, &mut tried);
    (solver, tried)
}
