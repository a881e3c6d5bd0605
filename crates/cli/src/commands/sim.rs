//! `solocore sim`.

use crate::args::{Format, Profiling, SimArgs};
use crate::commands::{plan, sched_trace};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, computing, stopped};
use crate::table;
use serde::Serialize;
use solocore_model::results::{CoreResult, Mode, Segment, TaskResult};
use solocore_model::sched_trace::SchedTrace;
use solocore_model::{Plan, SimResult, Time, files};
use solocore_profile::carried;
use solocore_sim::scenario::{self, Scenario, ScenarioResult, SchedulerEntry};
use solocore_sim::{Options, simulate_traced};
use std::path::Path;
use std::process::ExitCode;
use tempfile::TempDir;

/// Simulates and prints; exit code 1 if an analysed task missed a deadline.
pub fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    if let Some(scenario) = scenario_of(&args.input)? {
        return run_scenario(args, scenario);
    }
    let (plan, _carried) = plan_of(&args.input, &args.profiling)?;
    let mode = match (args.solo, args.unmanaged) {
        (true, _) => Mode::Solo,
        (_, true) => Mode::Unmanaged,
        _ => Mode::Managed,
    };
    let duration = args.duration.unwrap_or(DURATION);
    let timeline = if args.trace.is_some() { Some(duration) } else { args.timeline };
    let options = options(mode, duration, args.seed.unwrap_or(1), timeline)?;
    let decides = plan.levels().is_some() && mode != Mode::Solo
        || plan.vcpus().is_some() && mode == Mode::Managed;
    if args.sched_trace.is_some() && !decides {
        return Err(no_decisions(
            args,
            "the plan has no [levels] and no [[vcpu]], or --solo or --unmanaged leaves them out",
        ));
    }
    let (mut result, decisions) = run_plan(&plan, &options, args.sched_trace.is_some())?;
    let perfetto = args.trace.as_ref().map(|_| solocore_report::perfetto(&result));
    if args.trace.is_some() {
        let wanted = args.timeline.map_or(0, Time::ns_ceil);
        cut(&mut result.timeline, wanted);
        result.jobs.retain(|job| job.release_ns < wanted);
        result.timeline_ns = result.timeline_ns.map(|ns| ns.min(wanted)).filter(|&ns| ns > 0);
    }
    write(args, decisions.as_ref(), perfetto, &result)?;
    match args.format {
        Format::Json => print(&files::to_json(&result))?,
        Format::Text => print(&text(&plan, &result))?,
    }
    let broken = result.io.as_ref().is_some_and(|io| io.violations > 0);
    Ok(ExitCode::from(u8::from(missed(&plan, &result) || broken)))
}

/// Writes the files that the options name, all or none: the decisions, the trace and the result.
fn write(
    args: &SimArgs,
    decisions: Option<&SchedTrace>,
    perfetto: Option<Vec<u8>>,
    result: &impl Serialize,
) -> Result<(), Failure> {
    let decisions = sched_trace::of_simulation(args.sched_trace.as_deref(), decisions)?;
    let trace = args.trace.as_deref().zip(perfetto);
    let json = args.output.as_deref().map(|path| (path, files::to_json(result).into_bytes()));
    let named: Vec<(&Path, Vec<u8>)> = decisions.into_iter().chain(trace).chain(json).collect();
    let all: Vec<(&Path, &[u8])> = named.iter().map(|(path, b)| (*path, b.as_slice())).collect();
    Ok(files::write_together(&all, true)?)
}

/// Cuts a schedule that was recorded for a trace to its first `wanted` nanoseconds.
fn cut(timeline: &mut Vec<Segment>, wanted: u64) {
    timeline.retain(|segment| segment.start_ns < wanted);
    for segment in timeline {
        segment.end_ns = segment.end_ns.min(wanted);
    }
}

/// The error where there are no decisions to record.
fn no_decisions(args: &SimArgs, why: &str) -> Failure {
    Failure::Input(format!(
        "{}: --sched-trace records the decisions about levels or VCPUs, but {why}; leave it out",
        args.input.display()
    ))
}

/// Default simulated time.
const DURATION: Time = Time::from_ns(1_000_000_000);

/// The scenario, if the file is one.
fn scenario_of(path: &Path) -> Result<Option<Scenario>, Failure> {
    if path.extension().is_none_or(|e| e != "toml") {
        return Ok(None);
    }
    let text = files::read_text(path)?;
    Ok(if Scenario::is_one(&text) { Some(Scenario::parse(path, &text)?) } else { None })
}

