//! Plans for dynamic budgets: the hard cores, and the budgets of the soft ones while each hard task
//! runs.
//!
//! Problem: analysed tasks share the memory with cores that promise nothing. Rule
//! (dynamic-budgeting, sections III and IV, as corrected in
//! `solocore_analysis::memory::dynamic_budget`): each job of an analysed task lets all soft cores
//! together make `B_i` accesses. Stated budgets are kept; the others are the largest with which
//! every deadline is met. One that does not keep the wanted slowdown of its task is then made
//! smaller, until it does; where none does, it stays. The tasks of higher priority come first,
//! whose budgets delay the others. Placement: analysed tasks without a core go to the first core,
//! in order, on which all analysed tasks are still safe with the least budgets, heaviest first: as
//! few hard cores as possible. Best effort goes to soft cores only, because nothing limits it on a
//! hard one. At least one core stays soft where there is best effort.
//!
//! Not covered: best effort under analysed tasks on one core; budgets that differ between soft
//! cores.

use crate::core_plan::CorePlan;
use crate::error::PlanError;
use crate::resources::Resources;
use crate::work::{DETAILED, Work, within_slowdown};
use solocore_analysis::Derivation;
use solocore_analysis::interference::{Costs, Refresh};
use solocore_analysis::memory::dynamic_budget::{
    HardTask, Memory, Objective, TaskBound, analyse, explain, largest_budgets_of,
};
use solocore_analysis::sensitivity::largest_passing;
use solocore_model::System;
use solocore_model::system::{self, Criticality, Model, SystemTask};
use std::collections::HashMap;

/// Results for an analysed task.
#[derive(Debug)]
pub struct Budgeted {
    /// Its number in the system.
    pub index: usize,
    /// `B_i`.
    pub budget: u64,
    /// Its bounds; `None` if some analysed task may miss its deadline, because nothing is known of
    /// the others then.
    pub bound: Option<TaskBound>,
    /// Derivation of its bounds.
    pub derivation: Option<Derivation>,
}

/// A plan for dynamic budgets.
#[derive(Debug)]
pub struct Dynamic {
    /// Core of each task.
    pub placement: Vec<u32>,
    /// By core; response times are in `tasks`.
    pub cores: Vec<CorePlan>,
    /// The analysed tasks, highest priority first.
    pub tasks: Vec<Budgeted>,
    /// The first analysed task found to fail, by number in the system.
    pub fails: Option<usize>,
    /// By core: does it have no analysed task?
    pub soft: Vec<bool>,
    /// Accesses that soft cores may have under way when a budget begins.
    pub switch_accesses: u64,
    /// The tasks with bounds beyond the wanted slowdown, by number in the system.
    pub slow: Vec<usize>,
}

impl Dynamic {
    /// Results of the task with this number in the system.
    pub fn of(&self, index: usize) -> Option<&Budgeted> {
        self.tasks.iter().find(|t| t.index == index)
    }

    /// Soft cores.
    pub fn soft_cores(&self) -> u64 {
        self.soft.iter().filter(|&&soft| soft).count() as u64
    }

    /// Do all analysed tasks meet their deadlines, and can the budgets be enforced?
    pub fn schedulable(&self) -> bool {
        self.fails.is_none() && self.too_small().is_none()
    }

    /// A task whose budget is less than an access for each soft core, which no counter can enforce.
    pub fn too_small(&self) -> Option<usize> {
        self.tasks.iter().find(|t| t.budget < self.soft_cores()).map(|t| t.index)
    }
}

