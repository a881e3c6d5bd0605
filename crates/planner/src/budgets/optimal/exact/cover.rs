//! All ways to put the tasks on the cores, each closed by a limit of its sets or by budgets.
//!
//! Rule: cores are equal, so that a placement is a partition of the tasks. Its first set has the
//! first task, the next one the first task that is left, and so on. Threads share out the sets of
//! the first two cores, and close the partitions with them ([`Branch`]). A split that they cannot
//! close is solved. If it is no better, smaller parts of the choices are asked about, or budgets
//! that are fair exclude it ([`Leaf::fair`]), or it stays open. Does not cover: splits with ways
//! left over, because one more way never raises a bound.

use super::branch::{Branch, MOST_OPEN, Pair, Sums, with_first_of};
use super::programs::Share;
use super::question::ROUNDED;
use super::rounds::Rounds;
use super::sets::{AT_ONCE, End, Sets};
use crate::budgets::optimal::candidate::Candidate;
use crate::budgets::optimal::certificate::{Leaf, Set, Ways, bits};
use crate::budgets::optimal::problem::LEAST;
use rayon::prelude::*;

/// The request of the caller.
pub struct Caller<'a> {
    /// Shall the search end?
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Solves a candidate; is it better than the best so far?
    pub solve: &'a mut dyn FnMut(&Candidate) -> bool,
    /// The budgets of a candidate that give each program as much as all can have.
    pub fair: &'a dyn Fn(&Candidate) -> Vec<u64>,
}

/// A search over all partitions.
pub struct Cover<'s, 'a, 'c> {
    pub sets: &'s mut Sets<'a>,
    pub caller: &'s mut Caller<'c>,
    /// Partitions with their splits that were closed by budgets.
    pub leaves: Vec<Leaf>,
    /// Splits that could not be closed, and are no better.
    pub open: u64,
}

/// Most leaves: each takes memory, and as many checks of bounds as it has steps.
pub const MOST_LEAVES: usize = 2_500_000;
/// Pairs of sets whose partitions a thread closes at once.
const PAIRS: usize = 16;

impl<'s, 'a, 'c> Cover<'s, 'a, 'c> {
    pub fn new(sets: &'s mut Sets<'a>, caller: &'s mut Caller<'c>) -> Self {
        Self { sets, caller, leaves: Vec::new(), open: 0 }
    }

    /// Closes all partitions; the needs of all sets, and the reason for an end before that.
    /// `known`: the needs for a question with limits that are not tighter, and less speed.
    pub fn all(&mut self, known: Option<Rounds>) -> (Rounds, Result<(), End>) {
        let all = self.sets.machine.all();
        // No program is faster than alone on the machine.
        let programs = (all & self.sets.machine.programs).count_ones();
        if f64::from(programs) < self.sets.question.speed - ROUNDED {
            return (Rounds::default(), Ok(()));
        }
        if let Err(end) = self.sets.all_alone(self.caller.stop) {
            return (Rounds::default(), Err(end));
        }
        let mut rounds = match known {
            Some(known) => known.again(self.sets),
            None => Rounds::new(self.sets),
        };
        let solve = &mut *self.caller.solve;
        let mut look = |rounds: &Rounds, sets: &Sets| near(rounds, sets, solve);
        let ended = rounds.all(self.sets, self.caller.stop, &mut look);
        let ended = ended.and_then(|()| self.place(&rounds, all));
        (rounds, ended)
    }

    /// Places all tasks. Threads share out the sets of the second core.
    fn place(&mut self, rounds: &Rounds, all: Set) -> Result<(), End> {
        let mut pairs: Vec<Pair> = Vec::new();
        for first in with_first_of(all) {
            let mut branch = Branch::new(self.sets, rounds, self.caller.stop);
            branch.pause(1)?;
            let Some(sums) = branch.add(first, all, &mut Vec::new(), Sums::default()) else {
                continue;
            };
            let pair = |second| Pair { first, sums, second };
            pairs.extend(branch.choices(all & !first, 1).map(pair));
            if pairs.len() >= AT_ONCE {
                self.branches(rounds, &pairs)?;
                pairs.clear();
            }
        }
        self.branches(rounds, &pairs)
    }

