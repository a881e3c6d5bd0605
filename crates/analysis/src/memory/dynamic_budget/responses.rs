//! Response times under given budgets: the recurrence of [`super`], and its tasks and memory.
//!
//! Problem: `E_i` and `R_i` depend on each other, and on those of the tasks of higher priority.
//! Rule: tasks are taken highest priority first; each pair is the least solution, found from below.
//! Does not cover: the choice of budgets (`largest`).

use crate::interference::Refresh;
use serde::{Deserialize, Serialize};

/// Steps of one recurrence, after which there is no bound. Each adds a job; real task sets need
/// some tens.
const MAX_STEPS: u32 = 1 << 20;

/// A hard real-time task. Tasks are listed in priority order, highest first; only those of one core
/// compete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardTask {
    /// Worst-case execution time alone `C_i`, in picoseconds, with all its own memory accesses.
    pub wcet_ps: u64,
    /// Least time between releases `P_i`, in picoseconds.
    pub period_ps: u64,
    /// Relative deadline `D_i <= P_i`, in picoseconds.
    pub deadline_ps: u64,
    /// Most memory accesses of one job `H_i`.
    pub misses: u64,
    /// Its core.
    pub core: u32,
    /// Accesses of all soft cores together per job `B_i`.
    pub budget: u64,
    /// Longest time alone of refilling its private caches after one preemption, in picoseconds. 0
    /// as in the paper. The accesses are not in `misses`.
    #[serde(default)]
    pub reload_ps: u64,
}

/// The memory that all cores share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Longest delay `L` that one access of another core causes, in picoseconds.
    pub latency_ps: u64,
    /// Accesses of soft cores that may be under way when a budget comes into force: the number of
    /// soft cores times the accesses that each can have outstanding. 0 as in the paper.
    #[serde(default)]
    pub switch_accesses: u64,
    /// Refreshes, which stop all cores: those in the window of a job's response are part of its
    /// budget's time. None as in the paper.
    #[serde(default)]
    pub refresh: Refresh,
}

/// Reasons for which a system cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// No tasks.
    #[error("tasks is empty; give at least one hard task")]
    NoTasks,
    /// No task of this index.
    #[error("there is no task {0}")]
    NoTask(usize),
    /// A value that must not be zero.
    #[error("task {task}: {what} is 0; give more than zero")]
    Zero {
        /// Index of the task.
        task: usize,
        /// Name of the field.
        what: &'static str,
    },
    /// A deadline is beyond the period; the model has `D <= P`.
    #[error(
        "task {task}: deadline {deadline_ps} ps is beyond its period {period_ps} ps, which dynamic \
            budgeting does not cover"
    )]
    Deadline {
        /// Index of the task.
        task: usize,
        /// Its deadline.
        deadline_ps: u64,
        /// Its period.
        period_ps: u64,
    },
    /// With `L = 0` every budget is safe and the largest is not a number.
    #[error("latency_ps is 0; give the longest delay that one access causes")]
    NoLatency,
}

/// Results for one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskBound {
    /// `A_i = C_i + B_i*L`, in picoseconds; with the accesses under way at its starts, and its
    /// reloads.
    pub demand_ps: u64,
    /// `E_i`, the time for which its budget must be in force from its start, in picoseconds:
    /// `sc_dynamic_define`'s `length_ns`.
    pub length_ps: u64,
    /// Its worst-case response time `R_i <= D_i`, in picoseconds.
    pub response_ps: u64,
}

pub(super) fn check(tasks: &[HardTask], memory: &Memory) -> Result<(), BudgetError> {
    if tasks.is_empty() {
        return Err(BudgetError::NoTasks);
    }
    if memory.latency_ps == 0 {
        return Err(BudgetError::NoLatency);
    }
    for (task, t) in tasks.iter().enumerate() {
        for (what, value) in
            [("wcet_ps", t.wcet_ps), ("period_ps", t.period_ps), ("deadline_ps", t.deadline_ps)]
        {
            if value == 0 {
                return Err(BudgetError::Zero { task, what });
            }
        }
        if t.deadline_ps > t.period_ps {
            return Err(BudgetError::Deadline {
                task,
                deadline_ps: t.deadline_ps,
                period_ps: t.period_ps,
            });
        }
    }
    Ok(())
}

/// `F(cr, t)` in picoseconds: delay by the hard tasks of the other cores in a window of
/// `window_ps`.
fn cross(tasks: &[HardTask], core: u32, latency_ps: u64, window_ps: u64) -> u128 {
    let one = |t: &HardTask| {
        let jobs = u128::from(window_ps.div_ceil(t.period_ps)) + 1;
        jobs.saturating_mul(u128::from(t.misses)).saturating_mul(u128::from(latency_ps))
    };
    tasks.iter().filter(|t| t.core != core).fold(0u128, |sum, t| sum.saturating_add(one(t)))
}

