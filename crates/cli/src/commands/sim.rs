//! `solocore sim`.

use crate::args::{Format, Profiling, SimArgs};
use crate::commands::{plan, print};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use crate::table;
use solocore_model::results::Mode;
use solocore_model::{Plan, SimResult, Time, files};
use solocore_sim::{Options, simulate as run_plan};
use std::path::Path;
use std::process::ExitCode;

/// Simulates and prints; exit code 1 if an analysed task missed a deadline.
pub fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    let plan = plan_of(&args.input, &args.profiling)?;
    let mode = match (args.solo, args.unmanaged) {
        (true, _) => Mode::Solo,
        (_, true) => Mode::Unmanaged,
        _ => Mode::Managed,
    };
    let timeline = if args.trace.is_some() { Some(args.duration) } else { args.timeline };
    let options = options(mode, args.duration, args.seed, timeline)?;
    let mut result = simulate(&plan, &options)?;
    if let Some(path) = &args.trace {
        files::write_atomically(path, &solocore_report::perfetto(&result))?;
        let wanted = args.timeline.map_or(0, Time::ns_ceil);
        result.timeline.retain(|segment| segment.end_ns <= wanted);
    }
    if let Some(path) = &args.output {
        files::write_json(path, &result)?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&result))?,
        Format::Text => print(&text(&plan, &result))?,
    }
    Ok(ExitCode::from(u8::from(missed(&plan, &result))))
}

/// Checked options.
pub fn options(mode: Mode, duration: Time, seed: u64, timeline: Option<Time>) -> Result<Options, Failure> {
    if duration.ps() < 1000 {
        return Err(Failure::Input(format!("--duration {duration} is nothing; give for example \"1 s\"")));
    }
    if duration.ps() > 24 * 3600 * 1_000_000_000_000 {
        return Err(Failure::Input(format!("--duration {duration} is above 24 hours of simulated time; give less")));
    }
    Ok(Options { mode, duration_ns: duration.ps() / 1000, seed, timeline_ns: timeline.map_or(0, Time::ns_ceil) })
}

/// Reads a plan, or plans a system.
fn plan_of(path: &Path, profiling: &Profiling) -> Result<Plan, Failure> {
    if path.extension().is_some_and(|e| e == "toml") {
        return plan::make(path, profiling);
    }
    let plan: Plan = files::read_json(path)?;
    if plan.format != solocore_model::plan::FORMAT {
        let found = &plan.format;
        return Err(Failure::Input(format!(
            "{}: its format is `{found}`, not a plan of this version; plan again",
            path.display()
        )));
    }
    plan.check().map_err(|what| {
        Failure::Input(format!("{}: {what}; make the plan again with `solocore plan`", path.display()))
    })?;
    Ok(plan)
}

/// Runs one simulation with progress.
pub fn simulate(plan: &Plan, options: &Options) -> Result<SimResult, Failure> {
    let what = match options.mode {
        Mode::Solo => "simulating each task alone",
        Mode::Unmanaged => "simulating all together, unmanaged",
        Mode::Managed => "simulating all together, under the plan",
    };
    let progress = Progress::new(what);
    let step = |share: f64| {
        progress.share(share);
        !stopped()
    };
    Ok(run_plan(plan, options, &step)?)
}

/// Did a task that was promised its deadline miss one?
pub fn missed(plan: &Plan, result: &SimResult) -> bool {
    plan.tasks.iter().zip(&result.tasks).any(|(t, r)| !t.best_effort() && r.misses_deadline > 0)
}

fn text(plan: &Plan, result: &SimResult) -> String {
    let head = ["task", "core", "jobs", "late", "longest ms", "mean ms", "response ms", "C_sce ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (t, r) in plan.tasks.iter().zip(&result.tasks) {
        let some = |ns: u64| table::ms((r.jobs > 0).then_some(ns));
        rows.push(vec![
            r.name.clone(),
            r.core.to_string(),
            r.jobs.to_string(),
            r.misses_deadline.to_string(),
            some(r.moet_ns),
            some(r.acet_ns),
            some(r.max_response_ns),
            table::ms(Some(t.c_sce_ns)),
        ]);
    }
    let mut out = table::render(&rows);
    out.push('\n');
    for c in result.cores.iter().filter(|c| c.accesses > 0) {
        let share = 100.0 * c.throttled_ns as f64 / result.simulated_ns.max(1) as f64;
        out += &format!(
            "core {}: {} accesses, at most {} in a period, throttled {share:.1} % of the time\n",
            c.id, c.accesses, c.max_accesses_per_period
        );
    }
    let rate = result.requests as f64 * 1e3 / result.wall_ns.max(1) as f64;
    out += &format!(
        "\n{:.3} s simulated in {:.2} s, {rate:.1} million accesses a second\n",
        result.simulated_ns as f64 / 1e9,
        result.wall_ns as f64 / 1e9
    );
    out
}
