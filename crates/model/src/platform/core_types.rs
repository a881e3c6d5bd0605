//! Types of cores, as in big.LITTLE and hybrid CPUs.
//!
//! Problem: a job that fits on a fast core may miss its deadline on a slow one. Rule:
//! `[[core_type]]` gives each core its clock, and `frequency` is the clock of the slowest type. A
//! type may also have its own cycles per instruction, pipeline and private caches; a key that it
//! leaves out is the platform's. Only code that knows the core of a job takes the numbers of its
//! type. Does not cover: lines, which have one size at every level of every core; the shared
//! cache's latency, which is one for all.

use super::private::{L1, L2, Pipeline, check_cache, check_cpi, check_pipeline};
use crate::units::{Bytes, Frequency};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Clocks that a core can have, in Hz.
pub(super) const FREQUENCIES: RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// `[[core_type]]`: the cores that are alike. Keys that it leaves out are those of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreType {
    /// Name of the type, like `big`.
    pub name: String,
    /// Numbers of its cores. Each core of the platform has one type.
    pub cores: Vec<u32>,
    /// Clock of its cores. The `frequency` of the platform is that of the slowest type.
    pub frequency: Frequency,
    /// Cycles per instruction of its cores, with every reference a hit in the first level. Left
    /// out: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<f64>,
    /// Memory time that its cores hide. Left out: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Private instruction cache of its cores. Left out: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1i: Option<L1>,
    /// Private data cache of its cores. Left out: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1d: Option<L1>,
    /// Private second level of its cores. Left out: the platform's, which may have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2: Option<L2>,
}

impl CoreType {
    /// A type that differs from the platform in its clock alone.
    pub fn of_clock(name: &str, cores: Vec<u32>, frequency: Frequency) -> Self {
        let name = name.to_owned();
        Self { name, cores, frequency, cpi: None, pipeline: None, l1i: None, l1d: None, l2: None }
    }

    /// Checks the keys that it states itself, with those of the platform that it takes: `inherited`
    /// are the platform's `l1i` and `l1d`, `second` is its second level. `llc` is the size of the
    /// shared cache, `line` that of a line.
    pub(super) fn check_own(
        &self,
        inherited: [&L1; 2],
        second: Option<&L2>,
        llc: Bytes,
        line: Bytes,
    ) -> Result<(), String> {
        let of = format!("core_type `{}`: ", self.name);
        self.cpi.map_or(Ok(()), |cpi| check_cpi(&of, cpi))?;
        self.pipeline.map_or(Ok(()), |pipeline| check_pipeline(&of, pipeline))?;
        let first = [("l1i", &self.l1i), ("l1d", &self.l1d)];
        let first = first.into_iter().filter_map(|(key, c)| Some((key, c.as_ref()?)));
        let own = self.l2.iter().map(|c| ("l2", c.size, c.ways));
        for (key, size, ways) in first.clone().map(|(key, c)| (key, c.size, c.ways)).chain(own) {
            check_cache(&format!("{of}{key}"), size, ways, line)?;
            if size > llc {
                return Err(format!(
                    "{of}{key}.size = {size} is more than llc.size = {llc}; correct one"
                ));
            }
        }
        self.check_levels(inherited, second, &of)
    }

    /// Refuses a first level, of its own or of the platform, that is larger than its second. What
    /// the platform alone states is the platform's matter.
    fn check_levels(
        &self,
        [l1i, l1d]: [&L1; 2],
        second: Option<&L2>,
        of: &str,
    ) -> Result<(), String> {
        let Some(second) = self.l2.as_ref().or(second).map(|l2| l2.size) else { return Ok(()) };
        let first = [("l1i", &self.l1i, l1i), ("l1d", &self.l1d, l1d)].into_iter();
        let mut larger = first.filter_map(|(key, own, inherited)| {
            let size = own.as_ref().unwrap_or(inherited).size;
            if size <= second || own.is_none() && self.l2.is_none() {
                return None;
            }
            let (whose, or) = match (own, &self.l2) {
                (Some(_), Some(_)) => ("", String::new()),
                (Some(_), None) => ("", ", or give the type an l2 of its own".to_owned()),
                (None, _) => {
                    (" (the platform's)", format!(", or give the type an {key} of its own"))
                }
            };
            Some(format!(
                "{of}{key}.size = {size}{whose} is more than its l2.size = {second}; correct \
                    one{or}"
            ))
        });
        larger.next().map_or(Ok(()), Err)
    }
}

