//! Speed of best effort where only running jobs limit it.
//!
//! Problem: plans are compared by the speed that they leave best effort, and under the lock and
//! under dynamic budgets that changes with each job. Rule: an estimate for the time in jobs, one
//! for the time between them, weighted with their parts of the time ([`speed_between`]); 1 is the
//! speed alone on the machine. Does not cover: a promise; jobs on several cores at a time.

use super::dynamic::Dynamic;
use super::optimal::mean_speeds;
use crate::core_plan::{CorePlan, TaskPlan};
use crate::lock::most_in_period;
use crate::resources::Resources;
use crate::work::Work;
use std::collections::BTreeMap;

/// The mean speed beside jobs that hold the lock, with this budget beside them.
pub fn speed_under_lock(
    cores: &[CorePlan],
    work: &[Work],
    resources: &Resources,
    budget: u64,
) -> f64 {
    speed_between(cores, work, resources, |_, _| budget)
}

/// The mean speed under dynamic budgets. The soft cores make the accesses of a job's budget while
/// it runs, each its part.
pub fn speed_under_dynamic(dynamic: &Dynamic, work: &[Work], resources: &Resources) -> f64 {
    let period_ps = resources.regulation.period_ps as f64;
    let users = dynamic.soft_cores().max(1) as f64;
    speed_between(&dynamic.cores, work, resources, |task, alone_ps| {
        let budget = dynamic.of(task.index).map_or(0, |t| t.budget) as f64;
        (budget / users * period_ps / (alone_ps as f64).max(1.0)) as u64
    })
}

/// Mean speed of the best-effort programs, estimated; 1 is the speed alone on the machine. Jobs
/// take the time that they need alone, one after the other. While one runs, each core makes at most
/// the accesses of `limit` in a period, which is told the task and that time in ps. Otherwise the
/// cores with best effort share all that the bus carries.
fn speed_between(
    cores: &[CorePlan],
    work: &[Work],
    resources: &Resources,
    limit: impl Fn(&TaskPlan, u64) -> u64,
) -> f64 {
    let with = |core: &&CorePlan| core.tasks().iter().any(|t| !work[t.index].hard());
    let users = cores.iter().filter(with).count() as u64;
    let free = most_in_period(resources) / users.max(1);
    // By budget, the part of the time with it.
    let mut parts: BTreeMap<u64, f64> = BTreeMap::new();
    for t in cores.iter().flat_map(CorePlan::tasks).filter(|t| work[t.index].hard()) {
        let period = work[t.index].task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
        let alone_ps = work[t.index].alone_ps(resources);
        *parts.entry(limit(t, alone_ps).min(free)).or_default() += alone_ps as f64 / period;
    }
    // Of jobs that fill more than the whole time, some run beside each other.
    let busy: f64 = parts.values().sum();
    parts.values_mut().for_each(|part| *part /= busy.max(1.0));
    *parts.entry(free).or_default() += (1.0 - busy).max(0.0);
    let budgets: Vec<u64> = parts.keys().copied().collect();
    let speeds = mean_speeds(cores, work, resources, &budgets);
    parts.values().zip(speeds).map(|(part, speed)| part * speed).sum()
}
