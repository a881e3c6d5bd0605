//! `solocore bench colour-start`: what it costs a program to start, and run, in its colours.
//!
//! Rule: the same command plain and under `solocore exec --colors`, in turn, from start to end, with all that solocore does.

use super::{Output, median, show};
use crate::fail::Failure;
use serde::Serialize;
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its colours.
    #[arg(long, visible_alias = "colours", value_name = "LIST", default_value = "0-7")]
    colors: String,
    /// What `solocore exec` gets beside.
    #[arg(long, value_name = "FILE")]
    map: Option<std::path::PathBuf>,
    /// Runs of each; the median counts.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How results look.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
    /// The program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    plain_ms: f64,
    coloured_ms: f64,
    ratio: f64,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let standard = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"].map(OsString::from).to_vec();
    let program = if args.command.is_empty() { &standard } else { &args.command };
    let mut coloured = vec![OsString::from("exec"), "--colors".into(), args.colors.clone().into()];
    if let Some(map) = &args.map {
        coloured.extend(["--map".into(), map.into()]);
    }
    coloured.push("--".into());
    coloured.extend(program.iter().cloned());
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=args.runs {
        let plain = time(&program[0], &program[1..])?;
        let moved = time("/proc/self/exe".as_ref(), &coloured)?;
        // The first brings the files into memory.
        if round > 0 {
            times[0].push(plain);
            times[1].push(moved);
        }
    }
    let (plain_ms, coloured_ms) = (median(&mut times[0]), median(&mut times[1]));
    let report =
        Report { format: "solocore-bench-colour-start/1", plain_ms, coloured_ms, ratio: coloured_ms / plain_ms };
    let row = |what: &str, ms: f64| vec![what.to_owned(), format!("{ms:.1}")];
    let rows = [
        vec!["start to end".to_owned(), "ms, median".to_owned()],
        row("plain", plain_ms),
        row("coloured", coloured_ms),
    ];
    show(args.format, &report, &rows, &format!("coloured takes {:.2} times as long\n", report.ratio))
}

fn time(program: &std::ffi::OsStr, arguments: &[OsString]) -> Result<f64, Failure> {
    let begin = Instant::now();
    let done = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| Failure::Input(format!("cannot run {}: {e}; is it there, and in PATH?", program.display())))?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    if done.status.success() {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().last().unwrap_or("it said nothing").trim_start_matches("solocore: ").to_owned();
    // What solocore exec finds wrong is wrong here, too.
    Err(if done.status.code() == Some(2) { Failure::Input(last) } else { Failure::Machine(last) })
}
