//! `solocore schedule-io`.

use crate::args::{Format, ScheduleIoArgs};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use solocore_model::{Bandwidth, Time, WindowsInput, files};
use solocore_planner::windows::solver::outcome::{self, Outcome};
use solocore_planner::windows::solver::table::{Row, to_json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Solves an instance; exit code 1 if it is infeasible or no table was found.
pub fn run(args: &ScheduleIoArgs) -> Result<ExitCode, Failure> {
    let instance = WindowsInput::load(&args.instance)?;
    let outcome = outcome(&instance, args)?;
    if let Some(path) = &args.output
        && outcome.answer == "found"
    {
        files::write_atomically(path, to_json(&outcome.rows).as_bytes())?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&outcome.document(&instance)))?,
        Format::Text => print(&text(&instance, &outcome, args))?,
    }
    Ok(ExitCode::from(u8::from(outcome.answer != "found")))
}

fn outcome(instance: &WindowsInput, args: &ScheduleIoArgs) -> Result<Outcome, Failure> {
    let limit = Duration::from_nanos(args.time_limit.ps() / Time::PS_PER_NS);
    let progress = Progress::new("looking for offsets of activities");
    let begin = Instant::now();
    let stop = || {
        let spent = begin.elapsed();
        progress.share(spent.as_secs_f64() / limit.as_secs_f64().max(1e-9));
        stopped() || spent >= limit
    };
    let found = outcome::search(instance, args.seed, args.time_limit, &stop);
    drop(progress);
    if stopped() { Err(Failure::Interrupted) } else { Ok(found) }
}

/// An activity for people.
pub fn line(r: &Row) -> Vec<String> {
    let chain = r.chain.map_or(String::new(), |k| format!(" {k}"));
    let ns = |ns: u64| Time::from_ns(ns).to_string();
    let name = format!("{}: {}{chain}", r.partition, r.stage.name());
    vec![name, r.resource.clone(), ns(r.offset_ns), ns(r.duration_ns), ns(r.period_ns)]
}

fn text(instance: &WindowsInput, outcome: &Outcome, args: &ScheduleIoArgs) -> String {
    if outcome.answer != "found" {
        let verdict = if outcome.answer == "infeasible" { "infeasible" } else { "not found" };
        return outcome.reasons.iter().map(|r| format!("{verdict}: {r}\n")).collect();
    }
    let mut lines =
        vec![["activity", "on", "offset", "length", "period"].map(str::to_owned).to_vec()];
    lines.extend(outcome.rows.iter().map(line));
    let mut out = table::render(&lines) + "\n";
    for (core, load) in outcome.loads(instance).iter().enumerate() {
        out += &format!("core {core}: load {load:.3}\n");
    }
    out += &format!("I/O core: load {:.3}", instance.io_load());
    match outcome::bytes_per_s(instance) {
        0 => out.push('\n'),
        bytes => out += &format!(", {} on average\n", Bandwidth(bytes)),
    }
    if let Some(path) = &args.output {
        out += &format!("{}\n", path.display());
    }
    out
}
