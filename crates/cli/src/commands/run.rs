//! `solocore run`: a plan's regulation on this machine.

use crate::args::{Format, RunArgs, RunEngine, RunSharing};
use crate::commands::isolation::{self, Watch};
use crate::commands::{levels, run_vcpus};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use crate::table;
use serde::Serialize;
use solocore_linux::clients::{self, Client, LockCounts, Service, ServiceOptions, SlotRun};
use solocore_linux::host::status::Status;
use solocore_linux::regulate::engine::{self, Choice, Engine, Started};
use solocore_linux::regulate::metrics;
use solocore_linux::regulate::regulation::CoreBudget;
use solocore_linux::schedule::isolate::Layout;
use solocore_linux::{Counts, Event, Instance, LinuxError, Options, Regulation, Sharing, host::machine, host::notify};
use solocore_model::{Plan, files};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the daemon looks whether it still regulates.
const LOOK: Duration = Duration::from_millis(50);

/// A core in the summary.
#[derive(Serialize)]
struct CoreSummary {
    #[serde(flatten)]
    budget: CoreBudget,
    #[serde(flatten)]
    counts: Counts,
    throttled_share: f64,
    /// What it did over time, in spans of `span_ns`.
    series: Vec<solocore_linux::regulate::history::Span>,
}

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    format: &'static str,
    engine: &'static str,
    /// Why a better engine did not run.
    passed_over: Option<String>,
    event: String,
    /// What counts as a write, where they are counted apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_event: Option<String>,
    /// Does the event only stand in for accesses to memory?
    stands_in: bool,
    period_ns: u64,
    duration_ns: u64,
    /// "duration", "signal", or why it could not go on.
    ended: String,
    notes: Vec<String>,
    cores: Vec<CoreSummary>,
    #[serde(flatten)]
    watched: isolation::Watched,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<LockSummary>,
    /// The time table's input and output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transfers: Vec<SlotRun>,
}

/// The bandwidth lock, or whose jobs are signalled, where the plan has either.
#[derive(Serialize)]
struct LockSummary {
    /// A section counts for at most so long; 0: for ever.
    max_hold_ns: u64,
    /// Who is attached.
    clients: Vec<Client>,
    cores: Vec<LockCounts>,
}

