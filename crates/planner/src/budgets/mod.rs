//! Plans in which each core has a budget of memory accesses.
//!
//! Rule: tasks without a core go to the least loaded core on which all stay schedulable, heaviest
//! first (worst fit); response times per core decide. Even budgets are chosen by [`choose`]: the
//! largest with which the bounds are nearly as low as they can be. Budgets that follow the running
//! task: `dynamic`. With `share = "optimal"`, `optimal` chooses cores, cache and budgets together.

mod choose;
mod dynamic;
mod optimal;

pub use choose::choose;
pub use dynamic::Dynamic;

use crate::core_plan::CorePlan;
use crate::error::PlanError;
use crate::explain;
use crate::lock;
use crate::margin::Margins;
use crate::planning::Patience;
use crate::resources::Resources;
use crate::waterfall;
use crate::whole::{plan_core, whole};
use crate::work::Work;
use solocore_analysis::interference::Job;
use solocore_model::System;
use solocore_model::plan::{Certificate, Plan, PlanCore, PlanTask};
use solocore_model::system::{Model, Policy, Share};

/// Plans a system whose cores have budgets. `lock_budget`: accesses per period and core beside a
/// held bandwidth lock.
pub fn plan(
    system: &System,
    work: &[Work],
    resources: Resources,
    lock_budget: Option<u64>,
    patience: Patience<'_>,
) -> Result<Plan, PlanError> {
    if system.regulation.policy == Policy::Dynamic {
        let dynamic = dynamic::plan(system, work, &resources)?;
        return Ok(assemble_dynamic(system, work, &dynamic, &resources));
    }
    if system.regulation.share() == Share::Optimal {
        return Ok(with_optimal_shares(system, work, resources, patience));
    }
    let (placement, cores, resources) = worst_fit(work, resources);
    let mut plan = assemble(system, work, &placement, &cores, &resources);
    lock::note(&mut plan, lock_budget);
    Ok(plan)
}

/// Would [`plan`] find that every task meets its deadline, where budgets do not follow the running
/// task? Response times are looked for up to the deadlines only; of optimal shares, the first that
/// will do are good enough.
pub fn schedulable(system: &System, work: &[Work], mut resources: Resources) -> bool {
    resources.verdict_only = true;
    if system.regulation.share() == Share::Optimal {
        let (_, (_, cores, _)) =
            optimal_shares(system, work, &resources, false, &|best| best.meets());
        if fits(&cores) {
            return true;
        }
    }
    let (_, cores, _) = worst_fit(work, resources);
    fits(&cores)
}

/// Core of each task, and the cores with what they have.
type Placed = (Vec<u32>, Vec<CorePlan>, Resources);

fn fits(cores: &[CorePlan]) -> bool {
    cores.iter().all(CorePlan::schedulable)
}

/// Tasks by worst fit, with shares as they are.
fn worst_fit(work: &[Work], resources: Resources) -> Placed {
    let placement = place(work, &resources);
    let cores: Vec<CorePlan> = (0..resources.cores)
        .map(|core| {
            let on_core = (0..work.len()).filter(|&t| placement[t] == core).collect();
            CorePlan::best(core, on_core, work, &resources)
        })
        .collect();
    let (cores, resources) = with_known_rivals(cores, &placement, work, resources);
    (placement, cores, resources)
}

/// With cores, cache and budgets chosen together, and why. See [`optimal::choose`].
fn optimal_shares(
    system: &System,
    work: &[Work],
    even: &Resources,
    endless: bool,
    stop: &dyn Fn(&optimal::Value) -> bool,
) -> (optimal::Why, Placed) {
    let optimal::Found { best, why } =
        optimal::choose(system, work, even, &place(work, even), endless, stop);
    let placement = best.candidate.placement;
    let (cores, resources) = with_known_rivals(best.cores, &placement, work, best.resources);
    (why, (placement, cores, resources))
}

