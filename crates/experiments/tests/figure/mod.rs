//! Runs of experiments at the quick scale, for the tests of each paper.

#![allow(dead_code, reason = "no paper's tests need all of it")]

use solocore_experiments::{Context, Outcome, Scale, Verdict, chart, find};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// An experiment and its seed.
type Key = (String, u64);

/// What has been run in this process: tests that ask for the same run share it.
static RUNS: LazyLock<Mutex<BTreeMap<Key, Arc<OnceLock<Outcome>>>>> = LazyLock::new(Mutex::default);

/// The rows of one run, which another test may have made.
pub fn rows(id: &str, seed: u64) -> String {
    with_run(id, seed, |outcome| outcome.table.to_csv())
}

fn with_run<T>(id: &str, seed: u64, look: impl FnOnce(&Outcome) -> T) -> T {
    let run_once = RUNS.lock().unwrap().entry((id.to_owned(), seed)).or_default().clone();
    look(run_once.get_or_init(|| run(id, seed)))
}

/// A run of its own gives the same rows as the one that tests share.
pub fn the_seed_fixes(id: &str, seed: u64) {
    let again = run(id, seed).table.to_csv();
    assert_eq!(again, rows(id, seed), "{id}");
}

/// One run, of its own.
pub fn run(id: &str, seed: u64) -> Outcome {
    let experiment = find(id).unwrap_or_else(|| panic!("no experiment {id}"));
    let context = Context { scale: Scale::Quick, seed, progress: &|_| true, mutation: None };
    (experiment.run)(&context).unwrap_or_else(|e| panic!("{id}: {e}"))
}

/// It has so many `rows`, something is drawn, and the claims that differ are those that begin like
/// one of `differing`, and no others.
pub fn claims_differ(id: &str, rows: usize, seed: u64, differing: &[&str]) {
    with_run(id, seed, |outcome| judge(outcome, id, rows, seed, differing));
}

fn judge(outcome: &Outcome, id: &str, rows: usize, seed: u64, differing: &[&str]) {
    assert_eq!(outcome.table.rows.len(), rows, "{id}");
    assert!(!outcome.checks.is_empty(), "{id}");
    assert!(differing.is_empty() || !outcome.differs.is_empty(), "{id}");
    assert!(!outcome.charts.is_empty(), "{id}");
    assert!(chart::svg(&outcome.charts).is_ok_and(|svg| svg.contains("</svg>")), "{id}");
    for c in &outcome.checks {
        let known = differing.iter().any(|f| c.claim.starts_with(f));
        let differs = c.verdict == Verdict::Differs;
        assert_eq!(differs, known, "{id}, seed {seed}: {}: {}", c.claim, c.found);
    }
}

/// The same where no claim differs.
pub fn claims_hold(id: &str, rows: usize, seed: u64) {
    claims_differ(id, rows, seed, &[]);
}

/// The same with two seeds.
pub fn holds(id: &str, rows: usize) {
    [1, 2].into_iter().for_each(|seed| claims_hold(id, rows, seed));
}
