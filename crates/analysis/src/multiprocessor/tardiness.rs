//! Bounds on response times and tardiness under global EDF and related schedulers.
//!
//! # Problem
//! Cores that are not overloaded may still miss deadlines under global EDF, but by a bounded time:
//! enough for soft real-time work.
//!
//! # Rule
//! Jobs are ordered by release plus a relative priority point `Y_i`: the deadline (GEDF), or
//! `D_i - (m - 1)/m*C_i` (G-FL), which lowers the largest lateness. With `U <= m` and `u_i <= 1`
//! each job ends within `Y_i + C_i + x_i` of its release, where `x_i = (s - C_i)/m` and `s` is the
//! least solution of
//!
//! `s = sum u_i*max(0, T_i - Y_i) + (the ceil(U) - 1 largest of u_j*(x_j + min(Y_j, T_j)))`.
//!
//! All `Y_i` may be lowered by their minimum first: the schedule is the same and the bound no
//! worse.
//!
//! # Source
//! Erickson, Devi, Baruah: "Improved tardiness bounds for global EDF", ECRTS 2010 (compliant
//! vectors); Erickson, Anderson, Ward: "Fair lateness scheduling", Real-Time Systems 50, 2014
//! (priority points, exact computation, lowering by the minimum).
//! Closed form: Devi, Anderson, RTSS 2005 and Real-Time Systems 38, 2008.
//! Why it holds, any deadlines: compare with the fluid schedule that serves task `i` at rate `u_i`
//! from its release on (from `Y_i - T_i` after it, if that is positive). Let `y` be a job's
//! priority point and count only work that precedes it. While `ceil(U)` cores are busy the lag does
//! not grow; just before, at most `ceil(U) - 1` tasks are pending and running, each with a lag of
//! at most `u_j*(x_j + min(Y_j, T_j))`. So at `y` at most `s` is left. If `s >= C_i`: either all
//! cores are busy for `x_i` and `C_i` is left, or the job's task runs from an earlier instant on;
//! its previous job ends by `y - T_i + C_i + x_i <= y + x_i`. If `s < C_i`: the job ends by `y +
//! s`, which is no later.
//!
//! # Exactness
//! The right-hand side is a convex function of `s` with slope below 1; Newton's iteration over
//! selections of tasks ends at the solution. Responses depend on `ceil(s)` only, because
//! `m*Y_i + (m - 1)*C_i` is an integer. A candidate comes from sums in 2^-64 steps rounded down, is
//! confirmed by sums rounded up, and in doubt by exact fractions.
//!
//! # Not covered
//! Non-preemptive sections; cores with a part taken by higher levels:
//! [`restricted`](super::restricted).

use super::bar::{quotient_64, sum_of_largest};
use super::exact::{FractionSum, ratio_down, ratio_up, utilization_ceil};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};
use std::cmp::Ordering;

/// The order of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriorityPoint {
    /// Absolute deadlines: GEDF.
    Deadline,
    /// `D_i - (m - 1)/m*C_i` after the release: G-FL.
    FairLateness,
}

/// Bounds in the set's unit, rounded up, one per task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Time from release to completion.
    pub response: Vec<u64>,
    /// `max(0, response - D)`.
    pub tardiness: Vec<u64>,
}

/// Response and tardiness bounds from the least compliant vector. `None` if a number leaves 64
/// bits.
///
/// # Errors
/// Impossible numbers (`C > T` included), or more utilisation than cores: tardiness is not bounded
/// then.
pub fn bounds(set: &TaskSet, points: PriorityPoint) -> Result<Option<Bounds>, TaskSetError> {
    super::check(set)?;
    Ok(Vector::new(set, points).and_then(|vector| vector.bounds(set)))
}

