//! A search for the best cores and ways that ends with a proof.
//!
//! Problem: the choice of candidates is a heuristic, and its distance from the best choice is not
//! known. Rule: the best choice so far is asked about ([`Question`]): is there one that is better
//! by more than [`TOLERANCE`]? If best effort must be faster, and choices stay open, all choices
//! are asked about again in parts, by the budgets of the programs ([`Part`]). All partitions of the
//! tasks are closed ([`cover`]) by limits of single sets of tasks ([`sets`], [`rounds`]), by
//! budgets ([`split`]), or by their sums ([`totals`]). An open partition is solved; a better choice
//! is asked about again. All found facts go into a certificate, and only if its check agrees,
//! something is proved. Does not cover: systems that [`machine::Machine::of`] refuses; other pages
//! than those that save most; a choice that cannot be closed, and is no better when solved.

mod branch;
mod cover;
mod known;
mod leaves;
mod machine;
mod pages;
mod programs;
mod question;
mod rest;
mod rounds;
mod sets;
mod split;
mod totals;

pub use question::TOLERANCE;

use super::candidate::Candidate;
use super::certificate::{Certificate, Leaf, Part, Question};
use super::check::check;
use super::search::{self, Asked, Tried};
use super::solver::Solver;
use cover::{Caller, Cover};
use machine::Machine;
use rounds::Rounds;
use sets::{End, Sets};
use solocore_model::plan::{Proof, ProofResult};

/// The end of a search.
#[derive(Debug)]
pub struct Proved {
    /// What is proved, if anything.
    pub proof: Proof,
    /// The certificates: one for each question that the best choice raises.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests change certificates"))]
    pub certificates: Vec<Certificate>,
}

/// Most sets of a part that are looked at with each number of ways, if there are smaller parts.
const FEW_LEFT: usize = 1000;

/// Looks for better choices until none is left, or until the caller ends it. `None`: the search
/// does not cover the system.
pub fn prove(solver: &Solver, tried: &mut Tried, asked: &Asked) -> Option<Proved> {
    prove_with(solver, tried, asked, FEW_LEFT)
}

/// The same with smaller parts (see [`Machine::few_left`]): those of a small system have few sets.
pub fn prove_with(
    solver: &Solver,
    tried: &mut Tried,
    asked: &Asked,
    few_left: usize,
) -> Option<Proved> {
    let machine = Machine::of(&solver.problem, few_left)?;
    let mut proof = Proof {
        result: ProofResult::Open,
        tolerance: TOLERANCE,
        placements: 0,
        facts: 0,
        leaves: 0,
    };
    let mut searches = Vec::new();
    let ended = loop {
        match answers(solver, &machine, tried, asked, &mut searches) {
            // A neighbour of a better choice may be better still.
            Err(End::Better) => {
                search::all(solver, None, asked, tried);
                tried.by_speed(solver, asked.stop);
            }
            Err(End::Stopped | End::Open | End::Wide) => break false,
            Ok(closed) => break closed,
        }
    };
    let certificates: Vec<Certificate> = searches.into_iter().map(Search::certificate).collect();
    let value = tried.best().value;
    let stop = || (asked.stop)(&value);
    let mut proved = ended;
    for certificate in &certificates {
        proof.facts += certificate.facts.len() as u64;
        let leaves = certificate.parts.iter().map(|(_, leaves)| leaves.len() as u64);
        proof.leaves += leaves.sum::<u64>();
        let closed = if proved { check(&solver.problem, certificate, &stop) } else { Ok(0) };
        proved &= closed.is_ok();
        proof.placements = u64::try_from(closed.unwrap_or(0)).unwrap_or(u64::MAX);
    }
    if proved {
        let best = value.keeps_wish();
        proof.result = if best { ProofResult::Best } else { ProofResult::Impossible };
    }
    Some(Proved { proof, certificates })
}

/// The search for an answer to a question.
struct Search<'a> {
    sets: Sets<'a>,
    /// The needs in all choices.
    rounds: Option<Rounds>,
    /// The parts of the choices that are closed.
    parts: Vec<(Part, Vec<Leaf>)>,
}

impl<'a> Search<'a> {
    fn new(machine: &'a Machine<'a>, question: Question) -> Self {
        Self { sets: Sets::new(machine, question), rounds: None, parts: Vec::new() }
    }

    /// The same search for a question whose choices are among those of this one.
    fn again(self, question: Question) -> Self {
        Self { sets: self.sets.again(question), rounds: self.rounds, parts: Vec::new() }
    }

    /// Closes all choices: together, or else in parts; the number of those that stay open.
    fn close(&mut self, caller: &mut Caller) -> (u64, Result<(), End>) {
        let (mut left, mut open) = (vec![(Part::ALL, self.rounds.take())], 0);
        while let Some((part, known)) = left.pop() {
            self.sets.question.part = part;
            let mut cover = Cover::new(&mut self.sets, caller);
            let (rounds, ended) = cover.all(known);
            let (more, leaves) = (cover.open, std::mem::take(&mut cover.leaves));
            // All choices together come first: they give better choices soon.
            let whole =
                part == Part::ALL && (ended == Err(End::Open) || (ended.is_ok() && more > 0));
            let wide = whole || ended == Err(End::Wide);
            let smaller = if wide { self.sets.smaller_parts() } else { Vec::new() };
            let closed = smaller.is_empty();
            left.extend(smaller.into_iter().map(|part| (part, Some(rounds.of_part()))));
            if part == Part::ALL {
                self.rounds = Some(rounds);
            }
            if closed {
                self.parts.push((part, leaves));
                open += more;
                if ended.is_err() {
                    return (open, ended);
                }
            }
        }
        (open, Ok(()))
    }

    fn certificate(mut self) -> Certificate {
        self.sets.question.part = Part::ALL;
        Certificate {
            question: self.sets.question,
            tasks: self.sets.machine.tasks.clone(),
            facts: self.sets.facts(),
            parts: self.parts,
        }
    }
}

/// Answers all questions about the best choice; is each answer "no"? `searches`: those of the
/// questions before. Their facts hold for tighter limits, too.
fn answers<'a>(
    solver: &Solver,
    machine: &'a Machine<'a>,
    tried: &mut Tried,
    asked: &Asked,
    searches: &mut Vec<Search<'a>>,
) -> Result<bool, End> {
    let value = tried.best().value;
    let stop = || (asked.stop)(&value);
    let mut closed = true;
    let mut before = std::mem::take(searches).into_iter();
    for question in Question::of(&solver.problem, &value) {
        let known = before.next().filter(|s| question.is_within(&s.sets.question));
        let mut search = match known {
            Some(known) => known.again(question),
            None => Search::new(machine, question),
        };
        let mut solve = |candidate: &Candidate| tried.try_plainly(solver, candidate, true);
        let fair =
            |candidate: &Candidate| solver.plain(candidate).resources.budgets.unwrap_or_default();
        let mut caller = Caller { stop: &stop, solve: &mut solve, fair: &fair };
        let (open, ended) = search.close(&mut caller);
        closed &= open == 0;
        searches.push(search);
        ended?;
    }
    Ok(closed)
}
