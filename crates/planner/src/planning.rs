//! The way from a system to its plan, for all schemes.
//!
//! Rule: shares of the machine first, then even budgets unless they are stated
//! ([`budgets::choose`]), then the plan of the scheme; levels have shares of their own.

use crate::demand::Demand;
use crate::error::PlanError;
use crate::patience::Patience;
use crate::resources::Resources;
use crate::work::Work;
use crate::{
    assumptions, budgets, levels, lock, memory, policies, promises, vcpus, whole, windows, writes,
};
use solocore_model::plan::Plan;
use solocore_model::platform::Partition;
use solocore_model::system::{Criticality, Model, Policy, Scheme, SystemTask};
use solocore_model::{System, Time};
use std::borrow::Cow;

/// Plans a system. `demands` are its tasks' demands, in order.
///
/// # Errors
/// [`PlanError`] when the shares that the system states are impossible. A plan that is not
/// schedulable is not an error.
///
/// # Panics
/// If `demands` is not as long as the system's list of tasks.
pub fn plan(system: &System, demands: &[Demand]) -> Result<Plan, PlanError> {
    plan_until(
        system,
        demands,
        Patience { stop: &|| false, share: &|_| {}, endless: false, prices: None },
    )
}

/// As [`plan`], with stated patience.
///
/// # Errors
/// As [`plan`].
///
/// # Panics
/// As [`plan`].
pub fn plan_until(
    system: &System,
    demands: &[Demand],
    patience: Patience<'_>,
) -> Result<Plan, PlanError> {
    if system.regulation.policy == Policy::Any {
        let alone = alone(system, demands)?;
        let plan = |candidate: &System| plan_until(candidate, demands, patience);
        return policies::best(system, &alone, patience.prices.is_some(), plan);
    }
    let system = with_latency(system);
    let mut plan = planned(&system, demands, patience)?;
    assumptions::verdicts(&system, &mut plan);
    if system.platform.llc.partition == Partition::Colour && plan.regulation.pages.is_own() {
        whole::colours(&mut plan);
    }
    whole::programs(&mut plan, demands);
    plan.promises = promises::of(&system, &plan);
    Ok(plan)
}

/// Would [`plan`] call the system schedulable? Faster than [`plan`]. Of optimal shares fewer
/// candidates are tried, and in another order. So there [`plan`] may find schedulable shares where
/// this finds none, and in rare cases none where this finds some.
///
/// # Errors
/// As [`plan`].
pub(crate) fn verdict(system: &System, demands: &[Demand]) -> Result<Verdict, PlanError> {
    if system.regulation.policy == Policy::Any {
        return of_any(system, demands);
    }
    if system.regulation.policy == Policy::Dynamic || !matches!(system.scheme, Scheme::Budgets) {
        return plan(system, demands).map(|plan| Verdict { meets: plan.schedulable, tried: 1 });
    }
    let system = with_latency(system);
    prepared(&system, demands, |work, resources, lock_budget| {
        let (meets, tried) = budgets::schedulable(&system, work, resources, lock_budget);
        Ok(Verdict { meets, tried })
    })
}

/// The verdict of the first policy that meets every deadline; else of all.
///
/// # Errors
/// No policy has a plan: the error of the first.
fn of_any(system: &System, demands: &[Demand]) -> Result<Verdict, PlanError> {
    let mut tried = 0u64;
    let mut all = Vec::new();
    for candidate in policies::candidates(system) {
        let one = verdict(&candidate, demands);
        tried = tried.saturating_add(one.as_ref().map_or(0, |v| v.tried));
        match one {
            Ok(v) if v.meets => return Ok(Verdict { meets: true, tried }),
            other => all.push(other),
        }
    }
    let missed = all.iter().any(Result::is_ok).then_some(Ok(Verdict { meets: false, tried }));
    missed.or(all.into_iter().next()).unwrap_or(Ok(Verdict { meets: false, tried }))
}

/// Time alone of a job of each task, ps.
///
/// # Errors
/// As [`judge`].
fn alone(system: &System, demands: &[Demand]) -> Result<Vec<u64>, PlanError> {
    assert_eq!(system.tasks.len(), demands.len());
    prepared(&with_latency(system), demands, |work, resources, _| {
        Ok(work.iter().map(|w| w.alone_ps(&resources)).collect())
    })
}

/// A verdict without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Does every analysed task meet its deadline?
    pub meets: bool,
    /// Number of candidates for shares that were tried.
    pub tried: u64,
}

/// Calls `ask` with the judge of shares that another method chose for a system with budgets.
///
/// # Errors
/// [`PlanError`] when the machine has no even shares, which the judge begins from.
///
/// # Panics
/// If `demands` is not as long as the system's list of tasks.
pub fn judge<T>(
    system: &System,
    demands: &[Demand],
    ask: impl FnOnce(&budgets::Judge) -> T,
) -> Result<T, PlanError> {
    assert_eq!(system.tasks.len(), demands.len());
    prepared(&with_latency(system), demands, |work, resources, _| {
        Ok(ask(&budgets::Judge::new(work, resources)))
    })
}

/// `L_max` from the memory's timing, where the platform file states less.
fn with_latency(system: &System) -> Cow<'_, System> {
    let sound = system.regulation.model() == Model::Sound;
    let memory = memory::of(&system.platform).ok().filter(|_| sound);
    let least = memory.and_then(|m| m.latency_ps()).map(Time::from_ps);
    let mut system = Cow::Borrowed(system);
    if let Some(least) = least.filter(|&least| least > system.platform.dram.latency_max) {
        system.to_mut().platform.dram.latency_max = least;
    }
    system
}

fn planned(system: &System, demands: &[Demand], patience: Patience<'_>) -> Result<Plan, PlanError> {
    assert_eq!(system.tasks.len(), demands.len());
    lock::check(system)?;
    if let Some(isolation) = system.levels() {
        writes::check(system)?;
        return levels::plan(system, isolation, demands);
    }
    prepared(system, demands, |work, resources, lock_budget| match &system.scheme {
        Scheme::Windows(instance) => {
            Ok(windows::plan(system, instance, work, &resources, patience.stop))
        }
        Scheme::Vcpus(vcpus) => Ok(vcpus::plan(system, vcpus, work, &resources)),
        Scheme::Budgets | Scheme::Levels(_) => {
            budgets::plan(system, work, resources, lock_budget, patience)
        }
    })
}

/// Work and shares, the common start of all schemes except levels; and the lock's budget.
fn prepared<T>(
    system: &System,
    demands: &[Demand],
    then: impl FnOnce(&[Work], Resources, Option<u64>) -> Result<T, PlanError>,
) -> Result<T, PlanError> {
    writes::check(system)?;
    let resources = Resources::of(system)?;
    let lock_budget = lock::budget(system)?;
    let priorities = priorities(&system.tasks);
    let work: Vec<Work> = system
        .tasks
        .iter()
        .zip(demands)
        .zip(&priorities)
        .map(|((task, demand), &priority)| Work { task, demand, priority })
        .collect();
    let resources = budgets::choose(system, &work, resources);
    then(&work, resources, lock_budget)
}

/// Stated priorities, or rate monotonic; best effort comes after all others.
fn priorities(tasks: &[SystemTask]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&i| {
        let t = &tasks[i];
        (t.criticality == Criticality::D, t.priority, t.period.is_none(), t.period, i)
    });
    let mut out = vec![0; tasks.len()];
    for (rank, &i) in order.iter().enumerate() {
        out[i] = u32::try_from(rank + 1).unwrap_or(u32::MAX);
    }
    out
}
