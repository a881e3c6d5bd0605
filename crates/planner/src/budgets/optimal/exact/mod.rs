//! A search for the best cores and ways that ends with a proof.
//!
//! Problem: the choice of candidates is a heuristic, and its distance from the best choice is not
//! known. Rule: the best choice so far is asked about ([`Question`]): is there one that is better by
//! more than [`TOLERANCE`]? All partitions of the tasks are closed ([`cover`]) by limits of single
//! sets of tasks ([`sets`]), or by budgets ([`split`]). What cannot be closed is solved; a better
//! choice is asked about anew. What was found goes into a certificate, and only if its check
//! agrees, something is proved. Does not cover: systems that [`machine::Machine::of`] refuses; other
//! pages than those that save most; a choice that cannot be closed, and is no better when solved.

mod cover;
mod machine;
mod pages;
mod programs;
mod question;
mod sets;
mod split;

pub use question::TOLERANCE;

use super::candidate::Candidate;
use super::certificate::{Certificate, Question};
use super::check::check;
use super::search::{Asked, Tried};
use super::solver::Solver;
use cover::{Caller, Cover, End};
use machine::Machine;
use sets::Sets;
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

/// Looks for better choices until none is left, or until the caller ends it. `None`: the search does
/// not cover the system.
pub fn prove(solver: &Solver, tried: &mut Tried, asked: &Asked) -> Option<Proved> {
    let machine = Machine::of(&solver.problem)?;
    let mut proof = Proof {
        result: ProofResult::Open,
        tolerance: TOLERANCE,
        placements: 0,
        facts: 0,
        leaves: 0,
    };
    let mut certificates = Vec::new();
    let ended = loop {
        certificates.clear();
        match answers(solver, &machine, tried, asked, &mut certificates) {
            Err(End::Better) => {}
            Err(End::Stopped) => break false,
            Ok(closed) => break closed,
        }
    };
    let value = tried.best().value;
    let stop = || (asked.stop)(&value);
    let mut proved = ended;
    for certificate in &certificates {
        proof.facts += certificate.facts.len() as u64;
        proof.leaves += certificate.leaves.len() as u64;
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

/// Answers all questions about the best choice; is each answer "no"?
fn answers(
    solver: &Solver,
    machine: &Machine,
    tried: &mut Tried,
    asked: &Asked,
    certificates: &mut Vec<Certificate>,
) -> Result<bool, End> {
    let value = tried.best().value;
    let stop = || (asked.stop)(&value);
    let mut closed = true;
    for question in Question::of(&solver.problem, &value) {
        let mut sets = Sets::new(machine, question);
        let mut solve = |candidate: &Candidate| tried.try_plainly(solver, candidate);
        let mut caller = Caller { stop: &stop, solve: &mut solve };
        let mut cover = Cover::new(&mut sets, &mut caller);
        cover.all()?;
        let (leaves, open) = (std::mem::take(&mut cover.leaves), cover.open);
        closed &= open == 0;
        let (tasks, facts) = (machine.tasks.clone(), sets.facts());
        certificates.push(Certificate { question, tasks, facts, leaves });
    }
    Ok(closed)
}