/// The plan with these shares; with even ones where only they meet all deadlines.
fn with_optimal_shares(
    system: &System,
    work: &[Work],
    even: Resources,
    patience: Patience<'_>,
) -> Plan {
    let (why, (placement, cores, resources)) =
        optimal_shares(system, work, &even, patience.endless, &|_| (patience.stop)());
    if !fits(&cores) {
        let (placement, cores, resources) = worst_fit(work, even);
        if fits(&cores) {
            let mut plan = assemble(system, work, &placement, &cores, &resources);
            let reason =
                "shares: even ones, as no others were found with which every deadline is met";
            plan.reasons.insert(0, reason.to_owned());
            plan.certificate = Some(Certificate { optimal: false, gap: 1.0 });
            return plan;
        }
    }
    let mut plan = assemble(system, work, &placement, &cores, &resources);
    plan.reasons.splice(0..0, why.reasons);
    plan.certificate = Some(Certificate { optimal: why.gap == 0.0, gap: why.gap });
    plan
}

/// Where there is no best effort, the other cores make no more accesses than their jobs do (a
/// promise, `Subject::Others`). That holds if all of them end by their deadlines; if one may not,
/// everything stays as it was. A core without tasks is where other programs run: it counts with its
/// budget in each period, as if that were a job.
fn with_known_rivals(
    cores: Vec<CorePlan>,
    placement: &[u32],
    work: &[Work],
    resources: Resources,
) -> (Vec<CorePlan>, Resources) {
    let best_effort = work.iter().any(|w| !w.hard());
    if resources.model == Model::Sce || resources.stalls.is_empty() || best_effort {
        return (cores, resources);
    }
    let known = resources.with_jobs(&|core, costs| {
        let rivals = resources.rivals(core);
        let of = |&index: &usize| -> Option<Job> {
            let other = rivals
                .contains(&placement[index])
                .then(|| cores.get(placement[index] as usize))??;
            let task = work[index].task;
            Some(Job {
                period_ps: task.period?.ps(),
                reach_ps: task.deadline?.ps(),
                cost_ps: other
                    .accesses_with_reloads(index, work, &resources)?
                    .saturating_mul(costs.any_ps),
            })
        };
        let period_ps = resources.regulation.period_ps;
        let idle = rivals.iter().filter(|rival| !placement.contains(rival));
        let of_idle = |&rival: &u32| {
            let cost_ps = resources.most_in_period(rival)?.cost_ps(costs);
            Some(Job { period_ps, reach_ps: period_ps, cost_ps })
        };
        let of_tasks = (0..work.len()).collect::<Vec<_>>();
        of_tasks.iter().filter_map(of).chain(idle.filter_map(of_idle)).collect()
    });
    let again: Vec<CorePlan> = cores.iter().map(|core| core.again(work, &known)).collect();
    if again.iter().all(CorePlan::schedulable) { (again, known) } else { (cores, resources) }
}

/// Core of every task: as stated, else worst fit by decreasing utilisation on the cores that stay
/// schedulable; best effort goes where the fewest analysed tasks are.
fn place(work: &[Work], resources: &Resources) -> Vec<u32> {
    let mut placed: Vec<Option<u32>> = work.iter().map(|w| w.task.core).collect();
    let on = |placed: &[Option<u32>], core: u32| -> Vec<usize> {
        (0..work.len()).filter(|&t| placed[t] == Some(core) && work[t].hard()).collect()
    };
    let mut loads: Vec<f64> = (0..resources.cores)
        .map(|c| CorePlan::best(c, on(&placed, c), work, resources).utilization)
        .collect();
    let mut open: Vec<(usize, f64)> = (0..work.len())
        .filter(|&t| placed[t].is_none() && work[t].hard())
        .map(|t| (t, CorePlan::best(0, vec![t], work, resources).utilization))
        .collect();
    open.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for (task, _) in open {
        let mut order: Vec<u32> = (0..resources.cores).collect();
        order.sort_by(|&a, &b| loads[a as usize].total_cmp(&loads[b as usize]).then(a.cmp(&b)));
        let with_task = |core: u32| {
            let mut tasks = on(&placed, core);
            tasks.push(task);
            tasks.sort_unstable();
            CorePlan::best(core, tasks, work, resources)
        };
        let fitting = order.iter().map(|&c| with_task(c)).find(CorePlan::schedulable);
        let chosen = fitting.unwrap_or_else(|| with_task(order[0]));
        placed[task] = Some(chosen.core);
        loads[chosen.core as usize] = chosen.utilization;
    }
    for task in 0..work.len() {
        if placed[task].is_none() {
            let count = |core: u32, hard: bool| {
                (0..work.len())
                    .filter(|&t| placed[t] == Some(core) && work[t].hard() == hard)
                    .count()
            };
            let core = (0..resources.cores)
                .min_by_key(|&c| (count(c, true) + count(c, false), count(c, true), c));
            placed[task] = core;
        }
    }
    placed.into_iter().map(|core| core.unwrap_or(0)).collect()
}

