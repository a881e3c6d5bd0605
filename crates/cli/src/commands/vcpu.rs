//! `solocore vcpu`: VCPUs on this machine.

use crate::args::Format;
use crate::args::vcpu::{BackgroundPolicy, SchedulerArgs, ServeArgs, ThrottlingArgs, VcpuArgs, VcpuCommand};
use crate::commands::sched_trace::Record;
use crate::commands::{latency as memory, print};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use crate::table;
use serde::Serialize;
use solocore_linux::latency::probe::Config;
use solocore_linux::latency::requests::CoreRequests;
use solocore_linux::latency::throttling::{Decision, Mechanism, Rule, Settings, Throttling};
use solocore_linux::latency::{self, pmu};
use solocore_linux::vcpu::control::{self, Answer, Control, Request};
use solocore_linux::vcpu::{Background, CpuCounts, Options, VcpuState, Vcpus, Wanted};
use solocore_linux::{Instance, LinuxError, machine, notify};
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
}

/// What came of the throttling of background time.
#[derive(Clone, Debug, Serialize)]
struct Throttled {
    /// What is read.
    source: String,
    /// What counts as a request of a CPU.
    event: String,
    rule: &'static str,
    threshold: u64,
    /// Memory periods, and in how many memory was contended.
    periods: u64,
    contended: u64,
    /// Most cores that got no background time at once.
    most_throttled: u32,
    /// The highest latency of a period.
    highest_latency: Option<f64>,
}

/// The readings come to [`Vcpus::monitor`] by themselves.
struct Elsewhere;

impl Mechanism for Elsewhere {
    fn monitor(&mut self, _: u64, _: u64, _: &[u64]) -> Result<Decision, LinuxError> {
        Ok(Decision::default())
    }
}

/// Reads the memory's latency or the requests to it, and hands them to the scheduler.
struct Monitor {
    driver: Throttling<Elsewhere>,
    found: Throttled,
}

impl Monitor {
    fn begin(args: &ThrottlingArgs, settings: &Settings) -> Result<Self, Failure> {
        let (cpus, cpuinfo) = (machine::online_cpus()?, machine::cpuinfo());
        let (cores, instead) = CoreRequests::choose(args.event.as_deref(), &cpuinfo, &cpus)?;
        let config = Config::on(&cpus);
        let sysfs = Path::new(pmu::SYSFS);
        let (watched, why) = latency::watch(settings.rule, memory::choice(args.source), sysfs, &cpuinfo, &config)?;
        for note in instead.iter().chain(&why) {
            eprintln!("solocore: note: {note}");
        }
        let found = Throttled {
            source: watched.about(),
            event: cores.event().name().to_owned(),
            rule: if settings.rule == Rule::Rate { "rate" } else { "latency" },
            threshold: settings.threshold,
            periods: 0,
            contended: 0,
            most_throttled: 0,
            highest_latency: None,
        };
        let every = Duration::from_nanos(args.memory_period.ns_ceil());
        let driver = Throttling::new(every, settings.rule, watched, cores, Elsewhere)?;
        Ok(Self { driver, found })
    }

    fn look(&mut self, vcpus: &Vcpus) -> Result<(), LinuxError> {
        if Instant::now() < self.driver.due() {
            return Ok(());
        }
        let tick = self.driver.tick()?;
        let decision = vcpus.monitor(&tick)?;
        self.found.periods += 1;
        self.found.contended += u64::from(decision.contended);
        self.found.most_throttled = self.found.most_throttled.max(decision.throttled);
        let latency = tick.reading.latency();
        self.found.highest_latency = self.found.highest_latency.into_iter().chain(latency).reduce(f64::max);
        Ok(())
    }
}

