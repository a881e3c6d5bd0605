//! Types of cores with different clocks, as in big.LITTLE and hybrid CPUs.
//!
//! Problem: a job that fits on a fast core may miss its deadline on a slow one. Rule: `[[core_type]]`
//! gives each core its clock, and `frequency` is the clock of the slowest type. A time by
//! `frequency` is then long enough for every core, and only code that knows the core of a job may
//! take less. Does not cover: cores that differ in more than the clock. `cpi`, `pipeline` and the
//! private caches are one for all types; docs/machine.md says which values to give.

use crate::units::Frequency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Clocks that a core can have, in Hz.
pub(super) const FREQUENCIES: RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// `[[core_type]]`: the cores that have one clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreType {
    /// Name of the type, like `big`.
    pub name: String,
    /// Numbers of its cores. Each core of the platform has one type.
    pub cores: Vec<u32>,
    /// Clock of its cores. The `frequency` of the platform is that of the slowest type.
    pub frequency: Frequency,
}

/// Checks that each of the `cores` of a platform has one type, and that its `frequency` is the clock
/// of the slowest. No types: all cores have that clock.
pub(super) fn check(types: &[CoreType], cores: u32, frequency: Frequency) -> Result<(), String> {
    let Some(slowest) = types.iter().min_by_key(|kind| kind.frequency) else {
        return Ok(());
    };
    let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
    for (at, kind) in types.iter().enumerate() {
        let name = kind.name.as_str();
        if name.trim().is_empty() {
            return Err(format!("core_type[{}].name is empty; give it one", at + 1));
        }
        if types.iter().take(at).any(|other| other.name == name) {
            return Err(format!("core_type: two types have the name `{name}`; rename one"));
        }
        if !FREQUENCIES.contains(&kind.frequency.0) {
            return Err(format!(
                "core_type `{name}`: frequency = {}; give 1 MHz to 100 GHz",
                kind.frequency
            ));
        }
        own(kind, cores, &mut owners)?;
    }
    if let Some(core) = (0..cores).find(|core| !owners.contains_key(core)) {
        return Err(format!(
            "core_type: no type lists core {core}; add it to the cores of one type"
        ));
    }
    if slowest.frequency != frequency {
        return Err(format!(
            "frequency = {frequency}, but the slowest core_type, `{}`, has {}; give the clock of the \
                slowest type",
            slowest.name, slowest.frequency
        ));
    }
    Ok(())
}

/// Adds the cores of a type to those that have one.
fn own<'a>(
    kind: &'a CoreType,
    cores: u32,
    owners: &mut BTreeMap<u32, &'a str>,
) -> Result<(), String> {
    let name = kind.name.as_str();
    if kind.cores.is_empty() {
        return Err(format!("core_type `{name}`: cores is empty; list a core, or remove the type"));
    }
    for &core in &kind.cores {
        if core >= cores {
            return Err(format!(
                "core_type `{name}`: cores lists core {core}, but the platform has cores 0 to {}; \
                    list these",
                cores.saturating_sub(1)
            ));
        }
        if let Some(other) = owners.insert(core, name) {
            return Err(format!(
                "core_type `{name}`: cores lists core {core}, which `{other}` has already; list each \
                    core once"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::platform::{PRESETS, Platform};
    use std::path::Path;

    /// The i5-2500K with two fast cores.
    fn board(types: &str) -> Result<Platform, String> {
        let (_, text) = PRESETS.iter().find(|(name, _)| *name == "core-i5-2500k").unwrap();
        Platform::parse(Path::new("x.toml"), &format!("{text}\n{types}")).map_err(|e| e.to_string())
    }

    fn kind(name: &str, cores: &str, clock: &str) -> String {
        format!("[[core_type]]\nname = \"{name}\"\ncores = {cores}\nfrequency = \"{clock}\"\n")
    }

    #[test]
    fn each_core_has_the_clock_of_its_type() {
        let types = kind("big", "[2, 3]", "6.6 GHz") + &kind("little", "[0, 1]", "3.3 GHz");
        let p = board(&types).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|core| p.clock_of(core).0),
            [3_300_000_000, 3_300_000_000, 6_600_000_000, 6_600_000_000]
        );
        assert_eq!((p.fastest().0, p.clocks().len()), (6_600_000_000, 4));
        assert_eq!(p.clock_of(2).cycles_to_ps(6_600), 1_000_000);
        assert_ne!(p.geometry(), board("").unwrap().geometry(), "times are measured at its clocks");
    }

    #[test]
    fn a_board_without_types_is_as_before() {
        let p = board("").unwrap();
        assert_eq!((p.clock_of(3), p.fastest(), p.clocks()), (p.frequency, p.frequency, vec![]));
        assert!(!serde_json::to_string(&p).unwrap().contains("core_type"));
    }

    #[test]
    fn types_that_do_not_fit_the_cores_are_refused() {
        let little = kind("little", "[0, 1]", "3.3 GHz");
        let with = |more: String| little.clone() + &more;
        for (types, expect) in [
            (with(kind("big", "[1, 2, 3]", "6 GHz")), "core 1, which `little` has already"),
            (with(kind("big", "[2, 2, 3]", "6 GHz")), "core 2, which `big` has already"),
            (with(kind("big", "[2]", "6 GHz")), "no type lists core 3"),
            (with(kind("big", "[2, 3, 4]", "6 GHz")), "cores lists core 4"),
            (with(kind("big", "[]", "6 GHz")), "cores is empty"),
            (with(kind("big", "[2, 3]", "0 GHz")), "frequency = 0 Hz"),
            (with(kind("little", "[2, 3]", "6 GHz")), "two types have the name `little`"),
            (with(kind("", "[2, 3]", "6 GHz")), "core_type[2].name is empty"),
            (with(kind("big", "[2, 3]", "2 GHz")), "the slowest core_type, `big`, has 2 GHz"),
            (little.replace("cores", "core"), "unknown field"),
        ] {
            let error = board(&types).unwrap_err();
            assert!(error.contains(expect), "{expect}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