fn assemble(
    system: &System,
    work: &[Work],
    placement: &[u32],
    cores: &[CorePlan],
    resources: &Resources,
) -> Plan {
    let margins: Vec<Margins> =
        cores.iter().map(|core| Margins::of(core, work, resources)).collect();
    let tasks: Vec<PlanTask> = work
        .iter()
        .enumerate()
        .map(|(index, w)| {
            let (core, margins) =
                (&cores[placement[index] as usize], &margins[placement[index] as usize]);
            let derivation = margins.derivation(index, core.demand(index, w, resources));
            let waterfall = waterfall::on(core, index, w, resources);
            PlanTask { margin: margins.task(index), derivation, waterfall, ..core.task(index, w) }
        })
        .collect();
    let plan_cores: Vec<PlanCore> = cores
        .iter()
        .zip(&margins)
        .map(|(c, margins)| PlanCore {
            margin: margins.core(|index| work[index].task.name.clone()),
            ..plan_core(c, &tasks, resources)
        })
        .collect();
    let schedulable = tasks.iter().all(|t| t.schedulable);
    let mut plan = whole(system, tasks, plan_cores, resources, schedulable);
    plan.reasons = explain::reasons(&plan, work, resources, None);
    plan.assumptions = crate::assumptions::assumptions(&plan, work);
    plan
}

/// A plan for dynamic budgets. `C_sce` is how long a job can take with its stall when nothing of
/// its core preempts it: the time for which its budget is in force.
fn assemble_dynamic(
    system: &System,
    work: &[Work],
    dynamic: &Dynamic,
    resources: &Resources,
) -> Plan {
    let ns = |ps: u64| ps.div_ceil(1000);
    let tasks: Vec<PlanTask> = work
        .iter()
        .enumerate()
        .map(|(index, w)| {
            let core = &dynamic.cores[dynamic.placement[index] as usize];
            let plain = core.task(index, w);
            let Some(found) = dynamic.of(index) else {
                return PlanTask { schedulable: true, ..plain };
            };
            let length = found.bound.map(|b| ns(b.length_ps));
            let c_sce_ns = length.unwrap_or(plain.wcet_ns).max(plain.wcet_ns);
            let (wcet_ps, _) = core.demand_of(index).unwrap_or_default();
            let waterfall = found.bound.map(|b| waterfall::Bound {
                wcet_ps,
                stall_ps: b.length_ps.saturating_sub(wcet_ps),
                once_ps: 0,
                response_ps: b.response_ps,
            });
            PlanTask {
                stall_ns: c_sce_ns - plain.wcet_ns,
                c_sce_ns,
                wcrt_ns: found.bound.map(|b| ns(b.response_ps)),
                schedulable: found.bound.is_some() && found.budget >= dynamic.soft_cores(),
                soft_budget: Some(found.budget),
                soft_budget_length_ns: length,
                derivation: found
                    .derivation
                    .clone()
                    .map(|d| d.because(core.demand(index, w, resources))),
                waterfall: waterfall.map_or_else(Vec::new, |b| {
                    waterfall::terms(w, plain.locked_pages.len(), resources, b)
                }),
                ..plain
            }
        })
        .collect();
    let utilization = |core: u32| {
        let share = |t: &PlanTask| t.c_sce_ns as f64 / t.period_ns.unwrap_or(u64::MAX) as f64;
        tasks
            .iter()
            .filter(|t| t.core == core && !t.best_effort())
            .map(share)
            .fold(0.0, |sum, u| sum + u)
    };
    let cores = dynamic
        .cores
        .iter()
        .zip(&dynamic.soft)
        .map(|(c, &soft)| PlanCore {
            soft,
            utilization: utilization(c.core),
            ..plan_core(c, &tasks, resources)
        })
        .collect();
    let mut plan = whole(system, tasks, cores, resources, dynamic.schedulable());
    plan.reasons = explain::reasons(&plan, work, resources, Some(dynamic));
    plan.assumptions = crate::assumptions::assumptions(&plan, work);
    plan
}
