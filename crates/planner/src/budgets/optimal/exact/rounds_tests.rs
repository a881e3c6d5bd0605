//! Sums beside sets, against all choices.

use super::*;
use crate::budgets::optimal::exact::machine::Machine;
use crate::budgets::optimal::exact_tests::{PLACED, least_beside, nothing, with_costs};

impl Rounds {
    /// The sets of three cores with these budgets by ways.
    pub fn with(own: &[Vec<f64>]) -> Self {
        let entry = |own: &Vec<f64>| {
            let (ways, budget) = crate::budgets::optimal::exact_tests::needs(own)?;
            Some(Entry { ways, budget, breaks: u64::MAX, speed: 0.0 })
        };
        let entries: Vec<Option<Entry>> = own.iter().map(entry).collect();
        let of = |cost: fn(&Entry) -> f64| {
            let costs = entries.iter().map(|e| e.as_ref().map_or(f64::INFINITY, cost));
            let costs: Vec<f64> = costs.collect();
            Rest::of(&costs, 2, 0.0, |a, b| a + b, |_| true, &|| false).unwrap_or_default()
        };
        let (budgets, ways) = (of(|e| e.budget as f64), of(|e| f64::from(e.ways.least)));
        let by_ways = ByWays::of(own, 2, 100.0, |_| true, &|| false);
        let least = Least { budgets, ways, by_ways, ..Least::default() };
        Self { entries, least, by_ways: own.to_vec(), near: 0.0 }
    }
}

/// Each sum is that of some choice, and none is smaller.
#[test]
fn the_sums_beside_sets_are_those_of_the_best_choice() {
    with_costs(9, |solver, own| {
        let machine = Machine::of(&solver.problem, 0).unwrap();
        let sets = Sets::new(&machine, nothing().question);
        let rounds = Rounds::with(own);
        for (placed, rest) in PLACED {
            let of: Vec<Set> = placed.iter().map(|&set| set as Set).collect();
            let found = rounds.beside_by_ways(&sets, &of, rest as Set).unwrap();
            let found: Vec<&[f64]> = found.iter().map(|sums| &sums[..=6]).collect();
            assert_eq!(found, least_beside(own, [3, 6], placed), "{placed:?} of {own:?}");
        }
    });
}
