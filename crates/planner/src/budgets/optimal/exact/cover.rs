//! All ways to put the tasks on the cores, each closed by a limit of its sets or by budgets.
//!
//! Rule: cores are equal, so that a placement is a partition of the tasks. Its first set has the
//! first task, the next one the first task that is left, and so on. Partitions are closed together
//! as soon as some sets are placed: these need more ways than the rest leaves, break a limit beside
//! the least budgets of the rest, or reach no wanted speed ([`super::rounds`]). In a whole
//! partition, many splits of the ways are closed at once: with the most ways that each core has in
//! any of them. If that breaks no limit, the splits are halved. A single one that [`Split`] cannot
//! close is solved. If it is no better, smaller parts of the choices are asked about, or it stays
//! open. Does not cover: splits with ways left over, because one more way never raises a bound.

use super::programs::Share;
use super::rounds::{Entry, Rounds};
use super::sets::{End, Sets};
use super::split::{Split, others, with_speed};
use crate::budgets::optimal::candidate::Candidate;
use crate::budgets::optimal::certificate::{Leaf, Set, Ways};

/// The request of the caller.
pub struct Caller<'a> {
    /// Shall the search end?
    pub stop: &'a dyn Fn() -> bool,
    /// Solves a candidate; is it better than the best so far?
    pub solve: &'a mut dyn FnMut(&Candidate) -> bool,
}

/// A search over all partitions.
pub struct Cover<'s, 'a, 'c> {
    pub sets: &'s mut Sets<'a>,
    pub caller: &'s mut Caller<'c>,
    /// Partitions with their splits that were closed by budgets.
    pub leaves: Vec<Leaf>,
    /// Splits that could not be closed, and are no better.
    pub open: u64,
    steps: u32,
}

/// Sums over the sets of a partition so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    ways: u32,
    budgets: u64,
    speed: f64,
}

/// Most leaves: each takes memory, and as many checks of bounds as it has steps.
const MOST_LEAVES: usize = 1_000_000;
/// Most choices that are solved in vain.
const MOST_OPEN: u64 = 2000;
/// Sums of speeds are rounded by less than this.
const ROUNDED: f64 = 1e-9;

impl<'s, 'a, 'c> Cover<'s, 'a, 'c> {
    pub fn new(sets: &'s mut Sets<'a>, caller: &'s mut Caller<'c>) -> Self {
        Self { sets, caller, leaves: Vec::new(), open: 0, steps: 0 }
    }

    /// Closes all partitions; the needs of all sets, and the reason for an end before that.
    /// `known`: the needs for a question with the same limits that asks for less speed.
    pub fn all(&mut self, known: Option<Rounds>) -> (Rounds, Result<(), End>) {
        let all = self.sets.machine.all();
        // No program is faster than alone on the machine.
        let programs = (all & self.sets.machine.programs).count_ones();
        if f64::from(programs) < self.sets.question.speed - ROUNDED {
            return (Rounds::default(), Ok(()));
        }
        let (stop, mut steps) = (self.caller.stop, 0u32);
        let mut pause = || {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(16) && stop() { Err(End::Stopped) } else { Ok(()) }
        };
        let mut rounds = match known {
            Some(known) => known,
            None => match self.sets.all_alone(&mut pause) {
                Ok(()) => Rounds::new(self.sets),
                Err(end) => return (Rounds::default(), Err(end)),
            },
        };
        let solve = &mut *self.caller.solve;
        let mut look = |rounds: &Rounds, sets: &Sets| near(rounds, sets, solve);
        let ended = rounds.all(self.sets, &mut pause, &mut look);
        let ended = ended.and_then(|()| self.place(&rounds, all, &mut Vec::new(), Sums::default()));
        (rounds, ended)
    }

    /// Asks now and then whether to end.
    fn pause(&mut self, each: u32) -> Result<(), End> {
        self.steps = self.steps.wrapping_add(1);
        let ends = self.steps.is_multiple_of(each) && (self.caller.stop)();
        if ends { Err(End::Stopped) } else { Ok(()) }
    }

