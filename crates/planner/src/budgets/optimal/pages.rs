//! The pages that the tasks of a core lock.
//!
//! Rule: where executions must not grow beyond a multiple of the time alone, each further page goes
//! to the task whose execution is the largest multiple of its own, so that the largest is minimal.
//! Where only deadlines count, it goes to the task where it saves most of the core's time
//! (`core_plan`). Either way a task can be given a weight.

use crate::core_plan::{CorePlan, hand_out, share_pages};
use crate::resources::Resources;
use crate::work::Work;
use std::collections::HashMap;

/// The weight of a task by default.
pub const UNITY: u64 = 1000;

/// A core with its pages locked. `alone`: time alone of each task in ps, where slowdowns count.
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
            let locked =
                level(on_core, weights, alone, work, resources, resources.lock_capacity_of(core));
            CorePlan::with_pages(core, on_core, &locked, work, resources)
        }
    }
}

/// Pages by task that a core locks where all tasks have the same weight.
pub fn locked(
    core: u32,
    on_core: &[usize],
    alone: Option<&[u64]>,
    work: &[Work],
    resources: &Resources,
) -> HashMap<usize, usize> {
    let (weights, capacity) = (HashMap::new(), resources.lock_capacity_of(core));
    match alone {
        None => share_pages(on_core, &weights, work, capacity),
        Some(alone) => level(on_core, &weights, alone, work, resources, capacity),
    }
}

/// Pages by task with which the largest weighted multiple of a time alone is the least.
fn level(
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    alone: &[u64],
    work: &[Work],
    resources: &Resources,
    capacity: u64,
) -> HashMap<usize, usize> {
    let each = resources.platform.dram.latency_max.ps();
    // Before each useful page, from none locked on.
    let executions = |t: usize| -> Vec<u64> {
        let mut left = work[t].wcet_ps(0, resources);
        work[t]
            .demand
            .page_accesses()
            .map(|saved| {
                let before = left;
                left = left.saturating_sub(saved.saturating_mul(each));
                before
            })
            .collect()
    };
    let executions: HashMap<usize, Vec<u64>> =
        on_core.iter().filter(|&&t| work[t].hard()).map(|&t| (t, executions(t))).collect();
    hand_out(on_core, capacity, |task, count| {
        let execution = *executions.get(&task)?.get(count)?;
        let weight = weights.get(&task).copied().unwrap_or(UNITY);
        Some(u128::from(execution) * u128::from(weight) * 1000 / u128::from(alone[task].max(1)))
    })
}
