//! Jobs that hold the bandwidth lock: response times beside it.
//!
//! Problem: budgets limit the other programs of a machine all the time, and analysed tasks need
//! that only while they run. Rule: with `lock = "jobs"` each analysed task holds the lock while it
//! runs. Programs that are not real-time then make at most `lock_bandwidth` on each core, and
//! otherwise as much as they like. A core beside the lock counts as a job of its budget in each
//! period, next to its analysed tasks, which no lock limits
//! (`solocore_analysis::interference`, "Jobs that hold the bandwidth lock"). The time until the
//! others have seen the lock is charged for each job that begins or goes on. If the file states no
//! `lock_bandwidth`, it is the largest with which every deadline is met: bounds rise with it, so
//! that bisection finds it. Tasks are placed by worst fit on the first core, the first two and so
//! on, as if the others made one access in a period; the placement with the largest budget is
//! taken. Source: bwlock, section 3. Does not cover: deadlines after the period's end, and other
//! schemes than budgets.

use super::placement::place;
use crate::core_plan::CorePlan;
use crate::lock::most_in_period;
use crate::resources::Resources;
use crate::whole::before_verdict;
use crate::work::Work;
use solocore_analysis::interference::{Costs, Job};
use solocore_analysis::sensitivity::largest_passing;
use solocore_model::plan::{Plan, PlanLock};
use solocore_model::system::System;
use solocore_model::{Bandwidth, Time};

/// Places and budget, and what follows.
pub struct Held {
    /// The cores with their tasks.
    pub cores: Vec<CorePlan>,
    /// The machine beside the lock.
    pub resources: Resources,
    /// Accesses of a core in a period beside a held lock.
    pub budget: u64,
    /// Longest time until the other cores keep to it, ns.
    reaction_ns: u64,
}

/// Places the tasks and chooses the budget beside the lock. `budget`: that of the stated
/// bandwidth, or the usual one; `share` is told the part of the tasks that is placed. `None`: no
/// budget keeps every deadline. Bounds must then not count on the lock, as they would rest on each
/// other's deadlines.
pub fn choose(
    system: &System,
    work: &[Work],
    resources: &Resources,
    budget: u64,
    share: &dyn Fn(f64),
) -> Option<Held> {
    let reaction_ns = PlanLock::reaction_to_jobs(system.regulation.period.ns_ceil());
    let free = resources.with_lock(reaction_ns.saturating_mul(Time::PS_PER_NS));
    let stated = system.regulation.lock_bandwidth.is_some();
    let least = if stated { budget } else { 1 };
    let most = if stated { budget } else { most_in_period(resources) };
    // No core has analysed tasks yet.
    let mut first = free.clone();
    first.set_rivals(&free.rivals_with(&|core, costs| beside(core, least, &free, costs)));
    let mut best: Option<(u64, Vec<CorePlan>)> = None;
    for count in fewest(work)..=free.cores {
        let cores = on_first(count, work, &first, share);
        let keeps = |budget: u64| {
            let known = known(&free, &cores, work, budget);
            cores.iter().all(|core| core.keeps(work, &known))
        };
        // Only a larger budget is of interest.
        let from = best.as_ref().map_or(least, |(budget, _)| budget.saturating_add(1));
        if let Some(budget) = largest_passing(from, most, from, keeps).passes {
            best = Some((budget, cores));
        }
    }
    let (budget, cores) = best?;
    let resources = known(&free, &cores, work, budget);
    let cores = cores.iter().map(|core| core.again(work, &resources)).collect();
    Some(Held { cores, resources, budget, reaction_ns })
}

/// The fewest cores from the first one on that hold all stated cores of analysed tasks.
fn fewest(work: &[Work]) -> u32 {
    let stated = work.iter().filter(|w| w.hard()).filter_map(|w| w.task.core);
    stated.map(|core| core.saturating_add(1)).max().unwrap_or(1)
}

