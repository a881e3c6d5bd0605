//! `solocore profile`.

mod addresses;
mod counted;
mod fed;
mod parts;
mod text;

use crate::args::{Engine, ProfileArgs};
use crate::fail::Failure;
use solocore_model::Platform;
use std::path::Path;
use std::process::ExitCode;

/// Default board of the emulator's profiles.
const BOARD: &str = "p4080";

/// Profiles a program; its own exit code passes through.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let (Some(from), Some(plan), Some(task)) = (&args.from, &args.plan, &args.task) {
        return fed::run(args, from, plan, task);
    }
    if args.engine == Engine::Perf {
        return counted::run(args);
    }
    if !args.counting.job.is_process() || args.counting.sample_addresses.is_some() {
        return Err(Failure::Input(
            "--job and --sample-addresses count on this machine, and the emulator's job is a whole \
                start; give --engine perf"
                .to_owned(),
        ));
    }
    let platform = Platform::find(args.platform.as_deref().unwrap_or(BOARD), Path::new("."))?;
    let out = parts::output(args);
    let profile = parts::emulated(args, &platform, &parts::inputs(&args.input)?, &out)?;
    text::summarise(&profile, &out);
    Ok(ExitCode::from(u8::try_from(profile.exit_code).unwrap_or(1)))
}
