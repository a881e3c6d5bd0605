//! Plans in which each core has a budget of memory accesses.
//!
//! Rule: tasks without a core go to the least loaded core on which all stay schedulable, heaviest
//! first (worst fit); response times per core decide. Even budgets are chosen by [`choose`]: the
//! largest with which the bounds are nearly as low as they can be. Budgets that follow the running
//! task: `dynamic`. With `share = "optimal"`, `optimal` chooses cores, cache and budgets together.

mod between;
mod choose;
mod column;
pub mod dynamic;
mod held;
mod judge;
mod known;
mod late;
mod optimal;
mod placement;
mod spare;

pub use choose::choose;
pub use column::{Column, Demanded, Rest};
pub use judge::{Allotment, Judge};

use crate::core_plan::{CoreBounds, CorePlan};
use crate::error::PlanError;
use crate::explain;
use crate::lock;
use crate::margin::Margins;
use crate::patience::Patience;
use crate::policies;
use crate::resources::Resources;
use crate::waterfall;
use crate::whole::{before_verdict, plan_core, whole};
use crate::work::{DETAILED, Work};
use dynamic::Dynamic;
use optimal::Effort;
use placement::place;
use solocore_model::System;
use solocore_model::plan::{BRIEF, Certificate, Choice, Plan, PlanCore, PlanTask, ProofResult};
use solocore_model::system::{Objective, Policy, Share};

/// Most tasks of a system whose plan says what the bandwidth lock would leave: a search of its own.
const COMPARED: usize = 64;

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
        let dynamic = dynamic::plan(system, work, &resources, patience.share)?;
        let mut plan = assemble_dynamic(system, work, &dynamic, &resources);
        plan.best_effort_speed =
            speed(&plan, || between::speed_under_dynamic(&dynamic, work, &resources));
        return Ok(plan);
    }
    if system.regulation.share() == Share::Optimal {
        return with_optimal_shares(system, work, &resources, patience);
    }
    if let Some(budget) = of_jobs(system, lock_budget) {
        let held = held::choose(system, work, &resources, budget, patience.share);
        let mut plan = match &held {
            Some(held) => assemble(system, work, &held.cores, &held.resources),
            None => {
                let (cores, resources) = worst_fit(work, resources, patience.share);
                assemble(system, work, &cores, &resources)
            }
        };
        held::note(system, &mut plan, held.as_ref(), budget);
        plan.best_effort_speed = held.and_then(|held| speed(&plan, || held.speed(work)));
        return Ok(plan);
    }
    let (cores, resources) = worst_fit(work, resources, patience.share);
    spare::check(system, &resources)?;
    let chosen = lock::choose(system, work, &cores, &resources, lock_budget)?;
    let mut plan = assemble(system, work, &cores, &resources);
    lock::note(&mut plan, lock_budget, chosen);
    Ok(plan)
}

/// Would [`plan`] find that every task meets its deadline, where budgets do not follow the running
/// task? Response times are computed up to the deadlines only; of optimal shares, the first
/// schedulable ones are good enough, and fewer are tried. Also the number of shares tried.
pub fn schedulable(
    system: &System,
    work: &[Work],
    mut resources: Resources,
    lock_budget: Option<u64>,
) -> (bool, u64) {
    resources.verdict_only = true;
    let (tried, (cores, resources)) = if system.regulation.share() == Share::Optimal {
        let asked = Asked { effort: Effort::Least, prices: None, stop: &|best| best.meets() };
        let (why, placed) = optimal_shares(system, work, &resources, asked);
        (why.tried, placed)
    } else if let Some(held) = of_jobs(system, lock_budget)
        .and_then(|budget| held::choose(system, work, &resources, budget, &|_| {}))
    {
        (1, (held.cores, held.resources))
    } else {
        (1, worst_fit(work, resources, &|_| {}))
    };
    let covered = spare::check(system, &resources).is_ok();
    (covered && cores.iter().all(CorePlan::schedulable), tried)
}

