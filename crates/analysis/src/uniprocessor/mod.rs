//! Schedulability of independent sporadic tasks on one core, and on the part of a core that a
//! supply leaves them.
//!
//! * [`fixed_priority`]: response times, preemptive or not, arbitrary deadlines, release jitter,
//!   blocking, any supply.
//! * [`plain`]: the same for plain task sets on a whole core, as fast as we can.
//! * [`edf`]: the exact test of earliest deadline first, on any supply.
//! * [`utilization`]: sufficient tests of utilisations and periods alone.
//! * [`supply`]: the least supply of a periodic resource, a sporadic server or a time table in a
//!   window.
//! * [`hierarchical`]: the least budget with which a periodic resource suffices.
//!
//! Times are integers in one unit, the caller's. Nothing wraps: a result that does not fit in 64
//! bits, or is not found in a bounded number of steps, is "no bound" (`None`) or
//! [`TaskSetError::Undecided`], never a yes.
//!
//! Not covered: tasks that suspend themselves, precedence, overheads (add them to the execution
//! times).

pub mod edf;
pub mod fixed_priority;
pub mod hierarchical;
pub mod plain;
mod quad;
pub mod supply;
pub mod utilization;

use crate::task_set::{SporadicTask, TaskSet, TaskSetError, utilization_at_most};

/// Most steps of a recurrence. Ordinary task sets need some hundreds; the problems are NP-hard, so
/// that some need more than any limit.
pub const MAX_STEPS: u64 = 1 << 20;

/// Checks that this is a task set for one core, with a utilisation of at most 1.
///
/// # Errors
/// The faults of [`TaskSet::check`], more than one core, or a utilisation above 1.
pub fn check(set: &TaskSet) -> Result<(), TaskSetError> {
    check_numbers(set)?;
    if fits(&set.tasks) { Ok(()) } else { Err(TaskSetError::Utilization { cores: 1 }) }
}

/// [`check`] without the utilisation.
fn check_numbers(set: &TaskSet) -> Result<(), TaskSetError> {
    set.check()?;
    if set.cores == 1 { Ok(()) } else { Err(TaskSetError::Uniprocessor { cores: set.cores }) }
}

/// Is the utilisation at most 1? Exact; the periods are not zero.
///
/// A quotient of two integers rounded to doubles is wrong by less than 2^-51 of itself. Adding up
/// to 2^16 of them up to 1 is wrong by less than 2^-36 in all: only close to 1 are fractions
/// needed.
#[must_use]
pub fn fits(tasks: &[SporadicTask]) -> bool {
    const CLOSE: f64 = 1e-9;
    if tasks.len() <= 1 << 16 {
        let sum: f64 = tasks.iter().map(SporadicTask::utilization).sum();
        if sum < 1.0 - CLOSE {
            return true;
        }
        if sum > 1.0 + CLOSE {
            return false;
        }
    }
    utilization_at_most(tasks, 1)
}

/// Is the utilisation at most the rate of the supply? Exact; the periods are not zero.
#[must_use]
pub fn fits_supply<S: supply::Supply>(supply: &S, tasks: &[SporadicTask]) -> bool {
    let (rate, out_of) = supply.rate();
    if rate == out_of {
        return fits(tasks);
    }
    // The time that the supply withholds acts as one more task.
    let mut all = tasks.to_vec();
    all.push(SporadicTask {
        wcet: out_of.saturating_sub(rate),
        period: out_of.max(1),
        deadline: 1,
    });
    fits(&all)
}
