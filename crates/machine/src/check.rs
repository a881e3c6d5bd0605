//! Comparison of a platform file with a machine.
//!
//! Problem: a platform file of another machine plans as well as the right one, and its bounds mean
//! nothing here. Rule: each key with a value from the machine, or from a document about it, is
//! compared; assumed values are not. A clock agrees with the lowest or the highest that the machine
//! has, within 1 %. Where cores are of several types, each type has its own two clocks and its own
//! private caches. Does not cover: times, which have to be measured.

use crate::description::Description;
use crate::known::{Fact, Source};
use crate::lists;
use serde::Serialize;
use solocore_model::Platform;
use solocore_model::platform::{CoreType, PrivateCaches};
use solocore_model::units::Frequency;

/// A key on which file and machine differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Key of the platform file.
    pub key: String,
    /// Value in the file.
    pub file: String,
    /// Value of the machine.
    pub machine: String,
    /// Source of the machine's value.
    pub from: String,
}

/// Result of a comparison.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    /// Keys that differ.
    pub differences: Vec<Difference>,
    /// Keys that agree.
    pub agree: Vec<String>,
}

/// A key, and its value in a platform.
type Key = (&'static str, fn(&Platform) -> String);

fn of<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |v| v.to_string())
}

/// Keys that a machine can contradict.
const KEYS: &[Key] = &[
    ("isa", |p| p.isa.to_string()),
    ("cores", |p| p.cores.to_string()),
    ("frequency", |p| p.frequency.to_string()),
    ("page", |p| p.page.to_string()),
    ("l1i.size", |p| p.l1i.size.to_string()),
    ("l1i.ways", |p| p.l1i.ways.to_string()),
    ("l1d.size", |p| p.l1d.size.to_string()),
    ("l1d.ways", |p| p.l1d.ways.to_string()),
    ("l2.size", |p| of(p.l2.as_ref().map(|l2| l2.size))),
    ("l2.ways", |p| of(p.l2.as_ref().map(|l2| l2.ways))),
    ("llc.size", |p| p.llc.size.to_string()),
    ("llc.ways", |p| p.llc.ways.to_string()),
    ("llc.line", |p| p.llc.line.to_string()),
    ("dram.channels", |p| p.dram.channels.to_string()),
    ("dram.ranks", |p| p.dram.ranks.to_string()),
    ("core_type.cores", types),
];

/// A key of private caches, and its value in those of a core.
type OwnKey = (&'static str, fn(&PrivateCaches) -> String);

/// Keys of private caches that a machine can contradict.
const OWN: &[OwnKey] = &[
    ("l1i.size", |c| c.l1i.size.to_string()),
    ("l1i.ways", |c| c.l1i.ways.to_string()),
    ("l1d.size", |c| c.l1d.size.to_string()),
    ("l1d.ways", |c| c.l1d.ways.to_string()),
    ("l2.size", |c| of(c.l2.as_ref().map(|l2| l2.size))),
    ("l2.ways", |c| of(c.l2.as_ref().map(|l2| l2.ways))),
];

/// The cores of each type.
fn types(p: &Platform) -> String {
    let cores = |kind: &CoreType| {
        let mut cores = kind.cores.clone();
        cores.sort_unstable();
        lists::show(&cores)
    };
    let mut all: Vec<String> = p.core_types.iter().map(cores).collect();
    all.sort_unstable();
    if all.is_empty() { "none".to_owned() } else { all.join(" and ") }
}

/// Compares a platform file with a description of a machine.
pub fn compare(file: &Platform, machine: &Description) -> Comparison {
    let mut comparison = Comparison::default();
    let typed = !file.core_types.is_empty() && types(file) == types(&machine.platform);
    for (key, value) in KEYS {
        // Those of each type are compared below.
        if typed && OWN.iter().any(|(own, _)| own == key) {
            continue;
        }
        // A key of a list stands for the list.
        let is_it = |fact: &&Fact| fact.key == *key || fact.key.replacen("[1]", "", 1) == *key;
        let fact = machine.facts.iter().find(is_it);
        if fact.is_some_and(|fact| fact.source == Source::Assumed) {
            continue;
        }
        let (ours, theirs) = (value(file), value(&machine.platform));
        if ours == theirs || *key == "frequency" && is_a_clock(file, machine) {
            comparison.agree.push((*key).to_owned());
            continue;
        }
        let from = fact.map_or_else(|| "not found".to_owned(), Fact::comment);
        let difference = Difference { key: (*key).to_owned(), file: ours, machine: theirs, from };
        comparison.differences.push(difference);
    }
    if typed {
        clocks_of_types(file, machine, &mut comparison);
        caches_of_types(file, machine, &mut comparison);
    }
    comparison
}

/// The clock that the file gives the cores of each type of the machine.
fn clocks_of_types(file: &Platform, machine: &Description, comparison: &mut Comparison) {
    for (at, kind) in (1..).zip(&machine.platform.core_types) {
        let key = format!("core_type[{at}].frequency");
        let fact = machine.facts.iter().find(|fact| fact.key == key);
        let Some(fact) = fact.filter(|fact| fact.source != Source::Assumed) else { continue };
        let highest = machine.highest.get(at - 1).copied().flatten();
        let ours = kind.cores.first().map_or(file.frequency, |&core| file.clock_of(core));
        if is_near(ours, kind.frequency, highest) {
            comparison.agree.push(key);
            continue;
        }
        let (file, machine, from) = (ours.to_string(), kind.frequency.to_string(), fact.comment());
        comparison.differences.push(Difference { key, file, machine, from });
    }
}

/// The private caches that the file gives the cores of each type of the machine.
fn caches_of_types(file: &Platform, machine: &Description, comparison: &mut Comparison) {
    for (at, kind) in (1..).zip(&machine.platform.core_types) {
        let Some(&core) = kind.cores.first() else { continue };
        let (ours, theirs) = (file.private_of(core), machine.platform.private_of(core));
        for (name, value) in OWN {
            let key = format!("core_type[{at}].{name}");
            let find = |key: &str| machine.facts.iter().find(|fact| fact.key == key);
            let fact = find(&key).or_else(|| find(name));
            if fact.is_some_and(|fact| fact.source == Source::Assumed) {
                continue;
            }
            let (file, machine) = (value(&ours), value(&theirs));
            if file == machine {
                comparison.agree.push(key);
                continue;
            }
            let from = fact.map_or_else(|| "not found".to_owned(), Fact::comment);
            comparison.differences.push(Difference { key, file, machine, from });
        }
    }
}

/// `frequency` is a clock of the slowest type.
fn is_a_clock(file: &Platform, machine: &Description) -> bool {
    let highest = machine.highest.iter().copied().flatten().min();
    is_near(file.frequency, machine.platform.frequency, highest)
}

fn is_near(clock: Frequency, lowest: Frequency, highest: Option<u64>) -> bool {
    let near = |hz: u64| clock.0.abs_diff(hz) <= hz / 100;
    near(lowest.0) || highest.is_some_and(near)
}
