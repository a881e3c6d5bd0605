//! The part of `solocore run` that is about who runs where.

use crate::args::isolation::IsolationArgs;
use crate::fail::Failure;
use crate::table;
use serde::Serialize;
use solocore_linux::clients::{Service, SlotRun};
use solocore_linux::host::cpuset::Confined;
use solocore_linux::host::irq::Moved;
use solocore_linux::host::machine::cpu_list;
use solocore_linux::regulate::engine::Engine;
use solocore_linux::regulate::history::{Recorder, Span};
use solocore_linux::schedule::isolate::{self, Isolation, Layout, Preview};
use solocore_linux::schedule::jobs::TaskRun;
use solocore_linux::schedule::locker::LockRun;
use solocore_linux::schedule::placed::Wishes;
use solocore_linux::schedule::windows::WindowRun;
use solocore_linux::{GroupRun, Regulation};
use solocore_model::run::RunJob;
use solocore_model::{Plan, files};
use solocore_report::{RunTrace, TracedCore, TracedPeriod, TracedTask};
use std::cell::RefCell;
use std::path::Path;

/// The plan's tasks and everything else, as the options want them.
pub fn layout(args: &IsolationArgs, plan: &Plan, path: &Path) -> Result<Layout, Failure> {
    layout_with(args, plan, path, (!args.no_fifo, !args.no_confine))
}

/// As [`layout`]: are analysed tasks real-time ones, and are others kept off their cores?
pub fn layout_with(
    args: &IsolationArgs,
    plan: &Plan,
    path: &Path,
    (fifo, confine): (bool, bool),
) -> Result<Layout, Failure> {
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    let pid = |(name, value): &(String, String)| match value.parse::<u32>() {
        Ok(pid) if pid > 0 => Ok((name.clone(), pid)),
        _ => Err(Failure::Input(format!("--attach {name}={value}: `{value}` is no number of a process; give one"))),
    };
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wishes = Wishes {
        start: args.start,
        commands: args.commands.iter().map(|(name, command)| (name.clone(), words(command))).collect(),
        attach: args.attach.iter().map(pid).collect::<Result<_, _>>()?,
        directory: args.directory.clone().unwrap_or_else(|| beside.to_owned()),
        fifo,
        move_irqs: !args.no_move_irqs,
        confine,
        irq_cpu: args.irq_cpu,
        resctrl: args.resctrl,
    };
    if !wishes.directory.is_dir() {
        return Err(Failure::Input(format!(
            "--directory {}: there is no such directory; give one in which the commands can run",
            wishes.directory.display()
        )));
    }
    Ok(Layout::new(plan, &wishes)?)
}

/// What would be changed, for people.
pub fn preview_text(preview: &Preview) -> String {
    let list = |numbers: &[u32]| if numbers.is_empty() { "none".to_owned() } else { cpu_list(numbers) };
    let mut out = format!("cores of analysed tasks: {}\n", list(&preview.hard_cores));
    for (name, core, fifo, how) in &preview.tasks {
        let scheduling = fifo.map_or("as an ordinary task".to_owned(), |p| format!("SCHED_FIFO {p}"));
        let (what, how) = if *how == "driver" { ("driver", "started") } else { ("task", *how) };
        out += &format!("{what} {name} on core {core}, {scheduling}: would be {how}\n");
    }
    out += &format!("interrupts that would be moved to CPU {}: {}\n", preview.irq_cpu, list(&preview.irqs));
    if let Some(confine) = &preview.confine {
        out += &format!(
            "others that would be kept off: {} threads by affinity, control groups {}; {} threads are bound there and would stay\n",
            confine.threads,
            if confine.groups.is_empty() { "none".to_owned() } else { confine.groups.join(", ") },
            confine.bound.len()
        );
    }
    out
}