/// Carries it out.
pub fn run(args: &VcpuArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        VcpuCommand::Serve(args) => return serve(args),
        VcpuCommand::Drill { times, stall, format } => return drill(*times, *stall, *format),
        VcpuCommand::Create { name, reservation, core, fixed, colors, pid } => {
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

fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let mut options = options(&args.scheduler);
    let throttling = &args.throttling;
    if throttling.threshold.is_some() {
        options.throttling = Some(memory::settings(throttling.rule, throttling.threshold, throttling.idle)?);
    }
    machine::check_privileges()?;
    let instance = Instance::take()?;
    let mut monitor = options.throttling.as_ref().map(|settings| Monitor::begin(throttling, settings)).transpose()?;
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
    eprintln!("scheduling VCPUs on {} CPUs; Ctrl-C ends it", vcpus.counts().len());
    let started = Instant::now();
    let mut look = |vcpus: &Vcpus| monitor.as_mut().map_or(Ok(()), |monitor| monitor.look(vcpus));
    let (ended, lost) = look_after(args.duration, &mut vcpus, &control, &mut record, &mut look);
    let summary = Summary {
        format: "solocore-vcpus/1",
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ended,
        background: options.background.name(),
        throttling: monitor.as_ref().map(|m| m.found.clone()),
        vcpus: vcpus.list(),
        cpus: vcpus.counts(),
    };
    drop(control);
    let (events, missing) = vcpus.events();
    record.add(events, missing);
    drop(vcpus);
    drop(instance);
    record.write(args.scheduler.sched_trace.as_deref(), args.scheduler.trace.as_deref(), &summary.vcpus)?;
    if let Some(path) = &args.output {
        files::write_json(path, &summary)?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&summary))?,
        Format::Text => print(&text(&summary))?,
    }
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
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

/// What a drill showed.
#[derive(Serialize)]
struct Drill {
    times: u32,
    /// From the failure until the kernel's scheduler had taken over, at most.
    longest_ms: f64,
    /// What the kernel said the last time.
    said: String,
    /// Programs, maps and links of BPF in the kernel before and after.
    before: [u32; 3],
    after: [u32; 3],
}

fn drill(times: u32, stall: bool, format: Format) -> Result<ExitCode, Failure> {
    machine::check_privileges()?;
    let instance = Instance::take()?;
    let before = machine::bpf_objects();
    let mut found = Drill { times: 0, longest_ms: 0.0, said: String::new(), before, after: before };
    let progress = Progress::new("drill");
    while found.times < times && !stopped() {
        let vcpus = Vcpus::start(Options::default())?;
        let (took, said) = vcpus.fail(stall)?;
        found.longest_ms = found.longest_ms.max(took.as_secs_f64() * 1e3);
        found.said = said;
        found.times += 1;
        progress.share(f64::from(found.times) / f64::from(times.max(1)));
    }
    drop(progress);
    drop(instance);
    // The kernel frees what nobody has any more a little later.
    let freed = Instant::now();
    loop {
        found.after = machine::bpf_objects();
        if found.after.iter().zip(before).all(|(after, before)| *after <= before)
            || freed.elapsed() > Duration::from_secs(10)
        {
            break;
        }
        std::thread::sleep(LOOK);
    }
    match format {
        Format::Json => print(&files::to_json(&found))?,
        Format::Text => print(&format!(
            "failed {} times; the kernel's scheduler took over within {:.1} ms; it said: {}\nprograms, maps, links of BPF: {:?} before, {:?} after\n",
            found.times, found.longest_ms, found.said, found.before, found.after
        ))?,
    }
    let leaked = found.after.iter().zip(before).any(|(after, before)| *after > before);
    Ok(ExitCode::from(u8::from(leaked)))
}

fn text(summary: &Summary) -> String {
    let memory = summary.throttling.as_ref().map(|t| {
        format!(
            "\nmemory ({}): contended in {} of {} periods, at most {} cores without background time{}\n",
            t.source,
            t.contended,
            t.periods,
            t.most_throttled,
            t.highest_latency.map_or_else(String::new, |l| format!(", highest latency {l:.1}"))
        )
    });
    text_of(&summary.vcpus) + &cpus_text(&summary.cpus) + &memory.unwrap_or_default()
}

/// What happened on each CPU.
pub fn cpus_text(cpus: &[CpuCounts]) -> String {
    let head = ["CPU", "switches", "late", "longest us", "strays", "moves", "background ms"];
    let row = |c: &CpuCounts| {
        vec![
            c.cpu.to_string(),
            c.switches.to_string(),
            c.late.to_string(),
            format!("{:.1}", c.longest_late_ns as f64 / 1e3),
            c.strays.to_string(),
            c.moves.to_string(),
            table::ms(Some(c.background_ns)),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(cpus.iter().map(row)).collect();
    format!("\n{}", table::render(&rows))
}
