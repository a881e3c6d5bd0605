//! `solocore compare`: one program alone, beside enemies on all other cores, and beside them while
//! solocore protects it.
//!
//! Rule: runs alone and beside enemies take turns, so that other work of the machine slows both
//! alike. Then this process regulates (as `solocore exec --lock` does) and starts itself to make
//! the protected runs. A run's time is from the start of its process to its end, and each is
//! started in the same way, bound to the core.
//! Source: single-core-equivalence, section 4 (a task beside memory hogs); IsolBench's bandwidth.
//! Does not cover: a bound. Times that were not seen may be longer.

mod comparison;
mod text;
mod times;

pub use comparison::Comparison;

use crate::args::compare::CompareArgs;
use crate::commands::daemon;
use crate::commands::enemies::{self, Enemies, Weapon};
use crate::commands::exec_start::regulating;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, asked, stopped};
use serde::{Deserialize, Serialize};
use solocore_client as client;
use solocore_linux::daemon::Program;
use solocore_linux::host::machine;
use solocore_model::{Times, files};
use std::path::Path;
use std::process::{Command, ExitCode};
use times::Start;

/// Message of the protected runs to the process that regulates.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    times: Vec<u64>,
}

pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.protected_into {
        return protected_runs(args, path);
    }
    let online = machine::online_cpus()?;
    let core = core_of(args, &online)?;
    let others: Vec<u32> = online.into_iter().filter(|&cpu| cpu != core).collect();
    let bytes = args.memory.map_or_else(enemies::default_memory, |m| m.0);
    let weapon = Weapon { enemy: args.enemy, bytes, map: args.map.as_deref() };
    // A program that fails is refused before any enemy starts.
    Start { core, command: &args.command }.once()?;
    let (alone, beside) = unprotected(args, core, &others, weapon)?;
    let (protected, protection) = match protected(args, core, &others, weapon) {
        Ok((times, what)) => (Some(times), what),
        Err(Failure::Machine(why)) if !stopped() => (None, why),
        Err(other) => return Err(other),
    };
    let comparison = Comparison {
        format: "solocore-compare/1",
        command: args.command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        runs: args.runs,
        core,
        enemies: others,
        enemy: args.enemy.name(),
        enemy_bytes: args.enemy.bytes(bytes),
        alone,
        beside,
        protected,
        protection,
    };
    if let Some(path) = &args.output {
        files::write_json(path, &comparison)?;
    }
    match args.format {
        crate::args::Format::Json => print(&files::to_json(&comparison))?,
        crate::args::Format::Text => print(&text::of(&comparison))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn core_of(args: &CompareArgs, online: &[u32]) -> Result<u32, Failure> {
    if online.len() < 2 {
        return Err(Failure::Machine(
            "only one CPU is online, and enemies need another one; set a second CPU online"
                .to_owned(),
        ));
    }
    match args.core {
        Some(core) => {
            machine::check_online(&format!("--core {core}: this CPU"), core, online)?;
            Ok(core)
        }
        None => Ok(online.last().copied().unwrap_or(0)),
    }
}

/// Times alone and beside enemies, by turns.
fn unprotected(
    args: &CompareArgs,
    core: u32,
    others: &[u32],
    weapon: Weapon<'_>,
) -> Result<(Times, Times), Failure> {
    let start = Start { core, command: &args.command };
    let progress = Progress::new("alone, and beside enemies");
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut enemies = Enemies::start(others, weapon)?;
    for n in 0..args.runs {
        enemies.rest()?;
        alone.push(start.once()?);
        enemies.go_on()?;
        beside.push(start.once()?);
        progress.share(f64::from(n + 1) / f64::from(args.runs));
    }
    Ok((Times::of(alone), Times::of(beside)))
}

/// Times beside enemies while this process regulates the other cores, and the event that it counts.
fn protected(
    args: &CompareArgs,
    core: u32,
    others: &[u32],
    weapon: Weapon<'_>,
) -> Result<(Times, String), Failure> {
    let (mut daemon, event) = regulating((&args.event, args.engine), None, args.lock_bandwidth)?;
    let stands_in = if event.is_software() {
        "; it stands in for accesses to memory, so enemies are hardly throttled"
    } else {
        ""
    };
    let what = format!("{}, {} on each other core{stands_in}", event.name(), args.lock_bandwidth);
    let into = tempfile::NamedTempFile::new()
        .map_err(|e| Failure::Machine(format!("a temporary file: {e}; free some space")))?;
    let mut inner = Command::new("/proc/self/exe");
    inner.arg("compare").arg("--protected-into").arg(into.path());
    inner.args(["--core", &core.to_string(), "--runs", &args.runs.to_string(), "--"]);
    inner.args(&args.command);
    let mut enemies = Enemies::start(others, weapon)?;
    enemies.rest()?;
    daemon.add(enemies);
    let code = daemon::run_beside(daemon, Program::new(inner, asked))?;
    if stopped() {
        return Err(Failure::Interrupted);
    }
    if code != ExitCode::SUCCESS {
        return Err(Failure::Machine("the protected runs failed; see above".to_owned()));
    }
    let told: Told = files::read_json(into.path())?;
    Ok((Times::of(told.times), what))
}

/// Makes the protected runs, in the process that the regulating one starts.
fn protected_runs(args: &CompareArgs, into: &Path) -> Result<ExitCode, Failure> {
    let core = args.core.unwrap_or(0);
    // Held by this process, and so by all that it starts.
    client::hold_program().map_err(|e| Failure::Machine(format!("the lock: {e}")))?;
    let start = Start { core, command: &args.command };
    let progress = Progress::new("beside enemies, protected");
    let mut times = Vec::new();
    for n in 0..args.runs {
        times.push(start.once()?);
        progress.share(f64::from(n + 1) / f64::from(args.runs));
    }
    files::write_json(into, &Told { times })?;
    Ok(ExitCode::SUCCESS)
}
