//! `solocore run --scheduler levels`: a plan's levels or partitions, scheduled in the kernel.

use crate::args::scheduling::RunScheduler;
use crate::args::{Format, RunArgs, RunEngine, RunSharing};
use crate::commands::isolation;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use crate::table;
use serde::Serialize;
use solocore_linux::clients::{self, Yields};
use solocore_linux::host::status::Status;
use solocore_linux::schedule::levels::{CpuRun, Intruder, JobRun, Jobs, Layout, Scheduler, TaskRun, prometheus};
use solocore_linux::schedule::{isolate::Layout as Wishes, placed::How};
use solocore_linux::{Instance, LinuxError, host::machine, host::notify};
use solocore_model::sched_trace::{Event, SchedTrace};
use solocore_model::{Plan, files};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the daemon looks whether it still schedules, and takes what was traced.
const LOOK: Duration = Duration::from_millis(50);
/// Events that a trace holds at most: 400 MB of them.
const MOST_EVENTS: usize = 10_000_000;

/// What is printed at the end.
#[derive(Serialize)]
struct Summary<'a> {
    format: &'static str,
    scheduler: &'static str,
    duration_ns: u64,
    /// "duration", "signal", or why it could not go on.
    ended: String,
    notes: Vec<String>,
    tasks: Vec<TaskRun>,
    /// Programs that solocore started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    programs: Vec<JobRun>,
    cpus: Vec<CpuRun>,
    /// Real-time threads that no level commands.
    intruders: Vec<Intruder>,
    /// Events that were overwritten before they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    events_lost: Option<u64>,
    /// The plan; `solocore top` has no need of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Plan>,
}

/// Is the scheduler of levels asked for?
pub fn wanted(args: &RunArgs) -> bool {
    args.scheduling.scheduler == RunScheduler::Levels
}

/// What is traced, as it comes in.
struct Recorder {
    events: Vec<Event>,
    lost: u64,
    cpus: u32,
}

impl Recorder {
    fn take(&mut self, scheduler: &Scheduler) {
        let (new, lost) = scheduler.events();
        let room = MOST_EVENTS.saturating_sub(self.events.len());
        self.lost += lost + new.len().saturating_sub(room) as u64;
        self.events.extend(new.into_iter().take(room));
    }

    /// In the order of time.
    fn trace(self) -> SchedTrace {
        let about = [
            ("scheduler", "levels".to_owned()),
            ("source", "linux".to_owned()),
            ("cpus", self.cpus.to_string()),
            ("lost", self.lost.to_string()),
        ];
        let mut events = self.events;
        events.sort_by_key(|e| e.time_ns);
        SchedTrace { about: about.map(|(k, v)| (k.to_owned(), v)).into(), events }
    }
}

/// What is about budgets of accesses has no place here.
fn check_arguments(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        ("--engine helper", args.engine == RunEngine::Helper),
        ("--write-event", args.write_event.is_some()),
        ("--sample", args.sample.is_some()),
        ("--reclaim", args.reclaim),
        ("--share", args.share != RunSharing::None),
        ("--resctrl", args.isolation.resctrl),
    ];
    match given.iter().find(|g| g.1) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::Input(format!(
            "{option} is for budgets of accesses, which --scheduler levels does not enforce; leave one of them out"
        ))),
    }
}

/// A run, while it goes on.
struct Running<'a> {
    layout: &'a Layout,
    wishes: &'a Wishes,
    scheduler: Scheduler,
    jobs: Jobs,
    notes: Vec<String>,
    started: Instant,
}

impl Running<'_> {
    fn tasks(&self) -> Result<Vec<TaskRun>, LinuxError> {
        let mut tasks = self.scheduler.tasks()?;
        for task in &mut tasks {
            let placed = self.wishes.tasks.iter().find(|p| p.name == task.name);
            task.how = placed.map_or("not run", |p| p.how.word()).into();
        }
        Ok(tasks)
    }

    fn summary<'p>(&self, ended: String, plan: Option<&'p Plan>) -> Result<Summary<'p>, LinuxError> {
        Ok(Summary {
            format: "solocore-levels/1",
            scheduler: if self.layout.windows() { "windows" } else { "levels" },
            duration_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ended,
            notes: self.notes.iter().cloned().chain(self.jobs.notes()).collect(),
            tasks: self.tasks()?,
            programs: self.jobs.seen(),
            cpus: self.scheduler.cpus()?,
            intruders: self.scheduler.intruders(),
            events_lost: None,
            plan,
        })
    }

    /// Answers `solocore top` and whoever collects metrics.
    fn answer(&self, status: &Status) {
        let snapshot =
            || self.summary("not yet".to_owned(), None).map_or_else(|e| e.to_string(), |s| files::to_json(&s));
        let metrics = || {
            let seen = self.tasks().and_then(|tasks| Ok((tasks, self.scheduler.cpus()?)));
            seen.map_or_else(
                |e| format!("# {e}\n"),
                |(tasks, cpus)| prometheus(&tasks, &cpus, &self.scheduler.intruders()),
            )
        };
        status.serve(snapshot, metrics);
    }
}

