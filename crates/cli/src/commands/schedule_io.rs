//! `solocore schedule-io`.

use crate::args::{Format, ScheduleIoArgs};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use serde_json::{Value, json};
use solocore_model::{Bandwidth, Instance, Time, files};
use solocore_planner::windows::solver::table::{Row, rows, to_json};
use solocore_planner::windows::solver::{Answer, Problem, solve, tasks};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// An answer in the command's words.
struct Outcome {
    answer: &'static str,
    found_by: Option<&'static str>,
    reasons: Vec<String>,
    rows: Vec<Row>,
}

/// Solves an instance; exit code 1 if it is infeasible or no table was found.
pub fn run(args: &ScheduleIoArgs) -> Result<ExitCode, Failure> {
    let instance = Instance::load(&args.instance)?;
    let outcome = outcome(&instance, args)?;
    if let Some(path) = &args.output
        && outcome.answer == "found"
    {
        files::write_atomically(path, to_json(&outcome.rows).as_bytes())?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&document(&instance, &outcome)))?,
        Format::Text => print(&text(&instance, &outcome, args))?,
    }
    Ok(ExitCode::from(u8::from(outcome.answer != "found")))
}

fn outcome(instance: &Instance, args: &ScheduleIoArgs) -> Result<Outcome, Failure> {
    let refuse = |answer, reasons| Outcome { answer, found_by: None, reasons, rows: Vec::new() };
    let missed = tasks::misses(instance);
    if !missed.is_empty() {
        return Ok(refuse("infeasible", missed));
    }
    let problem = Problem::new(instance);
    let limit = Duration::from_nanos(args.time_limit.ps() / Time::PS_PER_NS);
    let progress =
        Progress::new(&format!("looking for offsets of {} activities", problem.acts.len()));
    let begin = Instant::now();
    let stop = || {
        let spent = begin.elapsed();
        progress.share(spent.as_secs_f64() / limit.as_secs_f64().max(1e-9));
        stopped() || spent >= limit
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let answer = solve(&problem, args.seed, threads, &stop);
    drop(progress);
    if stopped() {
        return Err(Failure::Interrupted);
    }
    Ok(match answer {
        Answer::Found(solution, by) => {
            let rows = rows(instance, &problem, &solution);
            Outcome { answer: "found", found_by: Some(by), reasons: Vec::new(), rows }
        }
        Answer::Infeasible(reason) => refuse("infeasible", vec![reason]),
        Answer::NotFound(left) => refuse("not-found", vec![not_found(args, left)]),
    })
}

fn not_found(args: &ScheduleIoArgs, left: usize) -> String {
    format!(
        "no table was found within {}, and no proof that there is none; the best partial table \
            leaves {left} out; give a longer --time-limit, longer ages, or more cores",
        args.time_limit
    )
}

fn loads(instance: &Instance, rows: &[Row]) -> Vec<f64> {
    let mut loads = vec![0.0; instance.cores as usize];
    for row in rows {
        let core = row.resource.strip_prefix("core ").and_then(|c| c.parse::<usize>().ok());
        if let Some(load) = core.and_then(|c| loads.get_mut(c)) {
            *load += row.duration_ns as f64 / row.period_ns as f64;
        }
    }
    loads
}

/// Bytes per second of all transfers that are given in bytes.
fn bytes_per_s(instance: &Instance) -> u64 {
    let of = |p: &solocore_model::instance::Partition| {
        let bytes =
            p.chains.iter().flat_map(|c| [c.input, c.output]).flatten().filter_map(|t| t.bytes);
        let sum: u128 = bytes.map(u128::from).sum();
        (sum * 1_000_000_000).div_ceil(u128::from(p.period_ns))
    };
    u64::try_from(instance.partitions.iter().map(of).sum::<u128>()).unwrap_or(u64::MAX)
}

fn document(instance: &Instance, outcome: &Outcome) -> Value {
    let cores: Vec<Value> = loads(instance, &outcome.rows)
        .iter()
        .enumerate()
        .map(|(id, load)| json!({"id": id, "load": (load * 1e6).round() / 1e6}))
        .collect();
    json!({
        "schedulable": outcome.answer == "found",
        "answer": outcome.answer,
        "found_by": outcome.found_by,
        "reasons": outcome.reasons,
        "cores": if outcome.rows.is_empty() { Vec::new() } else { cores },
        "io_core": {"load": (instance.io_load() * 1e6).round() / 1e6, "bytes_per_s": bytes_per_s(instance)},
        "activities": outcome.rows,
    })
}

/// An activity for people.
pub fn line(r: &Row) -> Vec<String> {
    let chain = r.chain.map_or(String::new(), |k| format!(" {k}"));
    let ns = |ns: u64| Time::from_ns(ns).to_string();
    let name = format!("{}: {}{chain}", r.partition, r.stage.name());
    vec![name, r.resource.clone(), ns(r.offset_ns), ns(r.duration_ns), ns(r.period_ns)]
}

fn text(instance: &Instance, outcome: &Outcome, args: &ScheduleIoArgs) -> String {
    if outcome.answer != "found" {
        let verdict = if outcome.answer == "infeasible" { "infeasible" } else { "not found" };
        return outcome.reasons.iter().map(|r| format!("{verdict}: {r}\n")).collect();
    }
    let mut lines =
        vec![["activity", "on", "offset", "length", "period"].map(str::to_owned).to_vec()];
    lines.extend(outcome.rows.iter().map(line));
    let mut out = table::render(&lines) + "\n";
    for (core, load) in loads(instance, &outcome.rows).iter().enumerate() {
        out += &format!("core {core}: load {load:.3}\n");
    }
    out += &format!("I/O core: load {:.3}", instance.io_load());
    match bytes_per_s(instance) {
        0 => out.push('\n'),
        bytes => out += &format!(", {} on average\n", Bandwidth(bytes)),
    }
    if let Some(path) = &args.output {
        out += &format!("{}\n", path.display());
    }
    out
}
