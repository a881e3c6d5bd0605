//! The number, the core and the queue position of a task.
//!
//! Problem: the policies know tasks by 32-bit numbers, and order tasks by such a number. Rule: an
//! index is the id; equal priorities go by index.

use crate::kernel::config::{KernelError, TaskSpec};

/// Ids of the policies.
pub(in crate::kernel) fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The core of a task that must have one.
pub fn core_of(task: &TaskSpec, cores: usize) -> Result<usize, KernelError> {
    match task.core {
        Some(core) if core < cores => Ok(core),
        Some(core) => Err(KernelError::task(
            task,
            format!(
                "is on core {core}, but the board has cores 0 to {}; place it on one of these",
                cores - 1
            ),
        )),
        None => Err(KernelError::task(task, "has no core; name its core for this scheduler")),
    }
}

/// Places in the order of (priority, index), for tasks that share a queue.
pub fn ranks(tasks: &[TaskSpec]) -> (Vec<u32>, Vec<usize>) {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&t| (tasks[t].priority, t));
    let mut rank = vec![0; tasks.len()];
    for (place, &task) in order.iter().enumerate() {
        rank[task] = id(place);
    }
    (rank, order)
}
