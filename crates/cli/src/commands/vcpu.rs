//! `solocore vcpu`: VCPUs on this machine.

use crate::args::Format;
use crate::args::vcpu::{BackgroundPolicy, Reservation, SchedulerArgs, ServeArgs, VcpuArgs, VcpuCommand};
use crate::commands::sched_trace::Record;
use crate::commands::vcpu_drill;
use crate::commands::vcpu_memory::{Monitor, Throttled, Wanted as Throttling};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use crate::table;
use serde::Serialize;
use solocore_linux::schedule::vcpus::control::{self, Answer, Control, Request};
use solocore_linux::schedule::vcpus::{Background, CpuCounts, Intruder, Options, VcpuState, Vcpus, Wanted, check_name};
use solocore_linux::{Instance, LinuxError, host::machine, host::notify};
use solocore_model::vcpus::check_times;
use solocore_model::{Time, files};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often requests are answered and the rings of events are read.
const LOOK: Duration = Duration::from_millis(25);

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    format: &'static str,
    duration_ns: u64,
    /// "duration", "signal", or why it could not go on.
    ended: String,
    background: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttling: Option<Throttled>,
    vcpus: Vec<VcpuState>,
    cpus: Vec<CpuCounts>,
    /// Real-time threads, which no VCPU holds.
    intruders: Vec<Intruder>,
}

