//! The least costs of sets of tasks on several cores.
//!
//! Problem: the tasks outside of a set can be put on the other cores in millions of ways. Rule:
//! each set has a cost on one core, and costs make a sum, or the largest one counts. The least cost
//! of a set on `k` cores comes from its best part with the first task on one core, and the rest on
//! `k - 1` cores. That takes 3^n steps for each `k` and all sets of `n` tasks. Does not cover: the
//! best partition.

use crate::budgets::optimal::certificate::Set;

/// Least costs by the number of cores, then by set; infinite where there is no partition.
#[derive(Debug, Default)]
pub struct Rest {
    by_cores: Vec<Vec<f64>>,
    nothing: f64,
}

impl Rest {
    /// Least costs on up to this number of cores, by the costs of sets on one core and what two
    /// costs make together. `nothing` is the cost of no cores. `None`: ended by `stop`, which is
    /// asked now and then.
    pub fn of(
        costs: &[f64],
        cores: u32,
        nothing: f64,
        join: impl Fn(f64, f64) -> f64,
        stop: &mut impl FnMut() -> bool,
    ) -> Option<Self> {
        let mut by_cores: Vec<Vec<f64>> = vec![costs.to_vec()];
        for _ in 1..cores {
            let fewer = by_cores.last()?;
            let mut next = Vec::with_capacity(costs.len());
            for set in 0..costs.len() {
                if set.is_multiple_of(1 << 10) && stop() {
                    return None;
                }
                next.push(least(set, costs, fewer, &join));
            }
            by_cores.push(next);
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

/// The least cost of a set with a part of it on one core, and the rest on those of `fewer`.
fn least(set: usize, costs: &[f64], fewer: &[f64], join: impl Fn(f64, f64) -> f64) -> f64 {
    let first = set & set.wrapping_neg();
    let others = set ^ first;
    let (mut least, mut more) = (f64::INFINITY, others);
    loop {
        let cost = costs[first | more];
        if cost < f64::INFINITY {
            least = least.min(join(cost, fewer[others ^ more]));
        }
        if more == 0 {
            return least;
        }
        more = (more - 1) & others;
    }
}

/// Numbers of ways of a table, with none: a row is as wide as some registers.
pub const WIDTH: usize = 16;

/// Costs of a set by ways.
type Row = [f32; WIDTH];

/// The costs of a set that is on no core.
const NONE: Row = [f32::INFINITY; WIDTH];

/// The same by the number of ways that the cores have together. Costs are whole numbers of a unit
/// with which their sums are exact.
#[derive(Debug, Default)]
pub struct ByWays {
    by_cores: Vec<Vec<Row>>,
    unit: f64,
}

impl ByWays {
    /// Least sums of costs on up to this number of cores, rounded down. `costs`: of each set on one
    /// core, by the number of its ways from none on, less than [`WIDTH`]. `asked`: the sets that
    /// are asked for on all these cores. `None`: ended by `stop`.
    pub fn of(
        costs: &[Vec<f64>],
        cores: u32,
        asked: impl Fn(usize) -> bool,
        stop: &mut impl FnMut() -> bool,
    ) -> Option<Self> {
        let finite = costs.iter().flatten().copied().filter(|cost| *cost < f64::INFINITY);
        let unit = (finite.fold(0.0, f64::max) * f64::from(cores) / EXACT).ceil().max(1.0);
        let own = |costs: &Vec<f64>| {
            let mut row = NONE;
            row.iter_mut().zip(costs).for_each(|(own, cost)| *own = (cost / unit).floor() as f32);
            row
        };
        let own: Vec<Row> = costs.iter().map(own).collect();
        let mut by_cores = vec![own.clone()];
        for count in 2..=cores {
            let fewer = by_cores.last()?;
            let live: Vec<bool> = fewer.iter().map(possible).collect();
            let mut next = Vec::with_capacity(fewer.len());
            for set in 0..own.len() {
                if set.is_multiple_of(1 << 8) && stop() {
                    return None;
                }
                let any = count < cores || asked(set);
                next.push(if any { least_by_ways(set, &own, fewer, &live) } else { NONE });
            }
            by_cores.push(next);
        }
        Some(Self { by_cores, unit })
    }

    /// The least sum of a set on a number of cores that have these ways together.
    pub fn least(&self, cores: u32, set: Set, ways: usize) -> f64 {
        let of = (cores as usize).checked_sub(1).and_then(|at| self.by_cores.get(at));
        if cores == 0 && set == 0 && ways == 0 {
            return 0.0;
        }
        let row = of.and_then(|costs| costs.get(set as usize));
        let sum = row.and_then(|row| row.get(ways)).copied().unwrap_or(f32::INFINITY);
        f64::from(sum) * self.unit
    }
}

/// Sums of whole numbers up to this one are exact.
const EXACT: f64 = 16_000_000.0;

fn possible(row: &Row) -> bool {
    row.iter().any(|cost| *cost < f32::INFINITY)
}

/// `live`: the sets that have costs in `fewer`.
#[allow(clippy::needless_range_loop, reason = "the lanes of rows with a fixed width")]
fn least_by_ways(set: usize, own: &[Row], fewer: &[Row], live: &[bool]) -> Row {
    let first = set & set.wrapping_neg();
    let others = set ^ first;
    let (mut least, mut more) = ([f32::INFINITY; 2 * WIDTH], others);
    loop {
        let rest = others ^ more;
        if live[rest] {
            let beside = &fewer[rest];
            let own = &own[first | more];
            for ways in 0..WIDTH {
                let cost = own[ways];
                if cost < f32::INFINITY {
                    let Some(sums) = least[ways..].first_chunk_mut::<WIDTH>() else { continue };
                    for at in 0..WIDTH {
                        let both = cost + beside[at];
                        sums[at] = if both < sums[at] { both } else { sums[at] };
                    }
                }
            }
        }
        if more == 0 {
            let mut row = NONE;
            row.copy_from_slice(&least[..WIDTH]);
            return row;
        }
        more = (more - 1) & others;
    }
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
                let rest = Rest::of(&costs, 3, nothing, join, &mut || false).unwrap();
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
            let rest = ByWays::of(&costs, 3, |_| true, &mut || false).unwrap();
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
            let rest = ByWays::of(&costs, 2, |_| true, &mut || false).unwrap();
            let (least, sum) = (rest.least(2, 3, 2), costs[1][1] + costs[2][1]);
            assert!(least <= sum && least > sum * 0.99999 - 2000.0, "{least} {sum}");
        }
    }
}
