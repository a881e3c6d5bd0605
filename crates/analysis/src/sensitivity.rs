//! The growth of a value until a test fails.
//!
//! # Problem
//! A verdict says yes or no. A designer also needs the distance to the edge. That is the slack of
//! each execution time and miss count, the common factor for all of them, the least budget, and the
//! task that is the first to break.
//!
//! # Rule
//! Binary search over integers with the schedulability test itself as the predicate
//! ([`largest_passing`], [`least_passing`]), as for fixed priorities in Bini, Di Natale, Buttazzo,
//! "Sensitivity analysis for fixed-priority real-time systems" (Real-Time Systems 2008). They show
//! that direct formulas exist. A search needs none and holds for every test. Its last two
//! evaluations are the proof: the value passes, the next one fails.
//!
//! # Precondition
//! The predicate must be monotone: a system that passes with a value passes with every smaller (for
//! [`least_passing`]: larger) one. Exact tests for one core are, in execution times and misses:
//! fixed priorities by response times, EDF by processor demand, both also with the stall of
//! [`crate::interference`], which is monotone in work and misses. Sufficient tests for several
//! cores need not be monotone; then the value found passes and the next fails, but a smaller one
//! might fail.
//!
//! # Scaling
//! A factor is `k/resolution`, each value becomes `ceil(value*k/resolution)`; the largest `k` is
//! found exactly. No float is involved.
//!
//! # Not covered
//! Two values that grow at once, other than by the same factor. Every slack supposes that the rest
//! stays as it is.

use crate::derivation::Derivation;
use crate::response::{RtaTask, Window, response_time};
use crate::task_set::SporadicTask;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The quantity that is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Execution time of a task.
    Wcet {
        /// Index of the task.
        task: usize,
    },
    /// DRAM accesses of a job of a task.
    Misses {
        /// Index of the task.
        task: usize,
    },
    /// All execution times, in parts of `resolution`.
    AllWcets {
        /// The number that stands for a factor of one.
        resolution: u64,
    },
    /// All miss counts, in parts of `resolution`.
    AllMisses {
        /// The number that stands for a factor of one.
        resolution: u64,
    },
    /// Accesses that the core may make per regulation period.
    Budget,
    /// Cores that compete for the memory.
    Cores,
}

/// The edge of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The quantity that was varied.
    pub quantity: Quantity,
    /// Its value as given.
    pub given: u64,
    /// The last value that passes: the largest, or the least for [`Quantity::Budget`]. None if no
    /// searched value passes.
    pub passes: Option<u64>,
    /// The next value, seen to fail. None if the search ended at its limit.
    pub fails: Option<u64>,
    /// Evaluations of the test.
    pub evaluations: u32,
}

impl Edge {
    /// Possible growth (for the budget: reduction). `None` if the given value fails already.
    #[must_use]
    pub fn slack(&self) -> Option<u64> {
        match self.quantity {
            Quantity::Budget => self.given.checked_sub(self.passes?),
            _ => self.passes?.checked_sub(self.given),
        }
    }

    /// The edge with its reasons.
    #[must_use]
    pub fn derivation(&self) -> Derivation {
        let rule = match self.quantity {
            Quantity::Budget => "least value that passes, by binary search over a monotone test",
            _ => "largest value that passes, by binary search over a monotone test",
        };
        Derivation::new(rule, "analysis::sensitivity")
            .input("quantity", format!("{:?}", self.quantity))
            .input("given", self.given)
            .step("evaluations", u64::from(self.evaluations))
            .step("fails", self.fails)
            .step("slack", self.slack())
            .result(self.passes)
    }
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The last value that passes; it was evaluated.
    pub passes: Option<u64>,
    /// The first value that fails; it was evaluated. None if all pass.
    pub fails: Option<u64>,
    /// Evaluations.
    pub evaluations: u32,
}

/// The largest value in `low..=high` that passes, for a predicate that is true up to some value and
/// false beyond. An empty range has none.
///
/// The search starts at `near`, for example the given value: the step doubles from there, so that a
/// close edge takes few evaluations.
pub fn largest_passing(
    low: u64,
    high: u64,
    near: u64,
    mut passes: impl FnMut(u64) -> bool,
) -> Found {
    let mut found = Found { passes: None, fails: None, evaluations: 0 };
    if low > high {
        return found;
    }
    let mut evaluate = |value: u64, found: &mut Found| {
        found.evaluations += 1;
        let passed = passes(value);
        if passed {
            found.passes = Some(value);
        } else {
            found.fails = Some(value);
        }
        passed
    };
    let near = near.clamp(low, high);
    let up = evaluate(near, &mut found);
    let mut step = 1u64;
    loop {
        let next = if up {
            near.saturating_add(step).min(high)
        } else {
            near.saturating_sub(step).max(low)
        };
        let at_end = if up { found.passes == Some(high) } else { found.fails == Some(low) };
        if at_end {
            return found;
        }
        if evaluate(next, &mut found) != up {
            break;
        }
        step = step.saturating_mul(2);
    }
    while let (Some(below), Some(above)) = (found.passes, found.fails) {
        if above - below <= 1 {
            break;
        }
        evaluate(below + (above - below) / 2, &mut found);
    }
    found
}

/// The least value in `low..=high` that passes, for a predicate that is false up to some value and
/// true beyond.
pub fn least_passing(low: u64, high: u64, near: u64, mut passes: impl FnMut(u64) -> bool) -> Found {
    if low > high {
        return Found { passes: None, fails: None, evaluations: 0 };
    }
    // Mirrored: a value near the top is near the bottom.
    let mirror = |value: u64| high - value;
    let found = largest_passing(0, high - low, mirror(near.clamp(low, high)), |value| {
        passes(mirror(value))
    });
    Found {
        passes: found.passes.map(mirror),
        fails: found.fails.map(mirror),
        evaluations: found.evaluations,
    }
}