/// Plans a system under the policy `dynamic`. `share` is told the part of the analysed tasks that
/// is placed, 0 to 1.
///
/// # Errors
/// If best effort is to share a core with analysed tasks, or has no core.
pub fn plan(
    system: &System,
    work: &[Work],
    resources: &Resources,
    share: &dyn Fn(f64),
) -> Result<Dynamic, PlanError> {
    check(system)?;
    let mut resources = resources.clone();
    // The response times of a core without budgets are not used. Beyond the deadline, where the
    // core is too full, they would take a million steps each.
    resources.verdict_only = true;
    let resources = &resources;
    let placement = place(system, work, resources, share)?;
    let (cores, soft) = cores(&placement, work, resources);
    let (mut tasks, order) = hard_tasks(&placement, &cores, work, resources);
    let memory = memory(&soft, resources);
    let free: Vec<bool> = order.iter().map(|&t| system.tasks[t].soft_budget.is_none()).collect();
    let objective = match system.regulation.objective {
        Some(system::Objective::TotalBandwidth) => Objective::TotalBandwidth,
        _ => Objective::MaxMin,
    };
    // Less than an access for each soft core cannot be enforced.
    let least = soft.iter().filter(|&&s| s).count() as u64;
    for (task, &t) in tasks.iter_mut().zip(&order) {
        task.budget = system.tasks[t].soft_budget.unwrap_or(least);
    }
    let words =
        |e: solocore_analysis::memory::dynamic_budget::BudgetError| PlanError(e.to_string());
    if tasks.is_empty() {
        let switch_accesses = memory.switch_accesses;
        return Ok(Dynamic {
            placement,
            cores,
            tasks: Vec::new(),
            fails: None,
            soft,
            switch_accesses,
            slow: Vec::new(),
        });
    }
    if let Some(best) = largest_budgets_of(&tasks, &free, &memory, objective).map_err(words)? {
        // A budget that exceeds the counter is not a limit.
        tasks.iter_mut().zip(best).for_each(|(t, b)| t.budget = b.min((1 << 32) - 1));
    }
    let keeps = |at: usize, length_ps: u64, wish: u64| {
        within_slowdown(length_ps, work[order[at]].alone_ps(resources), wish)
    };
    if let Some(wish) = system.regulation.slowdown_permille {
        for at in (0..tasks.len()).filter(|&at| free[at]) {
            let keeps = |length_ps: u64| keeps(at, length_ps, wish);
            let within = largest_within(at, least, &keeps, &tasks, &memory);
            tasks[at].budget = within.unwrap_or(tasks[at].budget);
        }
    }
    let found = analyse(&tasks, &memory).map_err(words)?;
    let (bounds, fails) = match found {
        Ok(bounds) => (Some(bounds), None),
        Err(first) => (None, Some(order[first])),
    };
    let slow = match (&bounds, system.regulation.slowdown_permille) {
        (Some(bounds), Some(wish)) => {
            let beyond = |&at: &usize| !keeps(at, bounds[at].length_ps, wish);
            (0..tasks.len()).filter(beyond).map(|at| order[at]).collect()
        }
        _ => Vec::new(),
    };
    let detailed = work.len() <= DETAILED;
    let budgeted = order.iter().enumerate().map(|(at, &index)| Budgeted {
        index,
        budget: tasks[at].budget,
        bound: bounds.as_ref().map(|b| b[at]),
        derivation: detailed.then(|| explain(&tasks, at, &memory).ok()).flatten(),
    });
    let tasks = budgeted.collect();
    let switch_accesses = memory.switch_accesses;
    Ok(Dynamic { placement, cores, tasks, fails, soft, switch_accesses, slow })
}

/// The largest budget of a task, from `least` to its own, with which a job's length, ps, is short
/// enough. The length rises with the budget.
fn largest_within(
    at: usize,
    least: u64,
    short: &dyn Fn(u64) -> bool,
    tasks: &[HardTask],
    memory: &Memory,
) -> Option<u64> {
    let mut tasks = tasks.to_vec();
    let most = tasks[at].budget;
    let keeps = |budget: u64| {
        tasks[at].budget = budget;
        let bounds = analyse(&tasks, memory).ok().and_then(Result::ok);
        bounds.is_some_and(|bounds| short(bounds[at].length_ps))
    };
    largest_passing(least, most, most, keeps).passes
}

/// Refuses deadlines for which there is no bound. A file that states this policy has none.
fn check(system: &System) -> Result<(), PlanError> {
    let analysed = |t: &&SystemTask| t.criticality != Criticality::D;
    match system.tasks.iter().filter(analysed).find(|t| t.is_due_after_period()) {
        Some(task) => {
            Err(PlanError(format!("the deadline of `{}` is after its period", task.name)))
        }
        None => Ok(()),
    }
}

