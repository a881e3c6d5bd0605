//! The largest budgets with which every task meets its deadline.
//!
//! Problem: soft cores shall make as many accesses as the hard tasks tolerate. Rule: right-hand
//! sides grow with each budget ([`super`], "Monotone"), so each search is a bisection; the
//! objectives differ in the order in which budgets grow. Does not cover: the optimum of total
//! bandwidth; [`bandwidth_limit`] bounds it.

use super::responses::{BudgetError, HardTask, Memory, TaskBound, bound, bounds, check};
use serde::{Deserialize, Serialize};

/// Cores with up to this many tasks have their budgets filled in every order.
const MAX_PERMUTED: usize = 5;

/// Objective of the choice of all tasks' budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The smallest budget is as large as possible; then none can grow by one access without
    /// another's loss.
    MaxMin,
    /// The accesses per time that all jobs together allow, `sum of B_i/P_i`, are many. See
    /// [`largest_budgets`].
    TotalBandwidth,
}

/// Are all tasks safe with these budgets?
fn safe(tasks: &[HardTask], memory: &Memory, core: u32, budgets: &[u64]) -> bool {
    let mut with = tasks.to_vec();
    with.iter_mut().zip(budgets).for_each(|(t, &b)| t.budget = b);
    let mut known: Vec<TaskBound> = Vec::with_capacity(tasks.len());
    for i in 0..with.len() {
        // Other cores' tasks do not depend on this core's budgets; their entries are never read.
        let entry = if with[i].core == core {
            bound(&with, i, memory, &known)
        } else {
            Some(TaskBound { demand_ps: 0, length_ps: 0, response_ps: 0 })
        };
        match entry {
            Some(entry) => known.push(entry),
            None => return false,
        }
    }
    true
}

/// The largest number from `low` on that passes; `low` passes, and all numbers that pass are below
/// those that fail.
fn last_right(low: u64, high: u64, right: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high.max(low));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if right(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The largest budget of task `i` with which every task still meets its deadline, with the other
/// budgets unchanged. The task's present budget does not matter. `None` if even 0 is too much.
///
/// # Errors
/// When a task or `L` is not a possible value, or there is no task `i`.
pub fn largest_budget(
    tasks: &[HardTask],
    i: usize,
    memory: &Memory,
) -> Result<Option<u64>, BudgetError> {
    check(tasks, memory)?;
    let core = tasks.get(i).ok_or(BudgetError::NoTask(i))?.core;
    let mut budgets: Vec<u64> = tasks.iter().map(|t| t.budget).collect();
    budgets[i] = 0;
    let mut lowest = tasks.to_vec();
    lowest[i].budget = 0;
    if bounds(&lowest, memory).is_err() {
        return Ok(None);
    }
    Ok(Some(raise(tasks, memory, core, &budgets, &[i])))
}

/// The largest common budget of the tasks of `which`, the others as in `budgets`; these must be
/// safe.
fn raise(tasks: &[HardTask], memory: &Memory, core: u32, budgets: &[u64], which: &[usize]) -> u64 {
    let low = which.iter().map(|&i| budgets[i]).max().unwrap_or(0);
    let high = which.iter().map(|&i| tasks[i].deadline_ps / memory.latency_ps).min().unwrap_or(0);
    last_right(low, high, |b| {
        let mut with = budgets.to_vec();
        which.iter().for_each(|&i| with[i] = b);
        safe(tasks, memory, core, &with)
    })
}

/// The largest safe budgets of all tasks under an objective; `None` if the task set is not even
/// safe with none.
///
/// * [`Objective::MaxMin`]: the smallest budget of each core is the largest possible. Tasks that
///   cannot grow then keep theirs, and the others go on together. Where two tasks could each grow
///   but not both, the first does.
/// * [`Objective::TotalBandwidth`]: each order of filling the budgets to the brim is tried, on
///   cores with up to five tasks; on others, one order (most `P` first lengthens `ceil(t/P)`
///   least). The result cannot be raised anywhere; it need not be the optimum ([`bandwidth_limit`]
///   bounds the distance to it).
///
/// The present budgets of the tasks do not matter.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn largest_budgets(
    tasks: &[HardTask],
    memory: &Memory,
    objective: Objective,
) -> Result<Option<Vec<u64>>, BudgetError> {
    let none: Vec<HardTask> = tasks.iter().map(|t| HardTask { budget: 0, ..*t }).collect();
    largest_budgets_of(&none, &vec![true; tasks.len()], memory, objective)
}