/// The budget beside a lock that jobs hold, where the system wants that.
fn of_jobs(system: &System, lock_budget: Option<u64>) -> Option<u64> {
    lock_budget.filter(|_| !system.regulation.lock.is_sections())
}

/// The cores with their tasks, and their resources.
type Placed = (Vec<CorePlan>, Resources);

/// Places tasks by worst fit, with shares as they are; `share` is told the part that is done.
fn worst_fit(work: &[Work], resources: Resources, share: &dyn Fn(f64)) -> Placed {
    let placement = place(work, &resources, share);
    let mut on_cores: Vec<Vec<usize>> = vec![Vec::new(); resources.cores as usize];
    for (task, &core) in placement.iter().enumerate() {
        on_cores[core as usize].push(task);
    }
    let cores: Vec<CorePlan> = (0..)
        .zip(on_cores)
        .map(|(core, on_core)| CorePlan::best(core, on_core, work, &resources))
        .collect();
    known::with_rivals(cores, work, resources)
}

/// How optimal shares are looked for.
struct Asked<'a> {
    effort: Effort,
    /// See [`Patience::prices`].
    prices: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Ends the search, by the value of the best so far.
    stop: &'a (dyn Fn(&optimal::Value) -> bool + Sync),
}

/// Chooses cores, cache and budgets together, with reasons. See [`optimal::choose`].
fn optimal_shares(
    system: &System,
    work: &[Work],
    even: &Resources,
    Asked { effort, prices, stop }: Asked,
) -> (optimal::Why, Placed) {
    let fewer = |cores: u32| {
        let mut system = system.clone();
        system.regulation.active_cores = Some(cores);
        let mut resources = choose(&system, work, Resources::of(&system).ok()?);
        resources.verdict_only = even.verdict_only;
        Some(resources)
    };
    let optional = system.regulation.active_cores.is_none() && !even.other_programs;
    let asked = optimal::Asked {
        objective: system.regulation.objective.unwrap_or(Objective::BestEffort),
        slowdown: system.regulation.slowdown_permille,
        placement: &place(work, even, &|_| {}),
        fewer: optional.then_some(&fewer),
        effort,
        prices,
        stop,
    };
    let optimal::Found { best, why } = optimal::choose(work, even, &asked);
    (why, known::with_rivals(best.cores, work, best.resources))
}

/// The plan with these shares.
fn with_optimal_shares(
    system: &System,
    work: &[Work],
    even: &Resources,
    patience: Patience<'_>,
) -> Result<Plan, PlanError> {
    let effort = if patience.endless { Effort::Endless } else { Effort::Usual };
    let stop = |_: &optimal::Value| (patience.stop)();
    let asked = Asked { effort, prices: patience.prices, stop: &stop };
    let (why, (cores, resources)) = optimal_shares(system, work, even, asked);
    spare::check(system, &resources)?;
    let mut plan = assemble(system, work, &cores, &resources);
    plan.reasons.splice(0..0, why.reasons.into_iter().chain(why.choices.iter().map(Choice::line)));
    plan.choices = why.choices;
    plan.best_effort_speed = speed(&plan, || why.speed);
    before_verdict(&mut plan, under_lock(system, work));
    let best = why.proof.is_some_and(|proof| proof.result == ProofResult::Best);
    let optimal = best || why.gap == 0.0;
    plan.certificate = Some(Certificate { optimal, gap: why.gap, proof: why.proof });
    Ok(plan)
}

