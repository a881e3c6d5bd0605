//! `solocore profile`.

mod addresses;
mod counted;
mod fed;
mod parts;
mod placed;
mod text;

use crate::args::{Engine, ProfileArgs};
use crate::fail::Failure;
use solocore_model::Platform;
use std::path::Path;
use std::process::ExitCode;

/// Default board of the emulator's profiles.
const BOARD: &str = "p4080";

/// Options for programs that are profiled.
const OF_PROGRAMS: &[&str] = &["platform", "core", "trace_limit", "input", "timeout"];
/// Options for counters of this machine.
const COUNTING: &[&str] =
    &["jobs", "cpu", "event", "write_event", "base", "job", "sample_addresses", "warm"];

/// Profiles a program; its own exit code passes through.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let (Some(from), Some(plan), Some(task)) = (&args.from, &args.plan, &args.task) {
        args.given.refuse(
            &[OF_PROGRAMS, COUNTING],
            "is for programs that are started, and --from does not start a program; leave one of them out",
        )?;
        return fed::run(args, from, plan, task);
    }
    if args.engine == Engine::Perf {
        if args.counting.base.is_some() {
            args.given.refuse(
                &[&["trace_limit"]],
                "is for the emulator, which does not run with --base; leave one of them out",
            )?;
        }
        return counted::run(args);
    }
    args.given.refuse(
        &[COUNTING],
        "counts on this machine, and the emulator's job is a whole start; give --engine perf",
    )?;
    let platform = Platform::find(args.platform.as_deref().unwrap_or(BOARD), Path::new("."))?;
    parts::check_core(args.core, &platform)?;
    let out = parts::output(args)?;
    let inputs = parts::inputs(&args.input)?;
    let profile = parts::emulated(args, args.core, &platform, &inputs, &out)?;
    text::summarise(&profile, &out);
    if profile.exit_code != 0 {
        eprintln!(
            "solocore: note: the program failed with exit code {}, and its profile may cover only \
            a part of a job; run it by hand first, and profile it again",
            profile.exit_code
        );
    }
    Ok(ExitCode::from(u8::try_from(profile.exit_code).unwrap_or(1)))
}
