//! The figures of dynamic budgeting at the quick scale: their rows, their claims, and that the seed
//! alone decides.

mod figure;

use figure::{claims_differ, claims_hold, rows, the_seed_fixes};

fn the_seed_decides(id: &str) {
    the_seed_fixes(id, 1);
    assert_ne!(rows(id, 1), rows(id, 2), "{id}: seeds differ in their page draws");
}

#[test]
fn worst_slowdowns() {
    // With most seeds another benchmark is slowed more than pntrch; seed 4 is an exception. Which
    // co-runner is the worst one hangs on the layout: not the paper's, but by chance.
    let (most, bitmnp) = ("pntrch, which misses most, is slowed most", "pntrch is slowed most by");
    let which = "the worst co-runner of each other benchmark";
    claims_differ("dynamic-table1", 16, 4, &[bitmnp, which]);
    claims_differ("dynamic-table1", 16, 1, &[most, which]);
}

#[test]
fn safety_margins() {
    [1, 2].into_iter().for_each(|seed| claims_hold("dynamic-fig3", 18, seed));
}

#[test]
fn several_hard_cores() {
    claims_hold("dynamic-fig4", 20, 1);
}

#[test]
#[ignore = "slow: make nightly"]
fn several_hard_cores_with_another_seed() {
    claims_hold("dynamic-fig4", 20, 2);
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