/// As [`bounds`], with the reasons.
///
/// # Errors
/// As [`bounds`].
pub fn bounds_explained(set: &TaskSet, points: PriorityPoint) -> Result<Derivation, TaskSetError> {
    super::check(set)?;
    let mut derivation = Derivation::new(
        "response_i = Y_i + C_i + (s - C_i)/m, s = sum u_i*max(0, T_i - Y_i) + ceil(U) - 1 largest \
            u_j*((s - C_j)/m + min(Y_j, T_j))",
        "Erickson, Devi, Baruah 2010; Erickson, Anderson, Ward 2014",
    )
    .input("m", u64::from(set.cores));
    let Some(vector) = Vector::new(set, points) else { return Ok(derivation) };
    derivation = derivation
        .step("ceil(U) - 1", vector.pending as u64)
        .step("ceil(s)", vector.solve().and_then(|s| u64::try_from(s).ok()));
    let Some(bounds) = vector.bounds(set) else { return Ok(derivation) };
    for (i, (response, tardiness)) in bounds.response.iter().zip(&bounds.tardiness).enumerate() {
        derivation = derivation
            .step(format!("response_{i}"), *response)
            .step(format!("tardiness_{i}"), *tardiness);
    }
    Ok(derivation.result(bounds.tardiness.into_iter().max()))
}

/// The closed form of Devi and Anderson for implicit deadlines: tardiness of task `k` at most `x +
/// C_k`, with `x = (sum of the L largest C - the least C) / (m - sum of the L - 1 largest u)`, `L =
/// ceil(U) - 1`; 0 on one core. `None` unless `D = T` for all, or if a number leaves 64 bits. This
/// form is the published one; [`bounds`] is derived in this file.
///
/// # Errors
/// As [`bounds`].
pub fn devi_anderson(set: &TaskSet) -> Result<Option<Bounds>, TaskSetError> {
    super::check(set)?;
    Ok(closed_form(set))
}

fn closed_form(set: &TaskSet) -> Option<Bounds> {
    if set.tasks.iter().any(|t| t.deadline != t.period) {
        return None;
    }
    let zero = Bounds {
        response: set.tasks.iter().map(|t| t.deadline).collect(),
        tardiness: vec![0; set.tasks.len()],
    };
    if set.cores == 1 {
        return Some(zero);
    }
    let x = common_lateness(set)?;
    let tardiness: Option<Vec<u64>> = set.tasks.iter().map(|t| t.wcet.checked_add(x)).collect();
    let tardiness = tardiness?;
    let response: Option<Vec<u64>> =
        set.tasks.iter().zip(&tardiness).map(|(t, late)| t.deadline.checked_add(*late)).collect();
    Some(Bounds { response: response?, tardiness })
}

/// The `x` of the closed form, rounded up.
fn common_lateness(set: &TaskSet) -> Option<u64> {
    let pending = u32::try_from(utilization_ceil(&set.tasks).checked_sub(1)?).ok()?;
    let mut wcets: Vec<u128> = set.tasks.iter().map(|t| u128::from(t.wcet)).collect();
    let least = wcets.iter().copied().min()?;
    let work = sum_of_largest(&mut wcets, pending).saturating_sub(least);
    let mut tasks: Vec<&SporadicTask> = set.tasks.iter().collect();
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    tasks.sort_by(|a, b| product(b.wcet, a.period).cmp(&product(a.wcet, b.period)));
    tasks.truncate(usize::try_from(pending.saturating_sub(1)).ok()?);
    let used = tasks.iter().map(|t| ratio_up(t.wcet, t.period)).fold(0, u128::saturating_add);
    let x = quotient_64(work, (u128::from(set.cores) << 64).checked_sub(used)?)?;
    // The division rounds twice: a value one less may suffice. x >= work/(m - sum u)  iff work +
    // x*sum u <= m*x.
    let Some(less) = x.checked_sub(1) else { return Some(x) };
    let mut sum = FractionSum::default();
    sum.add(work, 1);
    for t in tasks {
        sum.add(product(t.wcet, less), t.period);
    }
    let enough = sum.compare(u128::from(set.cores) * u128::from(less)) != Ordering::Greater;
    Some(if enough { less } else { x })
}

/// Relative priority points times `m`, lowered by their minimum. Below 2^98 in magnitude.
pub(super) fn scaled_points(set: &TaskSet, points: PriorityPoint) -> Vec<i128> {
    let m = i128::from(set.cores);
    let point = |t: &SporadicTask| match points {
        PriorityPoint::Deadline => m * i128::from(t.deadline),
        PriorityPoint::FairLateness => m * i128::from(t.deadline) - (m - 1) * i128::from(t.wcet),
    };
    let mut scaled: Vec<i128> = set.tasks.iter().map(point).collect();
    let least = scaled.iter().copied().min().unwrap_or(0);
    for y in &mut scaled {
        *y -= least;
    }
    scaled
}

