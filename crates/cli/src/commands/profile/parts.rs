//! Shared parts of all ways to make a profile.

use crate::args::ProfileArgs;
use crate::commands::profiles::duration;
use crate::fail::Failure;
use crate::progress::Steps;
use solocore_analysis::extreme;
use solocore_model::profile::Quantity;
use solocore_model::{ModelError, Platform, Profile, files};
use solocore_profile::{Job, put, scratch, trace_path};
use std::path::{Path, PathBuf};

/// Path of the profile. The profile and its trace can be written there.
///
/// # Errors
/// They cannot, or it is standard output, a device or a pipe: a trace cannot lie beside it.
pub fn output(args: &ProfileArgs) -> Result<PathBuf, Failure> {
    let named = |program: &String| {
        let name = Path::new(program).file_name();
        let name = name.map_or("program".into(), |n| n.to_string_lossy());
        PathBuf::from(format!("{name}.profile.json"))
    };
    let of_task = || named(args.task.as_ref().unwrap_or(&String::new()));
    let out = args.output.clone();
    let out = out.unwrap_or_else(|| args.command.first().map_or_else(of_task, named));
    if out == Path::new("-") || files::is_stream(&out) {
        return Err(Failure::Machine(format!(
            "{}: is not a regular file, and the trace has to lie beside it; name a file with -o",
            out.display()
        )));
    }
    files::check_place(&out)?;
    files::check_place(&trace_path(&out))?;
    Ok(out)
}

/// Refuses a core that the platform has not.
pub fn check_core(core: Option<u32>, platform: &Platform) -> Result<(), Failure> {
    match core.filter(|&core| core >= platform.cores) {
        Some(core) => Err(Failure::Input(format!(
            "--core {core}: {} has cores 0 to {}; give one of these",
            platform.name,
            platform.cores - 1
        ))),
        None => Ok(()),
    }
}

/// The emulator's profile at `out`, with its trace; `core`: for the private caches of this core.
pub fn emulated(
    args: &ProfileArgs,
    core: Option<u32>,
    platform: &Platform,
    inputs: &[Vec<String>],
    out: &Path,
) -> Result<Profile, Failure> {
    let steps = Steps::default();
    let job = Job {
        platform,
        core,
        command: &args.command,
        dir: Path::new("."),
        quiet: false,
        trace_limit: args.trace_limit,
        timeout: duration(args.timeout),
        watch: &|seen| steps.say(seen),
    };
    Ok(if inputs.is_empty() {
        solocore_profile::profile(&job, out)?.0
    } else {
        solocore_profile::profile_inputs(&job, inputs, out)?
    })
}

/// Writes a profile with its trace at `trace`: both files, or none.
pub fn write(mut profile: Profile, trace: Option<&Path>, out: &Path) -> Result<Profile, Failure> {
    let dir = scratch(out)?;
    let copy = dir.path().join("trace");
    let mut copied = None;
    if let (Some(of_profile), Some(trace)) = (&mut profile.trace, trace) {
        let failed = |source| ModelError::Write { path: out.to_owned(), source };
        std::fs::copy(trace, &copy).map_err(failed)?;
        of_profile.file = trace_path(out).file_name().map(PathBuf::from).unwrap_or_default();
        copied = Some(copy.as_path());
    }
    put(&profile, dir.path(), copied, out)?;
    Ok(profile)
}

/// Path of the trace of the profile at `path`.
pub fn trace_of(profile: &Profile, path: &Path) -> Option<PathBuf> {
    profile.trace.as_ref().map(|t| files::parent_dir(path).join(&t.file))
}

/// The words of each input.
pub fn inputs(texts: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let split = |text: &String| {
        shlex::split(text).ok_or_else(|| {
            Failure::Input(format!(
                "--input \"{}\": a quote has no end; close it",
                text.escape_debug()
            ))
        })
    };
    texts.iter().map(split).collect()
}

/// The quantity, with an estimate of rare jobs.
pub fn estimated(quantity: Quantity) -> Quantity {
    match extreme::estimate(&quantity.values) {
        Ok(extreme) => Quantity { extreme: Some(extreme), ..quantity },
        Err(why) => Quantity { no_extreme: Some(why), ..quantity },
    }
}