/// As [`largest_budgets`], for the tasks that are `free`, which get at least the budget they have;
/// the others keep theirs. `free` has one entry a task. `None` if the task set is not safe with the
/// budgets it has.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn largest_budgets_of(
    tasks: &[HardTask],
    free: &[bool],
    memory: &Memory,
    objective: Objective,
) -> Result<Option<Vec<u64>>, BudgetError> {
    check(tasks, memory)?;
    let is_free = |i: usize| free.get(i).copied().unwrap_or(false);
    let start: Vec<u64> = tasks.iter().map(|t| t.budget).collect();
    if bounds(tasks, memory).is_err() {
        return Ok(None);
    }
    let mut cores: Vec<u32> = tasks.iter().map(|t| t.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut budgets = start.clone();
    for core in cores {
        let mine: Vec<usize> =
            (0..tasks.len()).filter(|&i| tasks[i].core == core && is_free(i)).collect();
        let best = match objective {
            Objective::MaxMin => max_min(tasks, memory, core, &mine, &start),
            Objective::TotalBandwidth => most_bandwidth(tasks, memory, core, &mine, &start),
        };
        mine.iter().for_each(|&i| budgets[i] = best[i]);
    }
    Ok(Some(budgets))
}

fn max_min(
    tasks: &[HardTask],
    memory: &Memory,
    core: u32,
    mine: &[usize],
    start: &[u64],
) -> Vec<u64> {
    let (mut budgets, mut growing) = (start.to_vec(), mine.to_vec());
    while !growing.is_empty() {
        let level = raise(tasks, memory, core, &budgets, &growing);
        growing.iter().for_each(|&i| budgets[i] = level);
        // Tasks that can still grow, one access each, one after the other: the rest is done.
        let mut tried = budgets.clone();
        growing.retain(|&i| {
            tried[i] += 1;
            let grows = safe(tasks, memory, core, &tried);
            tried[i] -= u64::from(!grows);
            grows
        });
        growing.iter().for_each(|&i| budgets[i] = tried[i]);
    }
    budgets
}

/// `sum of B_i/P_i` in steps of 2^-64 access per picosecond, to compare.
fn bandwidth(tasks: &[HardTask], budgets: &[u64]) -> u128 {
    let one = |(t, &b): (&HardTask, &u64)| (u128::from(b) << 64) / u128::from(t.period_ps);
    tasks.iter().zip(budgets).fold(0, |sum, pair| sum.saturating_add(one(pair)))
}

fn most_bandwidth(
    tasks: &[HardTask],
    memory: &Memory,
    core: u32,
    mine: &[usize],
    start: &[u64],
) -> Vec<u64> {
    let fill = |order: &[usize]| {
        let mut budgets = start.to_vec();
        for &i in order {
            budgets[i] = raise(tasks, memory, core, &budgets, &[i]);
        }
        budgets
    };
    let mut order = mine.to_vec();
    if mine.len() > MAX_PERMUTED {
        order.sort_by_key(|&i| std::cmp::Reverse(tasks[i].period_ps));
        return fill(&order);
    }
    let mut best = fill(&order);
    while next_permutation(&mut order) {
        let other = fill(&order);
        if bandwidth(tasks, &other) > bandwidth(tasks, &best) {
            best = other;
        }
    }
    best
}

/// The next order by the lexicographic rule; false after the last.
fn next_permutation(order: &mut [usize]) -> bool {
    let Some(fall) = order.windows(2).rposition(|w| w[0] < w[1]) else { return false };
    let Some(swap) = order.iter().rposition(|&x| x > order[fall]) else { return false };
    order.swap(fall, swap);
    order[fall + 1..].reverse();
    true
}

/// An upper limit on accesses per second over all budgets of this core, for reading: the lesser of
/// `(1 - sum C_i/P_i)/L` and the rate with each task's largest budget alone.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn bandwidth_limit(tasks: &[HardTask], memory: &Memory, core: u32) -> Result<f64, BudgetError> {
    check(tasks, memory)?;
    let (mut spare, mut single) = (1.0, 0.0);
    let none: Vec<HardTask> = tasks.iter().map(|t| HardTask { budget: 0, ..*t }).collect();
    for (i, t) in tasks.iter().enumerate().filter(|(_, t)| t.core == core) {
        spare -= t.wcet_ps as f64 / t.period_ps as f64;
        single += largest_budget(&none, i, memory)?.unwrap_or(0) as f64 / t.period_ps as f64;
    }
    Ok((spare / memory.latency_ps as f64).min(single).max(0.0) * 1e12)
}
