//! The needs of a set of tasks by its number of ways, as the check of a certificate sees it.
//!
//! Problem: a set with many ways needs a small budget, but all sets together have few ways. Rule:
//! the facts give each set a least budget for each number of ways. The cores have all ways
//! together, so sums of budgets are looked up by the sum of the ways. Does not cover: the facts
//! (`check`).

use super::certificate::{Set, Ways};
use super::check_core::Cores;
use super::check_facts::Facts;

/// Numbers of ways of a table, with none.
pub const WIDTH: usize = 16;
/// Most units of a sum: all sums up to it are exact.
const MOST_UNITS: f64 = 10_000_000.0;

/// Budgets by ways.
type Row = [f32; WIDTH];

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
        let mut made = Self { own: held.iter().map(of).collect(), sums: Vec::new(), unit: 1.0 };
        made.sum(cores, stop)?;
        Ok(made)
    }

    /// These budgets.
    #[cfg(test)]
    pub fn with(cores: &Cores, own: Vec<Vec<f64>>) -> Self {
        let mut made = Self { own, sums: Vec::new(), unit: 1.0 };
        made.sum(cores, &|| false).expect("nobody ends it");
        made
    }

    /// Looks at a set with each number of ways; `None`: it has none. `needed`: the budget that its
    /// programs need with these ways, this one at least; `None` if they are too slow.
    pub fn after(
        &mut self,
        cores: &mut Cores,
        facts: &Facts,
        set: Set,
        mut held: Held,
        needed: &mut dyn FnMut(&mut Cores, Ways, u64) -> Option<u64>,
    ) -> Option<Held> {
        let rest = cores.all() & !set;
        let all = cores.ways.0;
        for ways in 0..=all {
            let others = self.least(cores.count - 1, rest, (all - ways) as usize);
            let own = &mut self.own[set as usize][ways as usize];
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
        let own = &self.own[set as usize];
        let possible = |ways: &u32| own[*ways as usize] < f64::INFINITY;
        let least = (0..=all).find(possible)?;
        let most = (0..=all).rev().find(possible)?;
        let budget = own.iter().copied().fold(f64::INFINITY, f64::min) as u64;
        held.ways = Ways { least, most };
        held.budget = held.budget.max(budget);
        Some(held)
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
        self.sum(cores, stop)
    }

    fn sum(&mut self, cores: &Cores, stop: &dyn Fn() -> bool) -> Result<(), String> {
        let all = self.own.len() - 1;
        self.unit = (f64::from(cores.count) * cores.bus() as f64 / MOST_UNITS).ceil();
        let in_units = |budgets: &Vec<f64>| {
            let mut row = [f32::INFINITY; WIDTH];
            row.iter_mut().zip(budgets).for_each(|(n, b)| *n = (b / self.unit).floor() as f32);
            row
        };
        let own: Vec<Row> = self.own.iter().map(in_units).collect();
        let mut sums = vec![own.clone()];
        while sums.len() + 1 < cores.count as usize {
            let fewer = &sums[sums.len() - 1];
            let mut next = vec![[f32::INFINITY; WIDTH]; own.len()];
            next[0] = with(&next[0], &own[0], &fewer[0]);
            for part in 1..=all {
                if part % 256 == 0 && stop() {
                    return Err("the check was ended".to_owned());
                }
                if own[part].iter().all(|budget| *budget == f32::INFINITY) {
                    continue;
                }
                let first = part & part.wrapping_neg();
                let later = all & !part & !(first - 1);
                let mut rest = later;
                loop {
                    next[part | rest] = with(&next[part | rest], &own[part], &fewer[rest]);
                    if rest == 0 {
                        break;
                    }
                    rest = (rest - 1) & later;
                }
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
            Some(at) => f64::from(self.sums[at][set as usize][ways]) * self.unit,
        }
    }

    /// Beside each of these sets, by its number of ways, the least sum of the budgets of the other
    /// ones and of the rest, with all other ways; infinite where the set cannot have them. A set
    /// with a small budget may be one with many ways: so the least sum of all budgets, less the
    /// least budget of a set, does not bound the others.
    pub fn beside(&self, cores: &Cores, placed: &[Set], rest: Set) -> Vec<Vec<f64>> {
        let (left, all) = (cores.count - placed.len() as u32, cores.ways.0 as usize);
        let of_rest: Vec<f64> = (0..=all).map(|ways| self.least(left, rest, ways)).collect();
        let of = |at: usize| {
            let mut sums = of_rest.clone();
            for (_, &set) in placed.iter().enumerate().filter(|&(other, _)| other != at) {
                let mut with = vec![f64::INFINITY; all + 1];
                add(&mut with, &self.own[set as usize], &sums);
                sums = with;
            }
            let own = &self.own[placed[at] as usize];
            let with = |ways: usize| {
                if own[ways] < f64::INFINITY { sums[all - ways] } else { f64::INFINITY }
            };
            (0..=all).map(with).collect()
        };
        (0..placed.len()).map(of).collect()
    }
}

/// The smaller ones of these sums and of those of two costs by ways.
#[allow(clippy::needless_range_loop, reason = "the lanes of rows with a fixed width")]
fn with(sums: &Row, own: &Row, beside: &Row) -> Row {
    let mut out = [f32::INFINITY; 2 * WIDTH];
    out[..WIDTH].copy_from_slice(sums);
    for ways in 0..WIDTH {
        let budget = own[ways];
        if budget < f32::INFINITY {
            let Some(sums) = out[ways..].first_chunk_mut::<WIDTH>() else { continue };
            for at in 0..WIDTH {
                let both = budget + beside[at];
                sums[at] = if both < sums[at] { both } else { sums[at] };
            }
        }
    }
    let mut row = [f32::INFINITY; WIDTH];
    row.copy_from_slice(&out[..WIDTH]);
    row
}

/// Lowers sums to those of two costs by ways.
fn add(sums: &mut [f64], own: &[f64], beside: &[f64]) {
    for (ways, budget) in own.iter().enumerate().filter(|(_, budget)| **budget < f64::INFINITY) {
        for (sum, other) in sums[ways..].iter_mut().zip(beside) {
            *sum = sum.min(budget + other);
        }
    }
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
                let least = least_beside(own, [3, 6], placed);
                assert_eq!(found, least, "{placed:?} of {own:?}");
            }
        });
    }
}
