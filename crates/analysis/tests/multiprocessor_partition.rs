//! Placements: a returned placement passes the test on each core, groups stay together unless
//! split, ties are stable.

#[path = "support/gedf.rs"]
mod gedf;

use gedf::{Deadlines, Draw, random_set};
use solocore_analysis::SporadicTask;
use solocore_analysis::multiprocessor::partition::{
    Fit, Groups, Order, PartitionError, Strategy, place,
};
use solocore_analysis::task_set::utilization_at_most;

const FITS: [Fit; 3] = [Fit::First, Fit::Best, Fit::Worst];
const ORDERS: [Order; 2] = [Order::Given, Order::DecreasingUtilization];

fn task(wcet: u64, period: u64) -> SporadicTask {
    SporadicTask { wcet, period, deadline: period }
}

fn full_core(tasks: &[SporadicTask]) -> impl Fn(usize, &[usize]) -> bool {
    move |_, members| utilization_at_most(&members.iter().map(|i| tasks[*i]).collect::<Vec<_>>(), 1)
}

#[test]
fn every_placement_passes_on_every_core() {
    let mut draw = Draw(21);
    let mut placed = 0;
    for _ in 0..4000 {
        let set = random_set(&mut draw, 3, 8, 20, Deadlines::Implicit);
        let groups: Vec<Vec<usize>> =
            if draw.below(2) == 0 { vec![vec![0, 3], vec![5, 4, 1]] } else { Vec::new() };
        for fit in FITS {
            for order in ORDERS {
                for split in [Groups::Together, Groups::Split] {
                    let strategy = Strategy { fit, order, groups: split };
                    let accepts = full_core(&set.tasks);
                    let result = place(&set.tasks, 3, &groups, strategy, &accepts);
                    assert_eq!(result, place(&set.tasks, 3, &groups, strategy, &accepts));
                    let Ok(core_of) = result else { continue };
                    placed += 1;
                    for core in 0..3 {
                        let members: Vec<usize> = (0..8).filter(|i| core_of[*i] == core).collect();
                        assert!(accepts(core, &members), "{core_of:?} {set:?}");
                    }
                    if split == Groups::Together {
                        assert!(
                            groups.iter().all(|g| g.iter().all(|i| core_of[*i] == core_of[g[0]]))
                        );
                    }
                }
            }
        }
    }
    assert!(placed > 5000, "{placed}");
}

#[test]
fn the_fits_differ_as_named() {
    let tasks = [task(4, 10), task(7, 10), task(3, 10), task(2, 10)];
    let core_of = |fit, order| {
        place(&tasks, 3, &[], Strategy { fit, order, groups: Groups::Together }, full_core(&tasks))
    };
    assert_eq!(core_of(Fit::First, Order::Given), Ok(vec![0, 1, 0, 0]));
    assert_eq!(core_of(Fit::Best, Order::Given), Ok(vec![0, 1, 1, 0]));
    assert_eq!(core_of(Fit::Worst, Order::Given), Ok(vec![0, 1, 2, 2]));
    assert_eq!(core_of(Fit::First, Order::DecreasingUtilization), Ok(vec![1, 0, 0, 1]));
}

#[test]
fn a_group_that_fits_nowhere_is_split_or_refused() {
    let tasks = [task(6, 10), task(6, 10), task(3, 10)];
    let strategy = |groups| Strategy { fit: Fit::First, order: Order::Given, groups };
    let groups = [vec![0, 1]];
    assert_eq!(
        place(&tasks, 2, &groups, strategy(Groups::Split), full_core(&tasks)),
        Ok(vec![0, 1, 0])
    );
    let refused = place(&tasks, 2, &groups, strategy(Groups::Together), full_core(&tasks));
    assert_eq!(refused, Err(PartitionError::NoCore { tasks: vec![0, 1] }));
}

#[test]
fn nonsense_is_refused() {
    let tasks = [task(1, 10), task(1, 10)];
    let strategy = Strategy { fit: Fit::First, order: Order::Given, groups: Groups::Split };
    let with = |groups: &[Vec<usize>]| place(&tasks, 1, groups, strategy, |_, _| true);
    assert_eq!(with(&[vec![2]]), Err(PartitionError::Group { group: 0, task: 2 }));
    assert_eq!(with(&[vec![0], vec![0]]), Err(PartitionError::Group { group: 1, task: 0 }));
    assert_eq!(with(&[vec![]]), Ok(vec![0, 0]));
    assert_eq!(
        place(&tasks, 0, &[], strategy, |_, _| true),
        Err(PartitionError::NoCore { tasks: vec![0] })
    );
    assert_eq!(
        place(&[task(1, 0)], 1, &[], strategy, |_, _| true),
        Err(PartitionError::Period { task: 0 })
    );
}
