//! Assignment of tasks to cores.
//!
//! # Problem
//! Partitioned scheduling is bin packing with the test of one core as the size of the bin. Tasks
//! that share memory should be on one core; a group that fits nowhere may have to be split.
//!
//! # Rule
//! Take the items (tasks, or groups as one item) in the given order or by decreasing utilisation.
//! Put each on the first core that accepts it, or on the accepting core with the most (best fit) or
//! least (worst fit) utilisation so far. A group that no core accepts is placed task by task, if
//! that is allowed. Ties go to the lower core and to the task named first.
//!
//! # Source
//! Johnson: "Near-optimal bin packing algorithms", 1973, for the heuristics; decreasing utilisation
//! as in Lopez, Diaz, Garcia, Real-Time Systems 28, 2004.
//!
//! # Not covered
//! Optimal placement. Loads are compared in 2^-64 steps: they order cores, they do not decide
//! whether a task fits.

use super::exact::ratio_down;
use crate::task_set::SporadicTask;
use std::cmp::Reverse;

/// The choice among the accepting cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fit {
    /// The first.
    First,
    /// The one with the most utilisation.
    Best,
    /// The one with the least utilisation.
    Worst,
}

/// Order in which items are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The given order; a group comes at the place of its first task.
    Given,
    /// By decreasing utilisation, a group by its sum.
    DecreasingUtilization,
}

/// Treatment of a group that no core accepts as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Groups {
    /// The placement fails.
    Together,
    /// Its tasks are placed one by one, in the chosen order.
    Split,
}

/// Rules of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Choice of core.
    pub fit: Fit,
    /// Order of items.
    pub order: Order,
    /// Groups that do not fit.
    pub groups: Groups,
}

/// Reasons for which there is no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// No core accepts a task, or a group that must stay together.
    #[error("no core accepts tasks {tasks:?} besides those placed before")]
    NoCore {
        /// Indices of the tasks of the item.
        tasks: Vec<usize>,
    },
    /// A group names a task that does not exist, or a task of another group.
    #[error("group {group} names task {task}, which does not exist or is in a group already")]
    Group {
        /// Index of the group.
        group: usize,
        /// Index of the named task.
        task: usize,
    },
    /// A period of zero.
    #[error("task {task}: period is 0; give more than zero")]
    Period {
        /// Index of the task.
        task: usize,
    },
}

/// Places tasks on `cores` cores; returns the core of each task.
///
/// `groups` lists tasks to be kept together, by index; tasks in none are items of their own.
/// `accepts(core, tasks)` decides whether the core can take exactly these tasks (indices,
/// ascending). It is called before each step, so the returned placement was accepted on each core
/// with tasks.
///
/// # Errors
/// The first item that no core accepts, or invalid groups.
pub fn place(
    tasks: &[SporadicTask],
    cores: usize,
    groups: &[Vec<usize>],
    strategy: Strategy,
    mut accepts: impl FnMut(usize, &[usize]) -> bool,
) -> Result<Vec<usize>, PartitionError> {
    if let Some(task) = tasks.iter().position(|t| t.period == 0) {
        return Err(PartitionError::Period { task });
    }
    let shares: Vec<u128> = tasks.iter().map(|t| ratio_down(t.wcet, t.period)).collect();
    let mut items = items(tasks.len(), groups)?;
    sort(&mut items, &shares, strategy.order);
    let mut packing = Packing { cores: vec![(0, Vec::new()); cores], shares, fit: strategy.fit };
    for item in items {
        if packing.put(&item, &mut accepts) {
            continue;
        }
        if strategy.groups == Groups::Together || item.len() == 1 {
            return Err(PartitionError::NoCore { tasks: item });
        }
        let mut singles: Vec<Vec<usize>> = item.into_iter().map(|task| vec![task]).collect();
        sort(&mut singles, &packing.shares, strategy.order);
        for single in singles {
            if !packing.put(&single, &mut accepts) {
                return Err(PartitionError::NoCore { tasks: single });
            }
        }
    }
    let mut core_of = vec![0; tasks.len()];
    for (core, (_, members)) in packing.cores.iter().enumerate() {
        for task in members {
            core_of[*task] = core;
        }
    }
    Ok(core_of)
}

/// Groups and single tasks, by their first task; empty groups are dropped.
fn items(count: usize, groups: &[Vec<usize>]) -> Result<Vec<Vec<usize>>, PartitionError> {
    let mut grouped = vec![false; count];
    let mut items = Vec::new();
    for (group, members) in groups.iter().enumerate() {
        for task in members {
            match grouped.get_mut(*task) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(PartitionError::Group { group, task: *task }),
            }
        }
        let mut members = members.clone();
        members.sort_unstable();
        items.push(members);
    }
    items.extend((0..count).filter(|task| !grouped[*task]).map(|task| vec![task]));
    items.retain(|item| !item.is_empty());
    items.sort_unstable_by_key(|item| item[0]);
    Ok(items)
}

/// Stable, so equal loads keep the given order.
fn sort(items: &mut [Vec<usize>], shares: &[u128], order: Order) {
    if order == Order::DecreasingUtilization {
        items.sort_by_key(|item| Reverse(load(item, shares)));
    }
}

fn load(item: &[usize], shares: &[u128]) -> u128 {
    item.iter().map(|task| shares[*task]).fold(0, u128::saturating_add)
}

/// Cores with their load and tasks, ascending.
struct Packing {
    cores: Vec<(u128, Vec<usize>)>,
    shares: Vec<u128>,
    fit: Fit,
}

impl Packing {
    /// Puts an item on the core that the fit chooses among those that accept it.
    fn put(&mut self, item: &[usize], accepts: &mut impl FnMut(usize, &[usize]) -> bool) -> bool {
        let mut order: Vec<usize> = (0..self.cores.len()).collect();
        // Stable: the lower core first among equals.
        match self.fit {
            Fit::First => {}
            Fit::Best => order.sort_by_key(|core| Reverse(self.cores[*core].0)),
            Fit::Worst => order.sort_by_key(|core| self.cores[*core].0),
        }
        for core in order {
            let mut members = self.cores[core].1.clone();
            members.extend_from_slice(item);
            members.sort_unstable();
            if accepts(core, &members) {
                self.cores[core] =
                    (self.cores[core].0.saturating_add(load(item, &self.shares)), members);
                return true;
            }
        }
        false
    }
}
