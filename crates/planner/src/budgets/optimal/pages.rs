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
    // The execution before each useful page, from none locked on, as a multiple.
    let multiples = |&task: &usize| {
        let w = Some(&work[task]).filter(|w| w.hard())?;
        let weight = weights.get(&task).copied().unwrap_or(UNITY);
        let alone = alone[task].max(1);
        let multiple = move |left: &mut u64, saved: u64| {
            let execution = *left;
            *left = left.saturating_sub(saved.saturating_mul(each));
            Some(u128::from(execution) * u128::from(weight) * 1000 / u128::from(alone))
        };
        Some(w.demand.page_accesses().scan(w.wcet_ps(0, resources), multiple))
    };
    hand_out(on_core, capacity, multiples)
}
