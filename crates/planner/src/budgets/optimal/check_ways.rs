//! The needs of a set of tasks by its number of ways, as the check of a certificate sees it.
//!
//! Problem: a set with many ways needs a small budget, but all sets together have few ways. Rule:
//! the facts give each set a least budget for each number of ways. The cores have all ways
//! together, so sums of budgets are looked up by the sum of the ways. Does not cover: the facts
//! (`check`).

use super::certificate::{Set, Ways};
use super::check_core::Cores;
use super::check_facts::Facts;
use rayon::prelude::*;

/// Sets that are summed up before the caller is asked whether to end.
const AT_ONCE: usize = 1 << 10;
/// Numbers of ways of a table, with none.
pub const WIDTH: usize = 16;
/// Most units of a sum: all sums up to it are exact, and less than [`NEVER`].
const MOST_UNITS: f64 = 32_000.0;
/// No budget.
const NEVER: i16 = i16::MAX;

/// Sums of budgets by ways.
pub type Sums = [f64; WIDTH];

/// Budgets by ways, in units.
type Row = [i16; WIDTH];

/// A set on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub ways: Ways,
    /// Least budget.
    pub budget: u64,
    /// A sum of the others' budgets that breaks a limit, with all these ways.
    pub breaks: u64,
    /// Largest speed of its programs.
    pub speed: f64,
}

/// Budgets by set and ways; infinite where there is no partition.
pub struct ByWays {
    own: Vec<Vec<f64>>,
    /// Least sums on one core, two, and so on, by set and the ways of these cores, in units.
    sums: Vec<Vec<Row>>,
    /// Accesses: budgets of whole units, rounded down, have exact sums.
    unit: f64,
    /// Larger sums of budgets leave no more of a period than this one.
    endless: f64,
}

impl ByWays {
    /// The budgets of these sets.
    ///
    /// # Errors
    /// When the caller wants it to end.
    pub fn of(
        cores: &Cores,
        held: &[Option<Held>],
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let of = |held: &Option<Held>| {
            let budget = |ways: u32| match held {
                Some(held) if held.ways.contain(Ways::just(ways)) => held.budget as f64,
                _ => f64::INFINITY,
            };
            (0..=cores.ways.0).map(budget).collect()
        };
        let mut made = Self {
            own: held.iter().map(of).collect(),
            sums: Vec::new(),
            unit: 1.0,
            endless: cores.endless() as f64,
        };
        let held: Vec<bool> = held.iter().map(Option::is_some).collect();
        made.sum(cores, &held, stop)?;
        Ok(made)
    }

    /// These budgets.
    #[cfg(test)]
    pub fn with(cores: &Cores, own: Vec<Vec<f64>>) -> Self {
        let mut made = Self { own, sums: Vec::new(), unit: 1.0, endless: 1000.0 };
        let held = vec![true; made.own.len()];
        made.sum(cores, &held, &|| false).expect("nobody ends it");
        made
    }

    /// Looks at a set with each number of ways: what is left of it, `None` if it has none, and its
    /// budgets by ways. `needed`: the budget that its programs need with these ways, this one at
    /// least; `None` if they are too slow.
    pub fn after(
        &self,
        cores: &mut Cores,
        facts: &Facts,
        set: Set,
        mut held: Held,
        needed: &mut dyn FnMut(&mut Cores, Ways, u64) -> Option<u64>,
    ) -> (Option<Held>, Vec<f64>) {
        let rest = cores.all() & !set;
        let all = cores.ways.0;
        let mut budgets = self.own[set as usize].clone();
        for (ways, own) in (0..=all).zip(&mut budgets) {
            let others = self.least(cores.count - 1, rest, (all - ways) as usize);
            if !held.ways.contain(Ways::just(ways)) || others == f64::INFINITY {
                *own = f64::INFINITY;
            } else if cores.analysed(set) {
                let (beside, just) = ((others as u64).max(cores.least_others()), Ways::just(ways));
                let breaks = beside >= facts.breaks(set, just);
                let needs = own.max(held.budget as f64).max(facts.needs(set, just, beside) as f64);
                *own = if breaks { f64::INFINITY } else { needs };
            }
            if *own < f64::INFINITY {
                let budget = needed(cores, Ways::just(ways), *own as u64);
                *own = budget.map_or(f64::INFINITY, |budget| budget as f64);
            }
        }
        let possible = |ways: &u32| budgets[*ways as usize] < f64::INFINITY;
        let (Some(least), Some(most)) = ((0..=all).find(possible), (0..=all).rev().find(possible))
        else {
            return (None, budgets);
        };
        let budget = budgets.iter().copied().fold(f64::INFINITY, f64::min) as u64;
        held.ways = Ways { least, most };
        held.budget = held.budget.max(budget);
        (Some(held), budgets)
    }

