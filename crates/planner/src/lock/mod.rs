//! The bandwidth lock in a plan: the accesses of the other programs while a task holds it.
//!
//! Problem: in their memory-intensive sections, soft real-time tasks lose time to the other cores'
//! accesses. Rule: while a section holds the lock, programs that are not real-time may make
//! `lock_bandwidth` worth of accesses per period and core. Otherwise they are not limited. A
//! real-time task is never throttled. Source: bwlock, sections 3 and 6; 100 MB/s is the value of
//! its section 3.3. No response time counts on the lock where programs take it at times that the
//! plan does not know. So these bounds are those of a machine without regulation, which the lock
//! can only improve. With `lock = "jobs"` analysed tasks hold it while they run
//! (`crate::budgets`).
//!
//! For tasks with `lock = "auto"` the planner chooses the functions and the largest
//! `lock_bandwidth` at the least price ([`search`]), so that a bound on the execution time
//! ([`bounds`]) keeps each wanted slowdown. All sets of up to [`functions::MOST`] functions are
//! tried. Does not cover: partitions, levels and VCPUs.

mod bounds;
mod functions;
mod search;
mod words;

use crate::core_plan::CorePlan;
use crate::error::PlanError;
use crate::resources::Resources;
use crate::whole::before_verdict;
use crate::work::Work;
use bounds::Asker;
use search::{Choice, Sets};
use solocore_model::plan::{LockedTask, NextLock, PlanLock, Verdict};
use solocore_model::system::{Criticality, Policy, Scheme, System, SystemTask};
use solocore_model::{Bandwidth, Plan, Time};

/// The bandwidth that the paper's machine could bear beside a section.
const USUAL: Bandwidth = Bandwidth(100_000_000);

/// Accesses per period and core beside a held lock; `None` without a lock.
pub(crate) fn budget(system: &System) -> Result<Option<u64>, PlanError> {
    if system.regulation.policy != Policy::Bwlock {
        return Ok(None);
    }
    let bandwidth = system.regulation.lock_bandwidth.unwrap_or(USUAL);
    let bytes =
        u128::from(bandwidth.0) * u128::from(system.regulation.period.ps()) / 1_000_000_000_000;
    match u64::try_from(bytes / u128::from(system.platform.llc.line.0)).unwrap_or(u64::MAX) {
        0 => Err(PlanError(format!(
            "[regulation] lock_bandwidth = {bandwidth} is below one access per period; raise it, \
                or lengthen the period"
        ))),
        accesses => Ok(Some(accesses)),
    }
}

/// A lock that the planner chose.
pub(crate) struct Chosen {
    lock: PlanLock,
    /// Accesses per period and core beside it.
    budget: u64,
}

/// Refuses choices in schemes that have no bound for them.
pub(crate) fn check(system: &System) -> Result<(), PlanError> {
    if !system.regulation.lock.is_sections() {
        return check_jobs(system);
    }
    let Some(task) = system.tasks.iter().find(|t| t.slowdown_permille.is_some()) else {
        return Ok(());
    };
    if matches!(system.scheme, Scheme::Budgets) {
        return Ok(());
    }
    Err(PlanError(format!(
        "task `{}`: lock = \"auto\" is for systems without [[partition]], [levels] and [[vcpu]]; name \
            the functions, or remove these tables",
        task.name
    )))
}

/// Refuses systems that this rule does not cover.
fn check_jobs(system: &System) -> Result<(), PlanError> {
    if !matches!(system.scheme, Scheme::Budgets) {
        return Err(PlanError(
            "[regulation] lock = \"jobs\" is for systems without [[partition]], [levels] and \
                [[vcpu]]; remove it, or these tables"
                .to_owned(),
        ));
    }
    if let Some(task) = system.tasks.iter().find(|t| t.is_due_after_period()) {
        return Err(PlanError(format!(
            "task `{}`: its deadline is after its period's end, which [regulation] lock = \"jobs\" \
                has no bound for; lower deadline, or remove lock",
            task.name
        )));
    }
    Ok(())
}

