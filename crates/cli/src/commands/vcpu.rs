//! `solocore vcpu`: VCPUs on this machine.

use crate::args::Format;
use crate::args::vcpu::{BackgroundPolicy, Reservation, SchedulerArgs, ServeArgs, VcpuArgs, VcpuCommand};
use crate::commands::sched_trace::Record;
use crate::commands::vcpu_memory::{Monitor, Wanted as Throttling};
use crate::commands::{run_text, vcpu_drill};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use solocore_linux::schedule::vcpus::control::{self, Answer, Control, Request};
use solocore_linux::schedule::vcpus::{Options, Vcpus, Wanted, check_name};
use solocore_linux::{Instance, LinuxError, host::machine, host::notify};
use solocore_model::plan::VcpuScheduling;
use solocore_model::run::{self, RunResult, RunScheme, RunVcpus};
use solocore_model::vcpus::{Background, check_times};
use solocore_model::{Time, files};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often requests are answered and the rings of events are read.
const LOOK: Duration = Duration::from_millis(25);

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
                    Format::Text => print(&run_text::vcpus_list(&vcpus))?,
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

/// The options of the scheduler.
pub fn options(args: &SchedulerArgs) -> Options {
    let scheduling = VcpuScheduling {
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
        balance_ns: args.balance.map(Time::ns_ceil),
        core_colours: args.core_colors,
        throttle: None,
    };
    Options { scheduling, traced: args.sched_trace.is_some() || args.trace.is_some(), ..Options::default() }
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
    let summary = RunResult {
        format: run::FORMAT.to_owned(),
        scheme: RunScheme::Vcpus,
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ended,
        vcpus: Some(seen(&vcpus, monitor.as_ref())),
        ..RunResult::default()
    };
    drop(control);
    let ending = Ending {
        sched_trace: args.scheduler.sched_trace.as_deref(),
        trace: args.scheduler.trace.as_deref(),
        output: args.output.as_deref(),
        format: args.format,
    };
    ending.conclude((vcpus, instance), record, &summary)?;
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// What the scheduler saw.
pub fn seen(vcpus: &Vcpus, monitor: Option<&Monitor>) -> RunVcpus {
    RunVcpus {
        background: vcpus.options().scheduling.background.name().to_owned(),
        throttling: monitor.map(Monitor::found),
        vcpus: vcpus.list(),
        cpus: vcpus.counts(),
        intruders: vcpus.intruders(),
    }
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
    pub fn conclude(
        &self,
        (vcpus, instance): (Vcpus, Instance),
        mut record: Record,
        summary: &RunResult,
    ) -> Result<(), Failure> {
        let (events, missing) = vcpus.events();
        record.add(events, missing);
        drop(vcpus);
        drop(instance);
        record.write(self.sched_trace, self.trace, summary.vcpus.as_ref().map_or(&[], |v| &v.vcpus))?;
        if let Some(path) = self.output {
            files::write_json(path, summary)?;
        }
        match self.format {
            Format::Json => print(&files::to_json(summary)),
            Format::Text => print(&run_text::text(summary)),
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