/// Simulates a scenario; exit code 1 if a task with a deadline missed one.
fn run_scenario(args: &SimArgs, mut scenario: Scenario) -> Result<ExitCode, Failure> {
    if args.solo || args.unmanaged {
        return Err(Failure::Input(format!(
            "{}: is a scenario: the file states how its tasks run; leave --solo and --unmanaged out",
            args.input.display()
        )));
    }
    let s = &mut scenario.simulation;
    s.duration = args.duration.unwrap_or(s.duration);
    s.seed = args.seed.unwrap_or(s.seed);
    // Checked as for plans.
    options(Mode::Managed, s.duration, s.seed, None)?;
    let wanted = args.timeline.map_or(0, Time::ns_ceil);
    let timeline_ns = if args.trace.is_some() { s.duration.ns_ceil() } else { wanted };
    if args.sched_trace.is_some() && !matches!(scenario.scheduler, SchedulerEntry::Vcpu(_)) {
        return Err(no_decisions(args, "its [scheduler] is not of kind \"vcpu\""));
    }
    let prepared = scenario::prepare(&scenario)?;
    let progress = Progress::checked("simulating the scenario");
    let step = |share: f64| {
        progress.share(share);
        !stopped()
    };
    let mut result =
        scenario::run(&scenario, prepared, timeline_ns, args.sched_trace.is_some(), &step)?;
    drop(progress);
    let perfetto = args.trace.as_ref().map(|_| solocore_report::perfetto(&as_schedule(&result)));
    if args.trace.is_some() {
        cut(&mut result.timeline, wanted);
    }
    write(args, result.sched_trace.as_ref(), perfetto, &result)?;
    match args.format {
        Format::Json => print(&files::to_json(&result))?,
        Format::Text => print(&scenario_text(&result))?,
    }
    Ok(ExitCode::from(u8::from(result.tasks.iter().any(|t| t.misses_deadline > 0))))
}

/// The part of a scenario's result that a trace shows.
fn as_schedule(r: &ScenarioResult) -> SimResult {
    let tasks = r.tasks.iter().map(|t| TaskResult {
        name: t.name.clone(),
        core: t.core.map_or(0, |c| u32::try_from(c).unwrap_or(0)),
        jobs: t.jobs,
        misses_deadline: t.misses_deadline,
        moet_ns: t.moet_ns,
        acet_ns: t.acet_ns,
        max_response_ns: t.max_response_ns,
        execution_ns: Vec::new(),
        accesses: t.dram_reads + t.dram_writes,
    });
    let cores = r.cores.iter().map(|c| CoreResult {
        id: u32::try_from(c.id).unwrap_or(0),
        accesses: c.accesses,
        throttled_ns: c.throttled_ns,
        max_accesses_per_period: c.max_accesses_per_period,
    });
    SimResult {
        format: solocore_model::results::FORMAT.to_owned(),
        mode: Mode::Managed,
        seed: r.seed,
        tasks: tasks.collect(),
        cores: cores.collect(),
        simulated_ns: r.simulated_ns,
        wall_ns: r.wall_ns,
        requests: r.requests,
        io: None,
        timeline_ns: None,
        timeline: r.timeline.clone(),
        jobs: Vec::new(),
    }
}

