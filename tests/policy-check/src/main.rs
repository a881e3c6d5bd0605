//! The `policy-check` command.

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use solocore_policy_check::backend::bpf::Clang;
use solocore_policy_check::check::{self, Settings};
use solocore_policy_check::{MECHANISMS, Mechanism, bench};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP_END: &str = "Examples:
  policy-check
  policy-check --mechanism memguard --mechanism bwlock --events 5000000 --seed 3
  policy-check --clang clang-14 --clang clang-19
  policy-check --bench

Exit codes: 0 all equal, 1 a difference, 2 bad input.";

/// Runs the policies of policy/ as C on the host, as BPF in the kernel, through the Rust binding
/// and as reference models, on the same events, and compares the answers.
#[derive(Debug, Parser)]
#[command(name = "policy-check", version, after_help = HELP_END, max_term_width = 100)]
struct Args {
    /// Random events in all, spread evenly over the mechanisms.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: u64,
    /// Test only this mechanism; may be given again [default: all].
    #[arg(long, value_name = "NAME", value_parser = MECHANISMS.iter().map(|m| m.name).collect::<Vec<_>>())]
    mechanism: Vec<String>,
    /// Seed of the random events; the same seed gives the same events.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Compiler for BPF; may be given again [default: $CLANG or clang, and clang-19, where
    /// installed].
    #[arg(long, value_name = "PATH", conflicts_with = "no_bpf")]
    clang: Vec<PathBuf>,
    /// Leave BPF out.
    #[arg(long)]
    no_bpf: bool,
    /// Measure the time of a call on the host instead.
    #[arg(long, conflicts_with_all = ["events", "mechanism", "seed", "clang", "no_bpf"])]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.bench {
        return measure();
    }
    let asked: Result<Vec<Clang>, String> =
        args.clang.iter().map(|path| Clang::find(path)).collect();
    match asked {
        Ok(asked) => run(&args, asked),
        Err(error) => {
            eprintln!("policy-check: --clang: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure() -> ExitCode {
    match bench::run(&mut |line| println!("{line}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("policy-check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, asked: Vec<Clang>) -> ExitCode {
    let chosen: Vec<&Mechanism> = MECHANISMS
        .iter()
        .filter(|m| args.mechanism.is_empty() || args.mechanism.iter().any(|n| n == m.name))
        .collect();
    let clangs = if args.no_bpf { Err("--no-bpf".into()) } else { check::bpf_clangs(asked) };
    let skipped = clangs.as_ref().err().cloned();
    if let Some(why) = &skipped {
        eprintln!("policy-check: BPF is NOT tested: {why}");
    }
    let events = args.events.div_ceil(chosen.len() as u64);
    let settings = Settings { events, seed: args.seed, clangs: clangs.unwrap_or_default() };
    let bar = progress_bar(events * chosen.len() as u64);
    let mut reports = Vec::new();
    for (done, mechanism) in chosen.iter().enumerate() {
        bar.set_message(mechanism.name);
        let before = done as u64 * events;
        bar.set_position(before);
        let report =
            check::mechanism(mechanism, &settings, &mut |now| bar.set_position(before + now));
        bar.suspend(|| {
            println!("{report}");
            for failure in &report.failures {
                eprintln!("  {}: {failure}", report.name);
            }
        });
        reports.push(report);
    }
    bar.finish_and_clear();
    let (line, equal) = check::summary(&reports, skipped.as_deref());
    println!("{line}");
    if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A bar on a terminal; otherwise nothing, since each mechanism has its line.
fn progress_bar(events: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(events), ProgressDrawTarget::stderr());
    let plain = std::env::var_os("NO_COLOR").is_some();
    let template = if plain {
        "{msg:15} [{bar:30}] {percent}% {eta}"
    } else {
        "{msg:15} [{bar:30.cyan}] {percent}% {eta}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
