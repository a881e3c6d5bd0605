//! `solocore exec`: one program under the bandwidth lock, on a core, or within a bandwidth.
//!
//! Rule: this process becomes the program; nothing of solocore stays beside it. The connection to
//! the running solocore holds the lock, and the program inherits it (client/c, `sc_hold_program`).
//! If none runs and one is needed, this process regulates for as long as the program takes, which
//! is then its child: `solocore exec` again, as its client.
//! Does not cover: colours of pages (`exec_coloured`); the budgets of a running solocore, which
//! come from its plan.

use crate::args::ExecArgs;
use crate::commands::exec_coloured;
use crate::commands::exec_functions;
use crate::commands::exec_start::{beside, cannot_run, program, say_unused};
use crate::commands::exec_vcpu;
use crate::fail::Failure;
use crate::progress::asked;
use solocore_client::{self as client, Status};
use solocore_linux::Reservation;
use solocore_linux::daemon::wait_for;
use solocore_linux::host::machine;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Becomes the program, or regulates beside it.
pub fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    if let Some(core) = args.core {
        let what = format!("--core {core}: this CPU");
        machine::check_online(&what, core, &machine::online_cpus()?)?;
    }
    check_options(args)?;
    if args.colours.any() {
        return exec_coloured::run(args);
    }
    if !args.lock_functions.is_empty() {
        return exec_functions::run(args);
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
            Ok(()) => say_unused(args),
            Err(Status::NoDaemon) if machine::missing_capabilities().is_empty() => {
                return beside(args);
            }
            Err(e) => return Err(Failure::Machine(format!("--lock: {e}"))),
        }
        if let Some(limit) = client::max_hold() {
            eprintln!(
                "solocore: note: the running solocore limits holding to {} ms, so the lock ends \
                after that time (run --max-hold)",
                limit.as_millis()
            );
        }
    }
    if let Some(core) = args.core {
        machine::keep_on(core)?;
    }
    // A signal that came before the program would end nothing otherwise.
    if let Some(signal) = crate::progress::asked() {
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(130)));
    }
    let error = program(args).exec();
    Err(cannot_run(args, &error))
}

/// Refuses options that the others leave without an effect.
fn check_options(args: &ExecArgs) -> Result<(), Failure> {
    if !args.colours.any() {
        args.given.refuse(
            &[&["pool", "pages", "queues", "map", "platform"]],
            "is for programs on frames of their own; give --colors, --banks or --plan with it",
        )?;
    }
    let locks = args.lock || !args.lock_functions.is_empty();
    if !locks {
        args.given.refuse(
            &[&["lock_bandwidth"]],
            "limits the other cores beside the bandwidth lock; give --lock or --lock-function \
                with it",
        )?;
    }
    if !locks && args.budget.is_none() {
        args.given.refuse(
            &[&["event", "engine"]],
            "is for regulation; give --budget, --lock or --lock-function with it",
        )?;
    }
    Ok(())
}

/// Keeps ways of the cache for the program while it runs.
fn in_ways(args: &ExecArgs, ways: u32) -> Result<ExitCode, Failure> {
    let reservation = Reservation::ways(ways)?;
    if let Some(core) = args.core {
        machine::keep_on(core)?;
    }
    // Children of a member of the group are in it as well, from their first instruction on.
    reservation.enter()?;
    let spawned = program(args).spawn();
    reservation.leave()?;
    let child = spawned.map_err(|error| cannot_run(args, &error))?;
    // It may have ended already.
    let _ = reservation.add(child.id());
    Ok(ExitCode::from(wait_for(child, asked)?))
}
