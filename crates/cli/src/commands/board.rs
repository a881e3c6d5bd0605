//! `solocore board`: programs on a virtual board.

use crate::args::Format;
use crate::args::board::{self as options, BoardCommand, MachineArgs, RunArgs, ShellArgs};
use crate::commands::board_list;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use solocore_board::guest::{self, Request};
use solocore_board::{Job, Stream, Watch, find_board};
use solocore_model::{files, output};
use std::io::{IsTerminal, Write};
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

/// Shows stages and speed on stderr, and passes the program's output on.
pub(super) struct Terminal {
    bar: Option<ProgressBar>,
    format: Format,
}

impl Terminal {
    pub(super) fn new(format: Format) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, format }
    }

    /// Writes with the bar removed.
    fn beside_bar(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Watch for Terminal {
    fn stage(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(what.to_owned());
                bar.set_position(0);
                bar.tick();
            }
            None => eprintln!("{what}"),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    fn share(&mut self, done: f64) {
        if let Some(bar) = &self.bar {
            let text = bar.message();
            let what = text.rsplit_once(" [").map_or(text.as_str(), |(what, _)| what);
            bar.set_message(format!("{what} [{} %]", (done.clamp(0.0, 1.0) * 100.0) as u64));
        }
    }

    fn note(&mut self, text: &str) {
        self.beside_bar(|| eprintln!("solocore: note: {text}"));
    }

    fn speed(&mut self, simulated_ns: u64, wall_ns: u64) {
        if let Some(bar) = &self.bar {
            let (simulated, wall) = (simulated_ns as f64 / 1e9, wall_ns as f64 / 1e9);
            bar.set_message(format!(
                "the board's clock: {simulated:.3} s after {wall:.0} s ({:.0} ms a second)",
                1e3 * simulated / wall.max(1e-9)
            ));
        }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let to_stdout = stream == Stream::Out && self.format == Format::Text;
        self.beside_bar(|| {
            // A closed pipe (`| head`) is not an error of the program's.
            if to_stdout {
                let _ = output::to_stdout(bytes);
            } else {
                let _ = std::io::stderr().write_all(bytes);
            }
        });
    }

    fn hand_over(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn stopped(&self) -> bool {
        stopped()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
