//! `solocore bench function-lock`: the cost of a probe at a function.
//!
//! Rule: a function of this program itself is called in a loop. The loop runs without a probe, with
//! a probe of another program, with one that takes and releases the lock, and with a call within
//! such a section. Each run is short, and the median of many counts.

use super::output::{Cost, Output, show};
use crate::fail::Failure;
use serde::Serialize;
use solocore_linux::clients::functions::OwnProbe;
use solocore_linux::host::machine;
use std::hint::black_box;
use std::process::ExitCode;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Calls in a run.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    calls: u32,
    /// Runs; the median counts.
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    calls: u32,
    runs: u32,
    rows: Vec<Cost>,
    /// Number of sections that the probes counted, and of those that were made.
    counted: u64,
    made: u64,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    machine::check_numbers()?;
    let mut rows = vec![measured("a call without a probe", args, &mut || probed(1))];
    let place = probed as *const () as u64;
    let stranger = OwnProbe::at(place, false)?;
    rows.push(measured("with a probe that is another program's", args, &mut || probed(1)));
    drop(stranger);
    let own = OwnProbe::at(place, true)?;
    rows.push(measured("entry and exit of a section", args, &mut || probed(1)));
    let (counted, made) = (own.made(), u64::from(args.calls) * u64::from(args.runs));
    rows.push(measured("a section with a call within it", args, &mut || probed(2)));
    drop(own);
    let report = Report {
        format: "solocore-bench/1",
        calls: args.calls,
        runs: args.runs,
        rows,
        counted,
        made,
    };
    let mut table = vec![["what", "ns (median)", "ns (least)"].map(str::to_owned).to_vec()];
    let line =
        |r: &Cost| vec![r.what.to_owned(), format!("{:.0}", r.ns), format!("{:.0}", r.least_ns)];
    table.extend(report.rows.iter().map(line));
    let below = format!("sections counted: {} of {}\n", report.counted, report.made);
    let shown = show(args.format, &report, &table, &below)?;
    if report.counted != report.made {
        return Err(Failure::Machine(format!(
            "the probes counted {} of {} sections; the kernel lost some",
            report.counted, report.made
        )));
    }
    Ok(shown)
}

fn measured(what: &'static str, args: &Args, call: &mut dyn FnMut() -> u64) -> Cost {
    Cost::of(what, (args.runs, args.calls), &mut |n| {
        for _ in 0..n {
            black_box(call());
        }
    })
}

/// The probed function; it calls itself until the depth is 1.
#[inline(never)]
fn probed(depth: u64) -> u64 {
    if black_box(depth) > 1 { black_box(probed(depth - 1)) + 1 } else { depth }
}