fn edge(quantity: Quantity, given: u64, found: Found) -> Edge {
    Edge {
        quantity,
        given,
        passes: found.passes,
        fails: found.fails,
        evaluations: found.evaluations,
    }
}

/// `ceil(value*k/resolution)`; `None` if it does not fit.
fn scaled(value: u64, k: u64, resolution: u64) -> Option<u64> {
    let product = u128::from(value).checked_mul(u128::from(k))?;
    u64::try_from(
        product
            .checked_next_multiple_of(u128::from(resolution))?
            .checked_div(u128::from(resolution))?,
    )
    .ok()
}

/// The largest `k` with `ceil(value*k/resolution) <= limit`; [`u64::MAX`] if every `k` passes.
fn largest_factor(value: u64, resolution: u64, limit: u64) -> u64 {
    let most = (u128::from(limit) * u128::from(resolution)).checked_div(u128::from(value));
    most.map_or(u64::MAX, |most| u64::try_from(most).unwrap_or(u64::MAX))
}

/// The longest execution time of a job of `tasks[i]`, up to its period, with which the test passes.
/// The search starts at 1, so that it also finds the edge of a set that fails.
///
/// `None` if there is no task `i` or its period is zero.
pub fn wcet_edge(
    tasks: &[SporadicTask],
    i: usize,
    mut schedulable: impl FnMut(&[SporadicTask]) -> bool,
) -> Option<Edge> {
    let task = *tasks.get(i).filter(|task| task.period > 0)?;
    let mut varied = tasks.to_vec();
    let found = largest_passing(1, task.period, task.wcet, |wcet| {
        varied[i].wcet = wcet;
        schedulable(&varied)
    });
    Some(edge(Quantity::Wcet { task: i }, task.wcet, found))
}

/// The factor `k/resolution` by which all execution times may grow (or must shrink), none beyond
/// its period.
///
/// `None` if `resolution` is zero, or all execution times are.
pub fn scale_edge(
    tasks: &[SporadicTask],
    resolution: u64,
    mut schedulable: impl FnMut(&[SporadicTask]) -> bool,
) -> Option<Edge> {
    if resolution == 0 || tasks.iter().all(|task| task.wcet == 0) {
        return None;
    }
    let high = tasks.iter().map(|task| largest_factor(task.wcet, resolution, task.period)).min()?;
    let mut varied = tasks.to_vec();
    let found = largest_passing(1, high, resolution, |k| {
        let fits = varied.iter_mut().zip(tasks).all(|(to, from)| {
            scaled(from.wcet, k, resolution).map(|wcet| to.wcet = wcet).is_some()
        });
        fits && schedulable(&varied)
    });
    Some(edge(Quantity::AllWcets { resolution }, resolution, found))
}

/// The edges of all execution times, and the critical task: the one whose execution time may grow
/// by the least factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slacks {
    /// One per task.
    pub edges: Vec<Edge>,
    /// Index of the critical task, the first among equals. None without tasks.
    pub critical: Option<usize>,
}

impl Slacks {
    fn of(edges: Vec<Edge>) -> Self {
        // passes/given, compared across; a task without any value that passes has 0.
        let smaller = |one: &Edge, other: &Edge| -> Ordering {
            let left = u128::from(one.passes.unwrap_or(0)) * u128::from(other.given);
            left.cmp(&(u128::from(other.passes.unwrap_or(0)) * u128::from(one.given)))
        };
        let critical = (0..edges.len()).min_by(|&i, &j| smaller(&edges[i], &edges[j]));
        Self { edges, critical }
    }

    /// The slacks with their reasons.
    #[must_use]
    pub fn derivation(&self) -> Derivation {
        let critical = self.critical.and_then(|task| u64::try_from(task).ok());
        let whole = Derivation::new(
            "the critical task has the least passes/given",
            "analysis::sensitivity",
        );
        self.edges
            .iter()
            .fold(whole, |whole, edge| whole.because(edge.derivation()))
            .result(critical)
    }
}

/// [`wcet_edge`] of every task. Tasks with a period or an execution time of zero are refused:
/// `None`.
pub fn wcet_slacks(
    tasks: &[SporadicTask],
    mut schedulable: impl FnMut(&[SporadicTask]) -> bool,
) -> Option<Slacks> {
    if tasks.iter().any(|task| task.wcet == 0) {
        return None;
    }
    let edges = (0..tasks.len())
        .map(|i| wcet_edge(tasks, i, &mut schedulable))
        .collect::<Option<Vec<Edge>>>()?;
    Some(Slacks::of(edges))
}

/// Fixed priorities on one core without stall: does every task meet its deadline? Index 0 has the
/// highest priority.
#[must_use]
pub fn fixed_priority(tasks: &[SporadicTask]) -> bool {
    let tasks: Vec<RtaTask> =
        tasks.iter().map(|t| RtaTask::new(t.wcet, 0, t.period, t.deadline)).collect();
    meets_deadlines(&tasks, &Window { once_ps: 0, stall: &|_| 0 })
}

fn meets_deadlines(tasks: &[RtaTask], window: &Window) -> bool {
    // From the lowest priority up: it is the likeliest to fail.
    (0..tasks.len()).rev().all(|i| response_time(tasks, i, window, tasks[i].deadline_ps).is_some())
}