    /// The budget of a set with a number of ways, if it can have them.
    pub fn budget(&self, set: Set, ways: u32) -> Option<u64> {
        let budget = *self.own[set as usize].get(ways as usize)?;
        (budget < f64::INFINITY).then_some(budget as u64)
    }

    /// Takes the budgets of a set.
    pub fn set(&mut self, set: Set, budgets: Vec<f64>) {
        self.own[set as usize] = budgets;
    }

    /// Sums the budgets up, without those of sets that were dropped.
    ///
    /// # Errors
    /// When the caller wants it to end.
    pub fn again(
        &mut self,
        cores: &Cores,
        held: &[Option<Held>],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        for (own, held) in self.own.iter_mut().zip(held) {
            let least = held.map_or(f64::INFINITY, |held| held.budget as f64);
            own.iter_mut().for_each(|budget| *budget = budget.max(least));
        }
        let held: Vec<bool> = held.iter().map(Option::is_some).collect();
        self.sum(cores, &held, stop)
    }

    fn sum(&mut self, cores: &Cores, held: &[bool], stop: &dyn Fn() -> bool) -> Result<(), String> {
        let largest = self.endless;
        self.unit = (f64::from(cores.count) * largest / MOST_UNITS).ceil().max(1.0);
        let in_units = |budgets: &Vec<f64>| {
            let mut row = [NEVER; WIDTH];
            for (units, budget) in row.iter_mut().zip(budgets) {
                if *budget < f64::INFINITY {
                    *units = (budget.min(largest) / self.unit).floor() as i16;
                }
            }
            row
        };
        let own: Vec<Row> = self.own.iter().map(in_units).collect();
        let some = |row: &Row| row.iter().any(|units| *units < NEVER);
        let possible: Vec<bool> = own.iter().map(some).collect();
        let mut sums = vec![own.clone()];
        while sums.len() + 1 < cores.count as usize {
            let fewer = &sums[sums.len() - 1];
            let filled: Vec<bool> = fewer.iter().map(some).collect();
            // All cores but one stand beside a set that is left.
            let beside_all = sums.len() + 2 == cores.count as usize;
            // The core with the last task of a set, and the others.
            let of = |set: usize| {
                if beside_all && !held[(own.len() - 1) ^ set] {
                    return [NEVER; WIDTH];
                }
                let mut row = [NEVER; 2 * WIDTH];
                let last = if set == 0 { 0 } else { 1 << set.ilog2() };
                let (earlier, mut rest) = (set & !last, 0);
                loop {
                    let part = set & !rest;
                    if possible[part] && filled[rest] {
                        lower(&mut row, &own[part], &fewer[rest]);
                    }
                    if rest == earlier {
                        return std::array::from_fn(|ways| row[ways]);
                    }
                    rest = rest.wrapping_sub(earlier) & earlier;
                }
            };
            let mut next: Vec<Row> = Vec::with_capacity(own.len());
            while next.len() < own.len() {
                if stop() {
                    return Err("the check was ended".to_owned());
                }
                let some = next.len()..own.len().min(next.len() + AT_ONCE);
                next.par_extend(some.into_par_iter().map(of));
            }
            sums.push(next);
        }
        self.sums = sums;
        Ok(())
    }

