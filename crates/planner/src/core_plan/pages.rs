//! The pages that a core locks for each of its tasks.
//!
//! Problem: a core locks a few pages only, and each saves its task some accesses per job. Rule: one
//! page after the other goes to the task with the largest gain from its next one. Does not cover:
//! gains that grow with the number of pages; a curve of pages falls.

use crate::work::Work;
use std::collections::{BinaryHeap, HashMap};

/// Locked pages per task: the `capacity` pages that save most accesses per second, weighted.
pub fn share_pages(
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    work: &[Work],
    capacity: u64,
) -> HashMap<usize, usize> {
    let curves: HashMap<usize, Vec<u64>> = on_core
        .iter()
        .filter(|&&t| work[t].hard())
        .map(|&t| {
            (
                t,
                work[t]
                    .demand
                    .page_accesses()
                    .take(usize::try_from(capacity).unwrap_or(usize::MAX))
                    .collect(),
            )
        })
        .collect();
    let gain = |task: usize, at: usize| -> Option<u128> {
        let accesses = *curves.get(&task)?.get(at)?;
        let period = work[task].task.period?.ps();
        let weight = weights.get(&task).copied().unwrap_or(1);
        Some(u128::from(accesses) * u128::from(weight) * 1_000_000_000_000 / u128::from(period))
    };
    hand_out(on_core, capacity, gain)
}

/// Is there a page that one of the analysed tasks of a core could lock?
pub fn lockable(on_core: &[usize], work: &[Work], capacity: u64) -> bool {
    let has_pages = |&t: &usize| work[t].hard() && work[t].demand.page_accesses().next().is_some();
    capacity > 0 && on_core.iter().any(has_pages)
}

/// Pages per task: one after the other to the task for which `worth` of the task and its number of
/// pages so far is largest; `None`: the task has no use for more.
pub fn hand_out(
    on_core: &[usize],
    capacity: u64,
    worth: impl Fn(usize, usize) -> Option<u128>,
) -> HashMap<usize, usize> {
    let mut heap = BinaryHeap::new();
    let mut taken: HashMap<usize, usize> = HashMap::new();
    for &task in on_core {
        if let Some(first) = worth(task, 0) {
            heap.push((first, std::cmp::Reverse(task)));
        }
    }
    let mut left = capacity;
    while left > 0
        && let Some((_, std::cmp::Reverse(task))) = heap.pop()
    {
        let count = taken.entry(task).or_insert(0);
        *count += 1;
        left -= 1;
        if let Some(next) = worth(task, *count) {
            heap.push((next, std::cmp::Reverse(task)));
        }
    }
    taken
}