/// Checks, regulates, and says what happened.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    if args.duration.is_some_and(|d| d.ps() < 1_000_000_000) {
        return Err(Failure::Input(
            "--duration is below 1 ms, the length of a period; give for example \"10 s\"".to_owned(),
        ));
    }
    let plan = read_plan(&args.plan)?;
    if let Some(maracas) = plan.vcpus() {
        return run_vcpus::run(args, &plan, maracas);
    }
    if levels::wanted(args) {
        return levels::run(args, &plan);
    }
    if args.scheduling.sched_trace.is_some() {
        return Err(Failure::Input(
            "--sched-trace records decisions about levels or VCPUs; give --scheduler levels, or a plan with [[vcpu]]"
                .to_owned(),
        ));
    }
    let regulation = regulation_of(args, &plan)?;
    let layout = isolation::layout(&args.isolation, &plan, &args.plan)?;
    machine::check_privileges()?;
    machine::check_sample_rate(regulation.period_ns, regulation.interrupts_per_period())?;
    let (expected, counted) = regulation.event.self_test()?;
    regulation.write_event.as_ref().map(Event::self_test_of_writes).transpose()?;
    let instance = Instance::take()?;
    if args.dry_run {
        drop(instance);
        return dry_run(args, &regulation, &layout, expected, counted);
    }
    let status = Status::open(args.metrics)?;
    let Started { engine, passed_over } = engine::start(&regulation, choice(args.engine))?;
    // Drivers that are started find somebody who answers.
    let clients = ServiceOptions::new(Path::new(clients::SOCKET), &args.group).with_slots(&layout.slots);
    let service = Service::of(engine.as_ref(), clients)?;
    let watch = Watch::begin(&layout, regulation.period_ns, args.isolation.trace.is_some())?;
    announce(&regulation, engine.as_ref(), service.as_ref(), passed_over.as_deref(), &watch);
    let started = Instant::now();
    let so_far = |ended: &str| {
        let so_far = summary(&regulation, engine.as_ref(), &watch, passed_over.clone(), ended, started.elapsed())?;
        let lock = service.as_ref().map(|service| LockSummary {
            max_hold_ns: regulation.lock.map_or(0, |lock| lock.max_hold_ns),
            clients: service.clients(),
            cores: service.cores(),
        });
        let transfers = service.as_ref().map_or_else(Vec::new, |s| watch.transfers(s));
        let alone = isolation::unattended(&transfers);
        let notes = so_far.notes.iter().cloned().chain(alone).collect();
        Ok::<_, LinuxError>(Summary { lock, transfers, notes, ..so_far })
    };
    let answer = || {
        watch.look(engine.as_ref());
        for message in service.iter().flat_map(Service::messages) {
            eprintln!("solocore: {message}");
        }
        status.serve(
            || so_far("not yet").map_or_else(|e| e.to_string(), |s| files::to_json(&s)),
            || metrics(&regulation, engine.as_ref()),
        );
    };
    let (ended, lost) = regulate(args, engine.as_ref(), &answer);
    watch.look(engine.as_ref());
    let mut summary = so_far(&ended)?;
    if let Some(path) = &args.isolation.trace {
        watch.write_trace(path, &regulation, &summary.transfers)?;
    }
    summary.watched.plan = Some(plan);
    drop(service);
    drop(watch);
    drop(engine);
    drop(status);
    drop(instance);
    if let Some(path) = &args.output {
        files::write_json(path, &summary)?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&summary))?,
        Format::Text => print(&text(&summary))?,
    }
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// Says what runs, and what the user should know before relying on it.
fn announce(
    regulation: &Regulation,
    engine: &dyn Engine,
    service: Option<&Service>,
    passed_over: Option<&str>,
    watch: &Watch,
) {
    let of_service = service.map_or(&[][..], Service::notes);
    for note in regulation.notes.iter().chain(&engine.notes()).chain(&watch.notes()).chain(of_service) {
        eprintln!("solocore: note: {note}");
    }
    if let Some(reason) = passed_over {
        eprintln!("solocore: note: the sched-ext engine does not run: {reason}");
    }
    eprintln!(
        "regulating {} CPUs by {} every {} us with the {} engine; Ctrl-C ends it",
        regulation.cores.len(),
        regulation.event.name(),
        regulation.period_ns / 1000,
        engine.name()
    );
}

/// The plan, read and checked for this machine.
fn regulation_of(args: &RunArgs, plan: &Plan) -> Result<Regulation, Failure> {
    let cpuinfo = machine::cpuinfo();
    let options = Options {
        event: Event::find(&args.event, &cpuinfo)?,
        write_event: Event::find_writes(args.write_event.as_deref(), &cpuinfo)?,
        count_writes: args.write_event.is_some(),
        write_budgets: !args.no_write_budgets,
        sample: args.sample,
        reclaim: args.reclaim,
        sharing: match args.share {
            RunSharing::None => Sharing::None,
            RunSharing::Spare => Sharing::Spare,
            RunSharing::Proportional => Sharing::Proportional,
        },
        max_hold_ns: args.max_hold.ns_ceil(),
    };
    let online = machine::online_cpus()?;
    Regulation::new(plan, &options, &online).map_err(|e| Failure::from(e).of(&args.plan.display().to_string()))
}

pub(crate) fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
    if path.extension().is_some_and(|e| e == "toml") {
        return Err(wrong(format!("is no plan; make one of it: solocore plan {} -o plan.json", path.display())));
    }
    let plan: Plan = files::read_json(path)?;
    if plan.format != solocore_model::plan::FORMAT {
        return Err(wrong(format!("its format is `{}`, not a plan of this version; plan again", plan.format)));
    }
    plan.check().map_err(|what| wrong(format!("{what}; make the plan again with `solocore plan`")))?;
    Ok(plan)
}

