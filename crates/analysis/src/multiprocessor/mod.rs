//! Sporadic tasks on `m` identical cores: schedulability, tardiness bounds, and the assignment of
//! tasks to cores.
//!
//! # Problem
//! Global EDF (GEDF) runs the `m` pending jobs with the earliest absolute deadlines; jobs preempt
//! and migrate freely. No critical instant is known for it, so every test is sufficient only:
//! `true` means that no release pattern misses a deadline, `false` that this test does not show it.
//!
//! # Modules
//! * [`gfb`], [`bcl`], [`bcl_iterative`], [`response`], [`bar`], [`ffdbf`]: one test each;
//!   [`gedf`]: all of them, best answer.
//! * [`tardiness`]: bounds on tardiness when the cores are not overloaded; [`restricted`]: the same
//!   when higher levels take part of the cores.
//! * [`partition`]: bin packing with any test of one core.
//!
//! # Time
//! Tasks are in integer units, releases are not: the tests are stated for releases at any real
//! time. Papers that assume integral time write `D - C + 1` where a miss only implies "more than
//! `D - C`"; the difference is below one unit and each module names it.
//!
//! # Not covered
//! Overheads, migration costs, self-suspension, non-preemptive sections. Add them to the execution
//! times first.

pub mod bar;
pub mod bcl;
pub mod bcl_iterative;
mod exact;
pub mod ffdbf;
pub mod gedf;
pub mod gfb;
mod int;
mod interference;
pub mod partition;
pub mod response;
pub mod restricted;
pub mod tardiness;

use crate::task_set::{TaskSet, TaskSetError, utilization_at_most};

/// Checks the conditions of every test here: possible numbers and a total utilisation of at most
/// `m`.
fn check(set: &TaskSet) -> Result<(), TaskSetError> {
    set.check()?;
    if exact::utilization_quickly_at_most(&set.tasks, set.cores)
        || utilization_at_most(&set.tasks, set.cores)
    {
        return Ok(());
    }
    Err(TaskSetError::Utilization { cores: set.cores })
}

/// As [`check`], for tests that are proved for `D <= T` only.
fn check_constrained(set: &TaskSet) -> Result<(), TaskSetError> {
    check(set)?;
    match set.tasks.iter().enumerate().find(|(_, t)| t.deadline > t.period) {
        None => Ok(()),
        Some((task, t)) => {
            Err(TaskSetError::Deadline { task, deadline: t.deadline, period: t.period })
        }
    }
}
