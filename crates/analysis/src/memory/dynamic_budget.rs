//! Response times and safe budgets under dynamic budgeting.
//!
//! # Problem
//! Hard real-time tasks run on some cores under fixed priorities, soft ones on the others. Each job
//! of hard task `i` lets all soft cores together make `B_i` accesses while it is in force; a job
//! that finishes early lifts the limit for the rest of its time. Do the hard tasks meet their
//! deadlines, and how large may the budgets be?
//!
//! # Rule
//! Flodin, Lampka, Yi, "Dynamic Budgeting for Settling DRAM Contention of Co-running Hard and Soft
//! Real-time Tasks", sections III and IV. With `L` the longest delay that one access of another
//! core causes, `hi` the tasks of higher priority on the same core and `cr` the hard tasks of the
//! other cores:
//!
//! * `F(cr, t) = sum over k in cr of (ceil(t/P_k) + 1) * H_k * L`
//! * `E_i = C_i + B_i*L + F(cr_i, R_i)`, the time for which the budget is in force (the paper's
//!   `e_i - s_i`)
//! * `R_i = E_i + sum over j in hi_i of ceil(R_i/P_j) * E_j`, the least solution, at most `D_i`
//!
//! # Where the paper is corrected
//! 1. Eq. (1) as printed has `R_j/P_j` in the bracket; it must be `ceil(R_i/P_j)`. `F` is printed
//!    without the direction of its rounding; a job carried in at the start of the window makes it
//!    `ceil(t/P) + 1`.
//! 2. Eq. (1) charges `A_j = C_j + B_j*L` for a job of higher priority. That is right with one hard
//!    core. With several, the budget is in force for `E_j = A_j + F(cr_j, R_j)`: a job that
//!    finishes early lifts the limit until then, although none of the accesses that `F` stands for
//!    were made; they can still come, and then delay task `i` as well. `F` counts once in eq. (1)
//!    and is suffered twice. [`response_paper`] is eq. (1) with correction 1 alone;
//!    `tests/memory_dynamic_budget.rs` has a schedule that exceeds it. The default charges `E_j`.
//! 3. An access of a soft core that is under way when a budget comes into force is in no budget.
//!    With `s` soft cores that each wait for one access at a time, each start of a job and each
//!    return to a preempted one can bring `s` of them: `E_i` grows by
//!    `s * L * (1 + sum over j in hi_i of ceil(R_i/P_j))`. [`Memory::switch_accesses`] is `s`; 0 is
//!    the paper. Without that, a budget can expire shortly before its job ends, and nothing limits
//!    the soft cores from then on: in the test, most tasks then exceed their bound, and by more
//!    than the accesses that were not counted.
//! 4. After a preemption a job refills its private caches, while its own budget is in force.
//!    Charging that to the job that preempted, as response-time analysis may, is wrong here: what
//!    is left of `E_j` can pass with the soft cores unlimited, and the refill then still runs when
//!    `E_i` goes on. `E_i` grows by [`HardTask::reload_ps`] with each such return.
//!
//! # Why it holds
//! The budgets in force on one hard core are themselves a fixed-priority schedule: job `i`
//! "executes" exactly while its budget is the core's head and unexpired, for `E_i` at most. Each
//! instant in which a real job runs lies in the force of its own budget or of that of a job of
//! higher priority, so the real job is never behind the virtual one as long as `E_i` covers its
//! execution and all delay while its own budget is in force: `C_i`, at most `B_i` soft accesses,
//! and at most `F(cr_i, R_i)` by other hard cores. So response times of the virtual schedule bound
//! the real ones, and for it the recurrence is the classical one (Joseph and Pandya), with
//! `D_i <= P_i`.
//! `F` holds if the tasks of the other cores end within their periods: all responses hold together,
//! or none is given.
//!
//! # Monotone
//! The right-hand sides grow with each `B` and each `R`, so least solutions do; more budget never
//! makes a task set schedulable. The searches below rest on nothing else. Budgets of one core do
//! not enter the responses on another, so the cores are independent of each other.
//!
//! # Not covered
//! A load of a lower-priority task of the same core under way at a release (add the blocking to
//! `wcet_ps`), interrupt and message overheads (likewise), release jitter, `D > P`.

pub use super::dynamic_budget_explained::{explain, explain_largest};

use crate::interference::Refresh;
use serde::{Deserialize, Serialize};

/// Steps of one recurrence, after which there is no bound. Each adds a job; real task sets need
/// some tens.
const MAX_STEPS: u32 = 1 << 20;
/// Cores with up to this many tasks have their budgets filled in every order.
const MAX_PERMUTED: usize = 5;

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
    /// Refreshes, which stop everybody: those of the window of a job's response are part of its
    /// budget's time. None as in the paper.
    #[serde(default)]
    pub refresh: Refresh,
}

/// Why a system cannot be analysed.
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
    /// The model has `D <= P`.
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