/// What the bandwidth lock, held by jobs, would leave best effort, as a reason of a plan with
/// optimal shares for it; `None` where no budget beside the lock keeps every deadline.
fn under_lock(system: &System, work: &[Work]) -> Option<String> {
    let r = &system.regulation;
    let for_best_effort = matches!(r.objective, None | Some(Objective::BestEffort));
    let plain = !(r.other_programs || r.reclaim) && r.sharing.is_none();
    let none = work.iter().all(Work::hard);
    if !for_best_effort || !plain || none || work.len() > COMPARED {
        return None;
    }
    let other = policies::under(system, Policy::Bwlock);
    lock::check(&other).ok()?;
    let resources = Resources::of(&other).ok()?;
    let held = held::choose(&other, work, &resources, 1, &|_| {})?;
    let wish = match (r.slowdown_permille, held.misses_wish) {
        (Some(_), true) => ", but not the wanted slowdown",
        (Some(_), false) => " and the wanted slowdown kept",
        (None, _) => "",
    };
    Some(format!(
        "lock: with policy = \"bwlock\" and lock = \"jobs\" every deadline is met{wish}, and best effort \
            has {:.1} % of the speed alone, estimated",
        100.0 * held.speed(work)
    ))
}

/// The mean speed of best effort, where there is some and every deadline is met; of a large system
/// it would take long.
fn speed(plan: &Plan, of: impl FnOnce() -> f64) -> Option<f64> {
    let some = plan.tasks.iter().any(PlanTask::best_effort);
    (plan.schedulable && some && plan.tasks.len() <= DETAILED).then(of)
}

fn assemble(system: &System, work: &[Work], cores: &[CorePlan], resources: &Resources) -> Plan {
    let detailed = work.len() <= DETAILED;
    let margins: Vec<Margins> =
        cores.iter().filter(|_| detailed).map(|core| Margins::of(core, work, resources)).collect();
    let mut entries: Vec<Option<PlanTask>> = work.iter().map(|_| None).collect();
    for core in cores {
        let once_ps = CoreBounds { core: core.core, resources }.once(false);
        let margins = margins.get(core.core as usize);
        for task in core.tasks() {
            let (index, w) = (task.index, &work[task.index]);
            let demand = || w.explain(task.locked, resources, task.pace);
            entries[index] = Some(PlanTask {
                margin: margins.and_then(|m| m.task(index)),
                derivation: margins.and_then(|m| m.derivation(index, task.response_ps, demand())),
                waterfall: if work.len() > BRIEF {
                    Vec::new()
                } else {
                    waterfall::of(w, task, once_ps, resources)
                },
                ..task.entry(core.core, w)
            });
        }
    }
    let tasks: Vec<PlanTask> = entries.into_iter().flatten().collect();
    assert_eq!(tasks.len(), work.len(), "each task is on one core");
    let plan_cores: Vec<PlanCore> = cores
        .iter()
        .map(|core| PlanCore {
            margin: margins
                .get(core.core as usize)
                .and_then(|m| m.core(|index| work[index].task.name.clone())),
            gives: spare::gives(system, core, work),
            ..plan_core(core, &tasks, resources)
        })
        .collect();
    let schedulable = tasks.iter().all(|t| t.schedulable);
    let mut plan = whole(system, tasks, plan_cores, resources, schedulable);
    plan.reasons = explain::reasons(&plan, work, resources, None);
    let unused = spare::reason(&plan);
    before_verdict(&mut plan, unused);
    if !detailed {
        plan.reasons.insert(0, explain::without_details(work.len()));
    }
    plan.assumptions = crate::assumptions::assumptions(&plan, work);
    plan
}

/// A plan for dynamic budgets. `C_sce` is the longest time of a job with its stall when nothing of
/// its core preempts it; its budget is in force for that time.
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
            let locked = plain.locked_pages.len();
            let pace = resources.platform.pace_of(core.core);
            let bound = found.bound.map(|b| waterfall::Bound {
                pace,
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
                waterfall: match bound {
                    Some(b) => waterfall::terms(w, locked, resources, b),
                    // No budget bounds its stall, and `C_sce` is `C`.
                    None => waterfall::to_c(w, locked, resources, (pace, wcet_ps)),
                },
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
    if work.len() > DETAILED {
        plan.reasons.insert(0, explain::without_details(work.len()));
    }
    plan.assumptions = crate::assumptions::assumptions(&plan, work);
    plan
}