/// Carries it out.
pub fn run(args: &VcpuArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        VcpuCommand::Serve(args) => return serve(args),
        VcpuCommand::Drill(args) => return vcpu_drill::run(args),
        VcpuCommand::Create { name, reservation, core, fixed, colors, pid } => {
            check_name(name).map_err(Failure::Input)?;
            check(*reservation, &format!("VCPU {name}"))?;
            let wanted = Wanted {
                name: name.clone(),
                capacity_ns: reservation.capacity_ns,
                period_ns: reservation.period_ns,
                core: *core,
                fixed: *fixed,
                colours: *colors,
            };
            if let Answer::Done { id: Some(id), core: Some(core) } =
                control::ask(&Request::Create { wanted, pid: *pid })?
            {
                print(&format!("VCPU {id} `{name}` on core {core}\n"))?;
            }
        }
        VcpuCommand::List { format } => {
            if let Answer::Vcpus(vcpus) = control::ask(&Request::List)? {
                match format {
                    Format::Json => print(&files::to_json(&vcpus))?,
                    Format::Text => print(&text_of(&vcpus))?,
                }
            }
        }
        VcpuCommand::Move { vcpu, core } => {
            control::ask(&Request::Move { vcpu: vcpu.clone(), core: *core })?;
        }
        VcpuCommand::Destroy { vcpu } => {
            control::ask(&Request::Destroy { vcpu: vcpu.clone() })?;
        }
        VcpuCommand::Bind { pid, vcpu } => {
            control::ask(&Request::Bind { vcpu: vcpu.clone(), pid: *pid })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub fn text_of(vcpus: &[VcpuState]) -> String {
    let head = ["VCPU", "id", "core", "C ms", "T ms", "state", "foreground ms", "background ms", "moves"];
    let row = |v: &VcpuState| {
        vec![
            v.name.clone(),
            v.id.to_string(),
            v.core.to_string(),
            table::ms(Some(v.capacity_ns)),
            table::ms(Some(v.period_ns)),
            v.state.clone(),
            table::ms(Some(v.foreground_ns)),
            table::ms(Some(v.background_ns)),
            v.moves.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(vcpus.iter().map(row)).collect();
    table::render(&rows)
}

/// The options of the scheduler.
pub fn options(args: &SchedulerArgs) -> Options {
    Options {
        background: match args.background {
            BackgroundPolicy::LeastTime => Background::LeastTime,
            BackgroundPolicy::Keep => Background::Keep,
            BackgroundPolicy::LeastMemory => Background::LeastMemory,
            BackgroundPolicy::None => Background::None,
        },
        strict: !args.lenient,
        replenishments: args.replenishments,
        best_effort_ns: (args.best_effort.capacity_ns, args.best_effort.period_ns),
        overhead_ns: args.overhead.ns_ceil(),
        balance_ns: args.balance.map(|b| b.ns_ceil().max(100_000)),
        colours: args.core_colors,
        traced: args.sched_trace.is_some() || args.trace.is_some(),
        ..Options::default()
    }
}

/// What is no VCPU's on any machine is refused before this one is looked at.
fn check(reservation: Reservation, whose: &str) -> Result<(), Failure> {
    check_times(reservation.capacity_ns, reservation.period_ns)
        .map_err(|what| Failure::Input(format!("{whose}: {what}")))
}

fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    check(args.scheduler.best_effort, "--best-effort")?;
    for v in &args.vcpus {
        check_name(&v.name).map_err(|what| Failure::Input(format!("--vcpu: {what}")))?;
        check(v.reservation, &format!("--vcpu {}", v.name))?;
    }
    let mut options = options(&args.scheduler);
    let throttling = Throttling::of_arguments(&args.throttling, options.check_ns)?;
    options.throttling = throttling.as_ref().map(|t| t.settings);
    machine::check_privileges()?;
    let instance = Instance::take()?;
    let mut monitor = throttling.as_ref().map(Monitor::begin).transpose()?;
    let mut vcpus = Vcpus::start(options)?;
    for v in &args.vcpus {
        let wanted = Wanted {
            name: v.name.clone(),
            capacity_ns: v.reservation.capacity_ns,
            period_ns: v.reservation.period_ns,
            core: v.core,
            fixed: false,
            colours: 0,
        };
        vcpus.create(&wanted).map_err(|e| Failure::from(e).of(&format!("--vcpu {}", v.name)))?;
    }
    let control = Control::open()?;
    let mut record = Record::of_vcpus(&options, vcpus.counts().len());
    for note in vcpus.notes() {
        eprintln!("solocore: note: {note}");
    }
    eprintln!("scheduling VCPUs on {} CPUs; Ctrl-C ends it", vcpus.counts().len());
    let started = Instant::now();
    let mut look = |vcpus: &Vcpus| monitor.as_mut().map_or(Ok(()), |monitor| monitor.look(vcpus));
    let (ended, lost) = look_after(args.duration, &mut vcpus, &control, &mut record, &mut look);
    let summary = Summary {
        format: "solocore-vcpus/1",
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ended,
        background: options.background.name(),
        throttling: monitor.as_ref().map(Monitor::found),
        vcpus: vcpus.list(),
        cpus: vcpus.counts(),
        intruders: vcpus.intruders(),
    };
    drop(control);
    let ending = Ending {
        sched_trace: args.scheduler.sched_trace.as_deref(),
        trace: args.scheduler.trace.as_deref(),
        output: args.output.as_deref(),
        format: args.format,
    };
    ending.conclude((vcpus, instance), record, &summary.vcpus, &summary, text)?;
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// Where a run's results go.
pub struct Ending<'a> {
    pub sched_trace: Option<&'a Path>,
    pub trace: Option<&'a Path>,
    pub output: Option<&'a Path>,
    pub format: Format,
}

impl Ending<'_> {
    /// The scheduler goes first: whatever fails afterwards, the machine is as it was.
    pub fn conclude<S: Serialize>(
        &self,
        (vcpus, instance): (Vcpus, Instance),
        mut record: Record,
        states: &[VcpuState],
        summary: &S,
        text: impl FnOnce(&S) -> String,
    ) -> Result<(), Failure> {
        let (events, missing) = vcpus.events();
        record.add(events, missing);
        drop(vcpus);
        drop(instance);
        record.write(self.sched_trace, self.trace, states)?;
        if let Some(path) = self.output {
            files::write_json(path, summary)?;
        }
        match self.format {
            Format::Json => print(&files::to_json(summary)),
            Format::Text => print(&text(summary)),
        }
    }
}

/// Until the time is over, somebody asks for the end, or the kernel has unloaded the scheduler; `each` is called at every look, and may end it by failing.
pub fn look_after(
    duration: Option<Time>,
    vcpus: &mut Vcpus,
    control: &Control,
    record: &mut Record,
    each: &mut dyn FnMut(&Vcpus) -> Result<(), LinuxError>,
) -> (String, Option<LinuxError>) {
    let started = Instant::now();
    let limit = duration.map(|d| Duration::from_nanos(d.ns_ceil()));
    notify::send("READY=1");
    let ended = loop {
        if stopped() {
            break ("signal".to_owned(), None);
        }
        if let Err(error) = vcpus.check().and_then(|()| each(vcpus)) {
            break (error.to_string(), Some(error));
        }
        let left = limit.map_or(LOOK, |l| l.saturating_sub(started.elapsed()).min(LOOK));
        if left.is_zero() {
            break ("duration".to_owned(), None);
        }
        for done in control.serve(vcpus) {
            eprintln!("solocore: {done}");
        }
        let (events, missing) = vcpus.events();
        record.add(events, missing);
        notify::send("WATCHDOG=1");
        std::thread::sleep(left);
    };
    notify::send("STOPPING=1");
    ended
}

fn text(summary: &Summary) -> String {
    let memory = summary.throttling.as_ref().map(Throttled::text);
    text_of(&summary.vcpus)
        + &cpus_text(&summary.cpus)
        + &memory.unwrap_or_default()
        + &intruders_text(&summary.intruders)
}

/// Real-time threads, a line each.
pub fn intruders_text(intruders: &[Intruder]) -> String {
    intruders.iter().map(|i| format!("real-time thread beside the VCPUs: {}\n", i.text())).collect()
}

/// What happened on each CPU.
pub fn cpus_text(cpus: &[CpuCounts]) -> String {
    let head = ["CPU", "switches", "late", "longest us", "strays", "moves", "background ms", "real-time ms"];
    let row = |c: &CpuCounts| {
        vec![
            c.cpu.to_string(),
            c.switches.to_string(),
            c.late.to_string(),
            format!("{:.1}", c.longest_late_ns as f64 / 1e3),
            c.strays.to_string(),
            c.moves.to_string(),
            table::ms(Some(c.background_ns)),
            table::ms(Some(c.intruder_ns)),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(cpus.iter().map(row)).collect();
    format!("\n{}", table::render(&rows))
}