pub(crate) fn choice(engine: RunEngine) -> Choice {
    match engine {
        RunEngine::Auto => Choice::Auto,
        RunEngine::SchedExt => Choice::SchedExt,
        RunEngine::Helper => Choice::Helper,
    }
}

/// Until the time is over, somebody asks for the end, or the engine fails: why it ended, and the failure.
fn regulate(args: &RunArgs, engine: &dyn Engine, answer: &dyn Fn()) -> (String, Option<LinuxError>) {
    let started = Instant::now();
    let limit = args.duration.map(|d| Duration::from_nanos(d.ns_ceil()));
    notify::send("READY=1");
    let (ended, lost) = loop {
        if stopped() {
            break ("signal".to_owned(), None);
        }
        if let Err(error) = engine.check() {
            break (error.to_string(), Some(error));
        }
        let left = limit.map_or(LOOK, |l| l.saturating_sub(started.elapsed()).min(LOOK));
        if left.is_zero() {
            break ("duration".to_owned(), None);
        }
        answer();
        notify::send("WATCHDOG=1");
        std::thread::sleep(left);
    };
    notify::send("STOPPING=1");
    (ended, lost)
}

fn metrics(regulation: &Regulation, engine: &dyn Engine) -> String {
    let counts = engine.counts().unwrap_or_default();
    let cores: Vec<_> = regulation.cores.iter().zip(counts).map(|(b, (_, c))| (*b, c)).collect();
    metrics::prometheus(engine.name(), &cores)
}

fn summary(
    regulation: &Regulation,
    engine: &dyn Engine,
    watch: &Watch,
    passed_over: Option<String>,
    ended: &str,
    duration: Duration,
) -> Result<Summary, LinuxError> {
    let core = |(budget, (_, counts)): (&CoreBudget, (u32, Counts))| CoreSummary {
        budget: *budget,
        counts,
        throttled_share: counts.throttled_ns as f64
            / (counts.periods.saturating_add(counts.periods_skipped).max(1) as f64 * regulation.period_ns as f64),
        series: watch.series(budget.cpu),
    };
    Ok(Summary {
        format: "solocore-run/1",
        engine: engine.name(),
        passed_over,
        event: regulation.event.name().to_owned(),
        write_event: regulation.write_event.as_ref().map(|e| e.name().to_owned()),
        stands_in: regulation.event.is_software(),
        period_ns: regulation.period_ns,
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        ended: ended.to_owned(),
        notes: regulation.notes.iter().cloned().chain(engine.notes()).chain(watch.notes()).collect(),
        cores: regulation.cores.iter().zip(engine.counts()?).map(core).collect(),
        watched: watch.watched(),
        lock: None,
        transfers: Vec::new(),
    })
}

fn text(s: &Summary) -> String {
    let head = ["CPU", "budget", "sample", "periods", "throttled", "time %", "max", "over", "skipped", "longest ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for core in &s.cores {
        let c = &core.counts;
        rows.push(vec![
            core.budget.cpu.to_string(),
            limit(core.budget.budget),
            core.budget.sample.to_string(),
            c.periods.to_string(),
            c.throttled_periods.to_string(),
            format!("{:.1}", 100.0 * core.throttled_share),
            c.max_accesses_per_period.to_string(),
            c.periods_over_budget.to_string(),
            c.periods_skipped.to_string(),
            format!("{:.3}", c.longest_period_ns as f64 / 1e6),
        ]);
    }
    table::render(&rows)
        + &writes_text(s)
        + &isolation::tasks_text(s.watched.tasks.iter().chain(&s.watched.drivers))
        + &isolation::windows_text(&s.watched.windows)
        + &isolation::transfers_text(&s.transfers)
        + &isolation::groups_text(&s.watched.groups)
        + &isolation::locked_text(&s.watched.locked_pages)
        + &s.lock.as_ref().map_or_else(String::new, lock_text)
        + &format!(
            "\n{} engine, {} per {} us, {:.3} s; ended by {}\n",
            s.engine,
            s.event,
            s.period_ns / 1000,
            s.duration_ns as f64 / 1e9,
            s.ended
        )
}

