//! Derivation of dynamic budgets and their bounds, in words and numbers.

use super::largest::{Objective, largest_budgets};
use super::responses::{BudgetError, HardTask, Memory, bounds, check};
use crate::Derivation;

/// Derivation of the response of task `i`.
///
/// # Errors
/// When a task or `L` is not a possible value, or there is no task `i`.
pub fn explain(tasks: &[HardTask], i: usize, memory: &Memory) -> Result<Derivation, BudgetError> {
    check(tasks, memory)?;
    let task = tasks.get(i).ok_or(BudgetError::NoTask(i))?;
    let mut d = Derivation::new(
        "R_i = E_i + sum over hi of ceil(R_i/P_j)*E_j, E_i = C_i + returns*reload + (B_i + \
            switches)*L + F(cr_i, R_i)",
        "dynamic-budgeting, sections III and IV, eq. (1), corrected in memory/dynamic_budget/mod.rs",
    )
    .input("task", i as u64)
    .input("C_i ps", task.wcet_ps)
    .input("P_i ps", task.period_ps)
    .input("D_i ps", task.deadline_ps)
    .input("B_i", task.budget)
    .input("L ps", memory.latency_ps)
    .input("switch_accesses", memory.switch_accesses)
    .input("reload ps", task.reload_ps);
    let known = match bounds(tasks, memory) {
        Ok(known) => known,
        Err(first) => return Ok(d.step("first task that may miss its deadline", first as u64)),
    };
    let mine = known[i];
    d = d
        .step("A_i ps", mine.demand_ps)
        .step("F(cr_i, R_i) ps", mine.length_ps - mine.demand_ps)
        .step("E_i ps", mine.length_ps);
    for (j, (t, b)) in
        tasks.iter().zip(&known).enumerate().take(i).filter(|(_, (t, _))| t.core == task.core)
    {
        let jobs = mine.response_ps.div_ceil(t.period_ps);
        d = d.step(format!("jobs of task {j}"), jobs).step(format!("E_{j} ps"), b.length_ps);
    }
    Ok(d.result(mine.response_ps))
}

/// Derivation of the largest budgets under an objective: each task's budget, time in force and
/// response with it.
///
/// # Errors
/// When a task or `L` is not a possible value.
pub fn explain_largest(
    tasks: &[HardTask],
    memory: &Memory,
    objective: Objective,
) -> Result<Derivation, BudgetError> {
    let rule = match objective {
        Objective::MaxMin => "raise all budgets together; those that cannot grow stay",
        Objective::TotalBandwidth => {
            "fill the budgets one after the other, in the order that gives most accesses per time"
        }
    };
    let mut d =
        Derivation::new(rule, "memory/dynamic_budget/mod.rs").input("L ps", memory.latency_ps);
    let Some(budgets) = largest_budgets(tasks, memory, objective)? else {
        return Ok(d.result(false));
    };
    let filled: Vec<HardTask> =
        tasks.iter().zip(&budgets).map(|(t, &budget)| HardTask { budget, ..*t }).collect();
    for (i, budget) in budgets.iter().enumerate() {
        d = d.step(format!("B_{i}"), *budget).because(explain(&filled, i, memory)?);
    }
    Ok(d.result(true))
}