/// Checks, schedules, and says what happened.
pub fn run(args: &RunArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    let of_plan = |e: LinuxError| Failure::from(e).of(&args.plan.display().to_string());
    check_arguments(args)?;
    let layout = Layout::of(plan).map_err(of_plan)?;
    let wishes = isolation::layout(&args.isolation, plan, &args.plan)?;
    machine::check_privileges()?;
    machine::check_sched_ext()?;
    let instance = Instance::take()?;
    if args.dry_run {
        print(&preview(&layout, &wishes))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = Status::open(args.metrics)?;
    let clients = Yields::open(Path::new(clients::SOCKET), &args.group)?;
    let traced = args.scheduling.sched_trace.is_some() || args.isolation.trace.is_some();
    let scheduler = Scheduler::start(&layout, traced)?;
    let jobs = begin(&scheduler, &layout, &wishes)?;
    let notes = notes(plan, &layout, &wishes).into_iter().chain(scheduler.notes().to_vec()).collect();
    let mut recorder = Recorder { events: scheduler.first_events(), lost: 0, cpus: scheduler.cpus };
    let running = Running { layout: &layout, wishes: &wishes, scheduler, jobs, notes, started: Instant::now() };
    announce(&running);
    let (ended, lost) = watch(args, &running, &status, clients, &mut recorder);
    recorder.take(&running.scheduler);
    let mut summary = running.summary(ended, Some(plan))?;
    summary.events_lost = traced.then_some(recorder.lost);
    // First the kernel's scheduler takes over: who was held back hears that it should end.
    let Running { scheduler, jobs, .. } = running;
    drop(scheduler);
    jobs.end();
    drop(status);
    drop(instance);
    write(args, &layout, &summary, recorder)?;
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

fn announce(running: &Running<'_>) {
    for note in &running.notes {
        eprintln!("solocore: note: {note}");
    }
    let what = if running.layout.windows() { "windows of partitions" } else { "criticality levels" };
    eprintln!(
        "scheduling {} tasks on {} CPUs by {what}; Ctrl-C ends it",
        running.layout.tasks.len(),
        running.layout.cores
    );
}

fn write(args: &RunArgs, layout: &Layout, summary: &Summary<'_>, recorder: Recorder) -> Result<(), Failure> {
    let trace = recorder.trace();
    if let Some(path) = &args.scheduling.sched_trace {
        write_trace(path, &trace)?;
    }
    if let Some(path) = &args.isolation.trace {
        let names: Vec<String> = layout.tasks.iter().map(|t| t.name.clone()).collect();
        files::write_atomically(path, &solocore_report::perfetto_sched(&trace, &names))?;
    }
    if let Some(path) = &args.output {
        files::write_json(path, summary)?;
    }
    match args.format {
        Format::Json => print(&files::to_json(summary)),
        Format::Text => print(&text(summary)),
    }
}

/// Writes a trace of decisions.
pub fn write_trace(path: &Path, trace: &SchedTrace) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    trace
        .write(&mut bytes)
        .map_err(|e| Failure::Machine(format!("{}: cannot be written: {e}; free some memory", path.display())))?;
    Ok(files::write_atomically(path, &bytes)?)
}

/// Programs start, processes are attached.
fn begin(scheduler: &Scheduler, layout: &Layout, wishes: &Wishes) -> Result<Jobs, Failure> {
    let index = |name: &str| layout.tasks.iter().position(|t| t.name == name);
    let mut programs = Vec::new();
    for placed in &wishes.tasks {
        let Some(task) = index(&placed.name) else { continue };
        match &placed.how {
            How::Attach(process) => scheduler.attach(task, *process)?,
            How::Start(command) | How::Drive(command) => programs.push((task, placed.name.clone(), command.clone())),
            How::NotRun => {}
        }
    }
    Ok(Jobs::start(programs, wishes.directory(), |task, thread| scheduler.claim(task, thread, true))?)
}

fn notes(plan: &Plan, layout: &Layout, wishes: &Wishes) -> Vec<String> {
    let mut notes = Vec::new();
    if !plan.schedulable {
        notes.push("the plan is not schedulable: deadlines may be missed, budgets are kept".to_owned());
    }
    if plan.cores.iter().any(|c| c.budget_accesses.is_some()) {
        notes.push(
            "budgets of memory accesses are not enforced beside this scheduler; the plan's response times rest on them"
                .to_owned(),
        );
    }
    if plan.levels().is_some() {
        notes.push("ways and banks of the plan are not applied; its execution times rest on them".to_owned());
    }
    let placed = |name: &str| wishes.tasks.iter().any(|p| p.name == name && p.how != How::NotRun);
    let idle: Vec<&str> = layout.tasks.iter().map(|t| t.name.as_str()).filter(|n| !placed(n)).collect();
    if !idle.is_empty() {
        notes.push(format!(
            "tasks that solocore neither starts nor attaches (--start, --command, --attach): {}",
            idle.join(", ")
        ));
    }
    notes
}

fn preview(layout: &Layout, wishes: &Wishes) -> String {
    let head = ["task", "level", "core", "period ms", "PET ms", "how"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for t in &layout.tasks {
        let how = wishes.tasks.iter().find(|p| p.name == t.name).map_or("not run", |p| p.how.word());
        let time = |ns: u64| table::ms((ns > 0).then_some(ns));
        let row = [&t.name, t.level.name(), &t.core.to_string(), &time(t.period_ns), &time(t.pet_ns), how];
        rows.push(row.map(str::to_owned).to_vec());
    }
    let mut out = table::render(&rows);
    for t in &layout.tables {
        out += &format!("core {}: {} slots in {:.3} ms\n", t.core, t.slots.len(), t.frame_ns as f64 / 1e6);
    }
    out
}

/// Until the time is over, somebody asks for the end, or the kernel takes over: why, and the failure.
fn watch(
    args: &RunArgs,
    running: &Running<'_>,
    status: &Status,
    mut clients: Yields,
    recorder: &mut Recorder,
) -> (String, Option<LinuxError>) {
    let started = Instant::now();
    let limit = args.duration.map(|d| Duration::from_nanos(d.ns_ceil()));
    notify::send("READY=1");
    let end = loop {
        if stopped() {
            break ("signal".to_owned(), None);
        }
        if let Err(error) = running.scheduler.check() {
            break (error.to_string(), Some(error));
        }
        let left = limit.map_or(LOOK, |l| l.saturating_sub(started.elapsed()).min(LOOK));
        if left.is_zero() {
            break ("duration".to_owned(), None);
        }
        recorder.take(&running.scheduler);
        for message in clients.serve(&|name, thread| running.scheduler.join(name, thread)) {
            eprintln!("solocore: {message}");
        }
        running.answer(status);
        notify::send("WATCHDOG=1");
        std::thread::sleep(left);
    };
    notify::send("STOPPING=1");
    end
}

fn text(s: &Summary<'_>) -> String {
    let head = [
        "task",
        "level",
        "core",
        "how",
        "jobs",
        "done",
        "skipped",
        "overruns",
        "late",
        "start us",
        "longest ms",
        "tardy ms",
        "bound ms",
        "charged ms",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for t in &s.tasks {
        let some = |ns: u64| table::ms((t.completed > 0).then_some(ns));
        let planned = s.plan.and_then(|p| p.tasks.iter().find(|p| p.name == t.name));
        let bound = planned.and_then(|p| p.tardiness_ns);
        rows.push(vec![
            t.name.clone(),
            t.level.to_string(),
            t.core.map_or("all".to_owned(), |c| c.to_string()),
            t.how.to_string(),
            t.jobs.to_string(),
            t.completed.to_string(),
            t.skipped.to_string(),
            t.overruns.to_string(),
            t.late.to_string(),
            format!("{:.1}", t.max_start_late_ns as f64 / 1e3),
            some(t.max_response_ns),
            some(t.max_tardiness_ns),
            table::ms(bound),
            some(t.max_charged_ns),
        ]);
    }
    let mut out = table::render(&rows) + "\n";
    let head = ["CPU", "decisions", "mean us", "longest us", "timer late us", "intrusions", "lost ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in &s.cpus {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        rows.push(vec![
            c.cpu.to_string(),
            c.decisions.to_string(),
            us(c.mean_decision_ns),
            us(c.max_decision_ns),
            us(c.max_timer_late_ns),
            c.intrusions.to_string(),
            format!("{:.3}", c.intruder_ns as f64 / 1e6),
        ]);
    }
    out += &table::render(&rows);
    for intruder in &s.intruders {
        out += &format!("real-time thread beside the levels: {}\n", intruder.text());
    }
    out + &format!("\n{} scheduler, {:.3} s; ended by {}\n", s.scheduler, s.duration_ns as f64 / 1e9, s.ended)
}