/// What holds for one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskBound {
    /// `A_i = C_i + B_i*L`, in picoseconds; with what is under way at its starts, and its reloads.
    pub demand_ps: u64,
    /// `E_i`, how long its budget must be in force from its start, in picoseconds:
    /// `sc_dynamic_define`'s `length_ns`.
    pub length_ps: u64,
    /// Its worst-case response time `R_i <= D_i`, in picoseconds.
    pub response_ps: u64,
}

/// What the budgets of all tasks together are chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The smallest budget is as large as possible; then none can grow by one access without
    /// another's loss.
    MaxMin,
    /// The accesses per time that all jobs together allow, `sum of B_i/P_i`, are many. See
    /// [`largest_budgets`].
    TotalBandwidth,
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
/// When a task or `L` is no possible value.
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
fn bound(tasks: &[HardTask], i: usize, memory: &Memory, known: &[TaskBound]) -> Option<TaskBound> {
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

/// Demand, time in force and response of every task; `Ok(Err(i))` if task `i` is the first that may
/// miss its deadline, in which case nothing is known of the others, whose bounds count on its
/// ending in time.
///
/// # Errors
/// When a task or `L` is no possible value.
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
/// When a task or `L` is no possible value, or there is no task `i`.
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

/// Are all tasks safe with these budgets?
fn safe(tasks: &[HardTask], memory: &Memory, core: u32, budgets: &[u64]) -> bool {
    let mut with = tasks.to_vec();
    with.iter_mut().zip(budgets).for_each(|(t, &b)| t.budget = b);
    let mut known: Vec<TaskBound> = Vec::with_capacity(tasks.len());
    for i in 0..with.len() {
        // Other cores' tasks do not depend on this core's budgets; their entries are never read.
        let entry = if with[i].core == core {
            bound(&with, i, memory, &known)
        } else {
            Some(TaskBound { demand_ps: 0, length_ps: 0, response_ps: 0 })
        };
        match entry {
            Some(entry) => known.push(entry),
            None => return false,
        }
    }
    true
}

/// The largest number from `low` on that is still right; `low` is, and right ones lie below wrong
/// ones.
fn last_right(low: u64, high: u64, right: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high.max(low));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if right(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The largest budget of task `i` with which every task still meets its deadline, the other budgets
/// as they are. The budget that the task has does not matter. `None` if even 0 is too much.
///
/// # Errors
/// When a task or `L` is no possible value, or there is no task `i`.
pub fn largest_budget(
    tasks: &[HardTask],
    i: usize,
    memory: &Memory,
) -> Result<Option<u64>, BudgetError> {
    check(tasks, memory)?;
    let core = tasks.get(i).ok_or(BudgetError::NoTask(i))?.core;
    let mut budgets: Vec<u64> = tasks.iter().map(|t| t.budget).collect();
    budgets[i] = 0;
    let mut lowest = tasks.to_vec();
    lowest[i].budget = 0;
    if bounds(&lowest, memory).is_err() {
        return Ok(None);
    }
    Ok(Some(raise(tasks, memory, core, &budgets, &[i])))
}

/// The largest common budget of the tasks of `which`, the others as in `budgets`; these must be
/// safe.
fn raise(tasks: &[HardTask], memory: &Memory, core: u32, budgets: &[u64], which: &[usize]) -> u64 {
    let low = which.iter().map(|&i| budgets[i]).max().unwrap_or(0);
    let high = which.iter().map(|&i| tasks[i].deadline_ps / memory.latency_ps).min().unwrap_or(0);
    last_right(low, high, |b| {
        let mut with = budgets.to_vec();
        which.iter().for_each(|&i| with[i] = b);
        safe(tasks, memory, core, &with)
    })
}

/// The largest safe budgets of all tasks under an objective; `None` if the task set is not even
/// safe with none.
///
/// * [`Objective::MaxMin`]: the smallest budget of each core is the largest possible. Tasks that
///   cannot grow then keep theirs, and the others go on together. Where two tasks could each grow
///   but not both, the first does.
/// * [`Objective::TotalBandwidth`]: each order of filling the budgets to the brim is tried, on
///   cores with up to five tasks; on others, one order (most `P` first lengthens `ceil(t/P)`
///   least). The result cannot be raised anywhere; it need not be the optimum ([`bandwidth_limit`]
///   says how far away it can be).
///
/// The budgets that the tasks have do not matter.
///
/// # Errors
/// When a task or `L` is no possible value.
pub fn largest_budgets(
    tasks: &[HardTask],
    memory: &Memory,
    objective: Objective,
) -> Result<Option<Vec<u64>>, BudgetError> {
    let none: Vec<HardTask> = tasks.iter().map(|t| HardTask { budget: 0, ..*t }).collect();
    largest_budgets_of(&none, &vec![true; tasks.len()], memory, objective)
}

/// As [`largest_budgets`], for the tasks that are `free`, which get at least the budget they have;
/// the others keep theirs. `free` has one entry a task. `None` if the task set is not safe with the
/// budgets it has.
///
/// # Errors
/// When a task or `L` is no possible value.
pub fn largest_budgets_of(
    tasks: &[HardTask],
    free: &[bool],
    memory: &Memory,
    objective: Objective,
) -> Result<Option<Vec<u64>>, BudgetError> {
    check(tasks, memory)?;
    let is_free = |i: usize| free.get(i).copied().unwrap_or(false);
    let start: Vec<u64> = tasks.iter().map(|t| t.budget).collect();
    if bounds(tasks, memory).is_err() {
        return Ok(None);
    }
    let mut cores: Vec<u32> = tasks.iter().map(|t| t.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut budgets = start.clone();
    for core in cores {
        let mine: Vec<usize> =
            (0..tasks.len()).filter(|&i| tasks[i].core == core && is_free(i)).collect();
        let best = match objective {
            Objective::MaxMin => max_min(tasks, memory, core, &mine, &start),
            Objective::TotalBandwidth => most_bandwidth(tasks, memory, core, &mine, &start),
        };
        mine.iter().for_each(|&i| budgets[i] = best[i]);
    }
    Ok(Some(budgets))
}

fn max_min(
    tasks: &[HardTask],
    memory: &Memory,
    core: u32,
    mine: &[usize],
    start: &[u64],
) -> Vec<u64> {
    let (mut budgets, mut growing) = (start.to_vec(), mine.to_vec());
    while !growing.is_empty() {
        let level = raise(tasks, memory, core, &budgets, &growing);
        growing.iter().for_each(|&i| budgets[i] = level);
        // Those that can still grow, one access each, on top of one another: the rest is done.
        let mut tried = budgets.clone();
        growing.retain(|&i| {
            tried[i] += 1;
            let grows = safe(tasks, memory, core, &tried);
            tried[i] -= u64::from(!grows);
            grows
        });
        growing.iter().for_each(|&i| budgets[i] = tried[i]);
    }
    budgets
}

/// `sum of B_i/P_i` in steps of 2^-64 access per picosecond, to compare.
fn bandwidth(tasks: &[HardTask], budgets: &[u64]) -> u128 {
    let one = |(t, &b): (&HardTask, &u64)| (u128::from(b) << 64) / u128::from(t.period_ps);
    tasks.iter().zip(budgets).fold(0, |sum, pair| sum.saturating_add(one(pair)))
}

fn most_bandwidth(
    tasks: &[HardTask],
    memory: &Memory,
    core: u32,
    mine: &[usize],
    start: &[u64],
) -> Vec<u64> {
    let fill = |order: &[usize]| {
        let mut budgets = start.to_vec();
        for &i in order {
            budgets[i] = raise(tasks, memory, core, &budgets, &[i]);
        }
        budgets
    };
    let mut order = mine.to_vec();
    if mine.len() > MAX_PERMUTED {
        order.sort_by_key(|&i| std::cmp::Reverse(tasks[i].period_ps));
        return fill(&order);
    }
    let mut best = fill(&order);
    while next_permutation(&mut order) {
        let other = fill(&order);
        if bandwidth(tasks, &other) > bandwidth(tasks, &best) {
            best = other;
        }
    }
    best
}

/// The next order by the lexicographic rule; false after the last.
fn next_permutation(order: &mut [usize]) -> bool {
    let Some(fall) = order.windows(2).rposition(|w| w[0] < w[1]) else { return false };
    let Some(swap) = order.iter().rposition(|&x| x > order[fall]) else { return false };
    order.swap(fall, swap);
    order[fall + 1..].reverse();
    true
}

/// No budgets of this core allow more accesses per second, for reading: the lesser of
/// `(1 - sum C_i/P_i)/L` and what each task's largest budget alone would give.
///
/// # Errors
/// When a task or `L` is no possible value.
pub fn bandwidth_limit(tasks: &[HardTask], memory: &Memory, core: u32) -> Result<f64, BudgetError> {
    check(tasks, memory)?;
    let (mut spare, mut single) = (1.0, 0.0);
    let none: Vec<HardTask> = tasks.iter().map(|t| HardTask { budget: 0, ..*t }).collect();
    for (i, t) in tasks.iter().enumerate().filter(|(_, t)| t.core == core) {
        spare -= t.wcet_ps as f64 / t.period_ps as f64;
        single += largest_budget(&none, i, memory)?.unwrap_or(0) as f64 / t.period_ps as f64;
    }
    Ok((spare / memory.latency_ps as f64).min(single).max(0.0) * 1e12)
}

/// Splits a budget over soft cores as evenly as whole accesses allow; the sum is the budget.
#[must_use]
pub fn shares(budget: u64, soft_cores: u32) -> Vec<u64> {
    let cores = u64::from(soft_cores);
    (0..cores).map(|c| budget / cores + u64::from(c < budget % cores)).collect()
}
