//! Limits of a set of tasks beside the least that the tasks outside of it need.
//!
//! Problem: limits of a set beside idle cores close few partitions. Rule: the tasks outside of a
//! set are on the other cores, in some partition. Their least budgets and ways together ([`Rest`])
//! stand beside the set. So the set has at most the ways that they leave, and needs an own budget
//! beside theirs. A set that breaks a limit there is in no partition. Each limit of a set raises
//! the needs of the others, so all sets are looked at again, until little changes. Programs that
//! must reach a speed have at most the budget that the others bear, and must reach the rest that
//! the programs outside cannot reach. With the sums by ways, the rounds end at the least sum of all
//! budgets with which no set needs more. If the others' jobs are not known, bounds depend on the
//! others' budgets only by their sum. Then the partition that has this sum keeps to the limits, up
//! to the accuracy of the needs, so it is solved after each round. A set whose partitions make a
//! far larger sum is left as it is until then. Does not cover: the sets that stand beside each
//! other ([`super::cover`]).

use super::programs::Share;
use super::question::ROUNDED;
use super::rest::{ByWays, Rest, WIDTH};
use super::sets::{AT_ONCE, End, Sets};
use crate::budgets::optimal::certificate::{Set, Ways};
use rayon::prelude::*;

/// Most rounds.
const MOST: u32 = 60;
/// A set is looked at if the budgets of all cores with it make at most this multiple of the least
/// sum.
const NEAR: f64 = 1.5;
/// Most sets of a system for which there is a table of budgets by ways.
const MOST_SETS: usize = 1 << 16;
/// Sums of budgets by ways.
pub type Sums = [f64; WIDTH];
/// No sums.
const NO_SUMS: Sums = [f64::INFINITY; WIDTH];

/// A set on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub ways: Ways,
    /// Least budget.
    pub budget: u64,
    /// A sum of the others' budgets that breaks a limit.
    pub breaks: u64,
    /// Largest speed of its programs.
    pub speed: f64,
}

/// The least that sets need on a number of cores.
#[derive(Debug, Default)]
pub struct Least {
    /// The least budgets and ways, unless budgets are known by ways.
    budgets: Rest,
    ways: Rest,
    /// The largest sum of speeds, negative.
    pub speeds: Rest,
    /// The largest budget of one more core with which a partition breaks no limit, plus one,
    /// negative.
    pub bears: Rest,
    /// The least budgets by ways, where these are known.
    pub by_ways: Option<ByWays>,
}

impl Least {
    /// The least sum of the budgets of a set on a number of cores, and the fewest ways of these;
    /// infinite if it is on no such cores.
    pub fn of(&self, cores: u32, set: Set) -> (f64, f64) {
        match &self.by_ways {
            Some(by_ways) => by_ways.any(cores, set),
            None => (self.budgets.least(cores, set), self.ways.least(cores, set)),
        }
    }
}

/// All sets; `None`: in no partition.
#[derive(Debug, Default)]
pub struct Rounds {
    pub entries: Vec<Option<Entry>>,
    pub least: Least,
    /// By set, the least budget with each number of ways, infinite where it breaks a limit.
    pub by_ways: Vec<Vec<f64>>,
    /// Sum of the budgets of all cores up to which needs are looked for.
    near: f64,
}

impl Rounds {
    /// Begins with the sets that break no limit alone.
    pub fn new(sets: &Sets) -> Self {
        let (all, most) = (sets.machine.all(), sets.machine.ways.1);
        let entry = |set: Set| Entry {
            ways: Ways { least: 1, most },
            budget: sets.question.floor(sets.machine, set),
            breaks: u64::MAX,
            speed: f64::from((set & sets.machine.programs).count_ones()),
        };
        let possible = |set: &Set| !sets.impossible(*set) && sets.machine.allowed(*set);
        let entries = (0..=all).map(|set| Some(set).filter(possible).map(entry)).collect();
        Self { entries, least: Least::default(), by_ways: Vec::new(), near: 0.0 }
    }