/// Memory model for budgets that come into force while soft cores have accesses under way. In the
/// papers' model: for each core as many reads as its miss registers, and an evicted dirty line for
/// each. Under the interference model: all accesses that can be left in the queues.
fn memory(soft: &[bool], resources: &Resources) -> Memory {
    if resources.model == Model::Sce {
        let cores = soft.iter().filter(|&&s| s).count() as u64;
        let each = 2 * u64::from(resources.platform.most_mshrs().max(1));
        return Memory {
            latency_ps: resources.regulation.latency_ps,
            switch_accesses: cores * each,
            refresh: Refresh::default(),
        };
    }
    let costs = resources.stalls.iter().map(|s| s.costs);
    let most = |of: fn(&Costs) -> u64| costs.clone().map(|c| of(&c)).max().unwrap_or(u64::MAX);
    let latency_ps = most(|c| c.any_ps).max(1);
    Memory {
        latency_ps,
        switch_accesses: most(|c| c.left_ps).div_ceil(latency_ps),
        refresh: resources.stalls.first().map_or_else(Refresh::default, |s| s.costs.refresh),
    }
}

fn cores(placement: &[u32], work: &[Work], resources: &Resources) -> (Vec<CorePlan>, Vec<bool>) {
    (0..resources.cores)
        .map(|core| {
            let on_core: Vec<usize> = (0..work.len()).filter(|&t| placement[t] == core).collect();
            let soft = !on_core.iter().any(|&t| work[t].hard());
            (CorePlan::first(core, on_core, work, resources), soft)
        })
        .unzip()
}

/// The analysed tasks, highest priority first, and their numbers in the system; budgets 0.
///
/// A job that is preempted reads its lines again at each return, and may evict as many dirty ones.
/// A job that preempts may evict the dirty lines of the one below it. The former is `reload_ps`,
/// the latter a part of its `wcet_ps`.
fn hard_tasks(
    placement: &[u32],
    cores: &[CorePlan],
    work: &[Work],
    resources: &Resources,
) -> (Vec<HardTask>, Vec<usize>) {
    let mut order: Vec<usize> =
        (0..work.len()).filter(|&t| work[t].hard() && placement[t] < resources.cores).collect();
    order.sort_by_key(|&t| work[t].priority);
    let lines = |t: usize| work[t].demand.lines().min(resources.platform.private_lines());
    let demands: HashMap<usize, (u64, u64)> =
        cores.iter().flat_map(CorePlan::tasks).map(|t| (t.index, (t.wcet_ps, t.misses))).collect();
    // By core, from the lowest priority up: the most lines that a task below uses.
    let mut most: Vec<Option<u64>> = vec![None; cores.len()];
    let mut pushed: Vec<Option<u64>> = Vec::with_capacity(order.len());
    for &t in order.iter().rev() {
        let most = &mut most[placement[t] as usize];
        pushed.push(*most);
        *most = (*most).max(Some(lines(t)));
    }
    pushed.reverse();
    let tasks = order
        .iter()
        .enumerate()
        .map(|(at, &t)| {
            let core = placement[t];
            let pushed = pushed[at];
            let on_core = |other: &&usize| placement[**other] == core;
            let deadline_ps = work[t].task.deadline.map_or(u64::MAX, |d| d.ps());
            let reload = work[t].reload(resources);
            // Without lines to reload, their number has no effect.
            let above = order[..at].iter().filter(|_| reload > 0).filter(on_core);
            let preemptions = above.fold(0u64, |sum, &above| {
                let period_ps = work[above].task.period.map_or(u64::MAX, |p| p.ps());
                sum.saturating_add(deadline_ps.div_ceil(period_ps))
            });
            let (wcet_ps, misses) = demands.get(&t).copied().unwrap_or((0, 0));
            // An access of lower priority may be under way at its release.
            let blocking = if pushed.is_some() { resources.blocking_ps() } else { 0 };
            HardTask {
                wcet_ps: wcet_ps
                    .saturating_add(resources.access_ps(pushed.unwrap_or(0)))
                    .saturating_add(blocking),
                period_ps: work[t].task.period.map_or(u64::MAX, |p| p.ps()),
                deadline_ps,
                misses: misses
                    .saturating_add(pushed.unwrap_or(0))
                    .saturating_add(preemptions.saturating_mul(reload)),
                core,
                budget: 0,
                reload_ps: resources.access_ps(reload),
            }
        })
        .collect();
    (tasks, order)
}