    fn least(&self, cores: u32, set: Set, ways: usize) -> f64 {
        match (cores as usize).checked_sub(1) {
            None if set == 0 && ways == 0 => 0.0,
            None => f64::INFINITY,
            Some(at) => match self.sums[at][set as usize][ways] {
                NEVER => f64::INFINITY,
                units => f64::from(units) * self.unit,
            },
        }
    }

    /// The least sum of the budgets of cores with any ways, and the fewest ways that they can have.
    pub fn any(&self, cores: u32, set: Set) -> (f64, f64) {
        let possible = |&ways: &usize| self.least(cores, set, ways) < f64::INFINITY;
        let fewest = (0..WIDTH).find(possible).map_or(f64::INFINITY, |ways| ways as f64);
        let sums = (0..WIDTH).map(|ways| self.least(cores, set, ways));
        (sums.fold(f64::INFINITY, f64::min), fewest)
    }

    /// Beside each of these sets, by its number of ways, the least sum of the budgets of the other
    /// ones and of the rest, with all other ways; infinite where the set cannot have them. A set
    /// with a small budget may be one with many ways: so the least sum of all budgets, less the
    /// least budget of a set, does not bound the others.
    pub fn beside(&self, cores: &Cores, placed: &[Set], rest: Set) -> Vec<Sums> {
        let (left, all) = (cores.count - placed.len() as u32, cores.ways.0 as usize);
        let of_rest: Sums = std::array::from_fn(|ways| match ways <= all {
            true => self.least(left, rest, ways),
            false => f64::INFINITY,
        });
        let of = |at: usize| {
            let others = placed.iter().enumerate().filter(|&(other, _)| other != at);
            let sums = others.fold(of_rest, |sums, (_, &set)| add(&self.own[set as usize], &sums));
            let own = &self.own[placed[at] as usize];
            let with = |ways: usize| match own.get(ways) {
                Some(budget) if *budget < f64::INFINITY => sums[all - ways],
                _ => f64::INFINITY,
            };
            std::array::from_fn(with)
        };
        (0..placed.len()).map(of).collect()
    }
}

/// Lowers sums by ways to those of two costs by ways where these are less.
fn lower(sums: &mut [i16; 2 * WIDTH], own: &Row, beside: &Row) {
    for (ways, &budget) in own.iter().enumerate().filter(|(_, budget)| **budget < NEVER) {
        let Some(sums) = sums[ways..].first_chunk_mut::<WIDTH>() else { continue };
        for (sum, &other) in sums.iter_mut().zip(beside) {
            *sum = (*sum).min(budget.saturating_add(other));
        }
    }
}

/// Least sums of two costs by ways.
fn add(own: &[f64], beside: &Sums) -> Sums {
    let mut out = [f64::INFINITY; WIDTH];
    for (ways, budget) in own.iter().enumerate().filter(|(_, budget)| **budget < f64::INFINITY) {
        for (sum, other) in out.iter_mut().skip(ways).zip(beside) {
            *sum = sum.min(budget + other);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::exact_tests::{PLACED, least_beside, nothing, with_costs};
    use super::*;

    /// Each sum is that of some choice, and none is smaller.
    #[test]
    fn the_sums_beside_sets_are_those_of_the_best_choice() {
        with_costs(8, |solver, own| {
            let certificate = nothing();
            let cores = Cores::of(&solver.problem, &certificate).unwrap();
            let made = ByWays::with(&cores, own.to_vec());
            for (placed, rest) in PLACED {
                let sets: Vec<Set> = placed.iter().map(|&set| set as Set).collect();
                let found = made.beside(&cores, &sets, rest as Set);
                let found: Vec<&[f64]> = found.iter().map(|sums| &sums[..=6]).collect();
                let least = least_beside(own, [3, 6], placed);
                assert_eq!(found, least, "{placed:?} of {own:?}");
            }
        });
    }
}