    /// Begins a part of the choices with the facts that hold for all. Budgets by ways come back
    /// once few sets are left.
    pub fn of_part(&self) -> Self {
        Self { entries: self.entries.clone(), ..Self::default() }
    }

    /// Begins with the needs that were found for the same limits, or for looser ones.
    #[must_use]
    pub fn again(mut self, sets: &Sets) -> Self {
        for (set, entry) in self.entries.iter_mut().enumerate() {
            *entry = entry.filter(|_| !sets.impossible(set as Set));
            if let Some(entry) = entry {
                entry.budget = entry.budget.max(sets.question.floor(sets.machine, set as Set));
            }
        }
        self
    }

    /// All rounds: first with all ways of a set together, then with each number of them by itself.
    ///
    /// # Errors
    /// When the caller wants it to end, and when smaller parts of the choices are to be closed.
    pub fn all(
        &mut self,
        sets: &mut Sets,
        stop: &(dyn Fn() -> bool + Sync),
        look: &mut dyn FnMut(&Self, &Sets) -> Result<(), End>,
    ) -> Result<(), End> {
        self.least.by_ways = None;
        let whole = self.entries.len() > MOST_SETS
            || sets.machine.ways.1 == 1
            || sets.machine.ways.0 as usize >= WIDTH;
        let at_once = !self.by_ways.is_empty() || (sets.machine.known && !whole);
        if at_once {
            self.begin_by_ways(sets);
        }
        self.sum(sets, stop)?;
        if at_once {
            self.sum_by_ways(sets, stop)?;
        }
        for _ in 0..MOST {
            let by_ways = self.least.by_ways.is_some();
            let (before, count) = (self.total(sets), self.count());
            self.near = before * NEAR;
            self.look_at_all(sets, stop)?;
            self.sum(sets, stop)?;
            if by_ways {
                self.sum_by_ways(sets, stop)?;
                look(self, sets)?;
            }
            let (more, fewer) = if sets.is_fine() { (1.001, 0.995) } else { (1.02, 0.98) };
            let changed =
                self.total(sets) > before * more || (self.count() as f64) < count as f64 * fewer;
            if self.count() == 0 || self.total(sets) == f64::INFINITY {
                return Ok(());
            }
            let plain = !changed && !by_ways && !sets.is_fine();
            if plain && self.count() > sets.machine.few_left && sets.in_parts() {
                return Err(End::Wide);
            }
            if changed {
                continue;
            }
            if !by_ways && !whole {
                self.begin_by_ways(sets);
                self.sum_by_ways(sets, stop)?;
            } else if !sets.finer() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Looks at all sets that are left, beside the least of the others before this round.
    fn look_at_all(&mut self, sets: &Sets, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), End> {
        for first in (0..self.entries.len()).step_by(AT_ONCE) {
            if stop() {
                return Err(End::Stopped);
            }
            let some = first..self.entries.len().min(first + AT_ONCE);
            let found: Vec<(usize, Option<Entry>, Vec<f64>)> = some
                .into_par_iter()
                .filter_map(|set| {
                    let mut own = self.by_ways.get(set).cloned().unwrap_or_default();
                    let entry = self.found(sets, set as Set, self.entries[set]?);
                    let entry = entry.filter(|_| self.with_ways(sets, set as Set, &mut own));
                    Some((set, entry.map(|entry| raised(&own, entry)), own))
                })
                .collect();
            for (set, entry, own) in found {
                self.entries[set] = entry;
                if let Some(known) = self.by_ways.get_mut(set) {
                    *known = own;
                }
            }
        }
        Ok(())
    }

    /// Begins with the budget of a set for each number of its ways.
    fn begin_by_ways(&mut self, sets: &Sets) {
        let of = |(set, entry): (usize, &Option<Entry>)| {
            let budget = |ways: u32| match entry {
                Some(entry) if entry.ways.contain(Ways::just(ways)) => entry.budget as f64,
                _ => f64::INFINITY,
            };
            let known = self.by_ways.get(set);
            let known = |ways: u32| known.and_then(|own| own.get(ways as usize)).copied();
            let both = |ways: u32| budget(ways).max(known(ways).unwrap_or(0.0));
            (0..=sets.machine.ways.1).map(both).collect()
        };
        self.by_ways = self.entries.iter().enumerate().map(of).collect();
    }

    /// Raises the budgets of a set for each number of ways; is one possible?
    fn with_ways(&self, sets: &Sets, set: Set, own: &mut [f64]) -> bool {
        let machine = sets.machine;
        let (rest, cores) = (machine.all() & !set, machine.cores - 1);
        let Some(least) = &self.least.by_ways else { return true };
        for (ways, known) in own.iter_mut().enumerate().filter(|(_, known)| **known < f64::INFINITY)
        {
            let others = (machine.ways.0 as usize).checked_sub(ways);
            let others = others.map_or(f64::INFINITY, |others| least.least(cores, rest, others));
            if others == f64::INFINITY {
                *known = f64::INFINITY;
                continue;
            }
            if others + *known > self.near {
                continue;
            }
            if set & machine.hard != 0 {
                let others = (others as u64).max(sets.least_others());
                let ways = Ways::just(ways as u32);
                *known = if sets.keeps(set, ways, others) {
                    sets.needs_above(set, ways, others, *known as u64) as f64
                } else {
                    f64::INFINITY
                };
            }
            if sets.question.speed > 0.0 && *known < f64::INFINITY {
                let needed = self.programs(sets, set, Ways::just(ways as u32), *known as u64);
                *known = needed.map_or(f64::INFINITY, |(_, budget)| budget as f64);
            }
        }
        own.iter().any(|known| *known < f64::INFINITY)
    }

    /// Sums up the budgets by ways.
    fn sum_by_ways(&mut self, sets: &Sets, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), End> {
        for (entry, own) in self.entries.iter().zip(&mut self.by_ways) {
            for (ways, known) in own.iter_mut().enumerate() {
                *known = match entry {
                    Some(entry) if entry.ways.contain(Ways::just(ways as u32)) => {
                        known.max(entry.budget as f64)
                    }
                    _ => f64::INFINITY,
                };
            }
        }
        let machine = sets.machine;
        let all = machine.all() as usize;
        // Beside a set that is possible.
        let beside: Vec<bool> = (0..=all).map(|set| self.entries[all ^ set].is_some()).collect();
        // Larger sums of budgets leave no more of a period than this one.
        let most = machine.endless() as f64;
        let sums = ByWays::of(&self.by_ways, machine.cores - 1, most, |set| beside[set], stop);
        self.least.by_ways = Some(sums.ok_or(End::Stopped)?);
        Ok(())
    }

    /// Beside each of these sets, by its number of ways, the least sum of the budgets of the other
    /// ones and of the rest, with all other ways; infinite where the set cannot have them. `None`
    /// where budgets are not known by ways.
    pub fn beside_by_ways(&self, sets: &Sets, placed: &[Set], rest: Set) -> Option<Vec<Sums>> {
        let machine = sets.machine;
        let (left, all) = (machine.cores - placed.len() as u32, machine.ways.0 as usize);
        let least = self.least.by_ways.as_ref()?;
        let mut of_rest = NO_SUMS;
        of_rest[..=all].iter_mut().enumerate().for_each(|(ways, sum)| {
            *sum = least.least(left, rest, ways);
        });
        let of = |at: usize| {
            let mut sums = of_rest;
            for (_, &set) in placed.iter().enumerate().filter(|&(other, _)| other != at) {
                let mut with = NO_SUMS;
                for (ways, &cost) in self.by_ways[set as usize].iter().enumerate() {
                    if cost < f64::INFINITY {
                        for (sum, beside) in with[ways..=all].iter_mut().zip(&sums) {
                            *sum = sum.min(cost + beside);
                        }
                    }
                }
                sums = with;
            }
            let mut beside = NO_SUMS;
            for (ways, &own) in self.by_ways[placed[at] as usize].iter().enumerate() {
                if own < f64::INFINITY {
                    beside[ways] = sums[all - ways];
                }
            }
            beside
        };
        Some((0..placed.len()).map(of).collect())
    }

    /// The least sum of the budgets of a set and of the rest, with all ways.
    fn total_by_ways(&self, sets: &Sets, set: Set, rest: Set) -> f64 {
        let Some(beside) = self.beside_by_ways(sets, &[set], rest) else { return 0.0 };
        let both =
            self.by_ways[set as usize].iter().zip(&beside[0]).map(|(own, others)| own + others);
        both.fold(f64::INFINITY, f64::min)
    }

    fn count(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// A partition with the least sum of budgets, with the ways of its cores; `None`: there is
    /// none, or it is not known by ways.
    pub fn best(&self, sets: &Sets) -> Option<(Vec<Set>, Vec<u32>)> {
        let machine = sets.machine;
        let least = self.least.by_ways.as_ref()?;
        let (mut placed, mut ways) = (Vec::new(), Vec::new());
        let (mut rest, mut left) = (machine.all(), machine.ways.0 as usize);
        for cores in (0..machine.cores).rev() {
            let first = rest & rest.wrapping_neg();
            let beside = |set: Set, ways: usize| match (cores, ways) {
                (0, 0) if rest == set => 0.0,
                (0, _) => f64::INFINITY,
                _ => least.least(cores, rest & !set, ways),
            };
            let mut best = (f64::INFINITY, 0, 0);
            let mut more = rest & !first;
            loop {
                let set = first | more;
                for (own, cost) in self.by_ways[set as usize].iter().enumerate().take(left + 1) {
                    let sum = cost + beside(set, left - own);
                    if sum < best.0 {
                        best = (sum, set, own);
                    }
                }
                if more == 0 {
                    break;
                }
                more = (more - 1) & rest & !first;
            }
            if best.0 == f64::INFINITY {
                return None;
            }
            placed.push(best.1);
            ways.push(best.2 as u32);
            (rest, left) = (rest & !best.1, left - best.2);
        }
        Some((placed, ways))
    }

    /// The least sum of the budgets of all partitions.
    fn total(&self, sets: &Sets) -> f64 {
        let (all, others) = (sets.machine.all(), sets.machine.cores - 1);
        // The first task is in one of the sets.
        let with = |set: Set| {
            let entry = self.entries[set as usize]?;
            let rest = all & !set;
            Some(match self.least.by_ways {
                Some(_) => self.total_by_ways(sets, set, rest),
                None => entry.budget as f64 + self.least.of(others, rest).0,
            })
        };
        (1..=all).step_by(2).filter_map(with).fold(f64::INFINITY, f64::min)
    }

    /// Sums up the needs of all sets.
    fn sum(&mut self, sets: &Sets, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), End> {
        // Beside a set.
        let cores = sets.machine.cores - 1;
        let costs = |of: &dyn Fn(&Entry) -> f64| -> Vec<f64> {
            self.entries.iter().map(|e| e.as_ref().map_or(f64::INFINITY, of)).collect()
        };
        // Beside a set that is possible.
        let asked = |set: usize| self.entries[sets.machine.all() as usize ^ set].is_some();
        let sums = |costs: Vec<f64>| {
            Rest::of(&costs, cores, 0.0, |a, b| a + b, asked, stop).ok_or(End::Stopped)
        };
        let (mut budgets, mut ways) = (Rest::default(), Rest::default());
        if self.by_ways.is_empty() {
            budgets = sums(costs(&|entry| entry.budget as f64))?;
            ways = sums(costs(&|entry| f64::from(entry.ways.least)))?;
        }
        let (mut speeds, mut bears) = (Rest::default(), Rest::default());
        if sets.question.speed > 0.0 {
            speeds = sums(costs(&|entry| -entry.speed))?;
            let most = costs(&|entry| match entry.breaks {
                u64::MAX => f64::NEG_INFINITY,
                breaks => -(breaks as f64),
            });
            let of = Rest::of(&most, cores, f64::NEG_INFINITY, f64::max, asked, stop);
            bears = of.ok_or(End::Stopped)?;
        }
        let by_ways = self.least.by_ways.take();
        self.least = Least { budgets, ways, speeds, bears, by_ways };
        Ok(())
    }

    /// A set after a round; `None`: it is in no partition.
    fn found(&self, sets: &Sets, set: Set, before: Entry) -> Option<Entry> {
        let machine = sets.machine;
        let (rest, cores) = (machine.all() & !set, machine.cores - 1);
        let (others, ways) = self.least.of(cores, rest);
        let left = f64::from(machine.ways.0) - ways;
        if others == f64::INFINITY || left < f64::from(before.ways.least) {
            return None;
        }
        let mut entry = before;
        entry.ways.most = entry.ways.most.min(left as u32);
        let others = (others as u64).max(sets.least_others());
        if set & machine.hard != 0 && self.least.by_ways.is_none() {
            narrow(sets, set, &mut entry.ways, others)?;
            entry.budget = sets.needs_above(set, entry.ways, others, entry.budget);
        }
        self.reach(sets, set, &mut entry)?;
        Some(entry)
    }

    /// Raises the budget of a set to the need of its programs; `None`: they are too slow.
    fn reach(&self, sets: &Sets, set: Set, entry: &mut Entry) -> Option<()> {
        let machine = sets.machine;
        if sets.question.speed <= 0.0 {
            return Some(());
        }
        if set & machine.hard != 0 {
            entry.breaks = entry.breaks.min(sets.breaks(set, entry.ways));
        }
        let (speed, budget) = self.programs(sets, set, entry.ways, entry.budget)?;
        entry.speed = entry.speed.min(speed);
        entry.budget = budget;
        Some(())
    }

    /// The largest speed of the programs of a set, and the budget of this one at least that they
    /// need; `None`: they are too slow.
    fn programs(&self, sets: &Sets, set: Set, ways: Ways, budget: u64) -> Option<(f64, u64)> {
        let (machine, question) = (sets.machine, sets.question);
        let (rest, cores) = (machine.all() & !set, machine.cores - 1);
        let bears = (-self.least.bears.least(cores, rest)).min(machine.problem.bus as f64);
        let most = (bears as u64).saturating_sub(u64::from(bears < machine.problem.bus as f64));
        let wanted = question.speed + self.least.speeds.least(cores, rest) - ROUNDED;
        if set & machine.programs == 0 {
            return (wanted <= 0.0).then_some((0.0, budget));
        }
        let content = sets.content(set, ways.most);
        // How many ways locked pages leave is known of one number of ways.
        let one = ways.least == ways.most;
        let ways = if one { content.free_ways } else { machine.stated_ways(ways.most) };
        let share = Share { set, content: &content, ways, most, part: question.part };
        let speed = machine.speed(&share, most);
        if speed < wanted || budget > most {
            return None;
        }
        let reached = |budget: u64| machine.speed(&share, budget);
        if reached(budget) >= wanted - ROUNDED {
            return Some((speed, budget));
        }
        Some((speed, budget.max(machine.least(most, wanted - ROUNDED, reached))))
    }
}

/// An entry with no less than the least of the budgets by ways, where these are known, and no other
/// ways.
fn raised(own: &[f64], entry: Entry) -> Entry {
    let possible = |ways: &usize| own[*ways] < f64::INFINITY;
    let (Some(least), Some(most)) =
        ((0..own.len()).find(possible), (0..own.len()).rev().find(possible))
    else {
        return entry;
    };
    let budget = own.iter().copied().fold(f64::INFINITY, f64::min) as u64;
    let ways =
        Ways { least: entry.ways.least.max(least as u32), most: entry.ways.most.min(most as u32) };
    Entry { ways, budget: entry.budget.max(budget), ..entry }
}

/// Leaves out numbers of ways with which a set breaks a limit beside this sum of budgets; `None` if
/// none is left.
fn narrow(sets: &Sets, set: Set, ways: &mut Ways, others: u64) -> Option<()> {
    if !sets.keeps(set, *ways, others) {
        return None;
    }
    while !sets.keeps(set, Ways::just(ways.least), others) {
        ways.least += 1;
        if ways.least > ways.most {
            return None;
        }
    }
    while ways.most > ways.least && !sets.keeps(set, Ways::just(ways.most), others) {
        ways.most -= 1;
    }
    Some(())
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
