//! Sufficient tests for rate- and deadline-monotonic priorities from utilisations and periods
//! alone.
//!
//! # Problem
//! Response times need the tasks' order and a recurrence; admission and first drafts need a
//! formula.
//!
//! # Rules
//! With `u_i = C_i/min(D_i, T_i)` (a task with `D < T` is no harder than one with period `D`),
//! preemptive tasks meet their deadlines if the one of the shorter `min(D, T)` has the higher
//! priority and
//! * `sum of u_i <= n*(2^(1/n) - 1)`: Liu and Layland, JACM 1973, theorem 5;
//! * `product of (1 + u_i) <= 2`: Bini, Buttazzo, Buttazzo, "Rate monotonic analysis: the
//!   hyperbolic bound", IEEE ToC 2003, theorem 2; never weaker than the first;
//! * the first with `k` in place of `n`, where the `min(D, T)` fall into `k` harmonic chains (in a
//!   chain each divides the next): Kuo and Mok, "Load adjustment in adaptive real-time systems",
//!   RTSS 1991. With `k = 1`: `sum of u_i <= 1`. The least `k` is found by matching (Dilworth):
//!   each chain less is a task matched with its successor.
//!
//! All are computed with integers in 2^-62 steps, rounded up: a yes is a yes, and a no within
//! `n*2^-60` of a bound may be a yes.
//!
//! # Not covered
//! Other priority orders, blocking, jitter: see [`fixed_priority`](super::fixed_priority).

use super::edf::gcd;
use super::{check, fits};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// 1 in fixed point; two numbers up to 2 multiply within 128 bits.
const ONE: u128 = 1 << 62;

/// Kind of test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Liu and Layland.
    LiuLayland,
    /// Bini and others.
    Hyperbolic,
    /// Kuo and Mok.
    Harmonic,
}

/// `C/min(D, T)`, rounded up.
fn share(t: &SporadicTask) -> u128 {
    (u128::from(t.wcet) << 62).div_ceil(u128::from(t.constrained_deadline().max(1)))
}

/// `a*b` rounded up; anything above 2 is only "above 2".
fn times(a: u128, b: u128) -> u128 {
    if a > 2 * ONE || b > 2 * ONE { 4 * ONE } else { (a * b).div_ceil(ONE) }
}

/// Is `total <= k*(2^(1/k) - 1)`? The same as `(1 + total/k)^k <= 2`, by squaring.
fn liu_layland(total: u128, k: usize) -> bool {
    let (mut base, mut power, mut rest) = (ONE + total.div_ceil(k.max(1) as u128), ONE, k);
    while rest > 0 {
        if rest % 2 == 1 {
            power = times(power, base);
        }
        rest /= 2;
        if rest > 0 {
            base = times(base, base);
        }
    }
    power <= 2 * ONE
}

/// Least number of harmonic chains that the periods fall into.
#[must_use]
pub fn harmonic_chains(periods: &[u64]) -> usize {
    let mut sorted = periods.to_vec();
    sorted.sort_unstable();
    let mut predecessor = vec![None; sorted.len()];
    let mut matched = 0;
    for from in 0..sorted.len() {
        if extend(&sorted, from, &mut vec![false; sorted.len()], &mut predecessor) {
            matched += 1;
        }
    }
    sorted.len() - matched
}

/// Finds `from` a successor, moving others to other successors if necessary (breadth first: no
/// recursion on long inputs).
fn extend(
    sorted: &[u64],
    from: usize,
    seen: &mut [bool],
    predecessor: &mut [Option<usize>],
) -> bool {
    // Per successor seen, the task that wants it.
    let mut wants = vec![from; sorted.len()];
    let mut queue = vec![from];
    let mut head = 0;
    while let Some(&task) = queue.get(head) {
        head += 1;
        for to in task + 1..sorted.len() {
            if seen[to] || sorted[task] == 0 || !sorted[to].is_multiple_of(sorted[task]) {
                continue;
            }
            (seen[to], wants[to]) = (true, task);
            match predecessor[to] {
                Some(owner) => queue.push(owner),
                None => {
                    settle(from, to, &wants, predecessor);
                    return true;
                }
            }
        }
    }
    false
}

/// Gives `to` to the task that wants it, that task's former successor to the next, and so on back
/// to `from`.
fn settle(from: usize, mut to: usize, wants: &[usize], predecessor: &mut [Option<usize>]) {
    loop {
        let task = wants[to];
        let had = predecessor.iter().position(|p| *p == Some(task));
        predecessor[to] = Some(task);
        match had {
            Some(old) if task != from => to = old,
            _ => return,
        }
    }
}

/// The least common case of a test.
fn holds(tasks: &[SporadicTask], bound: Bound) -> bool {
    let total = || tasks.iter().map(share).fold(0u128, u128::saturating_add);
    match bound {
        Bound::LiuLayland => liu_layland(total(), tasks.len()),
        Bound::Hyperbolic => {
            tasks.iter().fold(ONE, |product, t| times(product, ONE.saturating_add(share(t))))
                <= 2 * ONE
        }
        Bound::Harmonic => {
            let periods: Vec<u64> = tasks.iter().map(SporadicTask::constrained_deadline).collect();
            match harmonic_chains(&periods) {
                1 => fits(
                    &tasks
                        .iter()
                        .map(|t| SporadicTask { period: t.constrained_deadline(), ..*t })
                        .collect::<Vec<_>>(),
                ),
                chains => liu_layland(total(), chains),
            }
        }
    }
}

/// Does the test accept the set? For deadline-monotonic priorities, in any order of the tasks.
///
/// # Errors
/// See [`check`].
pub fn schedulable(set: &TaskSet, bound: Bound) -> Result<bool, TaskSetError> {
    check(set)?;
    Ok(holds(&set.tasks, bound))
}

/// [`schedulable`] with its reasons.
///
/// # Errors
/// See [`check`].
pub fn schedulable_explained(set: &TaskSet, bound: Bound) -> Result<Derivation, TaskSetError> {
    check(set)?;
    let (rule, source) = match bound {
        Bound::LiuLayland => {
            ("sum of u_i <= n*(2^(1/n) - 1)", "Liu and Layland, JACM 1973, theorem 5")
        }
        Bound::Hyperbolic => {
            ("product of (1 + u_i) <= 2", "Bini, Buttazzo, Buttazzo, IEEE ToC 2003, theorem 2")
        }
        Bound::Harmonic => {
            ("sum of u_i <= k*(2^(1/k) - 1), k harmonic chains", "Kuo and Mok, RTSS 1991")
        }
    };
    let mut d = Derivation::new(rule, source).input("n", set.tasks.len() as u64);
    for (i, t) in set.tasks.iter().enumerate() {
        d = d.step(format!("u_{i}"), t.wcet as f64 / t.constrained_deadline() as f64);
    }
    if bound == Bound::Harmonic {
        let periods: Vec<u64> = set.tasks.iter().map(SporadicTask::constrained_deadline).collect();
        let common = periods.iter().fold(0, |sum, p| gcd(sum, *p));
        d = d.step("k", harmonic_chains(&periods) as u64).step("greatest common divisor", common);
    }
    Ok(d.result(holds(&set.tasks, bound)))
}
