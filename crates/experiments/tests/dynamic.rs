//! The figures of dynamic budgeting at the quick scale: their rows, their claims, and that the seed alone decides.

use solocore_experiments::{Context, Outcome, Scale, find};

/// Figure and number of rows.
const FIGURES: [(&str, usize); 3] = [("dynamic-table1", 16), ("dynamic-fig3", 9), ("dynamic-fig4", 10)];

fn run(id: &str, seed: u64) -> Outcome {
    let experiment = find(id).unwrap();
    (experiment.run)(&Context { scale: Scale::Quick, seed, progress: &|_| true }).unwrap()
}

fn claims_hold(seed: u64) {
    for (id, rows) in FIGURES {
        let outcome = run(id, seed);
        assert_eq!(outcome.table.rows.len(), rows, "{id}");
        assert!(!outcome.charts.is_empty() && !outcome.differs.is_empty(), "{id}");
        let failed: Vec<_> = outcome.checks.iter().filter(|c| !c.holds).collect();
        assert!(outcome.holds(), "{id}, seed {seed}: {failed:#?}");
    }
}

#[test]
#[ignore = "slow: make nightly"]
fn all_claims_hold() {
    claims_hold(1);
}

#[test]
#[ignore = "slow: make nightly"]
fn all_claims_hold_with_another_seed() {
    claims_hold(20);
}

#[test]
#[ignore = "slow: make nightly"]
fn the_seed_decides() {
    for (id, _) in FIGURES {
        let first = run(id, 3).table.to_csv();
        assert_eq!(first, run(id, 3).table.to_csv(), "{id}");
        assert_ne!(first, run(id, 4).table.to_csv(), "{id}");
    }
}
