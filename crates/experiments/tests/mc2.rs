//! The MC2 figures: rows, claims, and the same bytes for the same seed.

mod figure;

use figure::{claims_differ as check, rows, the_seed_fixes};
use solocore_experiments::{Context, Scale, find};

/// Where the cache holds the array, DMA delays nothing that is simulated.
const NO_BUS: &[&str] = &["large region: MOET rises with DMA bandwidth"];

#[test]
fn fig8() {
    check("mc2-fig8", 2 * 3 * 3, 1, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig8_with_another_seed() {
    check("mc2-fig8", 2 * 3 * 3, 2, &[]);
}

#[test]
fn fig10() {
    check("mc2-fig10", 2 * 3 * 3, 1, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig10_with_another_seed() {
    check("mc2-fig10", 2 * 3 * 3, 2, &[]);
}

#[test]
fn fig12() {
    check("mc2-fig12", 3 * 3, 1, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig12_with_another_seed() {
    check("mc2-fig12", 3 * 3, 2, &[]);
}

#[test]
fn fig13() {
    check("mc2-fig13", 2 * 2 * 3, 1, NO_BUS);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig13_with_another_seed() {
    check("mc2-fig13", 2 * 2 * 3, 2, NO_BUS);
}

#[test]
fn fig14() {
    check("mc2-fig14", 3 * 3, 1, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn fig14_with_another_seed() {
    check("mc2-fig14", 3 * 3, 2, &[]);
}

#[test]
fn table1() {
    check("mc2-table1", 8 * 5 * 2, 1, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn table1_with_another_seed() {
    check("mc2-table1", 8 * 5 * 2, 2, &[]);
}

#[test]
#[ignore = "slow: make nightly"]
fn a_seed_gives_the_same_bytes() {
    for id in ["mc2-fig8", "mc2-fig10", "mc2-fig12", "mc2-fig13", "mc2-fig14", "mc2-table1"] {
        the_seed_fixes(id, 1);
        assert_ne!(rows(id, 1), rows(id, 2), "{id}: seeds differ in their page draws");
    }
}

/// Stopping is seen within a run.
#[test]
fn stops_when_told() {
    let experiment = find("mc2-fig14").unwrap_or_else(|| panic!("no mc2-fig14"));
    let context = Context { scale: Scale::Quick, seed: 1, progress: &|_| false, mutation: None };
    assert!((experiment.run)(&context).is_err());
}