/// Delay by the hard tasks of the other cores than `core` in any window of `window_ps`, `F(cr, t)`,
/// in picoseconds.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn cross_interference(
    tasks: &[HardTask],
    memory: &Memory,
    core: u32,
    window_ps: u64,
) -> Result<Option<u64>, BudgetError> {
    check(tasks, memory)?;
    Ok(u64::try_from(cross(tasks, core, memory.latency_ps, window_ps)).ok())
}

/// One task's bound, given those of the tasks before it; `None` beyond its deadline.
pub(super) fn bound(
    tasks: &[HardTask],
    i: usize,
    memory: &Memory,
    known: &[TaskBound],
) -> Option<TaskBound> {
    let task = tasks.get(i)?;
    let higher = || tasks.iter().zip(known).take(i).filter(|(t, _)| t.core == task.core);
    let latency = u128::from(memory.latency_ps);
    let own = latency.checked_mul(task.budget.into())?.checked_add(task.wcet_ps.into())?;
    let mut window_ps = 1;
    for _ in 0..MAX_STEPS {
        let (mut higher_ps, mut returns) = (0u128, 0u128);
        for (t, b) in higher() {
            let jobs = u128::from(window_ps).div_ceil(t.period_ps.into());
            higher_ps = higher_ps.checked_add(jobs.checked_mul(b.length_ps.into())?)?;
            returns = returns.checked_add(jobs)?;
        }
        let late = returns
            .checked_add(1)?
            .checked_mul(memory.switch_accesses.into())?
            .checked_mul(latency)?;
        let reloads = returns.checked_mul(task.reload_ps.into())?;
        let demand = own.checked_add(late)?.checked_add(reloads)?;
        let length = demand
            .checked_add(cross(tasks, task.core, memory.latency_ps, window_ps))?
            .checked_add(memory.refresh.within(window_ps).into())?;
        let response_ps = u64::try_from(length.checked_add(higher_ps)?).ok()?;
        if response_ps > task.deadline_ps {
            return None;
        }
        if response_ps <= window_ps {
            let (demand_ps, length_ps) = (u64::try_from(demand).ok()?, u64::try_from(length).ok()?);
            return Some(TaskBound { demand_ps, length_ps, response_ps });
        }
        window_ps = response_ps;
    }
    None
}

pub(super) fn bounds(tasks: &[HardTask], memory: &Memory) -> Result<Vec<TaskBound>, usize> {
    let mut known = Vec::with_capacity(tasks.len());
    for i in 0..tasks.len() {
        known.push(bound(tasks, i, memory, &known).ok_or(i)?);
    }
    Ok(known)
}

/// Demand, time in force and response of every task. `Ok(Err(i))` if task `i` is the first that may
/// miss its deadline; nothing is known of the others then, because their bounds count on its end in
/// time.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn analyse(
    tasks: &[HardTask],
    memory: &Memory,
) -> Result<Result<Vec<TaskBound>, usize>, BudgetError> {
    check(tasks, memory)?;
    Ok(bounds(tasks, memory))
}

/// Eq. (1) of the paper for task `i`, with its brackets corrected, in picoseconds; `None` beyond
/// the deadline.
///
/// No bound with several hard cores if `i` has tasks of higher priority on its core: see correction
/// 2 above.
///
/// # Errors
/// When a task or `L` is not a possible value, or there is no task `i`.
pub fn response_paper(
    tasks: &[HardTask],
    i: usize,
    memory: &Memory,
) -> Result<Option<u64>, BudgetError> {
    check(tasks, memory)?;
    let task = tasks.get(i).ok_or(BudgetError::NoTask(i))?;
    let demand = |t: &HardTask| {
        u128::from(memory.latency_ps)
            .saturating_mul(t.budget.into())
            .saturating_add(t.wcet_ps.into())
    };
    let mut window_ps = 1;
    for _ in 0..MAX_STEPS {
        let higher = tasks.iter().take(i).filter(|t| t.core == task.core).fold(0u128, |sum, t| {
            let jobs = u128::from(window_ps).div_ceil(t.period_ps.into());
            sum.saturating_add(jobs.saturating_mul(demand(t)))
        });
        let total = cross(tasks, task.core, memory.latency_ps, window_ps)
            .saturating_add(higher)
            .saturating_add(demand(task));
        match u64::try_from(total) {
            Ok(response) if response <= window_ps => return Ok(Some(response)),
            Ok(response) if response <= task.deadline_ps => window_ps = response,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Splits a budget over soft cores as evenly as whole accesses allow; the sum is the budget.
#[must_use]
pub fn shares(budget: u64, soft_cores: u32) -> Vec<u64> {
    let cores = u64::from(soft_cores);
    (0..cores).map(|c| budget / cores + u64::from(c < budget % cores)).collect()
}