    /// Places the rest of the tasks, the first of them in a set of its own core.
    fn place(
        &mut self,
        rounds: &Rounds,
        rest: Set,
        placed: &mut Vec<Set>,
        sums: Sums,
    ) -> Result<(), End> {
        if rest == 0 {
            return self.partition(rounds, placed);
        }
        let left = self.sets.machine.cores - placed.len() as u32;
        if left == 0 {
            return Ok(());
        }
        let first = rest & rest.wrapping_neg();
        let mut more = rest ^ first;
        loop {
            self.pause(1 << 10)?;
            let set = first | more;
            if let Some(entry) = rounds.entries[set as usize] {
                let sums = Sums {
                    ways: sums.ways + entry.ways.least,
                    budgets: sums.budgets.saturating_add(entry.budget),
                    speed: sums.speed + entry.speed,
                };
                placed.push(set);
                if self.possible(rounds, placed, sums, rest & !set) {
                    self.place(rounds, rest & !set, placed, sums)?;
                }
                placed.pop();
            }
            if more == 0 || left == 1 {
                return Ok(());
            }
            more = (more - 1) & (rest ^ first);
        }
    }

    /// May sets with these sums be part of a partition, beside the least that the rest needs?
    fn possible(&mut self, rounds: &Rounds, placed: &[Set], sums: Sums, rest: Set) -> bool {
        let (machine, wanted) = (self.sets.machine, self.sets.question.speed);
        let left = machine.cores - placed.len() as u32;
        let budgets = rounds.least.budgets.least(left, rest);
        let ways = rounds.least.ways.least(left, rest) + f64::from(sums.ways);
        let fast =
            wanted <= 0.0 || sums.speed - rounds.least.speeds.least(left, rest) >= wanted - ROUNDED;
        if budgets == f64::INFINITY || ways > f64::from(machine.ways.0) || !fast {
            return false;
        }
        let all = sums.budgets.saturating_add(budgets as u64);
        let by_ways = rounds.beside_by_ways(self.sets, placed, rest);
        let keeps = placed.iter().enumerate().all(|(at, &set)| {
            let Some(own) = rounds.entries[set as usize] else { return false };
            let (plain, hard) = (all - own.budget, set & machine.hard != 0);
            let mut keeps = |ways, others| !hard || self.sets.keeps(set, ways, others);
            let of = |ways: u32| by_ways.as_ref().map_or(0.0, |sums| sums[at][ways as usize]);
            keeps(own.ways, plain)
                && (own.ways.least..=own.ways.most).rev().any(|ways| {
                    let others = of(ways);
                    others < f64::INFINITY && keeps(Ways::just(ways), plain.max(others as u64))
                })
        });
        keeps && (wanted <= 0.0 || self.reach(rounds, placed, rest, budgets as u64))
    }

    /// May these sets, beside the rest, reach the wanted speed with budgets that all others bear?
    fn reach(&mut self, rounds: &Rounds, placed: &[Set], rest: Set, beside: u64) -> bool {
        let (machine, wanted) = (self.sets.machine, self.sets.question.speed);
        let left = machine.cores - placed.len() as u32;
        let held: Vec<Entry> =
            placed.iter().filter_map(|&set| rounds.entries[set as usize]).collect();
        let mut budgets: Vec<u64> = held.iter().map(|own| own.budget).collect();
        for (at, (&set, own)) in placed.iter().zip(&held).enumerate() {
            let others = others(&budgets, at).saturating_add(beside);
            budgets[at] = budgets[at].max(self.sets.needs(set, own.ways, others));
        }
        let all = budgets.iter().fold(beside, |sum, &own| sum.saturating_add(own));
        // The largest budget of a core that the others bear, beside each other's.
        let bear = -rounds.least.bears.least(left, rest);
        let most = |at: usize| {
            let of = |other: usize| {
                let both = all - budgets[at] - budgets[other];
                held[other].breaks.saturating_sub(both).saturating_sub(1)
            };
            let placed = (0..held.len()).filter(|&other| other != at).map(of).min();
            let rest = if bear < f64::INFINITY {
                (bear as u64).saturating_sub(1).saturating_sub(all - beside - budgets[at])
            } else {
                u64::MAX
            };
            placed.unwrap_or(u64::MAX).min(rest).min(machine.problem.bus)
        };
        let most: Vec<u64> = (0..held.len()).map(most).collect();
        if budgets.iter().zip(&most).any(|(own, most)| own > most) {
            return false;
        }
        let part = self.sets.question.part;
        let mut reached = -rounds.least.speeds.least(left, rest);
        for ((&set, own), &most) in placed.iter().zip(&held).zip(&most) {
            if set & machine.programs != 0 {
                let content = self.sets.content(set, own.ways.most);
                let ways = machine.stated_ways(own.ways.most);
                let share = Share { set, content: &content, ways, most, part };
                reached += machine.speed(&share, most).min(own.speed);
            }
        }
        reached >= wanted - ROUNDED
    }