/// Core of a task that is not placed yet.
const NOWHERE: u32 = u32::MAX;

fn place(
    system: &System,
    work: &[Work],
    resources: &Resources,
    share: &dyn Fn(f64),
) -> Result<Vec<u32>, PlanError> {
    let mut placed: Vec<u32> = work.iter().map(|w| w.task.core.unwrap_or(NOWHERE)).collect();
    let best_effort = work.iter().any(|w| !w.hard());
    let mut open: Vec<usize> =
        (0..work.len()).filter(|&t| placed[t] == NOWHERE && work[t].hard()).collect();
    let load = |t: usize| {
        let period = work[t].task.period.map_or(u64::MAX, |p| p.ps());
        work[t].wcet_ps(0, resources) as f64 / period as f64
    };
    open.sort_by(|&a, &b| load(b).total_cmp(&load(a)).then(a.cmp(&b)));
    let count = open.len();
    for (done, task) in open.into_iter().enumerate() {
        let kept = |core: u32| (0..work.len()).any(|t| placed[t] == core && !work[t].hard());
        let hard = |core: u32| (0..work.len()).any(|t| placed[t] == core && work[t].hard());
        let mut candidates: Vec<u32> = (0..resources.cores).filter(|&c| !kept(c)).collect();
        let soft = (0..resources.cores).filter(|&c| !hard(c)).count();
        if best_effort && soft <= 1 {
            candidates.retain(|&c| hard(c));
        }
        let Some(&first) = candidates.first() else { return Err(no_core(system, task)) };
        let fits = |&core: &u32| {
            let mut with = placed.clone();
            with[task] = core;
            safe(system, &with, work, resources)
        };
        placed[task] = candidates.iter().copied().find(|c| fits(c)).unwrap_or(first);
        share((done + 1) as f64 / count as f64);
    }
    place_best_effort(system, work, resources, placed)
}

/// Are the tasks placed so far safe with the least budgets?
fn safe(system: &System, placed: &[u32], work: &[Work], resources: &Resources) -> bool {
    let (cores, soft) = cores(placed, work, resources);
    let (mut tasks, order) = hard_tasks(placed, &cores, work, resources);
    let memory = memory(&soft, resources);
    let least = soft.iter().filter(|&&s| s).count() as u64;
    for (task, &t) in tasks.iter_mut().zip(&order) {
        task.budget = system.tasks[t].soft_budget.unwrap_or(least);
    }
    matches!(analyse(&tasks, &memory), Ok(Ok(_)))
}

fn place_best_effort(
    system: &System,
    work: &[Work],
    resources: &Resources,
    mut placed: Vec<u32>,
) -> Result<Vec<u32>, PlanError> {
    let hard_on =
        |placed: &[u32], core: u32| (0..work.len()).find(|&t| placed[t] == core && work[t].hard());
    for task in (0..work.len()).filter(|&t| !work[t].hard()) {
        if placed[task] == NOWHERE {
            let soft = (0..resources.cores).filter(|&c| hard_on(&placed, c).is_none());
            let count = |core: u32| placed.iter().filter(|&&c| c == core).count();
            placed[task] =
                soft.min_by_key(|&c| (count(c), c)).ok_or_else(|| no_core(system, task))?;
        } else if let Some(other) = hard_on(&placed, placed[task]) {
            return Err(PlanError(format!(
                "line {}: task `{}` is best effort on core {} beside `{}`, and no dynamic budget \
                limits it there; place it on a core without tasks of level A to C",
                system.tasks[task].line,
                system.tasks[task].name,
                placed[task],
                system.tasks[other].name
            )));
        }
    }
    Ok(placed)
}

fn no_core(system: &System, task: usize) -> PlanError {
    PlanError(format!(
        "line {}: there is no core for task `{}`: under dynamic budgets tasks of level A to C and \
            best effort need different cores; free one",
        system.tasks[task].line, system.tasks[task].name
    ))
}
