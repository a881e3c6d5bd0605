//! The figures of dynamic budgeting at the quick scale: their rows, their claims, and that the seed alone decides.

use solocore_experiments::{Context, Outcome, Scale, chart, find};

fn run(id: &str, seed: u64) -> Outcome {
    let experiment = find(id).unwrap_or_else(|| panic!("no {id}"));
    let context = Context { scale: Scale::Quick, seed, progress: &|_| true };
    (experiment.run)(&context).unwrap_or_else(|e| panic!("{id}: {e}"))
}

fn claims_hold(id: &str, rows: usize, seed: u64) {
    let outcome = run(id, seed);
    assert_eq!(outcome.table.rows.len(), rows, "{id}");
    assert!(!outcome.differs.is_empty(), "{id}");
    assert!(chart::svg(&outcome.charts).is_ok_and(|svg| svg.contains("</svg>")), "{id}");
    let failed: Vec<_> = outcome.checks.iter().filter(|c| !c.holds).collect();
    assert!(outcome.holds(), "{id}, seed {seed}: {failed:#?}");
}

fn the_seed_decides(id: &str) {
    let first = run(id, 3).table.to_csv();
    assert_eq!(first, run(id, 3).table.to_csv(), "{id}");
    assert_ne!(first, run(id, 4).table.to_csv(), "{id}: seeds differ in their page draws");
}

#[test]
fn worst_slowdowns() {
    [1, 2].into_iter().for_each(|seed| claims_hold("dynamic-table1", 16, seed));
}

#[test]
fn safety_margins() {
    [1, 2].into_iter().for_each(|seed| claims_hold("dynamic-fig3", 9, seed));
}

#[test]
fn several_hard_cores() {
    claims_hold("dynamic-fig4", 10, 1);
}

#[test]
fn several_hard_cores_with_another_seed() {
    claims_hold("dynamic-fig4", 10, 2);
}

#[test]
fn the_seed_decides_about_safety_margins() {
    the_seed_decides("dynamic-fig3");
}

#[test]
#[ignore = "slow: make nightly"]
fn the_seed_decides_about_the_others() {
    ["dynamic-table1", "dynamic-fig4"].into_iter().for_each(the_seed_decides);
}
