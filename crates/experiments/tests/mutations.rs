//! Each claim names a change of the set-up by which its verdict must fall: some of them here, all
//! of them in `make nightly`.

#![allow(missing_docs, reason = "a test")]

use solocore_experiments::summary::tried;
use solocore_experiments::{Context, Scale, all, find};

fn verdicts_fall(id: &str, seed: u64) -> usize {
    let experiment = find(id).unwrap_or_else(|| panic!("no experiment {id}"));
    let context = Context { scale: Scale::Quick, seed, progress: &|_| true, mutation: None };
    let tried = tried(&context, &experiment).unwrap_or_else(|e| panic!("{id}: {e}"));
    for t in &tried {
        assert!(t.fell(), "{id}, seed {seed}: {:?}: {}: {}", t.mutation, t.claim, t.found);
    }
    tried.len()
}

#[test]
fn some_verdicts_fall() {
    for id in ["dynamic-table1", "maracas-fig8", "mc2-table1", "sce-table1"] {
        assert!(verdicts_fall(id, 1) > 1, "{id}");
    }
}

#[test]
#[ignore = "minutes: every figure several times; make nightly"]
fn all_verdicts_fall() {
    let claims: usize = [1, 2]
        .iter()
        .map(|&seed| all().iter().map(|e| verdicts_fall(e.id, seed)).sum::<usize>())
        .sum();
    assert!(claims > 200, "{claims}");
}