/// Chooses functions and bandwidth for the tasks that ask for it; `None` without any. `budget`: the
/// accesses of the stated bandwidth, or of the usual one.
pub(crate) fn choose(
    system: &System,
    work: &[Work],
    cores: &[CorePlan],
    resources: &Resources,
    budget: Option<u64>,
) -> Result<Option<Chosen>, PlanError> {
    let asks = |index: usize| system.tasks[index].slowdown_permille.is_some();
    let mut askers = Vec::new();
    for core in cores {
        for task in core.tasks().iter().filter(|t| asks(t.index)) {
            askers.push(Asker::of((core, task), cores, work, resources)?);
        }
    }
    if askers.is_empty() {
        return Ok(None);
    }
    if let Some(task) = others_that_hold(system) {
        return Err(PlanError(format!(
            "task `{}`: its functions hold the lock, so that no lock limits its program beside the \
                tasks with lock = \"auto\"; remove its lock, or give it lock = \"auto\"",
            task.name
        )));
    }
    askers.sort_by_key(|a| a.index);
    let stated = budget.filter(|_| system.regulation.lock_bandwidth.is_some());
    let most = most_in_period(resources).max(stated.unwrap_or(1));
    let sets: Vec<Sets> = askers.iter().map(|a| a.candidates(most)).collect();
    let Some(choice) = search::best(&sets, most, stated, None) else {
        let least = stated.unwrap_or(1);
        let lacks = |sets: &Sets| sets.candidates.iter().all(|c| c.budget < least);
        let failing = askers.iter().zip(&sets).find(|(_, sets)| lacks(sets));
        let (asker, _) = failing.unwrap_or((&askers[0], &sets[0]));
        return Err(words::refused(asker, least, system.regulation.lock_bandwidth));
    };
    let idle = choice.of.iter().zip(&sets).all(|(&at, s)| s.candidates[at].functions.is_empty());
    // Where no function is locked, the bandwidth is for programs that take the lock themselves.
    let budget = if idle { budget.unwrap_or(most) } else { choice.budget };
    let next = search::next_best(&sets, most, stated, &choice).filter(|_| !idle);
    let price = |choice: &Choice| {
        let lost = resources.bandwidth(most).saturating_sub(resources.bandwidth(choice.budget));
        (choice.held * lost as f64).ceil() as u64
    };
    let next = next.map(|(next, task)| NextLock {
        bandwidth_bytes_per_s: resources.bandwidth(next.budget),
        price_bytes_per_s: price(&next),
        task: askers[task].name.to_owned(),
        functions: askers[task].sections.symbols(&sets[task].candidates[next.of[task]].functions),
    });
    let tasks = askers.iter().zip(&sets).zip(&choice.of);
    let lock = PlanLock {
        bandwidth_bytes_per_s: resources.bandwidth(budget),
        stated: stated.is_some(),
        reaction_ns: PlanLock::reaction_of(system.regulation.period.ns_ceil()),
        price_bytes_per_s: price(&choice),
        next,
        tasks: tasks
            .map(|((asker, sets), &at)| locked(asker, &sets.candidates[at].functions, budget))
            .collect(),
    };
    Ok(Some(Chosen { lock, budget }))
}

/// The first task of best effort with functions that hold the lock.
fn others_that_hold(system: &System) -> Option<&SystemTask> {
    system.tasks.iter().find(|t| t.criticality == Criticality::D && !t.program.lock.is_empty())
}

/// Most accesses of a core in a period: the bursts that fit in it, on all channels.
pub(crate) fn most_in_period(resources: &Resources) -> u64 {
    /// Largest number that a counter can hold.
    const MOST: u64 = (1 << 32) - 2;
    let burst_ps = resources.memory.as_ref().ok().and_then(|m| m.dram.to_ps(m.dram.burst));
    let each_ps = burst_ps.unwrap_or(resources.regulation.latency_ps).max(1);
    let channels = u64::from(resources.platform.dram.channels.max(1));
    (resources.regulation.period_ps / each_ps).saturating_mul(channels).clamp(1, MOST)
}

/// A task with its chosen set, beside `budget` accesses of each other core in a period.
fn locked(asker: &Asker, set: &[usize], budget: u64) -> LockedTask {
    let ns = |ps: u64| ps.div_ceil(1000);
    let (job, covered) = (asker.job(set), asker.sections.covered(set));
    LockedTask {
        name: asker.name.to_owned(),
        functions: asker.sections.symbols(set),
        covered: job.covered,
        accesses: job.accesses,
        sections: covered.calls,
        held_ns: covered.held_ns,
        alone_ns: ns(asker.alone_ps),
        limit_ns: asker.limit_ps / 1000,
        // A set is chosen only if it has a bound.
        bound_ns: asker.bound(set, budget).map_or(u64::MAX, ns),
        verdict: Some(Verdict::Meets),
        unlocked_ns: asker.bound(&[], budget).map(ns),
        one_more_ns: asker.bound(set, budget.saturating_add(1)).map(ns),
        derivation: Some(asker.lock().explain(&job, budget)),
    }
}

/// Adds the lock's note and choice to the plan.
pub(crate) fn note(plan: &mut Plan, budget: Option<u64>, chosen: Option<Chosen>) {
    let Some(budget) = chosen.as_ref().map(|c| c.budget).or(budget) else { return };
    plan.regulation.lock_budget_accesses = Some(budget);
    let note = format!(
        "bandwidth lock: while a program holds it, a core may make {budget} accesses per period \
            for tasks that are not real-time; no response time counts on it"
    );
    before_verdict(plan, [note]);
    if let Some(Chosen { lock, .. }) = chosen {
        chosen_lock(plan, lock, budget);
    }
    plan.assumptions.push(
        "The lock throttles no analysed task: each runs with a real-time policy, or is attached to \
            solocore (client/c)."
            .to_owned(),
    );
}

/// Adds a choice: its functions as if the system file named them, its reasons and assumptions.
fn chosen_lock(plan: &mut Plan, lock: PlanLock, budget: u64) {
    let reasons = words::reasons(&lock, budget, Time::from_ns(plan.regulation.period_ns));
    before_verdict(plan, reasons);
    for chosen in &lock.tasks {
        if let Some(task) = plan.tasks.iter_mut().find(|t| t.name == chosen.name) {
            task.program.lock.clone_from(&chosen.functions);
        }
    }
    plan.assumptions.push(format!(
        "The wanted slowdowns of locked tasks hold for jobs with the accesses of their profiles. \
            Every other core keeps to lock_bandwidth within {} of a section's beginning. No \
            section is longer than --max-hold.",
        Time::from_ns(lock.reaction_ns)
    ));
    plan.lock = Some(lock);
}
