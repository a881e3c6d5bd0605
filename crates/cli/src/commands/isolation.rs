//! The part of `solocore run` that is about who runs where.

use crate::args::isolation::IsolationArgs;
use crate::fail::Failure;
use solocore_linux::Regulation;
use solocore_linux::clients::Service;
use solocore_linux::host::machine::cpu_list;
use solocore_linux::regulate::engine::Engine;
use solocore_linux::regulate::history::Recorder;
use solocore_linux::schedule::isolate::{self, Isolation, Layout, Preview};
use solocore_linux::schedule::placed::Wishes;
use solocore_model::run::{RunJob, RunResult, RunSpan, RunTask, RunTransfer};
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
    pub fn series(&self, cpu: u32) -> Vec<RunSpan> {
        self.recorder.borrow().series(cpu).to_vec()
    }

    /// For the user.
    pub fn notes(&self) -> Vec<String> {
        self.isolation.borrow().notes()
    }

    fn tasks(&self) -> Vec<RunTask> {
        let mut tasks = self.isolation.borrow().tasks();
        self.since_begun(tasks.iter_mut().flat_map(|t| &mut t.latest));
        tasks
    }

    /// What was seen of the time table's transfers.
    pub fn transfers(&self, service: &Service) -> Vec<RunTransfer> {
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

    /// Length of a span of the series, and periods that are in none.
    pub fn spans(&self) -> (u64, u64) {
        (self.recorder.borrow().span_ns, self.recorder.borrow().lost)
    }

    /// Adds what was seen to a run.
    pub fn add_to(&self, run: &mut RunResult) {
        let isolation = self.isolation.borrow();
        (run.drivers, run.tasks) = self.tasks().into_iter().partition(|t| t.how == "driver");
        run.windows = isolation.windows();
        run.confined = isolation.confined().cloned();
        run.interrupts = isolation.moved().cloned();
        run.groups = isolation.groups();
        run.locked_pages = isolation.locked();
    }

    /// Writes the Perfetto trace.
    pub fn write_trace(&self, path: &Path, regulation: &Regulation, transfers: &[RunTransfer]) -> Result<(), Failure> {
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
        let task = |t: RunTask| TracedTask { name: t.name, place: format!("core {}", t.core), jobs: times(&t.latest) };
        let transfer =
            |t: &RunTransfer| TracedTask { name: t.name.clone(), place: t.resource.clone(), jobs: times(&t.latest) };
        let tasks = self.tasks().into_iter().filter(|t| t.how == "started").map(task);
        let attended = transfers.iter().filter(|t| t.clients > 0).map(transfer);
        let trace = RunTrace {
            cores: regulation.regulated().into_iter().map(core).collect(),
            tasks: tasks.chain(attended).collect(),
        };
        Ok(files::write_atomically(path, &solocore_report::perfetto_run(&trace))?)
    }
}
