//! The numbers of each type of cores, for `solocore platform measure`.
//!
//! Problem: cycles per instruction, the second level's latency and the miss registers differ between
//! types, and one CPU has those of its own. Rule: they are measured on one CPU of each type, in
//! cycles of the type's clock, behind its private caches. Does not cover: a type without a CPU that
//! this process may use; a note says so, and its numbers stay.

use crate::fail::Failure;
use crate::progress::stopped;
use solocore_machine::Description;
use solocore_machine::measure::hardware::{Machine, Setup};
use solocore_machine::measure::{self, Effort, Finding, Key, Plan};
use solocore_model::Platform;
use solocore_model::platform::CoreType;

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

/// The CPUs of the cores of a type. Core i of a file need not be CPU i.
fn cpus(here: &Description, kind: &CoreType) -> Vec<u32> {
    let sorted = |cores: &[u32]| {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores
    };
    let own = sorted(&kind.cores);
    let all = here.platform.core_types.iter().zip(&here.heads);
    let found = all.into_iter().find(|(theirs, _)| sorted(&theirs.cores) == own);
    found.map_or_else(Vec::new, |(_, heads)| heads.clone())
}

/// The platform with the private caches of a CPU.
pub fn own_view(platform: &Platform, here: &Description, cpu: u32) -> Platform {
    let kind = platform.core_types.iter().find(|kind| cpus(here, kind).contains(&cpu));
    match kind.and_then(|kind| kind.cores.first()) {
        Some(&core) => platform.seen_from(core),
        None => platform.clone(),
    }
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
        let own = cpus(types.here, kind);
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
            way_ns: 0.0,
            bound_ns: None,
        };
        let Some(found) = measure::measure(&mut probe, &plan, said)? else { return Ok(None) };
        let name = Some(kind.name.clone());
        all.extend(found.into_iter().map(|f| Finding { core_type: name.clone(), ..f }));
    }
    Ok(Some(all))
}
