//! Dynamic budgets on Linux: limits of the soft CPUs during the jobs of the hard tasks.
//!
//! Rule: the plan's budget of a task holds for all soft cores together; each gets an equal part. A
//! task's number is its priority. Its program signals its jobs (`sc_attach_task`, `sc_job_begin`,
//! `sc_job_end`); the soft CPUs see that by themselves (bpf/dynamic.h).
//! Source: dynamic-budgeting, section IV.
//! Does not cover: a task with a program that signals nothing. It limits nobody, and no bound of
//! the plan holds.

use crate::contract::{self, run_other, run_task};
use crate::error::LinuxError;
use crate::regulate::bpf::inside;
use libbpf_rs::MapCore;
use solocore_model::Plan;

/// Maximum number of hard tasks in the programs (`RUN_TASKS`).
const MOST_TASKS: usize = contract::RUN_TASKS as usize;
/// Largest budget (`SC_MAX_ACCESSES`).
const MOST_ACCESSES: u64 = contract::SC_MAX_ACCESSES as u64;

/// A hard task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHardTask {
    /// Name in the plan.
    pub name: String,
    /// Core of the task.
    pub core: u32,
    /// Accesses of each soft CPU during one of its jobs.
    pub budget: u64,
    /// Longest time for which the budget is in force.
    pub length_ns: u64,
}

/// The dynamic budgets of a plan, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicRegulation {
    /// Highest priority first.
    pub tasks: Vec<RunHardTask>,
    /// Interval between two looks of a soft CPU while there are clients.
    pub look_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
}

impl DynamicRegulation {
    /// The hard tasks of a plan, and its soft cores.
    ///
    /// # Errors
    /// A task without a budget that can be enforced, or nothing to limit.
    pub(crate) fn of(plan: &Plan, look_ns: u64) -> Result<(Self, Vec<u32>), LinuxError> {
        let wrong = |what: String| {
            Err(LinuxError::Input(format!("{what}; change the system file and plan again")))
        };
        let soft: Vec<u32> = plan.cores.iter().filter(|c| c.soft).map(|c| c.id).collect();
        let parts = soft.len() as u64;
        if parts == 0 {
            return wrong("the plan has no soft core, so dynamic budgets limit no core".to_owned());
        }
        let mut hard: Vec<_> = plan.tasks.iter().filter(|t| !t.best_effort()).collect();
        hard.sort_by_key(|t| t.priority);
        if hard.len() > MOST_TASKS {
            return wrong(format!(
                "the plan has {} analysed tasks, and {MOST_TASKS} are supported here",
                hard.len()
            ));
        }
        let mut tasks = Vec::new();
        for t in hard {
            let (Some(budget), Some(length_ns)) =
                (t.soft_budget.map(|b| b / parts), t.soft_budget_length_ns)
            else {
                return wrong(format!(
                    "task `{}` has no budget for the soft cores: the plan is not schedulable",
                    t.name
                ));
            };
            if budget == 0 {
                return wrong(format!(
                    "task `{}`: its soft budget is less than one access for each soft core",
                    t.name
                ));
            }
            if t.name.len() > 63 {
                return wrong(format!("task `{}`: its name is longer than 63 bytes", t.name));
            }
            let budget = budget.min(MOST_ACCESSES);
            tasks.push(RunHardTask { name: t.name.clone(), core: t.core, budget, length_ns });
        }
        Ok((Self { tasks, look_ns, cpus: plan.platform.cores }, soft))
    }

    /// The smallest budget, in accesses; the sample is derived from it.
    pub(crate) fn least_budget(&self) -> Option<u64> {
        self.tasks.iter().map(|t| t.budget).min()
    }

    /// Longest time for which a CPU can be stopped: it may use up one budget after the other.
    pub(crate) fn longest_stop_ns(&self) -> u64 {
        self.tasks.iter().map(|t| t.length_ns).fold(0, u64::saturating_add)
    }

    /// Writes the tasks into the programs' map.
    pub(crate) fn fill(&self, map: &impl MapCore) -> Result<(), LinuxError> {
        for (number, task) in (0u32..).zip(&self.tasks) {
            let RunHardTask { core, budget, length_ns, .. } = *task;
            contract::put(map, number, &run_task { budget, length_ns, slot: 0, core, reserved: 0 })
                .map_err(|e| inside(&format!("task `{}` cannot be set: {e}", task.name)))?;
        }
        Ok(())
    }
}

/// Writes other budgets of the tasks. A CPU takes them at its next look once it is asked
/// (`asked.rs`); a job keeps the budget that it began with.
pub(crate) fn others(map: &impl MapCore, tasks: &[RunHardTask]) -> Result<(), LinuxError> {
    for (number, task) in (0u32..).zip(tasks) {
        let RunHardTask { budget, length_ns, .. } = *task;
        contract::put(map, number, &run_other { budget, length_ns })
            .map_err(|e| inside(&format!("task `{}` cannot be set: {e}", task.name)))?;
    }
    Ok(())
}

/// A dynamic budget of a task, and its length.
pub(crate) type SoftBudget = (u64, u64);

/// Whether the bounds of the old plan, and those of the new one, hold for the jobs of these tasks
/// while the soft CPUs go over from the old budgets to the new ones.
///
/// Rule: a bound of a plan counts each job with that plan's budget and length. So it holds if the
/// jobs of the other plan have no more of either. `daemon/handing_jobs.rs` has the
/// order in which CPUs go over, and why no length is too short meanwhile. Source: own derivation
/// from dynamic-budgeting, section IV.
pub(crate) fn covers(pairs: &[(SoftBudget, SoftBudget)]) -> (bool, bool) {
    let by = |more: fn(u64, u64) -> bool| {
        pairs.iter().all(|(old, new)| more(old.0, new.0) && more(old.1, new.1))
    };
    (by(|old, new| new <= old), by(|old, new| new >= old))
}

/// Sets the page that signals the task's jobs from now on; `None`: there is none.
pub(crate) fn set_page(
    map: &impl MapCore,
    number: u32,
    slot: Option<u32>,
) -> Result<(), LinuxError> {
    let fail =
        |e: &dyn std::fmt::Display| inside(&format!("the page of a task cannot be set: {e}"));
    let found: Option<run_task> = contract::look_up(map, number).map_err(|e| fail(&e))?;
    let task = found.ok_or_else(|| fail(&"there is no such task"))?;
    contract::put(map, number, &run_task { slot: slot.map_or(0, |s| u64::from(s) + 1), ..task })
        .map_err(|e| fail(&e))
}
