//! The test of Bertogna, Cirinei and Lipari for global EDF.
//!
//! # Problem
//! The density test gives up on one heavy task. This one bounds, for each task, the execution of
//! the others in its window.
//!
//! # Rule
//! Work of task `i` with deadlines in a window of length `D_k` that ends with one of its deadlines,
//! the job over the window's start included: `W_i = N*C_i + min(C_i, max(0, D_k - N*T_i))`,
//! `N = floor(D_k/T_i)`. Schedulable if for each `k` the interference that these works can cause
//! (`min(W_i, D_k - C_k)` summed, against `m*(D_k - C_k)`) is at most `D_k - C_k`;
//! `interference.rs` has the closed form.
//!
//! # Source
//! Bertogna, Cirinei, Lipari: "Improved schedulability analysis of EDF on multiprocessor
//! platforms", ECRTS 2005, theorem 5. They write `N = floor((D_k - D_i)/T_i) + 1`; for
//! `C <= D <= T` the two works are equal. At `D_k = C_k` the printed condition never holds; here it
//! holds when fewer than `m` other tasks have work, which is right: such a job always has a core.
//!
//! # Not covered
//! Deadlines beyond periods.

use super::int::{Int, narrow};
use super::interference;
use crate::derivation::Derivation;
use crate::task_set::{TaskSet, TaskSetError};

/// Is the set schedulable by the test of 2005? Constrained deadlines. O(n^2).
///
/// # Errors
/// Impossible numbers, a deadline beyond its period, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check_constrained(set)?;
    Ok((0..set.tasks.len()).all(|k| waits_at_most(set, k).is_some()))
}

/// As [`schedulable`], with the reasons: the bound on the interference of each task.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    let verdict = schedulable(set)?;
    let mut derivation = Derivation::new(
        "I_k <= D_k - C_k for each k, I_k = min over p < m of (sum of all W_i but the p largest) / \
            (m - p)",
        "Bertogna, Cirinei, Lipari 2005, theorem 5",
    )
    .input("m", u64::from(set.cores));
    for k in 0..set.tasks.len() {
        derivation = derivation.step(format!("I_{k}"), waits_at_most(set, k));
    }
    Ok(derivation.result(verdict))
}

/// Interference bound of task `k`, if it is at most `D_k - C_k`.
fn waits_at_most(set: &TaskSet, k: usize) -> Option<u64> {
    let bound = if narrow(set) { wait::<u64>(set, k) } else { wait::<u128>(set, k) };
    (bound <= set.tasks[k].deadline.checked_sub(set.tasks[k].wcet)?).then_some(bound)
}

fn wait<N: Int>(set: &TaskSet, k: usize) -> u64 {
    let window = N::time(set.tasks[k].deadline);
    let (mut works, mut total) = (Vec::with_capacity(set.tasks.len()), N::default());
    for (i, t) in set.tasks.iter().enumerate() {
        if i != k {
            let work = edf_work(window, N::time(t.wcet), N::time(t.period), N::default());
            total += work;
            works.push(work);
        }
    }
    interference::most(&works, total, set.cores).saturated()
}

/// Work with deadlines in a window that a task may do under EDF, if each job ends `slack` or more
/// before its deadline.
pub(super) fn edf_work<N: Int>(window: N, wcet: N, period: N, slack: N) -> N {
    edf_work_of(window.quotient(period), window, wcet, period, slack)
}

/// As [`edf_work`], with `jobs = floor(window/period)`.
pub(super) fn edf_work_of<N: Int>(jobs: N, window: N, wcet: N, period: N, slack: N) -> N {
    jobs * wcet + wcet.min((window - jobs * period).minus(slack))
}
