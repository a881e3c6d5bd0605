//! `solocore bench colour-start`: the cost of starting and running a program in its colours.
//!
//! Rule: the same command plain and under `solocore exec --colors`, in turn, from start to end,
//! with all that solocore does. The ratio is the median of those of neighbouring runs, so that
//! other work of the machine slows both alike. A program that is started again in the same colours
//! gets its own freed frames; --before starts it in other colours first, so that frames of the
//! wrong colours come first.

use super::output::{Output, median, show};
use crate::fail::Failure;
use crate::progress::stopped;
use serde::Serialize;
use solocore_linux::host::machine;
use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Interval between two checks for a request to end; the end of a program is noticed at once.
const LOOK: Duration = Duration::from_millis(50);

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Colours of the program.
    #[arg(long = "colors", alias = "colours", value_name = "LIST", default_value = "0-7")]
    colours: String,
    /// Start the program in these colours before each timed coloured start. The kernel then hands
    /// out the freed frames first, and they have the wrong colours.
    #[arg(long, value_name = "LIST")]
    before: Option<String>,
    /// Map of colours and banks for `solocore exec`.
    #[arg(long, value_name = "FILE")]
    map: Option<std::path::PathBuf>,
    /// Runs of each; the median counts.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Format of the output.
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
    /// Median of the ratios of neighbouring runs, and the middle half of them.
    ratio: f64,
    ratio_from: f64,
    ratio_to: f64,
    runs: u32,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let standard =
        ["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"].map(OsString::from).to_vec();
    let program = if args.command.is_empty() { &standard } else { &args.command };
    let coloured = arguments(args, &args.colours, program);
    let before = args.before.as_ref().map(|colours| arguments(args, colours, program));
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..=args.runs {
        if let Some(before) = &before {
            time("/proc/self/exe".as_ref(), before)?;
        }
        let plain = time(&program[0], &program[1..])?;
        let moved = time("/proc/self/exe".as_ref(), &coloured)?;
        // The first brings the files into memory.
        if round > 0 {
            times[0].push(plain);
            times[1].push(moved);
            ratios.push(moved / plain);
        }
    }
    let (plain_ms, coloured_ms, ratio) =
        (median(&mut times[0]), median(&mut times[1]), median(&mut ratios));
    let report = Report {
        format: "solocore-bench-colour-start/2",
        plain_ms,
        coloured_ms,
        ratio,
        // Sorted by now.
        ratio_from: ratios[ratios.len() / 4],
        ratio_to: ratios[ratios.len() * 3 / 4],
        runs: args.runs,
    };
    let row = |what: &str, ms: f64| vec![what.to_owned(), format!("{ms:.1}")];
    let rows = [
        vec!["start to end".to_owned(), "ms, median".to_owned()],
        row("plain", plain_ms),
        row("coloured", coloured_ms),
    ];
    let below = format!(
        "coloured takes {ratio:.2} times as long (median of {} neighbouring runs; half of them \
            {:.2} to {:.2})\n",
        args.runs, report.ratio_from, report.ratio_to
    );
    show(args.format, &report, &rows, &below)
}

/// Arguments of `solocore exec` that start the program in these colours.
fn arguments(args: &Args, colours: &str, program: &[OsString]) -> Vec<OsString> {
    let mut list = vec![OsString::from("exec"), "--colors".into(), colours.into()];
    if let Some(map) = &args.map {
        list.extend(["--map".into(), map.into()]);
    }
    list.push("--".into());
    list.extend(program.iter().cloned());
    list
}

fn time(program: &std::ffi::OsStr, arguments: &[OsString]) -> Result<f64, Failure> {
    let cannot = |e: std::io::Error| Failure::cannot_run(program, &e);
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let stderr = all_that_is_said(&mut child);
    let mut told = false;
    let said = loop {
        match stderr.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if stopped() && !told => {
                told = true;
                machine::ask_to_end(child.id(), libc::SIGTERM);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(said) => break said,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
        }
    };
    let status = child.wait().map_err(cannot)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    if stopped() {
        return Err(Failure::Interrupted);
    }
    if status.success() {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&said);
    let last = said
        .lines()
        .last()
        .unwrap_or("it said nothing")
        .trim_start_matches("solocore: ")
        .to_owned();
    // Bad input to solocore exec is bad input here, too.
    Err(if status.code() == Some(2) { Failure::Input(last) } else { Failure::Machine(last) })
}

/// The output of a child on stderr, once it has closed it.
fn all_that_is_said(child: &mut Child) -> Receiver<Vec<u8>> {
    let (send, said) = channel();
    if let Some(mut stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // Output that cannot be read is lost.
            let _ = stderr.read_to_end(&mut text);
            // Sending fails only if no thread waits for it any more.
            let _ = send.send(text);
        });
    }
    said
}
