//! Vectors and 20,000 random events of all mechanisms, so that plain `cargo test` covers them. The
//! binary `policy-check` runs more.

use solocore_policy_check::MECHANISMS;
use solocore_policy_check::check::{self, Settings};
use std::io::Write;

const EVENTS: u64 = 20_000;

/// The harness hides what a passing test prints; what was left out must be seen.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "policy-check: {line}");
}

#[test]
fn all_sides_answer_alike() {
    let clangs = check::bpf_clangs(Vec::new());
    let skipped = clangs.as_ref().err().cloned();
    if let Some(why) = &skipped {
        say(&format!("BPF is NOT tested: {why}"));
    }
    let events = EVENTS.div_ceil(MECHANISMS.len() as u64);
    let settings = Settings { events, seed: 1, clangs: clangs.unwrap_or_default() };
    let reports: Vec<_> =
        MECHANISMS.iter().map(|m| check::mechanism(m, &settings, &mut |_| ())).collect();
    for report in &reports {
        println!("{report}");
        for failure in &report.failures {
            println!("  {}: {failure}", report.name);
        }
    }
    let (line, equal) = check::summary(&reports, skipped.as_deref());
    assert!(equal, "{line}");
}