/// One task of the equation `m*s = sum u_i*b_i + largest of u_j*(s + a_j)`.
struct Term {
    wcet: u64,
    period: u64,
    /// `u` in 2^-64 steps, rounded down.
    share: u128,
    /// `m*min(Y, T) - C`.
    a: i128,
    /// `m*Y + (m - 1)*C`: `m` times the response is this plus `s`.
    offset: i128,
}

/// The equation of a set.
struct Vector {
    cores: i128,
    pending: usize,
    terms: Vec<Term>,
    /// `sum u_i*b_i` in 2^-64 steps, `b_i = m*max(0, T_i - Y_i)`, rounded down and up.
    base_low: i128,
    base_high: i128,
    /// The `b_i`.
    head: Vec<i128>,
}

impl Vector {
    fn new(set: &TaskSet, points: PriorityPoint) -> Option<Self> {
        let m = i128::from(set.cores);
        let (mut terms, mut head) =
            (Vec::with_capacity(set.tasks.len()), Vec::with_capacity(set.tasks.len()));
        let (mut base_low, mut base_high, mut utilization) = (0i128, 0i128, 0u128);
        for (t, y) in set.tasks.iter().zip(scaled_points(set, points)) {
            let share = ratio_down(t.wcet, t.period);
            utilization = utilization.checked_add(share)?;
            let period = m * i128::from(t.period);
            let b = (period - y).max(0);
            let low = i128::try_from(share).ok()?.checked_mul(b)?;
            base_low = base_low.checked_add(low)?;
            // The share is less than one step too small, which b multiplies.
            base_high = base_high.checked_add(low)?.checked_add(b)?;
            let a = y.min(period) - i128::from(t.wcet);
            let offset = y + (m - 1) * i128::from(t.wcet);
            terms.push(Term { wcet: t.wcet, period: t.period, share, a, offset });
            head.push(b);
        }
        let (whole, count) = (utilization.div_ceil(1 << 64), set.tasks.len() as u128);
        let whole = if (utilization + count).div_ceil(1 << 64) == whole {
            whole
        } else {
            utilization_ceil(&set.tasks)
        };
        let pending = usize::try_from(whole.checked_sub(1)?).ok()?.min(set.tasks.len());
        Some(Self { cores: m, pending, terms, base_low, base_high, head })
    }

    fn bounds(&self, set: &TaskSet) -> Option<Bounds> {
        let s = self.solve()?;
        let mut bounds =
            Bounds { response: Vec::with_capacity(set.tasks.len()), tardiness: Vec::new() };
        bounds.tardiness.reserve(set.tasks.len());
        for (term, task) in self.terms.iter().zip(&set.tasks) {
            let scaled = u128::try_from(term.offset.checked_add(s)?).ok()?;
            let response = divide_up(scaled, u128::try_from(self.cores).ok()?)?;
            bounds.response.push(response);
            bounds.tardiness.push(response.saturating_sub(task.deadline));
        }
        Some(bounds)
    }

