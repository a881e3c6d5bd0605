//! The least costs of sets of tasks on several cores.
//!
//! Problem: the tasks outside of a set can be put on the other cores in millions of ways. Rule:
//! each set has a cost on one core, and costs make a sum, or the largest one counts. The least cost
//! of a set on `k` cores comes from its best part with the first task on one core, and the rest on
//! `k - 1` cores. That takes at most 3^n steps for each `k` and all sets of `n` tasks. On the most
//! cores, only sets beside a possible one are asked for. Does not cover: the best partition.

use super::sets::AT_ONCE;
use crate::budgets::optimal::certificate::Set;
use rayon::prelude::*;

/// Least costs by the number of cores, then by set; infinite where there is no partition.
#[derive(Debug, Default)]
pub struct Rest {
    by_cores: Vec<Vec<f64>>,
    nothing: f64,
}

impl Rest {
    /// Least costs on up to this number of cores, by the costs of sets on one core and what two
    /// costs make together. `nothing` is the cost of no cores; `asked`: the sets that are asked for
    /// on all these cores. `None`: ended by `stop`, which is asked now and then.
    pub fn of(
        costs: &[f64],
        cores: u32,
        nothing: f64,
        join: impl Fn(f64, f64) -> f64 + Sync,
        asked: impl Fn(usize) -> bool + Sync,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let parts = Parts::of(costs.len(), |set| costs[set] < f64::INFINITY);
        let mut by_cores: Vec<Vec<f64>> = vec![costs.to_vec()];
        for count in 2..=cores {
            let fewer = by_cores.last()?;
            let of = |set: usize| {
                let mut least = f64::INFINITY;
                if count < cores || asked(set) {
                    parts.each(set, |part| least = least.min(join(costs[part], fewer[set ^ part])));
                }
                least
            };
            by_cores.push(each(costs.len(), of, stop)?);
        }
        Some(Self { by_cores, nothing })
    }

    /// The least cost of a set on a number of cores.
    pub fn least(&self, cores: u32, set: Set) -> f64 {
        let without = if set == 0 { self.nothing } else { f64::INFINITY };
        let of = (cores as usize).checked_sub(1).and_then(|at| self.by_cores.get(at));
        of.and_then(|costs| costs.get(set as usize)).copied().unwrap_or(without)
    }
}