fn scenario_text(r: &ScenarioResult) -> String {
    let head = [
        "task",
        "core",
        "jobs",
        "missed",
        "longest ms",
        "mean ms",
        "response ms",
        "busy ms",
        "DRAM MB/s",
        "LLC miss %",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for t in &r.tasks {
        let some = |ns: u64| table::ms((t.jobs > 0).then_some(ns));
        let traffic = (t.dram_reads + t.dram_writes) as f64 * r.line_bytes as f64 * 1e3
            / r.simulated_ns.max(1) as f64;
        rows.push(vec![
            t.name.clone(),
            t.core.map_or_else(|| "-".to_owned(), |c| c.to_string()),
            t.jobs.to_string(),
            t.misses_deadline.to_string(),
            some(t.moet_ns),
            some(t.acet_ns),
            some(t.max_response_ns),
            table::ms(Some(t.busy_ns)),
            format!("{traffic:.1}"),
            format!("{:.1}", 100.0 * t.llc_misses as f64 / t.llc_accesses.max(1) as f64),
        ]);
    }
    let mut out = table::render(&rows);
    out.push('\n');
    for c in r.cores.iter().filter(|c| c.busy_ns + c.throttled_ns > 0) {
        let share = |ns: u64| 100.0 * ns as f64 / r.simulated_ns.max(1) as f64;
        out += &format!(
            "core {}: busy {:.1} %, throttled {:.1} %, at most {} accesses in a period\n",
            c.id,
            share(c.busy_ns),
            share(c.throttled_ns),
            c.max_accesses_per_period
        );
    }
    let u = &r.uncore;
    out +=
        &format!("memory: {} reads of {:.1} ns, {} writes\n", u.reads, u.mean_latency_ns, u.writes);
    let rate = r.requests as f64 * 1e3 / r.wall_ns.max(1) as f64;
    let (simulated, wall) = (r.simulated_ns as f64 / 1e9, r.wall_ns as f64 / 1e9);
    out + &format!(
        "\n{simulated:.3} s simulated in {wall:.2} s ({}), {rate:.1} million accesses a second\n",
        r.resolution
    )
}

/// Checked options.
pub fn options(
    mode: Mode,
    duration: Time,
    seed: u64,
    timeline: Option<Time>,
) -> Result<Options, Failure> {
    if duration.ps() < 1000 {
        return Err(Failure::Input(format!(
            "--duration {duration} is below 1 ns; give for example \"1 s\""
        )));
    }
    if duration.ps() > 24 * 3600 * 1_000_000_000_000 {
        return Err(Failure::Input(format!(
            "--duration {duration} is above 24 hours of simulated time; give less"
        )));
    }
    Ok(Options {
        mode,
        duration_ns: duration.ps() / 1000,
        seed,
        timeline_ns: timeline.map_or(0, Time::ns_ceil),
    })
}

/// Reads a plan with its files, or plans a system.
fn plan_of(path: &Path, profiling: &Profiling) -> Result<(Plan, Option<TempDir>), Failure> {
    if path.extension().is_some_and(|e| e == "toml") {
        return Ok((plan::make(path, profiling)?, None));
    }
    let mut plan = computing(|| Plan::load(path))?;
    let carried = carried::unpack(path, &mut plan)?;
    Ok((plan, carried))
}

/// Runs one simulation with progress.
pub fn simulate(plan: &Plan, options: &Options) -> Result<SimResult, Failure> {
    run_plan(plan, options, false).map(|done| done.0)
}

/// As [`simulate`], with a trace of decisions if `traced`.
fn run_plan(
    plan: &Plan,
    options: &Options,
    traced: bool,
) -> Result<(SimResult, Option<SchedTrace>), Failure> {
    let what = match options.mode {
        Mode::Solo => "simulating each task alone",
        Mode::Unmanaged => "simulating all together, unmanaged",
        Mode::Managed => "simulating all together, under the plan",
        Mode::Even => "simulating all together, with even shares",
    };
    let progress = Progress::checked(what);
    let step = |share: f64| {
        progress.share(share);
        !stopped()
    };
    Ok(simulate_traced(plan, options, traced, &step)?)
}

/// Whether a promise was broken: a deadline was missed, or at level C of MC2 the bound on tardiness
/// was exceeded.
pub fn missed(plan: &Plan, result: &SimResult) -> bool {
    plan.tasks.iter().zip(&result.tasks).any(|(t, r)| t.broken_by(r))
}

fn text(plan: &Plan, result: &SimResult) -> String {
    let head =
        ["task", "core", "finished", "missed", "longest ms", "mean ms", "response ms", "C_sce ms"];
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
            table::ms(Some(t.c_sce_ns).filter(|&c| c != u64::MAX)),
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
    if let Some(io) = &result.io {
        out += &format!(
            "time table: {} activities, {} transfers of {} lines, {} violations of order or \
                exclusion\n",
            io.activities, io.transfers, io.lines, io.violations
        );
        out += &io
            .first_violation
            .as_ref()
            .map_or(String::new(), |v| format!("first violation: {v}\n"));
    }
    let rate = result.requests as f64 * 1e3 / result.wall_ns.max(1) as f64;
    out += &format!(
        "\n{:.3} s simulated in {:.2} s, {rate:.1} million accesses a second\n",
        result.simulated_ns as f64 / 1e9,
        result.wall_ns as f64 / 1e9
    );
    out
}
