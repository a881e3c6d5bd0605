//! Baruah's test for global EDF: at most `m - 1` tasks carry work in.
//!
//! # Problem
//! Charging a job over the window's start to every task is too much: just before the last instant
//! at which a core idled, fewer than `m` tasks were pending.
//!
//! # Rule
//! Let a job of `k` miss, let `A` be the time before its release since when all cores were busy,
//! `t = A + D_k`, `L = t - C_k`. All cores are busy with other work for more than `L`. Task `i`
//! does at most `V_i = DBF_i(t)` of it without carry-in and
//! `V'_i = floor(t/T_i)*C_i + min(C_i, t mod T_i)` with; task `k` itself at most
//! `min(V_k - C_k, A)`. So for some `y > L` close to `L`:
//! `F(y) = sum min(V_i, y) + (the m - 1 largest of min(V'_i, y) - min(V_i, y)) >= m*y`. Schedulable
//! if this is excluded for each `k` and each `A >= 0`.
//!
//! # Source
//! Baruah: "Techniques for multiprocessor global schedulability analysis", RTSS 2007, theorem 2.
//! The printed condition caps at `L` and asks for `F(L) <= m*L`; that accepts three tasks
//! `C = D = 5` on two cores. It must be `F(L) < m*L`, or at equality `F(y) < m*y` next to `L`. All
//! terms are linear in `y` and in `A` between integers and `F` is their maximum over choices of
//! carry-in, hence convex: integer `A` and the step from `L` to `L + 1` decide.
//!
//! Range of `A` (as theorem 3, with the `C_k` that `V_k - C_k` saves): a violation needs
//! `t*(m - U) <= sum U_i*(T_i - D_i) + (the m - 1 largest C) + (m - 1)*C_k`. The paper tests the
//! steps of DBF only, but `F - m*L` can also rise between them. Here `F` and `L` grow with `A`, so
//! from an `A` that passes one may go down to the largest `A` with `m*L <= F` at once, as QPA does
//! on one core.
//!
//! # Not covered
//! Deadlines beyond periods; `U = m`, for which the range has no end.

use super::exact::utilization_up;
use super::int::{Int, narrow};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Values of `A` tried for one task before giving up.
const MAX_STEPS: u32 = 1 << 14;
/// Up to here `t` fits the 64-bit form: `2^10` tasks times `2^50 + 2^44` are below 2^61.
const NARROW_RANGE: u64 = 1 << 50;

/// Is the set schedulable by Baruah's test of 2007? Constrained deadlines. Pseudo-polynomial for
/// `U < m`; `false` at `U = m`.
///
/// # Errors
/// Impossible numbers, a deadline beyond its period, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check_constrained(set)?;
    Ok(holds(set))
}

/// As [`schedulable`], with the reasons: the range of `A_k` and the `A_k` that fails, if any.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    super::check_constrained(set)?;
    let mut derivation = Derivation::new(
        "F(A_k + D_k) < m * (A_k + D_k - C_k) for each k and each A_k >= 0, F = work without \
            carry-in + m - 1 largest carry-ins",
        "Baruah 2007, theorem 2, corrected at equality",
    )
    .input("m", u64::from(set.cores));
    let mut verdict = true;
    for k in 0..set.tasks.len() {
        let range = range(set, k);
        derivation = derivation.step(format!("largest A_{k} + D_{k}"), range);
        if let Some(failing) = failing(set, k, range) {
            derivation = derivation.step(format!("A_{k} + D_{k} that fails"), failing);
            verdict = false;
        }
    }
    Ok(derivation.result(verdict))
}

/// The verdict for a set that was checked.
pub(super) fn holds(set: &TaskSet) -> bool {
    let n = set.tasks.len();
    // Most failures show at A = 0.
    (0..n).all(|k| first_passes(set, k)) && (0..n).all(|k| failing(set, k, range(set, k)).is_none())
}

fn first_passes(set: &TaskSet, k: usize) -> bool {
    let task = &set.tasks[k];
    if narrow(set) {
        probe::<u64>(set, k, task.deadline)
    } else {
        probe::<u128>(set, k, task.deadline)
    }
}

fn probe<N: Int>(set: &TaskSet, k: usize, t: u64) -> bool {
    set.tasks[k].wcet <= set.tasks[k].deadline
        && Window::<N>::new(set, k).descend(N::time(t)).is_ok()
}

/// Largest `A_k + D_k` at which a violation is possible; `None` if unknown or too large.
fn range(set: &TaskSet, k: usize) -> Option<u64> {
    let spare = (u128::from(set.cores) << 64).checked_sub(utilization_up(&set.tasks))?;
    let mut wcets: Vec<u128> = set.tasks.iter().map(|t| u128::from(t.wcet)).collect();
    let carry = sum_of_largest(&mut wcets, set.cores - 1);
    let late = |t: &SporadicTask| {
        (u128::from(t.wcet) * u128::from(t.period - t.deadline)).div_ceil(u128::from(t.period))
    };
    let own = u128::from(set.cores - 1) * u128::from(set.tasks[k].wcet);
    let total = set.tasks.iter().map(late).sum::<u128>() + carry + own;
    quotient_64(total, spare)
}