/// What goes into the summary beside the counts of the CPUs.
#[derive(Serialize)]
pub struct Watched {
    /// Length of a span of the CPUs' series.
    pub span_ns: u64,
    /// Periods that are in no series, because they were not read in time.
    pub periods_unread: u64,
    /// The plan's tasks.
    pub tasks: Vec<TaskRun>,
    /// Drivers that solocore started; a job is a run of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<TaskRun>,
    /// Windows of partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowRun>,
    /// Other programs that were kept off the cores of analysed tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<Confined>,
    /// Interrupts that were moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Moved>,
    /// Groups that the hardware gives ways and bandwidth, and what they hold and transfer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRun>,
    /// Locked pages that were read into ways of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locked_pages: Vec<LockRun>,
    /// What was enforced, so that the file can be drawn by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// The tasks in their places, and what is seen meanwhile.
pub struct Watch {
    recorder: RefCell<Recorder>,
    isolation: RefCell<Isolation>,
}

impl Watch {
    /// Puts everything in its place.
    pub fn begin(layout: &Layout, period_ns: u64, trace: bool) -> Result<Self, Failure> {
        let isolation = layout.apply()?;
        let recorder = Recorder::new(isolate::now_ns(), period_ns, trace);
        Ok(Self { recorder: RefCell::new(recorder), isolation: RefCell::new(isolation) })
    }

    /// Takes what is new; called some twenty times a second.
    pub fn look(&self, engine: &dyn Engine) {
        self.recorder.borrow_mut().add(engine.periods());
        self.isolation.borrow_mut().look();
    }

    /// A CPU's series.
    pub fn series(&self, cpu: u32) -> Vec<Span> {
        self.recorder.borrow().series(cpu).to_vec()
    }

    /// For the user.
    pub fn notes(&self) -> Vec<String> {
        self.isolation.borrow().notes()
    }

    fn tasks(&self) -> Vec<TaskRun> {
        let mut tasks = self.isolation.borrow().tasks();
        self.since_begun(tasks.iter_mut().flat_map(|t| &mut t.latest));
        tasks
    }

    /// What was seen of the time table's transfers.
    pub fn transfers(&self, service: &Service) -> Vec<SlotRun> {
        let mut transfers = service.transfers();
        self.since_begun(transfers.iter_mut().flat_map(|t| &mut t.latest));
        transfers
    }

    fn since_begun<'a>(&self, jobs: impl Iterator<Item = &'a mut RunJob>) {
        let begun = self.recorder.borrow().begun_ns;
        for job in jobs {
            for time in [&mut job.release_ns, &mut job.start_ns, &mut job.end_ns] {
                *time = time.saturating_sub(begun);
            }
        }
    }

    /// For the summary.
    pub fn watched(&self) -> Watched {
        let isolation = self.isolation.borrow();
        let (drivers, tasks) = self.tasks().into_iter().partition(|t| t.how == "driver");
        Watched {
            span_ns: self.recorder.borrow().span_ns,
            periods_unread: self.recorder.borrow().lost,
            tasks,
            drivers,
            windows: isolation.windows(),
            confined: isolation.confined().cloned(),
            interrupts: isolation.moved().cloned(),
            groups: isolation.groups(),
            locked_pages: isolation.locked(),
            plan: None,
        }
    }

    /// Writes the Perfetto trace.
    pub fn write_trace(&self, path: &Path, regulation: &Regulation, transfers: &[SlotRun]) -> Result<(), Failure> {
        let recorder = self.recorder.borrow();
        let begun = recorder.begun_ns;
        let period = |p: solocore_linux::regulate::history::Period| TracedPeriod {
            start_ns: p.start_ns.saturating_sub(begun),
            end_ns: p.end_ns.saturating_sub(begun),
            stopped_ns: p.stopped_ns.map(|ns| ns.saturating_sub(begun)),
            accesses: p.accesses,
        };
        let core = |cpu: u32| TracedCore { cpu, periods: recorder.traced(cpu).into_iter().map(period).collect() };
        let times = |jobs: &[RunJob]| jobs.iter().map(|j| (j.release_ns, j.start_ns, j.end_ns)).collect();
        let task = |t: TaskRun| TracedTask { name: t.name, place: format!("core {}", t.core), jobs: times(&t.latest) };
        let transfer =
            |t: &SlotRun| TracedTask { name: t.name.clone(), place: t.resource.clone(), jobs: times(&t.latest) };
        let tasks = self.tasks().into_iter().filter(|t| t.how == "started").map(task);
        let attended = transfers.iter().filter(|t| t.clients > 0).map(transfer);
        let trace = RunTrace {
            cores: regulation.regulated().into_iter().map(core).collect(),
            tasks: tasks.chain(attended).collect(),
        };
        Ok(files::write_atomically(path, &solocore_report::perfetto_run(&trace))?)
    }
}

