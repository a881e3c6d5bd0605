//! Which pages the tasks of a core lock.
//!
//! Rule: where executions must not grow beyond a multiple of the time alone, each further page goes to the task whose execution is the
//! largest multiple of its own, so that the largest is as small as it can be. Where only deadlines count, it goes where it saves most of
//! the core's time (`core_plan`). Either way a task can be given a weight.

use crate::core_plan::CorePlan;
use crate::resources::Resources;
use crate::work::Work;
use std::collections::{BinaryHeap, HashMap};

/// The weight of a task that nothing speaks for.
pub const UNITY: u64 = 1000;

/// A core with its pages locked. `alone`: time alone of each task in ps, where that is what counts.
pub fn lock(
    core: u32,
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    alone: Option<&[u64]>,
    work: &[Work],
    resources: &Resources,
) -> CorePlan {
    match alone {
        None => CorePlan::weighted(core, on_core, weights, work, resources),
        Some(alone) => {
            let locked = level(on_core, weights, alone, work, resources, resources.lock_capacity_of(core));
            CorePlan::with_pages(core, on_core, &locked, work, resources)
        }
    }
}

/// Pages by task, so that the largest weighted multiple of a time alone is the least.
fn level(
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    alone: &[u64],
    work: &[Work],
    resources: &Resources,
    capacity: u64,
) -> HashMap<usize, usize> {
    let each = resources.platform.dram.latency_max.ps();
    let mut pages: HashMap<usize, (u64, Vec<u64>)> = HashMap::new();
    for &t in on_core.iter().filter(|&&t| work[t].hard()) {
        pages.insert(t, (work[t].wcet_ps(0, resources), work[t].demand.page_accesses().collect()));
    }
    let multiple = |task: usize, execution: u64| {
        let weight = weights.get(&task).copied().unwrap_or(UNITY);
        u128::from(execution) * u128::from(weight) * 1000 / u128::from(alone[task].max(1))
    };
    let mut heap: BinaryHeap<(u128, std::cmp::Reverse<usize>)> =
        pages.iter().map(|(&t, (execution, _))| (multiple(t, *execution), std::cmp::Reverse(t))).collect();
    let mut taken: HashMap<usize, usize> = HashMap::new();
    let mut left = capacity;
    while left > 0
        && let Some((_, std::cmp::Reverse(task))) = heap.pop()
    {
        let count = taken.entry(task).or_insert(0);
        let Some((execution, accesses)) = pages.get_mut(&task) else { continue };
        // What has no page left to lock is out.
        let Some(saved) = accesses.get(*count) else { continue };
        *execution = execution.saturating_sub(saved.saturating_mul(each));
        *count += 1;
        left -= 1;
        heap.push((multiple(task, *execution), std::cmp::Reverse(task)));
    }
    taken
}
