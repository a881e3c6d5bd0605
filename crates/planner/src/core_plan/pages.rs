//! The pages that a core locks for each of its tasks.
//!
//! Problem: a core locks a few pages only, and each saves its task some accesses per job. Rule: one
//! page after the other goes to the task with the largest gain from its next one. Does not cover:
//! gains that grow with the number of pages; a curve of pages falls.

use crate::work::Work;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};

/// Locked pages per task: the `capacity` pages that save most accesses per second, weighted.
pub fn share_pages(
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    work: &[Work],
    capacity: u64,
) -> HashMap<usize, usize> {
    let gains = |&task: &usize| {
        let period = work[task].task.period.filter(|_| work[task].hard())?.ps();
        let weight = weights.get(&task).copied().unwrap_or(1);
        let gain = move |accesses: u64| {
            u128::from(accesses) * u128::from(weight) * 1_000_000_000_000 / u128::from(period)
        };
        Some(work[task].demand.page_accesses().map(gain))
    };
    hand_out(on_core, capacity, gains)
}

/// Is there a page that one of the analysed tasks of a core could lock?
pub fn lockable(on_core: &[usize], work: &[Work], capacity: u64) -> bool {
    let has_pages = |&t: &usize| work[t].hard() && work[t].demand.page_accesses().next().is_some();
    capacity > 0 && on_core.iter().any(has_pages)
}

/// Pages per task: one after the other to the task whose next page is worth most. `worths`: those
/// of a task's pages, in the order in which it gets them; `None`: it has no use for any.
pub fn hand_out<W: Iterator<Item = u128>>(
    on_core: &[usize],
    capacity: u64,
    worths: impl FnMut(&usize) -> Option<W>,
) -> HashMap<usize, usize> {
    let mut worths: Vec<Option<W>> = on_core.iter().map(worths).collect();
    let mut taken = vec![0; on_core.len()];
    let mut next =
        |place: usize| Some((worths[place].as_mut()?.next()?, Reverse(on_core[place]), place));
    let mut heap: BinaryHeap<_> = (0..on_core.len()).filter_map(&mut next).collect();
    let mut left = capacity;
    while left > 0
        && let Some(mut first) = heap.peek_mut()
    {
        let place = first.2;
        taken[place] += 1;
        left -= 1;
        match next(place) {
            Some(more) => *first = more,
            None => drop(PeekMut::pop(first)),
        }
    }
    let of = |(&task, taken): (&usize, usize)| (taken > 0).then_some((task, taken));
    on_core.iter().zip(taken).filter_map(of).collect()
}
