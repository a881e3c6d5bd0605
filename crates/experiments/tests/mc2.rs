//! The MC2 figures: rows, claims, and the same bytes for the same seed.

use solocore_experiments::{Context, Outcome, Scale, chart, find};

/// Rows at the quick scale, and claims that do not hold, with the reason in the outcome's `differs`.
const FIGURES: [(&str, usize, &[&str]); 6] = [
    ("mc2-fig8", 2 * 3 * 3, &[]),
    ("mc2-fig10", 2 * 2 * 3, &[]),
    ("mc2-fig12", 3 * 3, &[]),
    // Where the cache holds the array, DMA delays nothing that is simulated.
    ("mc2-fig13", 2 * 2 * 3, &["large region: MOET rises with DMA bandwidth"]),
    ("mc2-fig14", 6 * 3, &[]),
    ("mc2-table1", 8 * 5 * 2, &[]),
];

fn run(id: &str, seed: u64) -> Outcome {
    let experiment = find(id).unwrap_or_else(|| panic!("no {id}"));
    let context = Context { scale: Scale::Quick, seed, progress: &|_| true };
    (experiment.run)(&context).unwrap_or_else(|e| panic!("{id}: {e}"))
}

fn check(at: usize) {
    let (id, rows, failing) = FIGURES[at];
    for seed in [1, 2] {
        let outcome = run(id, seed);
        assert_eq!(outcome.table.rows.len(), rows, "{id}");
        assert!(!outcome.checks.is_empty() && !outcome.charts.is_empty() && !outcome.differs.is_empty(), "{id}");
        for c in &outcome.checks {
            let known = failing.iter().any(|f| c.claim.starts_with(f));
            assert!(c.holds || known, "{id}, seed {seed}: {}: {}", c.claim, c.found);
        }
        assert!(chart::svg(&outcome.charts).is_ok_and(|svg| svg.contains("</svg>")), "{id}");
    }
}

#[test]
#[ignore = "slow: make nightly"]
fn fig8() {
    check(0);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig10() {
    check(1);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig12() {
    check(2);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig13() {
    check(3);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig14() {
    check(4);
}

#[test]
#[ignore = "slow: make nightly"]
fn table1() {
    check(5);
}

#[test]
#[ignore = "slow: make nightly"]
fn a_seed_gives_the_same_bytes() {
    for id in ["mc2-fig8", "mc2-fig10"] {
        let [first, again] = [run(id, 7), run(id, 7)].map(|o| o.table.to_csv());
        assert_eq!(first, again, "{id}");
        assert_ne!(first, run(id, 8).table.to_csv(), "{id}: seeds differ in their page draws");
    }
}

/// Stopping is seen within a run.
#[test]
#[ignore = "slow: make nightly"]
fn stops_when_told() {
    let experiment = find("mc2-fig14").unwrap_or_else(|| panic!("no mc2-fig14"));
    let context = Context { scale: Scale::Quick, seed: 1, progress: &|_| false };
    assert!((experiment.run)(&context).is_err());
}
