//! The figures of DRAMsim3 and Ramulator 2.1 in the set-up of docs/dram.md: mean latencies in ns,
//! widened by 5 %.

use solocore_dram::traffic::{self, Attack, Pattern, Report, Silent, Traffic};
use solocore_dram::{PRESETS, Spec};
use solocore_model::Bandwidth;

fn run(
    memory: &str,
    cap: Option<u32>,
    pattern: Pattern,
    load_mb: u64,
    writes: f64,
    requests: u64,
) -> (Report, f64) {
    let spec = Spec::find(memory).unwrap();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
    let writes = (writes * u64::MAX as f64) as u64;
    let traffic =
        Traffic { pattern, load: Bandwidth(load_mb * 1_000_000), writes, requests, seed: 1 };
    let report = traffic::run(&spec, cap, &traffic, &mut Silent).unwrap().expect("nobody stops it");
    let ns = report.latency.mean() * spec.timing.clock.ps() as f64 / 1000.0;
    (report, ns)
}

/// Memory, pattern, load in MB/s, share of writes, the two references.
const POINTS: &[(&str, Pattern, u64, f64, f64, f64)] = &[
    ("ddr3-1333", Pattern::Chase, 1, 0.0, 51.3, 48.5),
    ("ddr3-1333", Pattern::ChaseStream, 1, 0.0, 23.6, 21.9),
    ("ddr3-1333", Pattern::Random, 2000, 0.0, 60.0, 57.9),
    ("ddr3-1333", Pattern::Random, 5000, 0.0, 72.9, 71.3),
    ("ddr3-1333", Pattern::Random, 8000, 0.0, 114.0, 106.0),
    ("ddr3-1333", Pattern::Stream4, 8000, 0.0, 52.3, 50.9),
    // Measured for docs/dram.md; LPDDR4 has one reference.
    ("ddr3-1333", Pattern::Random, 3000, 0.2, 66.1, 60.8),
    ("ddr3-1333", Pattern::Random, 5000, 0.333, 83.1, 69.6),
    ("ddr3-1333", Pattern::Random, 7000, 0.333, 136.7, 103.7),
    ("ddr3-1333", Pattern::Random, 8000, 0.5, 228.6, 162.8),
    ("ddr3-1333", Pattern::Stream4, 5000, 0.333, 45.4, 39.6),
    ("ddr3-1333", Pattern::Stream4, 7000, 0.5, 65.0, 67.1),
    ("ddr3-1066", Pattern::Chase, 1000, 0.0, 52.7, 49.3),
    ("ddr3-1066", Pattern::Random, 5000, 0.0, 82.6, 79.7),
    ("ddr3-1066", Pattern::Random, 4000, 0.333, 81.8, 68.8),
    ("ddr4-2400", Pattern::Chase, 1000, 0.0, 46.5, 43.9),
    ("ddr4-2400", Pattern::ChaseStream, 1000, 0.0, 19.4, 18.5),
    ("ddr4-2400", Pattern::Random, 10000, 0.0, 74.8, 71.1),
    ("ddr4-2400", Pattern::Random, 8000, 0.333, 76.7, 69.1),
    ("ddr4-2400", Pattern::Stream4, 10000, 0.0, 39.8, 35.1),
    ("ddr4-2400", Pattern::Stream4, 8000, 0.2, 40.3, 36.9),
    ("lpddr4-3200", Pattern::Chase, 1000, 0.0, 60.9, 60.9),
    ("lpddr4-3200", Pattern::Random, 5000, 0.0, 92.3, 92.3),
    ("lpddr4-3200", Pattern::Stream4, 5000, 0.333, 43.8, 43.8),
];

#[test]
fn latencies_lie_in_the_band_of_the_references() {
    for cap in [Some(4), None] {
        for &(memory, pattern, load, writes, one, two) in POINTS {
            let (_, got) = run(memory, cap, pattern, load, writes, 200_000);
            let (low, high) = (one.min(two) / 1.05, one.max(two) * 1.05);
            assert!(
                (low..=high).contains(&got),
                "{memory} {pattern:?} {load} MB/s {writes}: {got:.1} is not in {low:.1}..{high:.1}"
            );
        }
    }
}

#[test]
fn the_load_arrives() {
    for (memory, _) in PRESETS {
        let spec = Spec::find(memory).unwrap();
        let (report, _) = run(memory, Some(4), Pattern::Random, 3000, 0.333, 100_000);
        let bytes_per_ns = report.answered as f64 * 64.0
            / (report.cycles as f64 * spec.timing.clock.ps() as f64 / 1000.0);
        assert!((bytes_per_ns / 3.0 - 1.0).abs() < 0.02, "{memory}: {bytes_per_ns} GB/s");
    }
}

fn attack(
    cap: Option<u32>,
    attackers: u16,
    outstanding: u16,
    same_bank: bool,
    random_rows: bool,
) -> f64 {
    let pattern = Pattern::Attack(Attack { attackers, outstanding, same_bank, random_rows });
    run("ddr3-1333", cap, pattern, 1, 0.0, 5000).1
}

/// Same bank, one read outstanding: k x 51 ns for k cores. Different banks: flat.
#[test]
fn banks_isolate() {
    for k in [1, 2, 4, 8] {
        let same = attack(Some(4), k - 1, 1, true, true);
        assert!((same / (f64::from(k) * 51.2) - 1.0).abs() < 0.02, "{k} cores: {same}");
        // Eight cores fill the data bus between them.
        let apart = attack(Some(4), k - 1, 1, false, true);
        assert!(
            (apart / 51.4 - 1.0).abs() < if k < 8 { 0.02 } else { 0.1 },
            "{k} cores apart: {apart}"
        );
    }
}

/// Without a cap an attacker holds the bank for a whole row; with one, no longer than the cap
/// allows.
#[test]
fn the_cap_bounds_a_row_hit_attacker() {
    for outstanding in [4, 8, 16] {
        let free = attack(None, 1, outstanding, true, false);
        assert!((700.0..1000.0).contains(&free), "{outstanding} without a cap: {free}");
        let mut last = 0.0;
        for cap in [0, 1, 2, 4, 8, 16] {
            let held = attack(Some(cap), 1, outstanding, true, false);
            assert!(held > last && held < 320.0, "{outstanding} under {cap}: {held}");
            last = held;
        }
    }
}

/// Attackers in other banks cannot keep the data bus in their rank either.
#[test]
fn ranks_take_turns_under_a_cap() {
    for (attackers, outstanding) in [(1, 4), (1, 16), (4, 16)] {
        let (free, held) = (
            attack(None, attackers, outstanding, false, false),
            attack(Some(4), attackers, outstanding, false, false),
        );
        assert!(
            held < 420.0 && held < free,
            "{attackers} x {outstanding}: {held} under a cap, {free} without"
        );
    }
}
