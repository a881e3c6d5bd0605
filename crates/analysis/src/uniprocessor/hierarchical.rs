//! The least budget of a server or partition with which its tasks meet their deadlines.
//!
//! # Problem
//! A periodic resource `(budget, period)` that runs a set of tasks should take as little of the
//! core as possible.
//!
//! # Rule
//! Shin and Lee, "Periodic resource model for compositional real-time guarantees", RTSS 2003,
//! sections 4 and 5: tasks are schedulable on the resource if they are under its supply bound
//! function. That function grows with the budget, for each window and a given period: hence so does
//! the verdict, and bisection finds the least budget. Shin and Lee bound it with a linear supply
//! bound; here it is exact for the test used.
//!
//! # Not covered
//! The choice of the period: a short one costs switches, a long one budget. The caller compares.

use super::fixed_priority::{self, FixedPriorityTask};
use super::supply::{Rounds, SupplyError};
use super::{edf, fits_supply};
use crate::task_set::SporadicTask;
use serde::{Deserialize, Serialize};

/// Scheduling of the tasks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Local {
    /// Preemptive fixed priorities, in the order of the tasks.
    FixedPriority,
    /// Preemptive earliest deadline first.
    Edf,
}

/// Do the tasks meet their deadlines with `budget` in each `period`? An undecided test gives false.
///
/// # Errors
/// A budget or period that is impossible.
pub fn schedulable(
    tasks: &[SporadicTask],
    local: Local,
    budget: u64,
    period: u64,
) -> Result<bool, SupplyError> {
    let supply = Rounds::periodic_resource(budget, period)?;
    Ok(match local {
        Local::Edf => edf::test(&supply, tasks).is_ok_and(|outcome| outcome.schedulable),
        Local::FixedPriority => {
            let general: Vec<FixedPriorityTask> =
                tasks.iter().map(FixedPriorityTask::from).collect();
            tasks.iter().all(|t| t.period > 0)
                && fits_supply(&supply, tasks)
                && fixed_priority::schedulable(&supply, &general)
        }
    })
}

/// The least budget in each `period` with which the tasks meet their deadlines, in their unit;
/// `None` if there is none.
///
/// # Errors
/// A period of zero, or one that is too long.
pub fn least_budget(
    tasks: &[SporadicTask],
    local: Local,
    period: u64,
) -> Result<Option<u64>, SupplyError> {
    if !schedulable(tasks, local, period, period)? {
        return Ok(None);
    }
    let (mut no, mut yes) = (0, period);
    while yes - no > 1 {
        let budget = no + (yes - no) / 2;
        // A budget whose gap does not fit in 64 bits counts as a no.
        if schedulable(tasks, local, budget, period).unwrap_or(false) {
            yes = budget;
        } else {
            no = budget;
        }
    }
    Ok(Some(yes))
}
