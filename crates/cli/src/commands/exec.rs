//! `solocore exec`: one program under the bandwidth lock, on a core, or within a bandwidth.
//!
//! Rule: this process becomes the program; nothing of solocore stays beside it. What holds the lock
//! is the connection to the running solocore, which the program inherits (client/c,
//! `sc_hold_program`). Where none runs and one is needed, this process regulates for as long as the
//! program takes, which is then its child: `solocore exec` again, as its client.
//! Does not cover: colours of pages (`exec_coloured`); the budgets of a running solocore, which are
//! its plan's.

use crate::args::ExecArgs;
use crate::commands::daemon;
use crate::commands::exec_coloured;
use crate::commands::exec_vcpu;
use crate::commands::run::choice;
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_client::{self as client, Status};
use solocore_linux::clients::{SOCKET, ServiceOptions};
use solocore_linux::daemon::{Daemon, LockClients, Program, Regulating, wait_for};
use solocore_linux::host::machine;
use solocore_linux::{Event, Options, Regulation, Reservation, Sharing};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Becomes the program, or regulates beside it.
pub fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    if let Some(core) = args.core
        && !machine::online_cpus()?.contains(&core)
    {
        return Err(Failure::Input(format!(
            "--core {core}: there is no such CPU online; `solocore doctor` counts them"
        )));
    }
    if args.colours.any() {
        return exec_coloured::run(args);
    }
    if let Some(reservation) = args.vcpu {
        return exec_vcpu::run(args, reservation);
    }
    if args.budget.is_some() {
        return beside(args);
    }
    if let Some(ways) = args.ways {
        return in_ways(args, ways);
    }
    if args.lock {
        match client::hold_program() {
            Ok(()) => {}
            Err(Status::NoDaemon) if machine::missing_capabilities().is_empty() => {
                return beside(args);
            }
            Err(e) => return Err(Failure::Machine(format!("--lock: {e}"))),
        }
        if let Some(limit) = client::max_hold() {
            eprintln!(
                "solocore: note: the running solocore limits holding to {} ms, so the lock ends \
                    then (run --max-hold)",
                limit.as_millis()
            );
        }
    }
    if let Some(core) = args.core {
        machine::keep_on(core)?;
    }
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    exec_coloured::environment_for(&mut command);
    let error = command.exec();
    Err(cannot_run(args, &error))
}

/// The program does not start.
pub fn cannot_run(args: &ExecArgs, error: &std::io::Error) -> Failure {
    let program = Path::new(&args.command[0]).display();
    Failure::Input(format!("cannot run {program}: {error}; is it there, and in PATH?"))
}

/// Keeps ways of the cache for the program while it runs.
fn in_ways(args: &ExecArgs, ways: u32) -> Result<ExitCode, Failure> {
    let reservation = Reservation::ways(ways)?;
    if let Some(core) = args.core {
        machine::keep_on(core)?;
    }
    // What is started by who is in the group is in it as well, from its first instruction on.
    reservation.enter()?;
    let mut program = Command::new(&args.command[0]);
    program.args(&args.command[1..]);
    exec_coloured::environment_for(&mut program);
    let spawned = program.spawn();
    reservation.leave()?;
    let child = spawned.map_err(|error| {
        let program = Path::new(&args.command[0]);
        Failure::Input(format!(
            "cannot run {}: {error}; is it there, and in PATH?",
            program.display()
        ))
    })?;
    // It may have ended already.
    let _ = reservation.add(child.id());
    Ok(ExitCode::from(wait_for(child, &stopped)?))
}

/// Regulates while the program runs.
fn beside(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let options = Options {
        event: Event::find(&args.event, &machine::cpuinfo())?,
        sample: None,
        reclaim: false,
        sharing: Sharing::None,
        max_hold_ns: 0,
        write_event: None,
        count_writes: false,
        write_budgets: true,
    };
    let (cpu, bandwidth) =
        args.budget.map_or((None, args.lock_bandwidth), |budget| (args.core, budget));
    let online = machine::online_cpus()?;
    let regulation =
        Regulation::of_program(cpu, bandwidth.0, machine::cache_line(), &options, &online)?;
    let mut daemon = Daemon::default();
    if regulation.event.is_software() {
        daemon.notes.push(format!("{} stand in for accesses to memory", regulation.event.name()));
    }
    let regulating = Regulating::new(regulation, choice(args.engine), false);
    let engine = regulating.engine();
    daemon.add(regulating);
    // Only root regulates, so only root holds: a group that nobody is in.
    daemon.add(LockClients::new(engine, ServiceOptions::new(Path::new(SOCKET), ""), 0));
    let mut inner = Command::new("/proc/self/exe");
    inner.arg("exec");
    if args.lock {
        inner.arg("--lock");
    }
    if let Some(core) = args.core {
        inner.args(["--core", &core.to_string()]);
    }
    inner.arg("--").args(&args.command);
    daemon::run_beside(daemon, Program::new(inner))
}