/// Writes, where they are counted apart.
fn writes_text(s: &Summary) -> String {
    let Some(event) = &s.write_event else { return String::new() };
    let head = ["CPU", "write budget", "sample", "writes", "max", "over"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for core in &s.cores {
        let (Some(budget), Some(counts)) = (core.budget.writes, core.counts.writes) else { continue };
        rows.push(vec![
            core.budget.cpu.to_string(),
            limit(budget.write_budget),
            budget.write_sample.to_string(),
            counts.writes.to_string(),
            counts.max_writes_per_period.to_string(),
            counts.periods_over_write_budget.to_string(),
        ]);
    }
    format!("\n{}writes are {event}\n", table::render(&rows))
}

fn limit(budget: u64) -> String {
    if budget == u64::MAX { "none".to_owned() } else { budget.to_string() }
}

fn lock_text(lock: &LockSummary) -> String {
    if lock.cores.is_empty() {
        return String::new();
    }
    let head = ["CPU", "periods with a lock", "stopped by it", "freed early"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in &lock.cores {
        rows.push([u64::from(c.cpu), c.held_periods, c.stops, c.early_releases].map(|n| n.to_string()).to_vec());
    }
    format!("\n{}", table::render(&rows))
}

/// What `--dry-run` says.
#[derive(Serialize)]
struct DryRun<'a> {
    format: &'static str,
    event: &'a str,
    self_test_made: u64,
    self_test_counted: u64,
    period_ns: u64,
    sched_ext: Option<String>,
    notes: &'a [String],
    cores: &'a [CoreBudget],
    isolation: solocore_linux::schedule::isolate::Preview,
}

fn dry_run(
    args: &RunArgs,
    regulation: &Regulation,
    layout: &Layout,
    expected: u64,
    counted: u64,
) -> Result<ExitCode, Failure> {
    let sched_ext = machine::check_sched_ext();
    if args.engine == RunEngine::SchedExt {
        sched_ext.clone()?;
    }
    let notes: Vec<String> = regulation.notes.iter().chain(&layout.notes).cloned().collect();
    let result = DryRun {
        format: "solocore-dry-run/1",
        event: regulation.event.name(),
        self_test_made: expected,
        self_test_counted: counted,
        period_ns: regulation.period_ns,
        sched_ext: sched_ext.err().map(|e| e.to_string()),
        notes: &notes,
        cores: &regulation.cores,
        isolation: layout.preview(),
    };
    if args.format == Format::Json {
        print(&files::to_json(&result))?;
        return Ok(ExitCode::SUCCESS);
    }
    let apart = regulation.write_event.is_some();
    let head = ["CPU", "planned", "budget", "sample", "write budget", "write sample"];
    let columns = if apart { head.len() } else { 4 };
    let mut rows = vec![head[..columns].iter().map(|&h| h.to_owned()).collect::<Vec<_>>()];
    for c in &regulation.cores {
        let mut row = vec![c.cpu.to_string(), c.planned.to_string(), limit(c.budget), c.sample.to_string()];
        row.extend(c.writes.iter().flat_map(|w| [limit(w.write_budget), w.write_sample.to_string()]));
        rows.push(row);
    }
    let mut out = table::render(&rows);
    let engine = match (args.engine, &result.sched_ext) {
        (RunEngine::Helper, _) => "helper".to_owned(),
        (_, None) => "sched-ext".to_owned(),
        (_, Some(reason)) => format!("helper ({reason})"),
    };
    out += &format!(
        "\n{} per {} us; of {expected} made, {counted} were counted; engine: {engine}\n",
        result.event,
        regulation.period_ns / 1000
    );
    out += &isolation::preview_text(&result.isolation);
    for note in &notes {
        out += &format!("note: {note}\n");
    }
    print(&(out + "nothing was changed\n"))?;
    Ok(ExitCode::SUCCESS)
}
