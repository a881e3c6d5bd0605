//! The density test of global EDF.
//!
//! # Problem
//! A cheap first answer, for any deadlines.
//!
//! # Rule
//! With `lambda_i = C_i / min(D_i, T_i)`: schedulable if
//! `sum lambda_i + (m - 1) * max lambda_i <= m`.
//!
//! # Source
//! Goossens, Funk, Baruah: "Priority-driven scheduling of periodic task systems on
//! multiprocessors", Real-Time Systems 25, 2003 (implicit deadlines); with densities Bertogna,
//! Cirinei, Lipari, ECRTS 2005. Why it holds for any deadlines: give each task a core of speed
//! `lambda_i`; every job ends by `min(D, T)` after its release there. Let `t` be the first instant
//! by which GEDF, restricted to the jobs with deadlines up to some `d`, has done less work in
//! total. Some task is behind at `t`; let it be behind since `s`. It is pending throughout, so it
//! runs whenever not all cores are busy, in total `y < max lambda * (t - s)`, and the work done is
//! at least `m*(t - s) - (m - 1)*y > (m - (m - 1)*max lambda)*(t - s) >= sum lambda * (t -
//! s)`, a contradiction. With `m = 1` it is the density test of EDF.
//!
//! # Not covered
//! Dhall's effect: one task of density near 1 makes the test fail at any load.

use super::exact::{FractionSum, share_32};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};
use std::cmp::Ordering;

/// Is the set schedulable by the density test? Any deadlines. O(n).
///
/// # Errors
/// Impossible numbers, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(holds(set))
}

/// As [`schedulable`], with the reasons.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    let verdict = schedulable(set)?;
    let density = |t: &SporadicTask| t.wcet as f64 / t.constrained_deadline() as f64;
    let sum: f64 = set.tasks.iter().map(density).sum();
    let most = set.tasks.iter().map(density).fold(0.0, f64::max);
    Ok(Derivation::new(
        "sum lambda_i + (m - 1) * lambda_max <= m, lambda_i = C_i / min(D_i, T_i)",
        "Goossens, Funk, Baruah 2003; Bertogna, Cirinei, Lipari 2005",
    )
    .input("m", u64::from(set.cores))
    .step("sum lambda_i", sum)
    .step("lambda_max", most)
    .result(verdict))
}

/// The condition itself, for a set that was checked.
pub(super) fn holds(set: &TaskSet) -> bool {
    quickly(set).unwrap_or_else(|| exactly(set))
}

/// In 2^-32 steps, rounded down and up; `None` when that does not decide.
fn quickly(set: &TaskSet) -> Option<bool> {
    let (mut sum, mut most) = (0u64, 0u64);
    for t in &set.tasks {
        let share = share_32(t.wcet, t.constrained_deadline())?;
        sum = sum.checked_add(share)?;
        most = most.max(share);
    }
    let others = u64::from(set.cores) - 1;
    let low = sum.checked_add(most.checked_mul(others)?)?;
    let high = low.checked_add(u64::try_from(set.tasks.len()).ok()?.checked_add(others)?)?;
    let limit = u64::from(set.cores) << 32;
    if high <= limit {
        Some(true)
    } else if low > limit {
        Some(false)
    } else {
        None
    }
}

fn exactly(set: &TaskSet) -> bool {
    let mut sum = FractionSum::default();
    for t in &set.tasks {
        sum.add(u128::from(t.wcet), t.constrained_deadline());
    }
    if let Some(t) = densest(&set.tasks) {
        sum.add(u128::from(t.wcet) * u128::from(set.cores - 1), t.constrained_deadline());
    }
    sum.compare(u128::from(set.cores)) != Ordering::Greater
}

/// The task with the largest density, compared exactly.
pub(super) fn densest(tasks: &[SporadicTask]) -> Option<&SporadicTask> {
    tasks.iter().max_by_key(|t| Density { wcet: t.wcet, window: t.constrained_deadline() })
}

/// `C / min(D, T)`, ordered by cross products.
#[derive(PartialEq, Eq)]
struct Density {
    wcet: u64,
    window: u64,
}

impl Ord for Density {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.wcet, other.window).cmp(&product(other.wcet, self.window))
    }
}

impl PartialOrd for Density {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
