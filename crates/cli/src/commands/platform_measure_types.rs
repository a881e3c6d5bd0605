//! The numbers of each type of cores, for `solocore platform measure`.
//!
//! Problem: cycles per instruction, the second level's latency and the miss registers differ
//! between types, and one CPU has those of its own. Rule: they are measured on one CPU of each
//! type, in cycles of the type's clock, behind its private caches. A CPU has the type of its core,
//! also if it is a second thread; one without a type is refused, because walks behind wrong caches
//! may give too small a latency. Does not cover: a type without a CPU that this process may use; a
//! note says so, and its numbers stay.

use crate::fail::Failure;
use crate::progress::stopped;
use solocore_linux::host::machine::cpu_list;
use solocore_machine::Description;
use solocore_machine::measure::hardware::{Machine, Setup};
use solocore_machine::measure::{self, Apart, Effort, Finding, Key, Plan};
use solocore_model::Platform;
use solocore_model::platform::CoreType;
use std::path::Path;

/// What is measured of each type.
pub struct Types<'a> {
    /// The platform file.
    pub platform: &'a Platform,
    /// This machine, which has the same types.
    pub here: &'a Description,
    /// The keys, all of them of cores.
    pub keys: &'a [Key],
    /// CPUs that this process may use, as they were before it kept to one of them.
    pub usable: &'a [u32],
    /// Effort for each key.
    pub effort: Effort,
    /// Is time emulated?
    pub emulated: bool,
}

/// The CPUs of the cores of a type, in order. Core i of a file need not be CPU i.
pub fn cpus_of(here: &Description, kind: &CoreType) -> Vec<u32> {
    let sorted = |cores: &[u32]| {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores
    };
    let own = sorted(&kind.cores);
    let mut all = here.platform.core_types.iter().zip(&here.threads);
    let found = all.find(|(theirs, _)| sorted(&theirs.cores) == own);
    found.map_or_else(Vec::new, |(_, threads)| threads.clone())
}

/// The CPUs of all types.
fn typed(platform: &Platform, here: &Description) -> Vec<u32> {
    let mut all: Vec<u32> =
        platform.core_types.iter().flat_map(|kind| cpus_of(here, kind)).collect();
    all.sort_unstable();
    all
}

/// The CPU that measures where the user names none: the last usable one that has a type. `None`:
/// the file has no types, or none of these CPUs has one.
pub fn typed_cpu(platform: &Platform, here: &Description, usable: &[u32]) -> Option<u32> {
    let typed = typed(platform, here);
    usable.iter().rev().copied().find(|cpu| typed.contains(cpu))
}

/// The platform with the private caches of a CPU.
///
/// # Errors
/// The file has core types, and the CPU is of none of them.
pub fn own_view(
    file: &Path,
    platform: &Platform,
    here: &Description,
    cpu: u32,
) -> Result<Platform, Failure> {
    let core = core_of(file, platform, here, cpu)?;
    Ok(core.map_or_else(|| platform.clone(), |core| platform.seen_from(core)))
}

/// A core of the type of a CPU; `None`: the file has no types.
///
/// # Errors
/// The file has core types, and the CPU is of none of them.
pub fn core_of(
    file: &Path,
    platform: &Platform,
    here: &Description,
    cpu: u32,
) -> Result<Option<u32>, Failure> {
    if platform.core_types.is_empty() {
        return Ok(None);
    }
    let kind = platform.core_types.iter().find(|kind| cpus_of(here, kind).contains(&cpu));
    if let Some(&core) = kind.and_then(|kind| kind.cores.first()) {
        return Ok(Some(core));
    }
    Err(Failure::Input(format!(
        "{}: core_type: no type has CPU {cpu}, so its private caches are unknown; give --cpu one \
            of {}",
        file.display(),
        cpu_list(&typed(platform, here))
    )))
}

