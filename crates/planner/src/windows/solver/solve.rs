//! The portfolio: several searches in lock step; the first answer counts.
//!
//! Problem: the quickest search for an instance is not known beforehand, and threads that race give
//! another answer on every machine. Rule: a fixed number of members, each with a seed of its own,
//! works in rounds of a fixed amount of work; threads only share out the members of a round. The
//! answer of the earliest round and then of the first member counts, so it depends on instance and
//! seed, and on the time limit only in whether there is one.

use super::bounds::impossible;
use super::hos::Hos;
use super::problem::{Problem, Solution};
use super::prove::{Proof, Prover};
use super::search::{Order, Search};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Look-ups in the first round, by the first search and then by the proofs, alone; this suffices
/// for most instances.
const OPENING: u64 = 200_000;
/// Look-ups of a search in the second round; later ones have more.
const ROUND: u64 = 400_000;
/// Look-ups of a search in a late round.
const LONGEST_ROUND: u64 = 6_400_000;
/// Look-ups that take about as long as one node of the exact search.
const LOOKS_PER_NODE: u64 = 60;
/// HOS, a sketch, has this part of the others' time.
const HOS_SHARE: u64 = 10;

/// Result of the portfolio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A table, and the name of the member that found it.
    Found(Solution, &'static str),
    /// There is no table, with the reason.
    Infeasible(String),
    /// No table was found before `stop`; with the number of partitions that were left over last.
    NotFound(usize),
}

enum Member<'a> {
    Search(Box<Search<'a>>),
    Prove(Box<Prover<'a>>),
    Hos(Box<Hos<'a>>),
}

/// Solves an instance on this number of threads, until `stop` (asked often, from any thread).
pub fn solve(
    problem: &Problem,
    seed: u64,
    threads: usize,
    stop: &(dyn Fn() -> bool + Sync),
) -> Answer {
    if let Some(reason) = impossible(problem) {
        return Answer::Infeasible(reason);
    }
    let derive = |n: u64| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n);
    let search = |n: u64, order| Member::Search(Box::new(Search::new(problem, derive(n), order)));
    let mut first = search(0, Order::Period);
    if let Some(answer) = first.advance(problem, OPENING, stop) {
        return answer;
    }
    let mut prover = Member::Prove(Box::new(Prover::new(problem)));
    if let Some(answer) = prover.advance(problem, OPENING, stop) {
        return answer;
    }
    let members = [
        first,
        prover,
        search(1, Order::Share),
        search(2, Order::Period),
        Member::Hos(Box::new(Hos::new(problem, derive(3)))),
        search(4, Order::Share),
    ];
    let members: Vec<Mutex<Member>> = members.into_iter().map(Mutex::new).collect();
    let mut work = ROUND;
    while !stop() {
        if let Some(answer) = round(problem, &members, work, threads, stop) {
            return answer;
        }
        work = (work * 2).min(LONGEST_ROUND);
    }
    let left = |m: &Mutex<Member>| match m.lock().ok().as_deref() {
        Some(Member::Search(s)) => Some(s.waiting()),
        _ => None,
    };
    Answer::NotFound(members.iter().filter_map(left).min().unwrap_or(0))
}

/// A search that works by itself, to compare it with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lone {
    /// The heuristic of single-core-equivalence, section 2.4.
    Hos,
    /// The exact search, which also proves that there is no table.
    Exact,
}

/// Answer of one search by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Look-ups; a node of the exact search counts as 60.
    pub look_ups: u64,
    /// Has it a table? If not, it proved that there is none.
    pub found: bool,
}

/// Runs one search by itself. `None`: it has no answer after `most` look-ups, or `stop` says so.
pub fn alone(
    problem: &Problem,
    which: Lone,
    seed: u64,
    most: u64,
    stop: &dyn Fn() -> bool,
) -> Option<Work> {
    let work = match which {
        Lone::Hos => {
            let mut hos = Hos::new(problem, seed);
            checked(problem, hos.advance(most, stop)?)?;
            Work { look_ups: hos.work(), found: true }
        }
        Lone::Exact => {
            let mut prover = Prover::new(problem);
            let found = match prover.advance(most / LOOKS_PER_NODE, stop)? {
                Proof::Table(table) => checked(problem, table).map(|_| true)?,
                Proof::None(_) => false,
            };
            Work { look_ups: prover.searched() * LOOKS_PER_NODE, found }
        }
    };
    (work.look_ups <= most).then_some(work)
}

/// The table of a search, if it keeps all rules. One that breaks a rule would be a mistake of this
/// code, and must not be run.
fn checked(problem: &Problem, table: Solution) -> Option<Solution> {
    let table = table.settled(problem);
    problem.holds(&table).then_some(table)
}

/// Advances all members once; the answer of the first that has one.
fn round(
    problem: &Problem,
    members: &[Mutex<Member>],
    work: u64,
    threads: usize,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Answer> {
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<(Option<Answer>, bool)>> =
        members.iter().map(|_| Mutex::new((None, false))).collect();
    let help = || {
        while let Some(n) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < members.len())
        {
            if let (Ok(mut member), Ok(mut answer)) = (members[n].lock(), answers[n].lock()) {
                let cut = Cell::new(false);
                let stop = || {
                    cut.set(cut.get() || stop());
                    cut.get()
                };
                let found = member.advance(problem, work, &stop);
                *answer = (found, cut.get());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, members.len()) {
            scope.spawn(help);
        }
        help();
    });
    for answer in answers {
        match answer.into_inner().ok()? {
            (None, false) => {}
            // A member that was stopped might have had an answer on a faster machine, so the
            // members behind it do not count.
            (answer, _) => return answer,
        }
    }
    None
}

impl Member<'_> {
    fn advance(&mut self, problem: &Problem, work: u64, stop: &dyn Fn() -> bool) -> Option<Answer> {
        let found = |s, name| checked(problem, s).map(|s| Answer::Found(s, name));
        match self {
            Self::Search(s) => s.advance(work, stop).and_then(|s| found(s, "ejection")),
            Self::Hos(h) => h.advance(work / HOS_SHARE, stop).and_then(|s| found(s, "hos")),
            Self::Prove(p) => match p.advance(work / LOOKS_PER_NODE, stop)? {
                Proof::Table(s) => found(s, "exact"),
                Proof::None(reason) => Some(Answer::Infeasible(reason)),
            },
        }
    }
}