/// Checks that each of the `cores` of a platform has one type, and that its `frequency` is the
/// clock of the slowest. No types: all cores have that clock.
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
    use crate::platform::{PRESETS, Pace, Platform};
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

    const OWN: &str = "cpi = 0.5\npipeline = { mshrs = 12, window = \"64 cycles\" }\n\
        l1d.size = \"64 KiB\"\nl1d.ways = 8\nl2.size = \"512 KiB\"\nl2.ways = 8\n\
        l2.latency = \"13 cycles\"\n";

    /// Breaks when a key of a type is not asked for, or one type's key is another's.
    #[test]
    fn each_core_has_the_numbers_of_its_type() {
        let types = kind("little", "[0, 1]", "3.3 GHz") + &kind("big", "[2, 3]", "6.6 GHz") + OWN;
        let (p, plain) = (board(&types).unwrap(), board("").unwrap());
        assert_eq!((p.cpi_of(1), p.cpi_of(2), p.least_cpi()), (plain.cpi, 0.5, 0.5));
        assert_eq!(p.most_cpi(), plain.cpi);
        assert_eq!((p.pipeline_of(0), p.pipeline_of(3).mshrs), (plain.pipeline, 12));
        assert_eq!(p.most_mshrs(), plain.pipeline.mshrs.max(12));
        let (little, big) = (p.private_of(0), p.private_of(3));
        assert_eq!((&little.l1d, &little.l2), (&plain.l1d, &plain.l2));
        assert_eq!((&big.l1i, big.l1d.size.0), (&plain.l1i, 64 << 10));
        assert_eq!(big.l2.as_ref().map(|l2| l2.size.0), Some(512 << 10));
        assert_eq!(p.private_lines(), big.lines(p.llc.line));
        assert!(p.cores_differ() && p.private_kinds() == 2);
        let more = Pace::parts(plain.cpi) - Pace::parts(0.5);
        assert_eq!((p.pace_of(0).more, p.pace_of(3).more), (more, 0));
        assert_eq!((p.slowest_pace().more, p.slowest_pace().clock), (more, p.frequency));
        assert_eq!((p.fastest_pace().more, p.fastest_pace().clock), (0, p.fastest()));
        let text = toml::to_string(&p).unwrap();
        assert_eq!(Platform::parse(Path::new("y.toml"), &text).unwrap(), p);
    }

    /// A profile on any core covers both sets of caches; that of a pinned task covers its own.
    #[test]
    fn a_profile_has_the_caches_of_the_cores_that_may_run_it() {
        let types = kind("little", "[0, 1]", "3.3 GHz") + &kind("big", "[2, 3]", "6.6 GHz") + OWN;
        let p = board(&types).unwrap();
        let views = p.views(None);
        assert_eq!(views.len(), 2);
        assert!(views.iter().all(|v| v.core_types.is_empty() && v.cpi == 0.5));
        assert_eq!(views[1].private_of(0), p.private_of(2));
        let all = [p.geometry(), p.geometry_on(Some(0)), p.geometry_on(Some(3))];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
        assert_eq!(p.geometry_on(Some(0)), p.geometry_on(Some(1)));
        assert_eq!((p.views(Some(3)).len(), &p.views(Some(3))[0]), (1, &views[1]));
    }

    #[test]
    fn a_type_with_the_numbers_of_the_platform_changes_nothing() {
        let plain = board("").unwrap();
        let mut p = board(&kind("all", "[0, 1, 2, 3]", "3.3 GHz")).unwrap();
        (p.core_types[0].cpi, p.core_types[0].l2) = (Some(plain.cpi), plain.l2.clone());
        p.core_types[0].pipeline = Some(plain.pipeline);
        assert!(!p.cores_differ());
        assert_eq!((p.geometry(), p.pace_of(0)), (plain.geometry(), plain.slowest_pace()));
        assert_eq!((p.fastest_pace(), p.slowest_pace().more), (plain.fastest_pace(), 0));
        assert_eq!(p.private_lines(), plain.private_lines());
    }

    #[test]
    fn impossible_numbers_of_a_type_are_refused() {
        let all = kind("all", "[0, 1, 2, 3]", "3.3 GHz");
        for (keys, expect) in [
            ("cpi = 0.0", "core_type `all`: cpi = 0"),
            ("pipeline = { mshrs = 65, window = \"1 cycles\" }", "`all`: pipeline: mshrs = 65"),
            ("l1i = { size = \"48 KiB\", ways = 8 }", "`all`: l1i: size 48 KiB"),
            ("l1d = { size = \"32 KiB\", ways = 8, line = \"32 B\" }", "unknown field"),
            ("l1d = { size = \"1 MiB\", ways = 8 }", "l1d.size = 1 MiB is more than its l2.size"),
            (
                "l2 = { size = \"16 KiB\", ways = 8, latency = \"9 cycles\" }",
                "`all`: l1i.size = 32 KiB (the platform's) is more than its l2.size = 16 KiB",
            ),
            (
                "l1i = { size = \"8 KiB\", ways = 8 }\nl2 = { size = \"16 KiB\", ways = 8, \
                    latency = \"9 cycles\" }",
                "`all`: l1d.size = 32 KiB (the platform's) is more than its l2.size = 16 KiB",
            ),
            (
                "l1d = { size = \"64 KiB\", ways = 8 }\nl2 = { size = \"32 KiB\", ways = 8, \
                    latency = \"9 cycles\" }",
                "`all`: l1d.size = 64 KiB is more than its l2.size = 32 KiB; correct one",
            ),
            (
                "l2 = { size = \"8 MiB\", ways = 8, latency = \"9 cycles\" }",
                "l2.size = 8 MiB is more than llc.size = 6 MiB",
            ),
        ] {
            let error = board(&format!("{all}{keys}\n")).unwrap_err();
            assert!(error.contains(expect), "{expect}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
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
