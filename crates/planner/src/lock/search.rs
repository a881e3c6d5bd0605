//! The least price among sets of functions and bandwidths beside a held lock.
//!
//! Problem: with more functions under the lock, the other cores may keep more bandwidth beside it,
//! but for a longer time they are limited. All tasks share one bandwidth. Rule: the price is the
//! number of accesses that another core loses in a period on average, `(most - Q)` times the part
//! of all time in which the lock is held. For a stated `Q`, each task takes the set with the least
//! time held among those that bear `Q`. The best `Q` is one that some set of some task just bears,
//! because a larger one costs less for the same sets. So all these `Q` are tried, and the choice is
//! the best of all sets and bandwidths. The next best choice differs in the set of one task at
//! least: it is the best without the chosen set of a task, for each task in turn. Does not cover:
//! which sets bear which `Q` (`bounds`).

/// A set of functions of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Their places in the list of the task.
    pub functions: Vec<usize>,
    /// Time of their calls in a job, ns.
    pub held_ns: u64,
    /// Largest number of accesses per period and core that the set bears.
    pub budget: u64,
}

/// A task with its sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets {
    /// Least time between two jobs, ns.
    pub period_ns: u64,
    /// The sets that bear an access at least.
    pub candidates: Vec<Candidate>,
}

/// A choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// `Q`.
    pub budget: u64,
    /// Place of the chosen set of each task.
    pub of: Vec<usize>,
    /// Part of all time in which the lock is held, as the sum over the tasks.
    pub held: f64,
    /// Accesses that another core loses in a period on average.
    pub price: f64,
}

/// The sets of a task with more budget than each set that holds the lock for no longer, least time
/// first. `without` is left out.
fn frontier(sets: &Sets, without: Option<usize>) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..sets.candidates.len()).filter(|&at| Some(at) != without).collect();
    let rank = |at: usize| {
        let c = &sets.candidates[at];
        (c.held_ns, std::cmp::Reverse(c.budget), c.functions.len(), at)
    };
    order.sort_by_key(|&at| rank(at));
    let mut most = 0;
    order.retain(|&at| {
        let more = sets.candidates[at].budget > most;
        most = most.max(sets.candidates[at].budget);
        more
    });
    order
}

/// The best choice; `None`: a task has no set for the same budget as the others. `most`: accesses
/// of a core in a period without a limit. `stated`: the only budget that counts. `without`: a set
/// of a task that does not count.
pub fn best(
    tasks: &[Sets],
    most: u64,
    stated: Option<u64>,
    without: Option<(usize, usize)>,
) -> Option<Choice> {
    let left_out = |task: usize| without.filter(|&(t, _)| t == task).map(|(_, set)| set);
    let fronts: Vec<Vec<usize>> =
        tasks.iter().enumerate().map(|(task, sets)| frontier(sets, left_out(task))).collect();
    let mut budgets: Vec<u64> = match stated {
        Some(budget) => vec![budget],
        None => {
            let of = |(sets, front): (&Sets, &Vec<usize>)| {
                front.iter().map(|&at| sets.candidates[at].budget).collect::<Vec<_>>()
            };
            tasks.iter().zip(&fronts).flat_map(of).collect()
        }
    };
    // The largest first: it is kept among equals.
    budgets.sort_unstable_by(|a, b| b.cmp(a));
    budgets.dedup();
    let choice = |budget: u64| -> Option<Choice> {
        let pick = |(sets, front): (&Sets, &Vec<usize>)| {
            front.iter().copied().find(|&at| sets.candidates[at].budget >= budget)
        };
        let of: Vec<usize> = tasks.iter().zip(&fronts).map(pick).collect::<Option<_>>()?;
        let part = |(sets, &at): (&Sets, &usize)| {
            sets.candidates[at].held_ns as f64 / sets.period_ns.max(1) as f64
        };
        let held = tasks.iter().zip(&of).map(part).sum::<f64>();
        Some(Choice { budget, of, held, price: held * most.saturating_sub(budget) as f64 })
    };
    budgets
        .into_iter()
        .filter_map(choice)
        .reduce(|best, c| if c.price < best.price { c } else { best })
}