/// Measures the keys on a CPU of each type; `None` if the user stopped it.
///
/// # Errors
/// As [`measure::measure`]; a CPU that cannot be used.
pub fn of_types(
    types: &Types,
    said: &dyn Fn(&str, f64),
    notes: &mut Vec<String>,
) -> Result<Option<Vec<Finding>>, Failure> {
    let mut all = Vec::new();
    let kinds = types.platform.core_types.iter().filter(|_| !types.keys.is_empty());
    for kind in kinds {
        let own = cpus_of(types.here, kind);
        let Some(&cpu) = own.iter().find(|cpu| types.usable.contains(cpu)) else {
            notes.push(format!(
                "no CPU of core_type `{}` can be used: its cpi, l2.latency and mshrs stay as they \
                    are",
                kind.name
            ));
            continue;
        };
        let core = kind.cores.first().copied().unwrap_or(0);
        let view = Platform { frequency: kind.frequency, ..types.platform.seen_from(core) };
        let emulated = types.emulated;
        let setup = Setup { cpu, others: Vec::new(), platform: &view, emulated, stopped };
        let mut probe = Machine::new(setup)?;
        let plan = Plan {
            platform: &view,
            keys: types.keys,
            effort: types.effort,
            apart: Apart::default(),
            bound_ns: None,
        };
        let Some(found) = measure::measure(&mut probe, &plan, said)? else { return Ok(None) };
        let name = Some(kind.name.clone());
        all.extend(found.into_iter().map(|f| Finding { core_type: name.clone(), ..f }));
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::platform::L2;
    use solocore_model::units::{Bytes, Cycles, Frequency};

    /// Two cores with two threads each and a second level, and two small cores without.
    fn hybrid() -> (Platform, Description) {
        let mut platform = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        platform.l2 = None;
        let of = |name: &str, cores: Vec<u32>, mhz: u64| {
            CoreType::of_clock(name, cores, Frequency(mhz * 1_000_000))
        };
        let mut large = of("core", vec![0, 1], 3300);
        large.l2 = Some(L2 { size: Bytes(256 << 10), ways: 8, latency: Cycles(8) });
        platform.core_types = vec![large, of("atom", vec![2, 3], 2200)];
        let here = Description {
            platform: platform.clone(),
            facts: Vec::new(),
            found: Vec::new(),
            notes: Vec::new(),
            highest: vec![None, None],
            threads: vec![vec![0, 1, 2, 3], vec![4, 5]],
            cpus: (0..6).collect(),
            others: vec![vec![6, 7]],
        };
        (platform, here)
    }

    /// Breaks when a second thread has the caches of the whole platform: walks that should leave
    /// the second level would then stay in it.
    #[test]
    fn a_second_thread_has_the_caches_of_its_core() {
        let (platform, here) = hybrid();
        let second = |cpu| own_view(Path::new("m.toml"), &platform, &here, cpu).unwrap().l2;
        for cpu in 0..4 {
            assert_eq!(second(cpu).map(|l2| l2.size.0), Some(256 << 10), "CPU {cpu}");
        }
        assert_eq!((second(4), second(5)), (None, None));
        // The order of the types of the file is its own.
        let mut other = platform.clone();
        other.core_types.swap(0, 1);
        let found = own_view(Path::new("m.toml"), &other, &here, 3).unwrap();
        assert!(found.l2.is_some() && found.core_types.is_empty());
    }

    #[test]
    fn a_cpu_without_a_type_is_refused() {
        let (platform, here) = hybrid();
        let refused = own_view(Path::new("m.toml"), &platform, &here, 6).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        let text = refused.message();
        assert!(text.starts_with("m.toml: core_type: no type has CPU 6"), "{text}");
        assert!(text.contains("--cpu one of 0-5"), "{text}");
        // A file without types has the same caches everywhere.
        let plain = Platform { core_types: Vec::new(), ..platform };
        assert_eq!(own_view(Path::new("m.toml"), &plain, &here, 6).unwrap(), plain);
    }

    #[test]
    fn a_cpu_with_a_type_measures() {
        let (platform, here) = hybrid();
        assert_eq!(typed_cpu(&platform, &here, &[0, 3, 6, 7]), Some(3));
        assert_eq!(typed_cpu(&platform, &here, &[6, 7]), None);
        let plain = Platform { core_types: Vec::new(), ..platform };
        assert_eq!(typed_cpu(&plain, &here, &[0, 3]), None);
    }
}