/// `numerator * 2^64 / denominator`, rounded up; `None` beyond 64 bits.
pub(super) fn quotient_64(numerator: u128, denominator: u128) -> Option<u64> {
    if denominator == 0 {
        return None;
    }
    let whole = numerator / denominator;
    if whole > 0 {
        // With 64 more bits the quotient does not fit.
        return None;
    }
    // numerator < denominator <= 2^96: drop bits of both, up and down, until the shift fits.
    let drop = 64u32.saturating_sub(numerator.leading_zeros());
    let (n, d) = ((numerator >> drop) + u128::from(drop > 0), denominator >> drop);
    if d == 0 {
        return None;
    }
    u64::try_from((n.checked_mul(1 << 64)?).div_ceil(d)).ok()
}

/// The `t = A_k + D_k` at which task `k` is not shown to meet its deadline, if any.
fn failing(set: &TaskSet, k: usize, range: Option<u64>) -> Option<u64> {
    let task = &set.tasks[k];
    let Some(range) = range.filter(|_| task.wcet <= task.deadline) else {
        return Some(task.deadline);
    };
    if narrow(set) && range <= NARROW_RANGE {
        scan::<u64>(set, k, range)
    } else {
        scan::<u128>(set, k, range)
    }
}

fn scan<N: Int>(set: &TaskSet, k: usize, range: u64) -> Option<u64> {
    let mut window = Window::<N>::new(set, k);
    let deadline = N::time(set.tasks[k].deadline);
    let mut t = N::time(range);
    for _ in 0..MAX_STEPS {
        if t < deadline {
            return None;
        }
        match window.descend(t) {
            Ok(next) => t = next,
            Err(()) => return Some(t.saturated()),
        }
    }
    Some(t.saturated())
}

/// The windows of one task.
struct Window<'a, N> {
    tasks: &'a [SporadicTask],
    k: usize,
    cores: u32,
    wcet: N,
    deadline: N,
    /// Carry-ins, kept for their memory.
    carries: Vec<N>,
}

impl<'a, N: Int> Window<'a, N> {
    fn new(set: &'a TaskSet, k: usize) -> Self {
        let task = &set.tasks[k];
        Self {
            tasks: &set.tasks,
            k,
            cores: set.cores,
            wcet: N::time(task.wcet),
            deadline: N::time(task.deadline),
            carries: Vec::with_capacity(set.tasks.len()),
        }
    }

    /// Excludes a miss at `t` and returns the next smaller `t` to look at (0: none).
    fn descend(&mut self, t: N) -> Result<N, ()> {
        let m = N::from(self.cores);
        let length = t - self.wcet;
        let work = self.work(t, length);
        if work > m * length {
            return Err(());
        }
        let next = if work == m * length {
            let step = length + N::from(1);
            if self.work(t, step) >= m * step {
                return Err(());
            }
            length.minus(N::from(1))
        } else {
            work.quotient(m)
        };
        if length == N::default() { Ok(N::default()) } else { Ok(next + self.wcet) }
    }

    /// `F(cap)` for windows of `t`.
    fn work(&mut self, t: N, cap: N) -> N {
        self.carries.clear();
        let mut sum = N::default();
        for (i, task) in self.tasks.iter().enumerate() {
            let (wcet, period) = (N::time(task.wcet), N::time(task.period));
            let jobs = t.quotient(period);
            let rest = t - jobs * period;
            let carried = jobs * wcet + wcet.min(rest);
            let plain = if rest >= N::time(task.deadline) {
                (jobs + N::from(1)) * wcet
            } else {
                jobs * wcet
            };
            let (plain, carried) = if i == self.k {
                let own = t - self.deadline;
                ((plain - wcet).min(own), (carried - wcet).min(own))
            } else {
                (plain.min(cap), carried.min(cap))
            };
            sum += plain;
            if carried > plain {
                self.carries.push(carried - plain);
            }
        }
        sum + sum_of_largest(&mut self.carries, self.cores - 1)
    }
}

/// Sum of the `count` largest values, in any order afterwards.
pub(super) fn sum_of_largest<N: Int>(values: &mut [N], count: u32) -> N {
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(values.len());
    if count > 0 && count < values.len() {
        values.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    }
    let mut sum = N::default();
    for v in &values[..count] {
        sum += *v;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_upper_bounds() {
        assert_eq!(quotient_64(10, 1 << 64), Some(10));
        assert_eq!(quotient_64(10, 3 << 63), Some(7));
        assert_eq!(quotient_64(1, 0), None);
        assert_eq!(quotient_64(1 << 70, 1 << 64), None);
        let bound = quotient_64((1 << 80) + 12345, (1 << 95) + 999).unwrap_or(0);
        assert!((1 << 49..(1 << 49) + (1 << 18)).contains(&bound));
    }
}
