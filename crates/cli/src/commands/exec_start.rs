//! Starts the program of `solocore exec`, or another process that regulates beside it.

use crate::args::{ExecArgs, RunEngine};
use crate::commands::daemon;
use crate::commands::exec_coloured;
use crate::commands::run::choice;
use crate::fail::Failure;
use crate::progress::asked;
use solocore_linux::clients::{SOCKET, ServiceOptions};
use solocore_linux::daemon::{Daemon, LockClients, Program, Regulating};
use solocore_linux::host::machine;
use solocore_linux::{Event, Options, Regulation};
use solocore_model::Bandwidth;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The program, in its colours if an outer `solocore exec` has prepared them.
pub fn program(args: &ExecArgs) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    exec_coloured::environment_for(&mut command);
    command
}

/// The error for a program that does not start.
pub fn cannot_run(args: &ExecArgs, error: &std::io::Error) -> Failure {
    Failure::cannot_run(&args.command[0], error)
}

/// Options for a process that regulates by itself.
const REGULATING: &[&str] = &["lock_bandwidth", "event", "engine"];

/// Tells of options that a running solocore leaves without an effect.
pub fn say_unused(args: &ExecArgs) {
    if let Some(option) = args.given.first(&[REGULATING]) {
        eprintln!(
            "solocore: note: {option} has no effect beside the running solocore, because its plan decides"
        );
    }
}

/// Regulates while the program runs.
pub fn beside(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let (cpu, bandwidth) =
        args.budget.map_or((None, args.lock_bandwidth), |budget| (args.core, budget));
    let (daemon, _) = regulating((&args.event, args.engine), cpu, bandwidth)?;
    let mut inner = Command::new("/proc/self/exe");
    inner.arg("exec");
    if args.lock {
        inner.arg("--lock");
    }
    for name in &args.lock_functions {
        inner.args(["--lock-function", name]);
    }
    if let Some(core) = args.core {
        inner.args(["--core", &core.to_string()]);
    }
    inner.arg("--").args(&args.command);
    daemon::run_beside(daemon, Program::new(inner, asked))
}

/// A run that limits this CPU, or without one all CPUs beside a lock; with the event that it
/// counts.
pub fn regulating(
    (event, engine): (&str, RunEngine),
    cpu: Option<u32>,
    bandwidth: Bandwidth,
) -> Result<(Daemon, Event), Failure> {
    let event = Event::find(event, &machine::cpuinfo())?;
    let options = Options::of(event.clone());
    let online = machine::online_cpus()?;
    let regulation =
        Regulation::of_program(cpu, bandwidth.0, machine::cache_line(), &options, &online)?;
    let mut daemon = Daemon::default();
    if event.is_software() {
        daemon.notes.push(format!("{} stand in for accesses to memory", event.name()));
    }
    let regulating = Regulating::new(regulation, choice(engine), false);
    let engine = regulating.engine();
    daemon.add(regulating);
    // Only root regulates, so only root holds the lock: the group has no members.
    daemon.add(LockClients::new(engine, ServiceOptions::new(Path::new(SOCKET), ""), 0));
    Ok((daemon, event))
}
