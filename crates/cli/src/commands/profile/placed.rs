//! The CPU of measured jobs, its core type, and the machine behind its last-level cache.
//!
//! Problem: a job takes the time of the core that it ran on, and cores of other types have another
//! clock, other cycles per instruction and other private caches. Rule: where the platform has core
//! types, --cpu or --core makes the profile one of that core's type: its caches, its clock and its
//! cycles per instruction. A plan refuses it for a core of another type
//! ([`solocore_planner::Demand::of_text`]). Without both, the profile is for any core: the worst
//! private caches, and the clock of the fastest type. A CPU without a type is refused, because its
//! private caches are unknown.

use crate::args::ProfileArgs;
use crate::commands::platform;
use crate::commands::platform_measure::{cpus, same_machine};
use crate::commands::platform_measure_types::{core_of, cpus_of, typed_cpu};
use crate::fail::Failure;
use solocore_linux::host::machine::cpu_list;
use solocore_linux::latency::calibrate::usable_cpus;
use solocore_machine::Description;
use solocore_model::Platform;
use solocore_model::platform::CoreType;
use std::path::Path;

/// Where jobs are measured.
pub struct Place {
    /// The platform that the profile is for.
    pub platform: Platform,
    /// The machine that was found.
    pub here: Description,
    /// CPU of the jobs.
    pub cpu: u32,
    /// A core of the type that the profile is for; `None`: any core.
    pub core: Option<u32>,
    /// Name of this type.
    pub core_type: Option<String>,
    /// Limits of the numbers, in words.
    pub notes: Vec<String>,
}

/// Finds the CPU.
///
/// # Errors
/// The platform is of another machine; no such CPU, or one without a type; --cpu and --core are of
/// different types.
pub fn place(args: &ProfileArgs) -> Result<Place, Failure> {
    let (platform, here) = machine(args)?;
    let name = args.platform.as_deref().unwrap_or("this machine");
    let file = Path::new(name);
    super::parts::check_core(args.core, &platform)?;
    let wanted = args.core.and_then(|core| platform.type_of(core));
    let asked = match args.counting.cpu {
        Some(cpu) => Some(cpu),
        None => chosen(file, &platform, &here, wanted)?,
    };
    let (cpu, _) = cpus(asked, &platform, &here)?;
    let own = core_of(file, &platform, &here, cpu)?;
    let found = own.and_then(|core| platform.type_of(core));
    if let (Some(wanted), Some(found), Some(core)) = (wanted, found, args.core)
        && wanted.name != found.name
    {
        return Err(Failure::Input(format!(
            "--core {core}: its core_type is `{}`, and CPU {cpu} is of `{}`; give --cpu one of {}",
            wanted.name,
            found.name,
            cpu_list(&cpus_of(&here, wanted))
        )));
    }
    let named = args.core.is_some() || args.counting.cpu.is_some();
    let mut notes = Vec::new();
    if let Some(found) = found.filter(|_| !named) {
        notes.push(format!(
            "CPU {cpu} is of core_type `{}`, and the profile is for any core: times count at the \
                clock of the fastest type; --cpu or --core makes it a profile of one type",
            found.name
        ));
    }
    let core_type = found.filter(|_| named).map(|kind| kind.name.clone());
    let core = args.core.or(own.filter(|_| named));
    Ok(Place { platform, here, cpu, core, core_type, notes })
}

/// The platform, and the machine as it is behind the last-level cache of the CPU.
fn machine(args: &ProfileArgs) -> Result<(Platform, Description), Failure> {
    let here = platform::this_machine(None)?;
    let name = args.platform.as_deref();
    let named = name.map(|name| Platform::find(name, Path::new("."))).transpose()?;
    // A CPU without a type is no other machine.
    let typed = !named.as_ref().unwrap_or(&here.platform).core_types.is_empty();
    let cpu = args.counting.cpu.filter(|_| !typed);
    let group = cpu.and_then(|cpu| here.others.iter().find(|group| group.contains(&cpu)).cloned());
    let here = match group {
        Some(group) => platform::this_machine(Some(group.as_slice()))?,
        None => here,
    };
    if let (Some(name), Some(named)) = (name, &named) {
        same_machine(Path::new(name), named, &here)?;
    }
    Ok((named.unwrap_or_else(|| here.platform.clone()), here))
}

/// The CPU where the user names none: the last usable one of the wanted type, or of any type;
/// `None`: the cores have no types.
fn chosen(
    file: &Path,
    platform: &Platform,
    here: &Description,
    wanted: Option<&CoreType>,
) -> Result<Option<u32>, Failure> {
    let usable = usable_cpus()?;
    let Some(kind) = wanted else { return Ok(typed_cpu(platform, here, &usable)) };
    let own = cpus_of(here, kind);
    match usable.iter().rfind(|cpu| own.contains(cpu)) {
        Some(&cpu) => Ok(Some(cpu)),
        None => Err(Failure::Machine(format!(
            "{}: core_type `{}` has CPUs {}, and this process may use none of them; see its cpuset",
            file.display(),
            kind.name,
            cpu_list(&own)
        ))),
    }
}
