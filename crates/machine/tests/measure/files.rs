//! Findings in a platform file: the changed, kept and refused values.

use crate::made_up::{MadeUp, Truth};
use crate::platform;
use solocore_machine::measure::{Apart, Effort, Finding, Key, Plan, file, measure};
use solocore_model::{Platform, Time};
use std::path::Path;
use std::time::Duration;

const TEXT: &str = include_str!("../../../../platforms/core-i5-2500k.toml");

fn findings(keys: &[Key]) -> Vec<Finding> {
    let platform = platform();
    let effort = Effort::full(Duration::from_secs(60));
    let plan = Plan { platform: &platform, keys, effort, apart: Apart::default(), bound_ns: None };
    measure(&mut MadeUp::new(Truth::desktop(), 5), &plan, &|_, _| {}).unwrap().unwrap()
}

fn derive(p: &Platform) -> Option<Time> {
    solocore_planner::memory::of(p).ok()?.latency_ps().map(Time::from_ps)
}

fn written(text: &str, findings: &mut [Finding]) -> Result<String, String> {
    let path = Path::new("machine.toml");
    file::with(path, text, findings, "2026-11-23", &derive, Time::from_ps(0))
        .map_err(|e| e.to_string())
}

/// A type's numbers go into its table. Breaks when they are written for the whole platform, or for
/// the first type.
#[test]
fn numbers_of_a_type_are_written_into_its_table() {
    let kind = |name: &str, cores: &str, keys: &str| {
        format!(
            "\n[[core_type]]\nname = \"{name}\"\ncores = {cores}\nfrequency = \"3.3 GHz\"\n{keys}"
        )
    };
    let text = TEXT.to_owned() + &kind("a", "[0, 1]", "") + &kind("b", "[2, 3]", "cpi = 7.0\n");
    let mut found = findings(&[Key::Cpi, Key::L2, Key::Mshrs]);
    assert!(found.iter().all(|f| f.key.is_of_core()));
    found.iter_mut().for_each(|f| f.core_type = Some("b".to_owned()));
    let written = written(&text, &mut found).unwrap();
    let (old, new) = (platform(), Platform::parse(Path::new("m.toml"), &written).unwrap());
    assert_eq!((new.cpi, &new.l2, new.pipeline), (old.cpi, &old.l2, old.pipeline));
    assert_eq!(new.seen_from(1), Platform { core_types: Vec::new(), ..new.clone() });
    assert!(new.cpi_of(2) < 7.0 && new.core_types[1].cpi.is_some(), "{written}");
    let second = new.core_types[1].l2.as_ref().unwrap();
    assert_eq!(second.size, old.l2.as_ref().unwrap().size);
    assert!(new.core_types[1].pipeline.unwrap().mshrs >= 1);
    assert_eq!(found[0].before.as_deref(), Some("7.0"));
    assert_eq!(found[0].name(), "cpi (b)");
}

#[test]
fn the_presets_numbers_come_back_and_comments_stay() {
    let mut found = findings(&Key::ALL);
    let text = written(TEXT, &mut found).unwrap();
    let (old, new) = (platform(), Platform::parse(Path::new("m.toml"), &text).unwrap());
    assert!((1.0..1.03).contains(&(new.cpi * GHZ_OF_TRUTH / old.cpi)), "{}", new.cpi);
    let ratio = |new: Time, old: Time| new.ps() as f64 / old.ps() as f64;
    assert!((0.99..1.09).contains(&ratio(new.dram.overhead, old.dram.overhead)));
    assert!((0.99..1.03).contains(&ratio(new.dram.latency_max, old.dram.latency_max)));
    assert_eq!(new.dram.latency_max_paper, Some(new.row_conflict()));
    assert!((8..=9).contains(&new.l2.unwrap().latency.0), "7.99 cycles, and noise");
    let changed: Vec<&str> = text
        .lines()
        .zip(TEXT.lines())
        .filter(|(new, old)| new != old)
        .map(|(new, _)| new.split(' ').next().unwrap())
        .collect();
    let keys =
        ["cpi", "mshrs", "latency", "latency", "overhead", "latency_max", "latency_max_paper"];
    assert_eq!(changed, keys);
    assert_eq!(text.lines().count(), TEXT.lines().count());
    assert!(text.contains("# measured: 2026-11-23, 95 % ["), "{text}");
    let of = |key| found.iter().find(|f| f.key == key).unwrap().clone();
    assert_eq!(of(Key::Cpi).before.as_deref(), Some("1.0, assumed"));
    assert_eq!(of(Key::L2).before.as_deref(), Some("\"8 cycles\""));
    assert_eq!(of(Key::Bandwidth).after, None);
    // A second measurement finds the first one as the former value.
    let again = written(&text, &mut found).unwrap();
    assert_eq!(again, text);
    let of = |key| found.iter().find(|f| f.key == key).unwrap().clone();
    assert!(of(Key::L2).before.unwrap().ends_with(", measured"));
}

/// The platform's clock times the truth's 0.3 ns is 0.99.
const GHZ_OF_TRUTH: f64 = 1.0 / 0.99;

/// The measured cases did not reach `L_max`; the file gets the value of the timing.
#[test]
fn a_measured_worst_below_the_timings_is_raised() {
    let mut found = findings(&[Key::Overhead, Key::LatencyMax]);
    for finding in found.iter_mut().filter(|f| f.key == Key::LatencyMax) {
        finding.value = 65.0;
    }
    let text = written(TEXT, &mut found).unwrap();
    let p = Platform::parse(Path::new("m.toml"), &text).unwrap();
    assert!(p.dram.latency_max >= derive(&p).unwrap(), "{:?}", p.dram.latency_max);
    assert!(found[1].notes.iter().any(|n| n.contains("may not have met")), "{:?}", found[1]);
    // A value above that of the timing is kept.
    found[1].value = 150.0;
    let text = written(TEXT, &mut found).unwrap();
    let p = Platform::parse(Path::new("m.toml"), &text).unwrap();
    assert_eq!(p.dram.latency_max, Time::from_ns(150));
}

#[test]
fn an_overhead_alone_moves_what_follows_from_it() {
    let mut found = findings(&[Key::Overhead]);
    found[0].value = 60.0;
    let text = written(TEXT, &mut found).unwrap();
    let p = Platform::parse(Path::new("m.toml"), &text).unwrap();
    assert_eq!(p.dram.overhead, Time::from_ns(60));
    assert!(p.dram.latency_max >= derive(&p).unwrap());
    assert!(text.contains("# derived: the "), "{text}");
}

#[test]
fn a_file_without_the_key_is_refused() {
    let mut found = findings(&[Key::Mshrs]);
    let without: String = TEXT
        .lines()
        .filter(|l| !l.starts_with("mshrs") && !l.starts_with("window") && *l != "[pipeline]")
        .flat_map(|l| [l, "\n"])
        .collect();
    let error = written(&without, &mut found).unwrap_err();
    assert!(error.starts_with("machine.toml: pipeline.mshrs") && error.contains("; "), "{error}");
    found[0].keep = true;
    assert_eq!(written(&without, &mut found).unwrap(), without, "nothing is to be written");
    found[0].keep = false;
    let error = written("= 1", &mut found).unwrap_err();
    assert!(error.starts_with("machine.toml: ") && !error.contains('\n'), "{error}");
    found[0].value = 65.0;
    let error = written(TEXT, &mut found).unwrap_err();
    assert!(error.contains("contradict the file") && error.contains("mshrs = 65"), "{error}");
}
