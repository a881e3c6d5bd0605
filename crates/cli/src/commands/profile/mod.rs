//! `solocore profile`.

mod counted;
mod fed;
mod text;

use crate::args::{Engine, ProfileArgs};
use crate::commands::profiles::duration;
use crate::fail::Failure;
use crate::progress::Steps;
use solocore_model::{ModelError, Platform, Profile, files};
use solocore_profile::{Job, trace_path};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The board of the emulator's profiles, where none is named.
const BOARD: &str = "p4080";

/// Profiles a program; its own exit code passes through.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let (Some(from), Some(plan), Some(task)) = (&args.from, &args.plan, &args.task) {
        return fed::run(args, from, plan, task);
    }
    if args.engine == Engine::Perf {
        return counted::run(args);
    }
    let platform = Platform::find(args.platform.as_deref().unwrap_or(BOARD), Path::new("."))?;
    let out = output(args);
    let profile = emulated(args, &platform, &inputs(&args.input)?, &out)?;
    text::summarise(&profile, &out);
    Ok(ExitCode::from(u8::try_from(profile.exit_code).unwrap_or(1)))
}

/// Where the profile is written.
fn output(args: &ProfileArgs) -> PathBuf {
    let named = |program: &String| {
        let name = Path::new(program).file_name();
        let name = name.map_or("program".into(), |n| n.to_string_lossy());
        PathBuf::from(format!("{name}.profile.json"))
    };
    let of_task = || named(args.task.as_ref().unwrap_or(&String::new()));
    args.output.clone().unwrap_or_else(|| args.command.first().map_or_else(of_task, named))
}

/// The emulator's profile at `out`, with its trace.
fn emulated(
    args: &ProfileArgs,
    platform: &Platform,
    inputs: &[Vec<String>],
    out: &Path,
) -> Result<Profile, Failure> {
    let steps = Steps::default();
    let job = Job {
        platform,
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

/// Writes a profile whose trace lies at `trace`: both, or none.
fn write(mut profile: Profile, trace: Option<&Path>, out: &Path) -> Result<Profile, Failure> {
    let failed = |source| ModelError::Write { path: out.to_owned(), source };
    let dir = tempfile::Builder::new()
        .prefix(".solocore-")
        .tempdir_in(files::parent_dir(out))
        .map_err(failed)?;
    let (ready, moved) = (dir.path().join("profile.json"), dir.path().join("trace"));
    let beside = trace_path(out);
    if let (Some(of_profile), Some(trace)) = (&mut profile.trace, trace) {
        std::fs::copy(trace, &moved).map_err(failed)?;
        of_profile.file = beside.file_name().map(PathBuf::from).unwrap_or_default();
    }
    files::write_json(&ready, &profile)?;
    if moved.exists() {
        std::fs::rename(&moved, &beside).map_err(failed)?;
    }
    std::fs::rename(&ready, out).map_err(failed)?;
    Ok(profile)
}

/// Where the trace of the profile at `path` lies.
fn trace_of(profile: &Profile, path: &Path) -> Option<PathBuf> {
    profile.trace.as_ref().map(|t| files::parent_dir(path).join(&t.file))
}

/// The words of each input.
fn inputs(texts: &[String]) -> Result<Vec<Vec<String>>, Failure> {
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
