//! The figures of BWLOCK at the quick scale: their rows, their claims, and that the seed alone decides.

use solocore_experiments::{Context, Outcome, Scale, find};

/// Figure and number of rows.
const FIGURES: [(&str, usize); 5] =
    [("bwlock-fig1", 20), ("bwlock-fig3a", 30), ("bwlock-fig3b", 30), ("bwlock-fig3c", 30), ("bwlock-fig3d", 30)];

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
    // Fig. 3's runs are kept in the process, so that only Fig. 1 is made anew.
    let first = run("bwlock-fig1", 3);
    assert_eq!(first.table.to_csv(), run("bwlock-fig1", 3).table.to_csv());
    assert_ne!(first.table.to_csv(), run("bwlock-fig1", 4).table.to_csv());
}

#[test]
#[ignore = "slow: make nightly"]
fn an_experiment_stops_when_told() {
    for id in ["bwlock-fig1", "bwlock-fig3a"] {
        let context = Context { scale: Scale::Quick, seed: 5, progress: &|_| false };
        assert!((find(id).unwrap().run)(&context).is_err(), "{id}");
    }
}