/// The analysed tasks on the first `count` cores, best effort on those with the fewest of them.
fn on_first(
    count: u32,
    work: &[Work],
    resources: &Resources,
    share: &dyn Fn(f64),
) -> Vec<CorePlan> {
    let mut few = resources.clone();
    few.cores = count;
    let placement = place(work, &few, share);
    let mut on_cores: Vec<Vec<usize>> = vec![Vec::new(); resources.cores as usize];
    for (task, &core) in placement.iter().enumerate().filter(|&(task, _)| work[task].hard()) {
        on_cores[core as usize].push(task);
    }
    let analysed: Vec<usize> = on_cores.iter().map(Vec::len).collect();
    for (task, w) in work.iter().enumerate().filter(|(_, w)| !w.hard()) {
        let free = (0..on_cores.len()).min_by_key(|&c| (analysed[c], on_cores[c].len()));
        let core = w.task.core.map_or(free, |core| Some(core as usize));
        if let Some(on) = core.and_then(|core| on_cores.get_mut(core)) {
            on.push(task);
        }
    }
    (0..).zip(on_cores).map(|(core, on)| CorePlan::best(core, on, work, resources)).collect()
}

/// The machine beside the lock, with the jobs of these cores.
fn known(free: &Resources, cores: &[CorePlan], work: &[Work], budget: u64) -> Resources {
    let mut out = free.clone();
    out.set_rivals(&free.rivals_with(&|core, costs| {
        let mut jobs = beside(core, budget, free, costs);
        jobs.extend(analysed(core, cores, work, free, costs));
        jobs
    }));
    out
}

/// The programs beside a core that the lock limits, as jobs of their cores' budgets.
fn beside(core: u32, budget: u64, resources: &Resources, costs: &Costs) -> Vec<Job> {
    let made = budget.saturating_add(resources.skid);
    let each = Job::of_budget(resources.regulation.period_ps, made, costs);
    vec![each; resources.rivals(core).len()]
}

/// The jobs of the analysed tasks beside a core. They end by their deadlines, which is checked.
fn analysed(
    core: u32,
    cores: &[CorePlan],
    work: &[Work],
    resources: &Resources,
    costs: &Costs,
) -> Vec<Job> {
    let rivals = resources.rivals(core);
    let others = cores.iter().filter(|other| rivals.contains(&other.core));
    let jobs = others.flat_map(|other| other.accesses_with_reloads(work, resources));
    let of = |(index, accesses): (usize, u64)| {
        let task = work[index].hard().then(|| work[index].task)?;
        Some(Job::of_accesses((task.period?.ps(), task.deadline?.ps()), accesses, costs))
    };
    jobs.filter_map(of).collect()
}

/// Adds the choice to the plan. `budget`: that of the stated bandwidth, or the usual one.
pub fn note(system: &System, plan: &mut Plan, held: Option<&Held>, budget: u64) {
    let budget = held.map_or(budget, |held| held.budget);
    plan.regulation.lock_budget_accesses = Some(budget);
    plan.regulation.lock_reaction_ns = held.map(|held| held.reaction_ns);
    let whose = match system.regulation.lock_bandwidth {
        Some(_) => "stated",
        None => "the largest with which every deadline is met",
    };
    let reason = match held {
        Some(held) => {
            let reaction = Time::from_ns(held.reaction_ns);
            plan.assumptions.push(format!(
                "Each analysed task holds the bandwidth lock while it runs. Every other core keeps \
                    to lock_bandwidth within {reaction} of a job's beginning. No other program \
                    has a real-time policy or the lock."
            ));
            let bandwidth = Bandwidth(held.resources.bandwidth(budget));
            format!(
                "bandwidth lock: while an analysed task runs, each core makes at most {budget} \
                    accesses per period ({bandwidth:.2}, {whose}) for other programs; otherwise \
                    they have no limit"
            )
        }
        None => format!(
            "bandwidth lock: no {} keeps every deadline, so the bounds do not count on the lock",
            match system.regulation.lock_bandwidth {
                Some(_) => "placement of the tasks beside the stated lock_bandwidth",
                None => "lock_bandwidth",
            }
        ),
    };
    before_verdict(plan, [reason]);
}
