//! The figures of BWLOCK at the quick scale: their rows, their claims, and that the seed alone
//! decides.

mod figure;

use figure::{claims_differ, claims_hold, rows, the_seed_fixes};
use solocore_experiments::{Context, Scale, find};

/// Four measures of the same runs, which are made once in a process for each seed.
const FIG3: [&str; 4] = ["bwlock-fig3a", "bwlock-fig3b", "bwlock-fig3c", "bwlock-fig3d"];

/// The latency goes on to rise beyond the paper's axis.
const LATER: &str = "it saturates between 100 and 1000 MB/s";

#[test]
fn contention() {
    claims_differ("bwlock-fig1", 9, 1, &[LATER]);
}

#[test]
#[ignore = "slow: make nightly"]
fn contention_with_another_seed() {
    claims_differ("bwlock-fig1", 9, 2, &[LATER]);
}

#[test]
fn locks() {
    for id in FIG3 {
        claims_hold(id, 30, 1);
    }
}

#[test]
#[ignore = "slow: make nightly"]
fn locks_with_another_seed() {
    for id in FIG3 {
        claims_hold(id, 30, 2);
    }
}

#[test]
fn overhead() {
    claims_hold("bwlock-overhead", 2, 1);
}

/// Fig. 3's runs are kept in the process, so that only Fig. 1 is made again.
#[test]
fn the_seed_decides() {
    the_seed_fixes("bwlock-fig1", 1);
    let draws = "seeds differ in their page draws";
    assert_ne!(rows("bwlock-fig1", 1), rows("bwlock-fig1", 3), "{draws}");
}

#[test]
fn an_experiment_stops_when_told() {
    for id in ["bwlock-fig1", "bwlock-fig3a"] {
        let context =
            Context { scale: Scale::Quick, seed: 5, progress: &|_| false, mutation: None };
        assert!(find(id).is_some_and(|e| (e.run)(&context).is_err()), "{id}");
    }
}