/// The best choice that is not `chosen`, and the task whose set differs.
pub fn next_best(
    tasks: &[Sets],
    most: u64,
    stated: Option<u64>,
    chosen: &Choice,
) -> Option<(Choice, usize)> {
    let other = |(task, &set): (usize, &usize)| {
        best(tasks, most, stated, Some((task, set))).map(|choice| (choice, task))
    };
    let others = chosen.of.iter().enumerate().filter_map(other);
    others.reduce(|best, c| if c.0.price < best.0.price { c } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u64 = 40;

    fn price(tasks: &[Sets], of: &[usize], budget: u64) -> f64 {
        let part = |(t, &at): (&Sets, &usize)| t.candidates[at].held_ns as f64 / t.period_ns as f64;
        tasks.iter().zip(of).map(part).sum::<f64>() * (MOST - budget) as f64
    }

    /// Each combination of sets with each budget that all of them bear.
    fn all(tasks: &[Sets]) -> Vec<(Vec<usize>, u64)> {
        let mut out: Vec<Vec<usize>> = vec![Vec::new()];
        for t in tasks {
            let longer = |of: &Vec<usize>| {
                (0..t.candidates.len()).map(|at| [&of[..], &[at]].concat()).collect::<Vec<_>>()
            };
            out = out.iter().flat_map(longer).collect();
        }
        let budgets = |of: Vec<usize>| {
            let least = of.iter().zip(tasks).map(|(&at, t)| t.candidates[at].budget).min();
            (1..=least.unwrap_or(0)).map(|q| (of.clone(), q)).collect::<Vec<_>>()
        };
        out.into_iter().flat_map(budgets).collect()
    }

    fn sets() -> impl Strategy<Value = Sets> {
        let candidate = (0u64..30, 1u64..=MOST).prop_map(|(held_ns, budget)| Candidate {
            functions: Vec::new(),
            held_ns,
            budget,
        });
        (1u64..5, prop::collection::vec(candidate, 1..6))
            .prop_map(|(period, candidates)| Sets { period_ns: period * 100, candidates })
    }

    proptest! {
        /// Fails where a combination of sets and bandwidth has a lower price than the choice, or
        /// another combination of sets a lower one than the next best.
        #[test]
        fn no_combination_is_better(tasks in prop::collection::vec(sets(), 1..4)) {
            let chosen = best(&tasks, MOST, None, None).unwrap();
            let every = all(&tasks);
            let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
            let least = every.iter().map(|(of, q)| price(&tasks, of, *q)).fold(f64::MAX, f64::min);
            prop_assert!(close(chosen.price, least), "{chosen:?} {least}");
            prop_assert!(close(price(&tasks, &chosen.of, chosen.budget), chosen.price));
            let bears = |(&at, t): (&usize, &Sets)| t.candidates[at].budget >= chosen.budget;
            prop_assert!(chosen.of.iter().zip(&tasks).all(bears));
            let others = every.iter().filter(|(of, _)| *of != chosen.of);
            let second = others.map(|(of, q)| price(&tasks, of, *q)).fold(f64::MAX, f64::min);
            match next_best(&tasks, MOST, None, &chosen) {
                Some((next, task)) => {
                    prop_assert!(next.of[task] != chosen.of[task]);
                    prop_assert!(close(next.price, second), "{next:?} {second}");
                }
                None => prop_assert!(second == f64::MAX),
            }
        }

        /// With a stated budget, the sets that bear it with the least time held are taken.
        #[test]
        fn a_stated_budget_is_kept(
            tasks in prop::collection::vec(sets(), 1..4), stated in 1u64..=MOST,
        ) {
            let of = |t: &Sets| {
                t.candidates.iter().filter(|c| c.budget >= stated).map(|c| c.held_ns).min()
            };
            let least: Option<Vec<u64>> = tasks.iter().map(of).collect();
            let chosen = best(&tasks, MOST, Some(stated), None);
            let held = chosen.map(|c| {
                c.of.iter().zip(&tasks).map(|(&at, t)| t.candidates[at].held_ns).collect::<Vec<_>>()
            });
            prop_assert_eq!(held, least);
        }
    }
}
