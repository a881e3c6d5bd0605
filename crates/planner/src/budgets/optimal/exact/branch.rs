//! The partitions with some first sets, closed by a thread.
//!
//! Rule: partitions are closed together as soon as some sets are placed. These sets need more ways
//! than the rest leaves, break a limit beside the least budgets of the rest, or reach no wanted
//! speed ([`super::rounds`]). Does not cover: whole partitions ([`super::leaves`]).

use super::programs::Share;
use super::question::ROUNDED;
use super::rounds::{Entry, Rounds};
use super::sets::{End, Sets};
use super::split::others;
use crate::budgets::optimal::certificate::{Leaf, Set, Ways};

/// Most choices that are solved in vain.
pub const MOST_OPEN: u64 = 2000;

/// The search over the partitions with some first sets, for a thread.
pub struct Branch<'s, 'a> {
    pub sets: &'s Sets<'a>,
    pub rounds: &'s Rounds,
    stop: &'s (dyn Fn() -> bool + Sync),
    /// Partitions with their splits that were closed by budgets.
    pub leaves: Vec<Leaf>,
    /// Partitions with their ways that are not closed.
    pub left: Vec<(Vec<Set>, Vec<u32>)>,
    steps: u32,
}

/// Sets of the first two cores; the second one is empty if there are no more tasks.
pub struct Pair {
    pub first: Set,
    pub sums: Sums,
    pub second: Set,
}

/// Sums over the sets of a partition so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub ways: u32,
    pub budgets: u64,
    pub speed: f64,
}

impl<'s, 'a> Branch<'s, 'a> {
    pub fn new(
        sets: &'s Sets<'a>,
        rounds: &'s Rounds,
        stop: &'s (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { sets, rounds, stop, leaves: Vec::new(), left: Vec::new(), steps: 0 }
    }

    /// Asks now and then whether to end.
    pub fn pause(&mut self, each: u32) -> Result<(), End> {
        self.steps = self.steps.wrapping_add(1);
        let ends = self.steps.is_multiple_of(each) && (self.stop)();
        if ends { Err(End::Stopped) } else { Ok(()) }
    }

    /// Closes the partitions with these sets on the first two cores.
    pub fn pair(&mut self, pair: &Pair, all: Set) -> Result<(), End> {
        let (mut placed, rest) = (vec![pair.first], all & !pair.first);
        if pair.second == 0 {
            return self.place(rest, &mut placed, pair.sums);
        }
        match self.add(pair.second, rest, &mut placed, pair.sums) {
            Some(sums) => self.place(rest & !pair.second, &mut placed, sums),
            None => Ok(()),
        }
    }

    /// Places the rest of the tasks, the first of them in a set of its own core.
    fn place(&mut self, rest: Set, placed: &mut Vec<Set>, sums: Sums) -> Result<(), End> {
        if rest == 0 {
            return self.partition(placed);
        }
        for set in self.choices(rest, placed.len()) {
            self.pause(1 << 10)?;
            if let Some(sums) = self.add(set, rest, placed, sums) {
                self.place(rest & !set, placed, sums)?;
                placed.pop();
            }
        }
        Ok(())
    }

    /// The sets of the rest that may come next after this number of them: the last core takes all.
    pub fn choices(&self, rest: Set, placed: usize) -> impl Iterator<Item = Set> + use<> {
        let last = placed + 1 == self.sets.machine.cores as usize;
        with_first_of(rest).filter(move |&set| !last || set == rest)
    }

    /// Places a set of the rest on the next core, if it may be part of a partition; the sums with
    /// it.
    pub fn add(&self, set: Set, rest: Set, placed: &mut Vec<Set>, sums: Sums) -> Option<Sums> {
        let entry = self.rounds.entries[set as usize]?;
        let sums = Sums {
            ways: sums.ways + entry.ways.least,
            budgets: sums.budgets.saturating_add(entry.budget),
            speed: sums.speed + entry.speed,
        };
        placed.push(set);
        // A whole partition is looked at split by split.
        let whole = rest == set && self.by_ways();
        if whole || self.possible(placed, sums, rest & !set) {
            return Some(sums);
        }
        placed.pop();
        None
    }

    /// May sets with these sums be part of a partition, beside the least that the rest needs?
    fn possible(&self, placed: &[Set], sums: Sums, rest: Set) -> bool {
        let rounds = self.rounds;
        let (machine, wanted) = (self.sets.machine, self.sets.question.speed);
        let left = machine.cores - placed.len() as u32;
        let (budgets, ways) = rounds.least.of(left, rest);
        let ways = ways + f64::from(sums.ways);
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
            let keeps = |ways, others| !hard || self.sets.keeps(set, ways, others);
            let of = |ways: u32| by_ways.as_ref().map_or(0.0, |sums| sums[at][ways as usize]);
            keeps(own.ways, plain)
                && (own.ways.least..=own.ways.most).rev().any(|ways| {
                    let others = of(ways);
                    others < f64::INFINITY && keeps(Ways::just(ways), plain.max(others as u64))
                })
        });
        keeps && (wanted <= 0.0 || self.reach(placed, rest, budgets as u64))
    }

    /// May these sets, beside the rest, reach the wanted speed with budgets that all others bear?
    fn reach(&self, placed: &[Set], rest: Set, beside: u64) -> bool {
        let rounds = self.rounds;
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
}

/// The sets of these tasks that have the first of them, largest first; the empty one of none.
pub fn with_first_of(all: Set) -> impl Iterator<Item = Set> {
    let first = all & all.wrapping_neg();
    let others = all ^ first;
    let next = move |more: &Set| (*more != 0).then(|| (more - 1) & others);
    std::iter::successors(Some(others), next).map(move |more| first | more)
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
                let sums = Sums { ways: 2, budgets: 15, speed: 0.0 };
                Branch::new(sets, &rounds, &|| false).possible(&[1, 2], sums, 12)
            };
            assert!(possible(&mut sets));
            sets.know(1, Ways::just(1), 45);
            assert!(!possible(&mut sets));
        });
    }
}
