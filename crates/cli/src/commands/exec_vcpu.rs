//! `solocore exec --vcpu C/T`: a program in a VCPU of its own, until its end.
//!
//! Rule: where VCPUs are scheduled (`solocore vcpu serve`, `solocore run` of a plan with VCPUs),
//! one is created for this process. The program is its child and inherits it, and the VCPU is
//! destroyed at its end. Where none are, this process schedules them meanwhile, and starts
//! `solocore exec --vcpu` again as its client, which runs the program. A VCPU that does not fit is
//! refused before the program starts.
//! Does not cover: an end by SIGKILL, which leaves the VCPU behind (`solocore vcpu destroy
//! exec-PID`).

use crate::args::ExecArgs;
use crate::args::vcpu::Reservation;
use crate::commands::daemon;
use crate::commands::exec_start::{cannot_run, program};
use crate::fail::Failure;
use crate::progress::asked;
use solocore_linux::daemon::{Daemon, Program, Scheduling, wait_for};
use solocore_linux::schedule::vcpus::control::{self, Request};
use solocore_linux::schedule::vcpus::{Options, Wanted};
use solocore_model::run::RunScheme;
use solocore_model::vcpus::check_times;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};

/// Runs the program in its VCPU; its exit code.
pub fn run(args: &ExecArgs, reservation: Reservation) -> Result<ExitCode, Failure> {
    check_times(reservation.capacity_ns, reservation.period_ns)
        .map_err(|what| Failure::Input(format!("--vcpu: {what}")))?;
    match UnixStream::connect(control::SOCKET).map_err(|e| e.kind()) {
        Err(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => beside(args, reservation),
        _ => inside(args, reservation),
    }
}

/// Runs it under a process that schedules VCPUs already.
fn inside(args: &ExecArgs, reservation: Reservation) -> Result<ExitCode, Failure> {
    let me = std::process::id();
    let name = format!("exec-{me}");
    let wanted = Wanted {
        name: name.clone(),
        capacity_ns: reservation.capacity_ns,
        period_ns: reservation.period_ns,
        core: args.core,
        fixed: args.core.is_some(),
        colours: 0,
    };
    control::ask(&Request::Create { wanted, pid: Some(me) })
        .map_err(|e| Failure::from(e).of("--vcpu"))?;
    let spawned = program(args).spawn();
    let ended = match spawned {
        Ok(child) => wait_for(child, asked).map(ExitCode::from).map_err(Failure::from),
        Err(error) => Err(cannot_run(args, &error)),
    };
    // If the scheduler has ended meanwhile, so has the VCPU.
    if let Err(error) = control::ask(&Request::Destroy { vcpu: name.clone() }) {
        eprintln!("solocore: note: VCPU {name} is not destroyed: {error}");
    }
    ended
}

/// Schedules VCPUs in this process while the program runs.
fn beside(args: &ExecArgs, reservation: Reservation) -> Result<ExitCode, Failure> {
    let mut inner = Command::new("/proc/self/exe");
    inner.arg("exec").arg("--vcpu").arg(reservation.text());
    if let Some(core) = args.core {
        inner.args(["--core", &core.to_string()]);
    }
    inner.arg("--").args(&args.command);
    let mut daemon = Daemon::default();
    daemon.scheme = RunScheme::Vcpus;
    daemon.add(Scheduling::new(Options::default(), Vec::new()));
    daemon::run_beside(daemon, Program::new(inner, asked))
}
