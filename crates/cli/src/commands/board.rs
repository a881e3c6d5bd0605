//! `solocore board`: programs on a virtual board.

use crate::args::Format;
use crate::args::board::{self as options, BoardCommand, MachineArgs, RunArgs, ShellArgs};
use crate::commands::board_list;
use crate::commands::board_terminal::Terminal;
use crate::fail::Failure;
use crate::print::print;
use solocore_board::guest::{self, Request};
use solocore_board::{Job, find_board};
use solocore_model::files;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command of `solocore board`.
pub fn run(command: &BoardCommand) -> Result<ExitCode, Failure> {
    match command {
        BoardCommand::Run(args) => run_program(args),
        BoardCommand::Shell(args) => shell(args),
        BoardCommand::List { format } => board_list::run(*format),
        BoardCommand::Ask { what, label } => ask(*what, label),
        BoardCommand::Guest => guest::main().map(|()| ExitCode::SUCCESS).map_err(Failure::Machine),
    }
}

fn job(args: &MachineArgs) -> Result<Job, Failure> {
    let platform = find_board(&args.board)?;
    Ok(Job {
        cpus: args.cpus.unwrap_or(platform.cores),
        platform,
        kernel: args.kernel.clone(),
        memory: args.memory,
        model: args.model,
        prefetcher: args.prefetcher,
        page_walks: args.page_walks == options::Switch::On,
        counters: args.counters,
        allocation: args.allocation,
        seed: args.seed,
        time_limit: None,
        shares: args.share.clone(),
        out: args.out.clone(),
        console: None,
        truth: None,
        command: Vec::new(),
    })
}

fn run_program(args: &RunArgs) -> Result<ExitCode, Failure> {
    let mut job = job(&args.machine)?;
    job.time_limit = Some(Duration::from_nanos(args.time_limit.ps() / 1000));
    job.console.clone_from(&args.console);
    job.truth.clone_from(&args.truth);
    job.command.clone_from(&args.command);
    let mut terminal = Terminal::new(args.format);
    let outcome = solocore_board::run(&job, &mut terminal)?;
    drop(terminal);
    if args.format == Format::Json {
        print(&files::to_json(&outcome))?;
    } else {
        let (simulated, wall) = (outcome.simulated_ns as f64 / 1e9, outcome.wall_ns as f64 / 1e9);
        eprintln!(
            "solocore: simulated {simulated:.3} s in {wall:.1} s, after {:.1} s of boot",
            outcome.boot_ns as f64 / 1e9
        );
    }
    Ok(ExitCode::from(outcome.exit_code))
}

fn shell(args: &ShellArgs) -> Result<ExitCode, Failure> {
    let job = job(&args.machine)?;
    let outcome = solocore_board::run(&job, &mut Terminal::new(Format::Text))?;
    Ok(ExitCode::from(outcome.exit_code))
}

fn ask(request: Request, label: &str) -> Result<ExitCode, Failure> {
    if label.len() > 8 || label.contains('/') {
        return Err(Failure::Input(format!(
            "{label}: is not the name of a snapshot; give at most eight letters"
        )));
    }
    if guest::ask(request, label) {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Machine(
        "this machine is not the guest of a board; ask in a program of `solocore board run`"
            .to_owned(),
    ))
}