/// The values of all sets below a number; `None`: ended.
fn each<T: Send>(
    sets: usize,
    of: impl Fn(usize) -> T + Sync,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<T>> {
    let mut out = Vec::with_capacity(sets);
    for first in (0..sets).step_by(AT_ONCE) {
        if stop() {
            return None;
        }
        out.par_extend((first..sets.min(first + AT_ONCE)).into_par_iter().map(&of));
    }
    Some(out)
}

/// The sets that may be on a core, by their first task.
struct Parts {
    possible: Vec<bool>,
    by_first: Vec<Vec<usize>>,
}

impl Parts {
    fn of(sets: usize, possible: impl Fn(usize) -> bool) -> Self {
        let possible: Vec<bool> = (0..sets).map(possible).collect();
        let mut by_first = vec![Vec::new(); sets.trailing_zeros() as usize];
        for set in (1..sets).filter(|&set| possible[set]) {
            by_first[set.trailing_zeros() as usize].push(set);
        }
        Self { possible, by_first }
    }

    /// The parts of a set with its first task that may be on a core: the list of all such sets is
    /// gone through where it is shorter than that of all parts.
    fn each(&self, set: usize, mut of: impl FnMut(usize)) {
        if set == 0 {
            if self.possible[0] {
                of(0);
            }
            return;
        }
        let first = set & set.wrapping_neg();
        let others = set ^ first;
        let some = &self.by_first[set.trailing_zeros() as usize];
        if some.len() < 1 << others.count_ones() {
            some.iter().filter(|&&part| part & !set == 0).for_each(|&part| of(part));
            return;
        }
        let mut more = others;
        loop {
            let part = first | more;
            if self.possible[part] {
                of(part);
            }
            if more == 0 {
                return;
            }
            more = (more - 1) & others;
        }
    }
}

/// Numbers of ways of a table, with none: a row is as wide as some registers.
pub const WIDTH: usize = 16;

/// Costs of a set by ways, in units. The numbers are small, so that registers hold many of them.
type Row = [i16; WIDTH];

/// The cost where there is no partition.
const NEVER: i16 = i16::MAX;

/// The costs of a set that is on no core.
const NONE: Row = [NEVER; WIDTH];

/// The same by the number of ways that the cores have together. Costs are whole numbers of a unit,
/// so that their sums are exact.
#[derive(Debug, Default)]
pub struct ByWays {
    by_cores: Vec<Vec<Row>>,
    unit: f64,
}

impl ByWays {
    /// Least sums of costs on up to this number of cores, rounded down. `costs`: of each set on one
    /// core, by the number of its ways from none on, less than [`WIDTH`]. A cost above `most`
    /// counts as that. `asked`: the sets that are asked for on all these cores. `None`: ended by
    /// `stop`.
    pub fn of(
        costs: &[Vec<f64>],
        cores: u32,
        most: f64,
        asked: impl Fn(usize) -> bool + Sync,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        // One that depends on no costs: the check has the same sums.
        let unit = (most * f64::from(cores + 1) / EXACT).ceil().max(1.0);
        let in_units = |cost: f64| {
            if cost < f64::INFINITY { (cost.min(most) / unit) as i16 } else { NEVER }
        };
        let own = |costs: &Vec<f64>| {
            let mut row = NONE;
            row.iter_mut().zip(costs).for_each(|(own, &cost)| *own = in_units(cost));
            row
        };
        let own: Vec<Row> = costs.iter().map(own).collect();
        let spans: Vec<(u8, u8)> = own.iter().map(span).collect();
        let parts = Parts::of(own.len(), |set| spans[set].0 < spans[set].1);
        let mut by_cores = vec![own.clone()];
        for count in 2..=cores {
            let fewer = by_cores.last()?;
            let live: Vec<bool> = fewer.iter().map(possible).collect();
            let of = |set: usize| {
                let any = count < cores || asked(set);
                if any { least_by_ways(set, &parts, &own, &spans, fewer, &live) } else { NONE }
            };
            by_cores.push(each(own.len(), of, stop)?);
        }
        Some(Self { by_cores, unit })
    }

    /// The least sum of a set on a number of cores with any ways, and the fewest ways that they can
    /// have; infinite where there is no partition.
    pub fn any(&self, cores: u32, set: Set) -> (f64, f64) {
        let mut least = (f64::INFINITY, f64::INFINITY);
        for ways in 0..WIDTH {
            let sum = self.least(cores, set, ways);
            if sum < f64::INFINITY {
                least = (least.0.min(sum), least.1.min(ways as f64));
            }
        }
        least
    }

    /// The least sum of a set on a number of cores that have these ways together.
    pub fn least(&self, cores: u32, set: Set, ways: usize) -> f64 {
        let of = (cores as usize).checked_sub(1).and_then(|at| self.by_cores.get(at));
        if cores == 0 && set == 0 && ways == 0 {
            return 0.0;
        }
        let row = of.and_then(|costs| costs.get(set as usize));
        match row.and_then(|row| row.get(ways)) {
            None | Some(&NEVER) => f64::INFINITY,
            Some(&sum) => f64::from(sum) * self.unit,
        }
    }
}

/// Sums up to this number of units are below [`NEVER`].
const EXACT: f64 = 32_000.0;

fn possible(row: &Row) -> bool {
    row.iter().any(|cost| *cost < NEVER)
}

/// `live`: the sets that have costs in `fewer`; `spans`: the first number of ways of each set with
/// a cost of its own, and the number after the last one.
fn least_by_ways(
    set: usize,
    parts: &Parts,
    own: &[Row],
    spans: &[(u8, u8)],
    fewer: &[Row],
    live: &[bool],
) -> Row {
    let mut least = [NEVER; 2 * WIDTH];
    parts.each(set, |part| {
        let rest = set ^ part;
        if !live[rest] {
            return;
        }
        let (from, to) = spans[part];
        let (beside, own) = (&fewer[rest], &own[part]);
        for ways in usize::from(from)..usize::from(to) {
            let Some(sums) = least[ways..].first_chunk_mut::<WIDTH>() else { continue };
            for (sum, &beside) in sums.iter_mut().zip(beside) {
                *sum = (*sum).min(own[ways].saturating_add(beside));
            }
        }
    });
    let mut row = NONE;
    row.copy_from_slice(&least[..WIDTH]);
    row
}

/// The first number of ways with a cost, and the number after the last one.
fn span(row: &Row) -> (u8, u8) {
    let possible = |&ways: &u8| row[usize::from(ways)] < NEVER;
    let first = (0..WIDTH as u8).find(possible).unwrap_or(0);
    let last = (0..WIDTH as u8).rev().find(possible);
    (first, last.map_or(0, |last| last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::optimal::exact_tests::partitions;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn cost(rng: &mut ChaCha8Rng) -> f64 {
        if rng.random_range(0..4) == 0 { f64::INFINITY } else { rng.random_range(0..100).into() }
    }

    #[test]
    fn the_least_cost_is_that_of_the_best_partition() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20 {
            let costs: Vec<f64> = (0..32).map(|_| cost(&mut rng)).collect();
            for (nothing, join) in [(0.0, (|a, b| a + b) as fn(f64, f64) -> f64), (0.0, f64::max)] {
                let rest = Rest::of(&costs, 3, nothing, join, |_| true, &|| false).unwrap();
                let of = |sets: Vec<usize>| sets.iter().map(|&set| costs[set]).reduce(join);
                let least = partitions(5, 3).filter_map(of).fold(f64::INFINITY, f64::min);
                assert!(rest.least(3, 31) == least, "{costs:?}");
            }
        }
    }

    #[test]
    fn the_least_cost_by_ways_is_that_of_the_best_partition() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..20 {
            let own = |rng: &mut ChaCha8Rng| {
                (0..4).map(|ways| if ways == 0 { f64::INFINITY } else { cost(rng) }).collect()
            };
            let costs: Vec<Vec<f64>> = (0..32).map(|_| own(&mut rng)).collect();
            let rest = ByWays::of(&costs, 3, 100.0, |_| true, &|| false).unwrap();
            let mut least = f64::INFINITY;
            for sets in partitions(5, 3) {
                for (own, next) in (1..4).flat_map(|own| (1..4).map(move |next| (own, next))) {
                    let last = 6usize.saturating_sub(own + next);
                    let cost = |set: usize, ways: usize| costs[set].get(ways).copied();
                    let all = [cost(sets[0], own), cost(sets[1], next), cost(sets[2], last)];
                    let all: Option<f64> = all.into_iter().sum();
                    least = least.min(all.unwrap_or(f64::INFINITY));
                }
            }
            assert!(rest.least(3, 31, 6) == least, "{costs:?}");
        }
    }

    /// Sums of costs that need more digits than a table has are rounded down.
    #[test]
    fn the_least_cost_by_ways_is_never_too_large() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..100 {
            let mut one = || rng.random_range(1..u64::from(u32::MAX)) as f64;
            let costs = [vec![0.0; 2], vec![f64::INFINITY, one()], vec![f64::INFINITY, one()]];
            let costs = [&costs[..], &[vec![f64::INFINITY; 2]]].concat();
            let rest = ByWays::of(&costs, 2, f64::from(u32::MAX), |_| true, &|| false).unwrap();
            let (least, sum) = (rest.least(2, 3, 2), costs[1][1] + costs[2][1]);
            assert!(
                least <= sum && least > sum - 2.0 * f64::from(u32::MAX) / 10_000.0,
                "{least} {sum}"
            );
        }
    }
}