    /// Closes a partition.
    fn partition(&mut self, rounds: &Rounds, placed: &[Set]) -> Result<(), End> {
        let machine = self.sets.machine;
        let mut placed = placed.to_vec();
        placed.resize(machine.cores as usize, 0);
        let entries: Vec<Entry> =
            placed.iter().filter_map(|&set| rounds.entries[set as usize]).collect();
        // A way more is of no use to a core that has no tasks, or only programs that no speed is
        // asked of.
        let useful =
            |&set: &Set| set & machine.hard != 0 || (self.sets.question.speed > 0.0 && set != 0);
        let most = |(set, own): (&Set, &Entry)| if useful(set) { own.ways.most } else { 1 };
        let most: Vec<u32> = placed.iter().zip(&entries).map(most).collect();
        let least = entries.iter().map(|own| own.ways.least).collect();
        self.splits(&placed, least, most)
    }

    /// Closes all splits of all ways with at least and at most these numbers.
    fn splits(
        &mut self,
        placed: &[Set],
        mut least: Vec<u32>,
        mut most: Vec<u32>,
    ) -> Result<(), End> {
        let all = self.sets.machine.ways.0;
        let Some(budgets) = self.narrowed(placed, &mut least, &mut most) else { return Ok(()) };
        self.pause(1)?;
        let mut split = Split::new(self.sets, placed, &most, &budgets);
        // Budgets are found only where all ways are given out.
        let exact = most.iter().sum::<u32>() <= all;
        let steps = match split.broken(&budgets) {
            Some(step) => Some(vec![step]),
            None if exact => split.refuted(budgets),
            None => None,
        };
        if let Some(steps) = steps {
            let ways = least.iter().zip(&most).map(|(&least, &most)| Ways { least, most });
            self.leaves.push(Leaf { sets: placed.to_vec(), ways: ways.collect(), steps });
            return if self.leaves.len() > MOST_LEAVES { Err(End::Open) } else { Ok(()) };
        }
        let range = |at: usize| most[at] - least[at];
        let widest = (0..placed.len()).max_by_key(|&at| (range(at), std::cmp::Reverse(at)));
        match widest.filter(|&at| range(at) > 0 && !exact) {
            None => self.solve(placed, &most),
            Some(at) => {
                let middle = u32::midpoint(least[at], most[at]);
                let (mut above, mut below) = (least.clone(), most.clone());
                (above[at], below[at]) = (middle + 1, middle);
                self.splits(placed, above, most)?;
                self.splits(placed, least, below)
            }
        }
    }

    /// The least budgets with the most ways of each core, after the limits of the sets narrowed the
    /// numbers of ways; `None` if nothing is left, or a limit is broken.
    fn narrowed(
        &mut self,
        placed: &[Set],
        least: &mut [u32],
        most: &mut [u32],
    ) -> Option<Vec<u64>> {
        let all = self.sets.machine.ways.0;
        loop {
            let sum: u32 = least.iter().sum();
            for (most, least) in most.iter_mut().zip(&*least) {
                *most = (all + least).checked_sub(sum)?.min(*most);
            }
            // All ways are given out.
            let room: u32 = most.iter().sum();
            for (least, most) in least.iter_mut().zip(&*most) {
                *least = (all + most).checked_sub(room).map_or(*least, |l| l.max(*least));
                if *least > *most {
                    return None;
                }
            }
            let budgets = self.budgets(placed, least, most)?;
            let mut grew = false;
            for (at, &set) in placed.iter().enumerate() {
                let beside = others(&budgets, at);
                if set & self.sets.machine.hard == 0 {
                    continue;
                }
                let ways = Ways { least: least[at], most: most[at] };
                if !self.sets.keeps(set, ways, beside) {
                    return None;
                }
                while least[at] < most[at] && !self.sets.keeps(set, Ways::just(least[at]), beside) {
                    least[at] += 1;
                    grew = true;
                }
                while most[at] > least[at] && !self.sets.keeps(set, Ways::just(most[at]), beside) {
                    most[at] -= 1;
                    grew = true;
                }
            }
            if !grew {
                return Some(budgets);
            }
        }
    }