    /// Closes the partitions with these sets on the first two cores.
    fn branches(&mut self, rounds: &Rounds, pairs: &[Pair]) -> Result<(), End> {
        let all = self.sets.machine.all();
        let some = |pairs: &[Pair]| {
            let mut branch = Branch::new(self.sets, rounds, self.caller.stop);
            let ended = pairs.iter().try_for_each(|pair| branch.pair(pair, all));
            (branch.leaves, branch.left, ended)
        };
        let found: Vec<_> = pairs.par_chunks(PAIRS).map(some).collect();
        for (leaves, left, ended) in found {
            self.leaves.extend(leaves);
            for (placed, ways) in left {
                self.solve(&placed, &ways)?;
            }
            ended?;
        }
        if self.leaves.len() > MOST_LEAVES { Err(End::Open) } else { Ok(()) }
    }

    /// Solves a partition with its ways, which could not be closed.
    fn solve(&mut self, placed: &[Set], ways: &[u32]) -> Result<(), End> {
        let candidate = self.sets.machine.candidate(placed, ways);
        if (self.caller.solve)(&candidate) {
            return Err(End::Better);
        }
        if self.sets.in_parts() {
            return Err(End::Wide);
        }
        if let Some(leaf) = self.fair(placed, ways, &candidate) {
            self.leaves.push(leaf);
            return Ok(());
        }
        self.open += 1;
        if self.open > MOST_OPEN { Err(End::Open) } else { Ok(()) }
    }
}

impl Cover<'_, '_, '_> {
    /// A leaf with budgets that give each program more than the number of the part asked about.
    fn fair(&self, placed: &[Set], ways: &[u32], candidate: &Candidate) -> Option<Leaf> {
        let (machine, part) = (self.sets.machine, self.sets.question.part);
        let number = part.exceeded();
        if part.few == 0 || part.most > machine.problem.floor {
            return None;
        }
        let budgets = (self.caller.fair)(candidate);
        let core =
            |set: Set| bits(set).next().map(|bit| candidate.placement[machine.tasks[bit]] as usize);
        let taken: Vec<usize> = placed.iter().filter_map(|&set| core(set)).collect();
        let mut idle = (0..budgets.len()).filter(|core| !taken.contains(core));
        let of = |&set: &Set| core(set).or_else(|| idle.next()).map(|core| budgets[core]);
        let fair: Vec<u64> = placed.iter().map(of).collect::<Option<_>>()?;
        let enough = |(&set, &budget): (&Set, &u64)| {
            let count = u64::from((set & machine.programs).count_ones());
            match (count, set & machine.hard == 0) {
                (0, true) if !machine.problem.base.other_programs => budget >= number.min(LEAST),
                (0, true) => budget >= number,
                (count, _) => budget >= number * count,
            }
        };
        let (at, &set) = placed.iter().enumerate().find(|(_, set)| *set & part.few != 0)?;
        let count = u64::from((set & machine.programs).count_ones());
        let uses = if set & machine.hard == 0 {
            machine.usable(set) >= number
        } else {
            let content = self.sets.content(set, ways[at]);
            let most = machine.problem.bus;
            let share = Share { set, content: &content, ways: content.free_ways, most, part };
            machine.full(&share).into_iter().any(|full| full >= (number * count) as f64)
        };
        let all = placed.iter().zip(&fair).all(enough) && uses;
        let ways = ways.iter().map(|&ways| Ways::just(ways)).collect();
        let (steps, totals) = (Vec::new(), Vec::new());
        all.then(|| Leaf { sets: placed.to_vec(), ways, steps, totals, fair })
    }
}

/// Solves the partition with the least sum of budgets. If a choice keeps to the limits, it is often
/// this one.
///
/// # Errors
/// If it is better than the best so far.
fn near(
    rounds: &Rounds,
    sets: &Sets,
    solve: &mut dyn FnMut(&Candidate) -> bool,
) -> Result<(), End> {
    let Some((placed, ways)) = rounds.best(sets) else { return Ok(()) };
    if solve(&sets.machine.candidate(&placed, &ways)) { Err(End::Better) } else { Ok(()) }
}