    /// `ceil(s)`.
    fn solve(&self) -> Option<i128> {
        let mut s = self.candidate()?;
        if self.confirmed(s).unwrap_or(false) {
            return Some(s);
        }
        // Here s <= ceil of the solution. Double the step until compliant, then halve the gap.
        let (mut low, mut step) = (s, 1i128);
        while !self.compliant(s)? {
            low = s.checked_add(1)?;
            s = s.checked_add(step)?;
            step = step.checked_mul(2)?;
        }
        while low < s {
            let middle = low + (s - low) / 2;
            if self.compliant(middle)? {
                s = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(s)
    }

    /// Newton's iteration on sums rounded down: the ceiling of a value that is at most the
    /// solution.
    fn candidate(&self) -> Option<i128> {
        let mut chosen: Vec<(i128, usize)> = Vec::with_capacity(self.terms.len());
        let mut s = ceil_steps(self.base_low, self.cores.checked_mul(1 << 64)?)?;
        // Each round takes the best selection at s; the values rise strictly until the selection is
        // the best at its own solution.
        for _ in 0..=self.terms.len() * 2 + 8 {
            self.select(s, &mut chosen)?;
            let (mut sum, mut slope) = (self.base_low, self.cores.checked_mul(1 << 64)?);
            for (_, j) in &chosen {
                let term = &self.terms[*j];
                let share = i128::try_from(term.share).ok()?;
                // A share rounded down makes a term with negative a too small: correct by one step
                // of a.
                sum = sum.checked_add(share.checked_mul(term.a)?)?.checked_add(term.a.min(0))?;
                slope -= share;
            }
            let next = ceil_steps(sum, slope)?;
            if next <= s {
                break;
            }
            s = next;
        }
        Some(s)
    }

    /// The tasks with the `pending` largest positive `u_j*(s + a_j)`, by shares rounded down.
    fn select(&self, s: i128, chosen: &mut Vec<(i128, usize)>) -> Option<()> {
        chosen.clear();
        for (j, term) in self.terms.iter().enumerate() {
            let value = i128::try_from(term.share).ok()?.checked_mul((s + term.a).max(0))?;
            chosen.push((value, j));
        }
        if self.pending == 0 {
            chosen.clear();
        } else if self.pending < chosen.len() {
            chosen.select_nth_unstable_by(self.pending - 1, |x, y| y.0.cmp(&x.0));
            chosen.truncate(self.pending);
        }
        Some(())
    }

    /// Is `s` at least the solution, by sums rounded up? `false` decides nothing.
    fn confirmed(&self, s: i128) -> Option<bool> {
        let mut values = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let reach = (s + term.a).max(0);
            values.push(
                u128::try_from(
                    i128::try_from(term.share).ok()?.checked_add(1)?.checked_mul(reach)?,
                )
                .ok()?,
            );
        }
        let largest = i128::try_from(sum_of_largest_128(&mut values, self.pending)?).ok()?;
        let right = self.base_high.checked_add(largest)?;
        Some(right <= self.cores.checked_mul(s)?.checked_mul(1 << 64)?)
    }

    /// Is `s` at least the solution? Exact.
    fn compliant(&self, s: i128) -> Option<bool> {
        let mut sum = FractionSum::default();
        for (term, b) in self.terms.iter().zip(&self.head) {
            sum.add(u128::from(term.wcet).checked_mul(u128::try_from(*b).ok()?)?, term.period);
        }
        let mut values = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let reach = u128::try_from((s + term.a).max(0)).ok()?;
            let (product, period) =
                (u128::from(term.wcet).checked_mul(reach)?, u128::from(term.period));
            values.push((product / period, product % period, period, product));
        }
        // Descending; remainders are below 2^64, so the cross products fit.
        values.sort_unstable_by(|x, y| y.0.cmp(&x.0).then_with(|| (y.1 * x.2).cmp(&(x.1 * y.2))));
        for (_, _, period, product) in values.into_iter().take(self.pending) {
            sum.add(product, u64::try_from(period).ok()?);
        }
        Some(sum.compare(u128::try_from(self.cores.checked_mul(s)?).ok()?) != Ordering::Greater)
    }
}

/// Sum of the `count` largest, checked.
fn sum_of_largest_128(values: &mut [u128], count: usize) -> Option<u128> {
    if count > 0 && count < values.len() {
        values.select_nth_unstable_by(count - 1, |x, y| y.cmp(x));
    }
    values.iter().take(count).try_fold(0u128, |sum, v| sum.checked_add(*v))
}

/// `numerator/denominator` rounded up, both in the same steps; at least 0.
fn ceil_steps(numerator: i128, denominator: i128) -> Option<i128> {
    let (n, d) = (u128::try_from(numerator.max(0)).ok()?, u128::try_from(denominator).ok()?);
    if d == 0 {
        return None;
    }
    i128::try_from(n.div_ceil(d)).ok()
}

/// `numerator/denominator` rounded up, if it fits.
fn divide_up(numerator: u128, denominator: u128) -> Option<u64> {
    match (u64::try_from(numerator), u64::try_from(denominator)) {
        (Ok(n), Ok(d)) => Some(n.div_ceil(d)),
        _ => u64::try_from(numerator.div_ceil(denominator)).ok(),
    }
}
