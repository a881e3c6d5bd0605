//! The check of a certificate.
//!
//! Rule: nothing of the search is believed. Pages and jobs come from `core_plan`, stalls and
//! response times from `solocore_analysis`. A fact must be a broken limit, found here. The facts
//! give each set its least budget and ways beside those of the tasks outside of it
//! (`check_rounds`). Then each partition of the tasks is looked up. It is closed if some of its
//! sets break a limit beside the least needs of the rest. Otherwise each split of the ways must be
//! closed so, or by a leaf: by its steps, each of which must be a broken limit again, or by all its
//! budgets together (`check_totals`). The partitions are counted, and their number must be that of
//! all partitions. That is so for each part of the choices ([`Part`]), and the parts must have all
//! choices ([`complete`]). Does not cover: that bounds are monotone, on which facts about larger
//! sets, ranges of ways and larger budgets rest (`analysis::interference`, test `monotone`).

use super::certificate::{Certificate, Leaf, Part, Set, Ways, complete, partitions};
use super::check_core::{Content, Cores};
use super::check_facts::{Believed, Facts};
use super::check_rounds::{ROUNDED, Sets};
use super::check_speed::Wants;
use super::check_totals::Chosen;
use super::check_ways::{ByWays, Held};
use super::problem::Problem;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Checks a certificate; the number of partitions that it closes.
///
/// # Errors
/// The first fact that does not hold, or the first partition that is not closed.
pub fn check(
    problem: &Problem,
    certificate: &Certificate,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<u128, String> {
    let mut cores = Cores::of(problem, certificate)?;
    let believed = Believed::of(&cores, certificate, stop)?;
    let all = cores.all();
    let (tasks, count) = (all.count_ones(), cores.count);
    // No program is faster than alone on the machine.
    let programs = cores.programs(all).len() as f64;
    if programs < cores.question.speed - ROUNDED {
        return Ok(partitions(tasks, count));
    }
    let parts: Vec<Part> = certificate.parts.iter().map(|(part, _)| *part).collect();
    if !complete(&parts, cores.soft(), cores.bus()) {
        return Err("its parts do not have all choices".to_owned());
    }
    for (part, leaves) in &certificate.parts {
        cores.question.part = *part;
        let alone = &believed.alone;
        let possible = |cores: &Cores, set: Set| !alone[set as usize] && cores.allowed(set);
        let sets = Sets::of(&mut cores, &believed.facts, possible, stop)?;
        let mut of: HashMap<&[Set], Vec<&Leaf>> = HashMap::new();
        for leaf in leaves {
            of.entry(&leaf.sets).or_default().push(leaf);
        }
        let closed = closed(&cores, &believed.facts, &of, &sets, stop)?;
        if closed != partitions(tasks, count) {
            let all = partitions(tasks, count);
            return Err(format!("{closed} partitions are closed in {part:?}; all are {all}"));
        }
    }
    Ok(partitions(tasks, count))
}

/// Closes all partitions in a part of the choices; their number.
fn closed(
    cores: &Cores,
    facts: &Facts,
    leaves: &HashMap<&[Set], Vec<&Leaf>>,
    sets: &Sets,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<u128, String> {
    let all = cores.all();
    let first: Vec<Set> = (0..=all).filter(|set| set & 1 == all & 1).collect();
    let of = |some: &[Set]| -> Result<u128, String> {
        let mut checker = Checker { cores: cores.again(), stop, facts, leaves };
        some.iter().map(|&set| checker.with(sets, set, all, &mut Vec::new())).sum()
    };
    let some = first.len().div_ceil(BRANCHES);
    first.par_chunks(some).map(of).try_reduce(|| 0, |a, b| Ok(a + b))
}

/// Parts of the first sets, each for a thread.
const BRANCHES: usize = 64;

/// A number of ways of a set, with its least budget, and a sum of the others' that breaks a limit.
#[derive(Clone, Copy)]
struct Own {
    ways: u32,
    budget: u64,
    breaks: u64,
}

/// The check of all partitions with some first sets.
struct Checker<'a, 's> {
    cores: Cores<'a>,
    stop: &'s (dyn Fn() -> bool + Sync),
    facts: &'s Facts,
    leaves: &'s HashMap<&'s [Set], Vec<&'s Leaf>>,
}

impl Checker<'_, '_> {
    /// Any number of ways.
    fn any(&self) -> Ways {
        Ways { least: 1, most: self.cores.ways.1 }
    }

    /// Closes all partitions of the rest beside these sets; their number.
    fn cover(&mut self, sets: &Sets, rest: Set, placed: &mut Vec<Set>) -> Result<u128, String> {
        if rest == 0 {
            return self.partition(sets, placed).map(|()| 1);
        }
        let left = self.cores.count - placed.len() as u32;
        if left == 0 {
            return Ok(0);
        }
        let first = 1 << rest.trailing_zeros();
        let others = rest & !first;
        let (mut closed, mut more) = (0u128, 0);
        loop {
            closed += self.with(sets, first | more, rest, placed)?;
            if more == others {
                return Ok(closed);
            }
            // The next subset of the others.
            more = more.wrapping_sub(others) & others;
        }
    }

    /// Closes all partitions of the rest with a set of it; their number.
    fn with(
        &mut self,
        sets: &Sets,
        set: Set,
        rest: Set,
        placed: &mut Vec<Set>,
    ) -> Result<u128, String> {
        placed.push(set);
        let left = self.cores.count - placed.len() as u32;
        let closed = if self.hopeless(sets, placed, rest & !set) {
            partitions((rest & !set).count_ones(), left)
        } else {
            self.cover(sets, rest & !set, placed)?
        };
        placed.pop();
        Ok(closed)
    }

    /// Is no partition with these sets possible, for all sets of the rest?
    fn hopeless(&mut self, sets: &Sets, placed: &[Set], rest: Set) -> bool {
        let left = self.cores.count - placed.len() as u32;
        let budgets = sets.budgets(left, rest);
        let none = placed.last().is_some_and(|&set| sets.held[set as usize].is_none());
        if none || budgets == f64::INFINITY {
            return true;
        }
        let held: Vec<(Set, Held)> =
            placed.iter().filter_map(|&set| Some((set, sets.held[set as usize]?))).collect();
        let ways = held.iter().map(|(_, own)| f64::from(own.ways.least)).sum::<f64>();
        if ways + sets.ways(left, rest) > f64::from(self.cores.ways.0) {
            return true;
        }
        let speed = held.iter().map(|(_, own)| own.speed).sum::<f64>();
        let wanted = self.cores.question.speed;
        if wanted > 0.0 && speed + sets.speed(left, rest) < wanted - ROUNDED {
            return true;
        }
        let all = held.iter().map(|(_, own)| own.budget).sum::<u64>() + budgets as u64;
        let by_ways = sets.beside_by_ways(&self.cores, placed, rest);
        let breaks = held.iter().enumerate().any(|(at, (set, own))| {
            let plain = all - own.budget;
            let breaks = |ways: Ways, others: u64| {
                self.cores.analysed(*set) && others >= self.facts.breaks(*set, ways)
            };
            let of = |ways: u32| by_ways.as_ref().map_or(0.0, |sums| sums[at][ways as usize]);
            breaks(own.ways, plain)
                || (own.ways.least..=own.ways.most).all(|ways| {
                    let others = of(ways);
                    others == f64::INFINITY || breaks(Ways::just(ways), plain.max(others as u64))
                })
        });
        breaks || (wanted > 0.0 && self.slow(sets, &held, rest, budgets as u64))
    }

    /// Are the programs too slow with the budgets that the others bear? `beside`: the budgets of
    /// the rest.
    fn slow(&mut self, sets: &Sets, held: &[(Set, Held)], rest: Set, beside: u64) -> bool {
        let left = self.cores.count - held.len() as u32;
        let mut budgets: Vec<u64> = held.iter().map(|(_, own)| own.budget).collect();
        for (at, (set, own)) in held.iter().enumerate() {
            let others = sum_without(&budgets, at) + beside;
            budgets[at] = budgets[at].max(self.facts.needs(*set, own.ways, others));
        }
        let all = budgets.iter().sum::<u64>() + beside;
        let mut reached = sets.speed(left, rest);
        for (at, (set, own)) in held.iter().enumerate() {
            let bears = |other: usize| {
                let both = all - budgets[at] - budgets[other];
                held[other].1.breaks.saturating_sub(both).saturating_sub(1)
            };
            let by_held = (0..held.len()).filter(|&other| other != at).map(bears).min();
            let by_rest = sets.bears(left, rest).saturating_sub(all - beside - budgets[at]);
            let most = by_held.unwrap_or(u64::MAX).min(by_rest).min(self.cores.bus());
            if budgets[at] > most {
                return true;
            }
            reached += own.speed.min(sets.reached(&mut self.cores, *set, own.ways.most, most));
        }
        reached < self.cores.question.speed - ROUNDED
    }

    /// Closes a partition.
    fn partition(&mut self, sets: &Sets, placed: &[Set]) -> Result<(), String> {
        if (self.stop)() {
            return Err("the check was ended".to_owned());
        }
        let mut placed = placed.to_vec();
        placed.resize(self.cores.count as usize, 0);
        let leaves = self.leaves.get(&placed[..]).map_or(&[][..], |leaves| &leaves[..]);
        for leaf in leaves {
            self.leaf(leaf)?;
        }
        // More ways never raise a bound: only cores that gain from them get those left over.
        let speed = self.cores.question.speed > 0.0;
        let gains = |set: Set| self.cores.analysed(set) || (speed && set != 0);
        let of = |&set: &Set| {
            let own = sets.held[set as usize].map_or(self.any(), |held| held.ways);
            if gains(set) { own } else { Ways::just(1) }
        };
        let ranges: Vec<Ways> = placed.iter().map(of).collect();
        match sets.by_ways().filter(|_| !speed) {
            Some(by_ways) => self.one_by_one(by_ways, &placed, leaves, &ranges),
            None => self.splits(&placed, leaves, ranges),
        }
    }

    /// Closes each split of all ways with these numbers by itself: by facts, or by a leaf.
    fn one_by_one(
        &self,
        by_ways: &ByWays,
        placed: &[Set],
        leaves: &[&Leaf],
        ranges: &[Ways],
    ) -> Result<(), String> {
        let just = |set: Set, own: Ways| -> Vec<Own> {
            let known = |ways: u32| {
                let budget = by_ways.budget(set, ways)?;
                let limited = self.cores.analysed(set);
                let breaks =
                    if limited { self.facts.breaks(set, Ways::just(ways)) } else { u64::MAX };
                Some(Own { ways, budget, breaks })
            };
            (own.least..=own.most).filter_map(known).collect()
        };
        let choices: Vec<_> =
            placed.iter().zip(ranges).map(|(&set, &own)| just(set, own)).collect();
        // Only cores that gain from ways get those left over.
        let all = ranges.iter().map(|own| own.most).sum::<u32>().min(self.cores.ways.0);
        self.each_split(placed, leaves, &choices, all, &mut Vec::with_capacity(placed.len()))
    }

    /// Goes through the splits that begin with the chosen numbers of ways.
    fn each_split(
        &self,
        placed: &[Set],
        leaves: &[&Leaf],
        choices: &[Vec<Own>],
        left: u32,
        chosen: &mut Vec<Own>,
    ) -> Result<(), String> {
        let Some(own) = choices.get(chosen.len()) else {
            return if left == 0 { self.split(placed, leaves, chosen) } else { Ok(()) };
        };
        for &one in own.iter().filter(|one| one.ways <= left) {
            chosen.push(one);
            let closed = self.each_split(placed, leaves, choices, left - one.ways, chosen);
            chosen.pop();
            closed?;
        }
        Ok(())
    }

    /// Closes a split: numbers of ways with budgets, and sums of the others' that break a limit.
    fn split(&self, placed: &[Set], leaves: &[&Leaf], chosen: &[Own]) -> Result<(), String> {
        let mut budgets: Vec<u64> = chosen.iter().map(|one| one.budget).collect();
        loop {
            let all: u64 = budgets.iter().sum();
            if chosen.iter().zip(&budgets).any(|(one, own)| all - own >= one.breaks) {
                return Ok(());
            }
            let before = budgets.clone();
            for (at, &set) in placed.iter().enumerate() {
                let beside = sum_without(&budgets, at);
                let needs = self.facts.needs(set, Ways::just(chosen[at].ways), beside);
                budgets[at] = budgets[at].max(needs);
            }
            if budgets == before {
                break;
            }
        }
        let covers = |leaf: &&&Leaf| {
            leaf.ways.iter().zip(chosen).all(|(of, one)| of.contain(Ways::just(one.ways)))
        };
        if leaves.iter().any(|leaf| covers(&leaf)) {
            return Ok(());
        }
        let ways: Vec<u32> = chosen.iter().map(|one| one.ways).collect();
        Err(format!("nothing closes the sets {placed:?} with {ways:?} ways"))
    }

    /// Least budgets of the cores, with the needs of their programs; `None`: no budgets suffice.
    fn budgets(&mut self, placed: &[Set], ranges: &[Ways]) -> Option<Vec<u64>> {
        // The need of each beside those of the others. A need may grow once another core's has
        // grown, until none does: there are finitely many facts.
        let mut least: Vec<u64> = placed.iter().map(|&set| self.cores.floor(set)).collect();
        loop {
            let before = least.clone();
            for (at, &set) in placed.iter().enumerate() {
                let needs = self.facts.needs(set, ranges[at], sum_without(&least, at));
                least[at] = needs.max(least[at]);
            }
            if least == before {
                break;
            }
        }
        let wanted = self.cores.question.speed;
        if wanted <= 0.0 {
            return Some(least);
        }
        // A core has no more than the others bear.
        let most = |own: usize| {
            let of = |(at, &set): (usize, &Set)| {
                if at == own || !self.cores.analysed(set) {
                    return None;
                }
                let both = sum_without(&least, at).saturating_sub(least[own]);
                Some(self.facts.breaks(set, ranges[at]).saturating_sub(both).saturating_sub(1))
            };
            placed.iter().enumerate().filter_map(of).min().unwrap_or(u64::MAX)
        };
        let most: Vec<u64> = (0..placed.len()).map(most).collect();
        let ways: Vec<u32> = ranges.iter().map(|ways| ways.most).collect();
        let contents = self.contents(placed, &ways);
        let loosely = self.loosely(&ways);
        let wants = Wants { cores: &self.cores, placed, ways: &ways, loosely, most: &most };
        let needed = wants.budgets(&contents, wanted)?;
        Some(least.iter().zip(needed).map(|(&least, needed)| least.max(needed)).collect())
    }

    /// How many ways locked pages leave is known where all ways are given out.
    fn loosely(&self, ways: &[u32]) -> bool {
        ways.iter().sum::<u32>() > self.cores.ways.0
    }

    fn contents(&mut self, placed: &[Set], ways: &[u32]) -> Vec<Arc<Content>> {
        placed.iter().zip(ways).map(|(&set, &ways)| self.cores.content(set, ways)).collect()
    }

    /// Closes all splits of all ways with these numbers: by facts, by a leaf with no fewer ways, or
    /// in two parts.
    fn splits(
        &mut self,
        placed: &[Set],
        leaves: &[&Leaf],
        mut ranges: Vec<Ways>,
    ) -> Result<(), String> {
        if !self.narrow(placed, &mut ranges) {
            return Ok(());
        }
        let covers =
            |leaf: &&Leaf| leaf.ways.iter().zip(&ranges).all(|(leaf, own)| leaf.contain(*own));
        if leaves.iter().any(covers) {
            return Ok(());
        }
        let width = |at: usize| ranges[at].most - ranges[at].least;
        let widest = (0..placed.len()).rev().max_by_key(|&at| width(at));
        match widest.filter(|&at| width(at) > 0) {
            None => Err(format!("nothing closes the sets {placed:?} with {ranges:?}")),
            Some(at) => {
                let middle = u32::midpoint(ranges[at].least, ranges[at].most);
                let (mut above, mut below) = (ranges.clone(), ranges);
                (above[at].least, below[at].most) = (middle + 1, middle);
                self.splits(placed, leaves, above)?;
                self.splits(placed, leaves, below)
            }
        }
    }

    /// Leaves out numbers of ways at the ends of ranges that facts exclude, or that do not make all
    /// ways together; `false` if there is nothing left.
    fn narrow(&mut self, placed: &[Set], ranges: &mut [Ways]) -> bool {
        let all = self.cores.ways.0;
        loop {
            let least: u32 = ranges.iter().map(|ways| ways.least).sum();
            let most: u32 = ranges.iter().map(|ways| ways.most).sum();
            if least > all || most < all {
                return false;
            }
            for ways in ranges.iter_mut() {
                let own = *ways;
                ways.most = own.most.min(all - (least - own.least));
                ways.least = own.least.max(all.saturating_sub(most - own.most));
            }
            let Some(budgets) = self.budgets(placed, ranges) else { return false };
            let before = ranges.to_vec();
            for (at, &set) in placed.iter().enumerate() {
                if self.cores.analysed(set) {
                    let beside = sum_without(&budgets, at);
                    match self.facts.narrowed(set, ranges[at], beside) {
                        Some(ways) => ranges[at] = ways,
                        None => return false,
                    }
                }
            }
            if before == ranges {
                return true;
            }
        }
    }

    /// Takes a leaf, if it holds.
    fn leaf(&mut self, leaf: &Leaf) -> Result<(), String> {
        let refuse = |why: &str| Err(format!("{leaf:?}: {why}"));
        let (placed, ranges) = (&leaf.sets[..], &leaf.ways[..]);
        let any = self.any();
        if ranges.len() != placed.len() || !ranges.iter().all(|&ways| any.contain(ways)) {
            return refuse("no cores have these ways");
        }
        let Some(mut budgets) = self.budgets(placed, ranges) else { return Ok(()) };
        let ways: Vec<u32> = ranges.iter().map(|ways| ways.most).collect();
        if !leaf.totals.is_empty() || !leaf.fair.is_empty() {
            let contents = self.contents(placed, &ways);
            let (ways, loosely, least) = (&ways[..], self.loosely(&ways), &budgets[..]);
            let chosen = Chosen { placed, ways, loosely, contents: &contents, least };
            return chosen.closed(&mut self.cores, leaf).or_else(|why| refuse(&why));
        }
        let bus = self.cores.bus();
        for step in &leaf.steps {
            let at = step.place;
            let Some(&set) = placed.get(at) else { return refuse("a step names no core") };
            let own = step.budget.map_or(bus, |budget| budget.saturating_sub(1));
            let jobs = self.cores.jobs_beside(placed, &ways, &budgets, at);
            let beside = sum_without(&budgets, at);
            if self.cores.keeps(set, ways[at], own, beside, jobs) {
                return refuse("a step does not hold");
            }
            match step.budget {
                None => return Ok(()),
                Some(budget) => budgets[at] = budget.max(budgets[at]),
            }
        }
        refuse("its steps close nothing")
    }
}

fn sum_without(budgets: &[u64], place: usize) -> u64 {
    budgets
        .iter()
        .enumerate()
        .filter(|&(at, _)| at != place)
        .fold(0, |sum: u64, (_, &budget)| sum.saturating_add(budget))
}

#[cfg(test)]
mod tests {
    use super::super::certificate::Fact;
    use super::super::exact_tests::{misleading, nothing, with_costs};
    use super::*;

    /// The first task breaks a limit beside 60. All budgets together are 90 at least, and its own
    /// is 10 at least; but with one way it has 100, and the others have 45.
    #[test]
    fn a_set_with_more_ways_leaves_the_others_less() {
        with_costs(10, |solver, _| {
            let certificate = nothing();
            let cores = || Cores::of(&solver.problem, &certificate).unwrap();
            let sets = Sets::with(&cores(), misleading());
            let mut facts = Facts::default();
            let hopeless = |facts: &Facts| {
                let (stop, leaves) = (&|| false, &HashMap::new());
                Checker { cores: cores(), stop, facts, leaves }.hopeless(&sets, &[1, 2], 12)
            };
            facts.add(Fact::Breaks { set: 1, ways: Ways { least: 1, most: 2 }, others: 60 });
            assert!(!hopeless(&facts));
            facts.add(Fact::Breaks { set: 1, ways: Ways::just(1), others: 45 });
            assert!(hopeless(&facts));
        });
    }
}
