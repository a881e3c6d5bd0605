//! The iterative test of Bertogna, Cirinei and Lipari: slack of carry-in jobs.
//!
//! # Problem
//! [`bcl`](super::bcl) lets the job over the window's start run up to its deadline. A task that is
//! known to end early leaves less work to the window.
//!
//! # Rule
//! Start with slacks `S_i = 0`. In rounds: `W_i = N*C_i + min(C_i, max(0, D_k - N*T_i - S_i))`,
//! `I_k` as in `interference.rs`, `S_k = max(S_k, D_k - C_k - I_k)`. Schedulable when all tasks
//! pass in one round; given up when a round improves nothing.
//!
//! # Source
//! Bertogna, Cirinei, Lipari: "Schedulability analysis of global scheduling algorithms on
//! multiprocessor platforms", IEEE TPDS 20(4), 2009, theorem 8 and section 5. Slacks may be used
//! before all tasks have passed: in the window of the first miss all earlier jobs met their
//! deadlines, so by induction over deadlines each slack derived so far held for them.
//! Differences: the paper rounds `I_k` down, because time is integral there (up here); it takes the
//! sum of the works capped at `D_k - C_k` over `m`, which the closed form never exceeds.
//!
//! # Not covered
//! Deadlines beyond periods.

use super::bcl::edf_work;
use super::int::{Int, narrow};
use super::interference;
use crate::derivation::Derivation;
use crate::task_set::{TaskSet, TaskSetError};

/// Most rounds; then the present results must suffice. Slacks only grow, so stopping is safe.
const MAX_ROUNDS: u32 = 256;

/// Is the set schedulable by the iterative test? Constrained deadlines. O(n^2) a round.
///
/// # Errors
/// Impossible numbers, a deadline beyond its period, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check_constrained(set)?;
    Ok(analyse(set).1)
}

/// As [`schedulable`], with the reasons: the slack of each task.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    super::check_constrained(set)?;
    let (slacks, verdict) = analyse(set);
    let mut derivation = Derivation::new(
        "S_k = D_k - C_k - I_k >= 0 for each k, with W_i = N_i * C_i + min(C_i, max(0, D_k - N_i * \
            T_i - S_i))",
        "Bertogna, Cirinei, Lipari 2009, theorem 8 and section 5",
    )
    .input("m", u64::from(set.cores));
    for (k, slack) in slacks.into_iter().enumerate() {
        derivation = derivation.step(format!("S_{k}"), slack);
    }
    Ok(derivation.result(verdict))
}

/// Slacks, and whether all tasks pass.
fn analyse(set: &TaskSet) -> (Vec<u64>, bool) {
    if narrow(set) { rounds::<u64>(set) } else { rounds::<u128>(set) }
}

fn rounds<N: Int>(set: &TaskSet) -> (Vec<u64>, bool) {
    let mut slacks = vec![N::default(); set.tasks.len()];
    let mut works = Vec::with_capacity(set.tasks.len());
    let mut all = false;
    for _ in 0..MAX_ROUNDS {
        let mut improved = false;
        all = true;
        for (k, task) in set.tasks.iter().enumerate() {
            works.clear();
            let mut total = N::default();
            for (i, t) in set.tasks.iter().enumerate() {
                if i != k {
                    let work = edf_work(
                        N::time(task.deadline),
                        N::time(t.wcet),
                        N::time(t.period),
                        slacks[i],
                    );
                    total += work;
                    works.push(work);
                }
            }
            let needed = N::time(task.wcet) + interference::most(&works, total, set.cores);
            let deadline = N::time(task.deadline);
            if needed > deadline {
                all = false;
            } else if deadline - needed > slacks[k] {
                slacks[k] = deadline - needed;
                improved = true;
            }
        }
        if all || !improved {
            break;
        }
    }
    (slacks.into_iter().map(N::saturated).collect(), all)
}