    /// Least budgets of cores with these ways; `None` if the speed is out of reach.
    fn budgets(&mut self, placed: &[Set], least: &[u32], most: &[u32]) -> Option<Vec<u64>> {
        let (machine, question) = (self.sets.machine, self.sets.question);
        let of = |at: usize| Ways { least: least[at], most: most[at] };
        // The need of each beside those of the others.
        let mut budgets = vec![1; placed.len()];
        for _ in 0..2 {
            for (at, &set) in placed.iter().enumerate() {
                budgets[at] = self.sets.needs(set, of(at), others(&budgets, at));
            }
        }
        if question.speed <= 0.0 {
            return Some(budgets);
        }
        let mut breaks = vec![u64::MAX; placed.len()];
        for (at, &set) in placed.iter().enumerate() {
            if set & machine.hard != 0 {
                breaks[at] = self.sets.breaks(set, of(at));
            }
        }
        let bounds = room(&breaks, &budgets);
        let contents: Vec<_> =
            placed.iter().zip(most).map(|(&set, &ways)| self.sets.content(set, ways)).collect();
        // Locked pages leave more ways or fewer: only where all ways are given out is it known.
        let exact = most.iter().sum::<u32>() <= machine.ways.0;
        let free = |at: usize| {
            if exact { contents[at].free_ways } else { machine.stated_ways(most[at]) }
        };
        with_speed(machine, &contents, placed, &question, free, |at| bounds[at], &mut budgets)?;
        Some(budgets)
    }

    /// Solves a partition with its ways, which could not be closed.
    fn solve(&mut self, placed: &[Set], ways: &[u32]) -> Result<(), End> {
        if (self.caller.solve)(&self.sets.machine.candidate(placed, ways)) {
            return Err(End::Better);
        }
        if self.sets.in_parts() {
            return Err(End::Wide);
        }
        self.open += 1;
        if self.open > MOST_OPEN { Err(End::Open) } else { Ok(()) }
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

/// Largest budget of each core: so much as no other core breaks a limit for it.
fn room(breaks: &[u64], budgets: &[u64]) -> Vec<u64> {
    let beside = |own: usize, at: usize| {
        let both = others(budgets, at).saturating_sub(budgets[own]);
        breaks[at].saturating_sub(both).saturating_sub(1)
    };
    let of = |own: usize| {
        let others = (0..breaks.len()).filter(|&at| at != own && breaks[at] < u64::MAX);
        others.map(|at| beside(own, at)).min().unwrap_or(u64::MAX)
    };
    (0..breaks.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::optimal::exact::machine::Machine;
    use crate::budgets::optimal::exact_tests::{misleading, nothing, with_costs};

    /// As in the check (`check::tests`).
    #[test]
    fn a_set_with_more_ways_leaves_the_others_less() {
        with_costs(11, |solver, _| {
            let machine = Machine::of(&solver.problem, 0).unwrap();
            let mut sets = Sets::new(&machine, nothing().question);
            let rounds = Rounds::with(&misleading());
            let ways = Ways { least: 1, most: 2 };
            for ways in [ways, Ways::just(1), Ways::just(2)] {
                sets.know(1, ways, 60);
                sets.know(2, ways, u64::MAX);
            }
            let possible = |sets: &mut Sets| {
                let mut caller = Caller { stop: &|| false, solve: &mut |_| false };
                let sums = Sums { ways: 2, budgets: 15, speed: 0.0 };
                Cover::new(sets, &mut caller).possible(&rounds, &[1, 2], sums, 12)
            };
            assert!(possible(&mut sets));
            sets.know(1, Ways::just(1), 45);
            assert!(!possible(&mut sets));
        });
    }
}