/// What was seen of partitions' windows; empty without partitions.
pub fn windows_text(windows: &[WindowRun]) -> String {
    if windows.is_empty() {
        return String::new();
    }
    let mut rows = vec![["partition", "core", "windows", "stopped late us"].map(str::to_owned).to_vec()];
    for w in windows {
        let late = format!("{:.1}", w.max_late_ns as f64 / 1e3);
        rows.push(vec![w.partition.clone(), w.core.to_string(), w.windows.to_string(), late]);
    }
    format!("\n{}", table::render(&rows))
}

/// What the hardware's groups got and did; empty without any.
pub fn groups_text(groups: &[GroupRun]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let head = ["group", "shares", "exclusive", "held KiB", "transferred MB"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for g in groups {
        let some = |n: Option<u64>, unit: f64| n.map_or("-".to_owned(), |n| format!("{:.1}", n as f64 / unit));
        rows.push(vec![
            g.group.clone(),
            g.schemata.join(" "),
            if g.exclusive { "yes" } else { "no" }.to_owned(),
            some(g.occupancy_bytes, 1024.0),
            some(g.total_bytes, 1e6),
        ]);
    }
    format!("\n{}", table::render(&rows))
}

/// What was seen of locked pages; empty without any.
pub fn locked_text(runs: &[LockRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let head = ["locked pages of", "planned", "found", "used", "reads", "ns a page", "processes"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for r in runs {
        let numbers = [r.pages, r.found, r.present, r.reads, r.mean_read_ns, r.processes].map(|n| n.to_string());
        rows.push(std::iter::once(r.task.clone()).chain(numbers).collect());
    }
    format!("\n{}", table::render(&rows))
}

/// What was seen of the time table's input and output; empty without any.
pub fn transfers_text(transfers: &[SlotRun]) -> String {
    if transfers.is_empty() {
        return String::new();
    }
    let head = ["transfer", "on", "slots", "begun", "late", "missed", "no driver", "start us", "over us"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for t in transfers {
        let us = |ns: u64| if t.begun > 0 { format!("{:.1}", ns as f64 / 1e3) } else { "-".to_owned() };
        rows.push(vec![
            t.name.clone(),
            t.resource.clone(),
            t.slots.to_string(),
            t.begun.to_string(),
            t.late.to_string(),
            t.missed.to_string(),
            t.unattended.to_string(),
            us(t.max_start_late_ns),
            us(t.max_end_late_ns),
        ]);
    }
    let alone = unattended(transfers).map_or_else(String::new, |text| format!("{text}\n"));
    format!("\n{}{alone}", table::render(&rows))
}

/// Which transfers nobody came for.
pub fn unattended(transfers: &[SlotRun]) -> Option<String> {
    let alone: Vec<&str> = transfers.iter().filter(|t| t.clients == 0).map(|t| t.name.as_str()).collect();
    (!alone.is_empty()).then(|| format!("transfers that nobody attached for: {}", alone.join(", ")))
}

/// What was seen of the tasks that solocore ran; empty if there were none.
pub fn tasks_text<'a>(tasks: impl Iterator<Item = &'a TaskRun>) -> String {
    let run: Vec<&TaskRun> = tasks.filter(|t| t.how != "not run").collect();
    if run.is_empty() {
        return String::new();
    }
    let head = ["task", "core", "how", "scheduling", "jobs", "failed", "late", "longest ms", "mean ms", "CPU ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for t in run {
        let some = |ns: u64| table::ms((t.jobs > 0).then_some(ns));
        rows.push(vec![
            t.name.clone(),
            t.core.to_string(),
            t.how.to_owned(),
            t.fifo.map_or("normal".to_owned(), |p| format!("fifo {p}")),
            t.jobs.to_string(),
            t.failed.to_string(),
            t.misses_deadline.to_string(),
            some(t.max_response_ns),
            some(t.mean_response_ns),
            some(t.max_cpu_ns),
        ]);
    }
    format!("\n{}", table::render(&rows))
}
