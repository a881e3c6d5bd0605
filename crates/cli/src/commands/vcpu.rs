//! `solocore vcpu`: VCPUs on this machine.

use crate::args::Format;
use crate::args::vcpu::{
    BackgroundPolicy, BindArgs, Named, PlacedReservation, Reservation, SchedulerArgs, ServeArgs,
    ThrottlingArgs, VcpuArgs, VcpuCommand,
};
use crate::commands::daemon::{self, Destination};
use crate::commands::latency as memory;
use crate::commands::{run_text, vcpu_drill};
use crate::fail::Failure;
use crate::print::print;
use solocore_linux::daemon::{Daemon, Memory, MemoryWish, Moving, Scheduling};
use solocore_linux::host::machine;
use solocore_linux::schedule::vcpus::control::{self, Answer, Request};
use solocore_linux::schedule::vcpus::{Group, Options, Wanted, check_name};
use solocore_model::plan::VcpuScheduling;
use solocore_model::run::RunScheme;
use solocore_model::vcpus::{Background, CoreColours, Migration, Monitor, check_times};
use solocore_model::{Time, files};
use solocore_space::geometry::Geometry;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command of `solocore vcpu`.
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
        VcpuCommand::Bind(args) => {
            if let Answer::Bound { group, threads } = control::ask(&to_bind(args)?)? {
                print(&format!("control group {group} is bound; threads now: {threads}\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The request to bind a process, or a control group: then the first name is that of the VCPU.
fn to_bind(args: &BindArgs) -> Result<Request, Failure> {
    let group = args.cgroup.clone().map(Group::Path).or(args.unit.clone().map(Group::Unit));
    let Some(group) = group else {
        let pid = args.pid.as_deref().unwrap_or_default();
        let pid = pid.parse::<u32>().ok().filter(|&pid| pid > 0).ok_or_else(|| {
            Failure::Input(format!(
                "`{pid}` is not a number of a process; give one, or --cgroup or --unit in its place"
            ))
        })?;
        return Ok(Request::Bind { vcpu: args.vcpu.clone(), pid });
    };
    match (&args.pid, &args.vcpu) {
        (Some(pid), Some(_)) => Err(Failure::Input(format!(
            "`{pid}` is one argument too many: --cgroup and --unit take no PID; give only the \
            name of a VCPU"
        ))),
        (vcpu, _) => Ok(Request::BindGroup { vcpu: vcpu.clone(), group }),
    }
}

/// The options of the scheduler.
fn options(args: &SchedulerArgs) -> Options {
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
        core_colours: match args.core_colors.as_slice() {
            [] => None,
            [each] => Some(CoreColours::Each(*each)),
            list => Some(CoreColours::Of(list.to_vec())),
        },
        migration: args.migration.map(|own| Migration {
            capacity: Time::from_ns(own.reservation.capacity_ns),
            period: Time::from_ns(own.reservation.period_ns),
            page_cost: args.page_cost,
            base_cost: args.base_cost,
            core: own.core,
        }),
        throttle: None,
    };
    Options {
        scheduling,
        traced: args.sched_trace.is_some() || args.trace.is_some(),
        ..Options::default()
    }
}

/// Refuses a reservation that is invalid on every machine, before this machine is examined.
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
    check(args.throttling.monitor.reservation, "--monitor")?;
    let mut options = options(&args.scheduler);
    let by_memory = args.scheduler.background == BackgroundPolicy::LeastMemory;
    if args.throttling.event.is_some() && args.throttling.threshold.is_none() && !by_memory {
        return Err(Failure::Input(
            "--event is for --threshold or --background least-memory; give one of them, or leave \
                --event out"
                .to_owned(),
        ));
    }
    let memory = throttling(&args.throttling, options.check_ns)?;
    options.throttling = memory.as_ref().map(|m| m.settings);
    let wanted = |v: &Named| Wanted {
        name: v.name.clone(),
        capacity_ns: v.reservation.capacity_ns,
        period_ns: v.reservation.period_ns,
        core: v.core,
        fixed: false,
        colours: 0,
    };
    let mut first: Vec<(Wanted, String)> =
        args.vcpus.iter().map(|v| (wanted(v), format!("--vcpu {}", v.name))).collect();
    if memory.is_some() {
        first.push((Wanted::monitor(&monitor(args.throttling.monitor)), "--monitor".to_owned()));
    }
    let moved = moved(&options)?;
    if let Some((migration, _, _)) = &moved {
        first.push((Wanted::migration(migration), "--migration".to_owned()));
    }
    let event = args.throttling.event.as_deref();
    let scheduling = Scheduling::new(options, first).counting(event);
    let mut daemon = Daemon::default();
    daemon.scheme = RunScheme::Vcpus;
    daemon.duration = args.duration.map(|d| Duration::from_nanos(d.ns_ceil()));
    // The scheduler first: it has the monitor's VCPU.
    let memory = memory.map(|memory| Memory::new(memory, scheduling.vcpus()));
    let moving = moved.map(|(migration, colours, cores)| {
        Moving::new(migration, &colours, cores, scheduling.vcpus())
    });
    daemon.add(scheduling);
    if let Some(memory) = memory {
        daemon.add(memory);
    }
    if let Some(moving) = moving {
        daemon.add(moving);
    }
    let to = Destination {
        sched_trace: args.scheduler.sched_trace.as_deref(),
        trace: args.scheduler.trace.as_deref(),
        output: args.output.as_deref(),
        format: args.format,
    };
    daemon::run(daemon, &to)
}

/// The moving of pages that the options ask for, the colours of the cores, and these.
fn moved(options: &Options) -> Result<Option<(Migration, CoreColours, u32)>, Failure> {
    let rules = &options.scheduling;
    let cores = u32::try_from(machine::online_cpus()?.len()).unwrap_or(u32::MAX);
    if let Some(colours) = &rules.core_colours {
        colours.check(cores).map_err(|what| Failure::Input(format!("--core-colors: {what}")))?;
    }
    let (Some(migration), Some(colours)) = (rules.migration, &rules.core_colours) else {
        return Ok(None);
    };
    check_times(migration.capacity.ns_ceil(), migration.period.ns_ceil())
        .map_err(|what| Failure::Input(format!("--migration: {what}")))?;
    // Where the cache is not known, the servers of the programs refuse colours that are not there.
    let known = Geometry::of_machine()
        .ok()
        .and_then(|cache| 1u32.checked_shl(cache.colours().len() as u32));
    let known = known.unwrap_or(u32::MAX);
    migration
        .check(Some(colours), cores, known)
        .map_err(|what| Failure::Input(format!("--migration: {what}")))?;
    Ok(Some((migration, colours.clone(), cores)))
}

/// The monitor's VCPU that the option asks for.
fn monitor(stated: PlacedReservation) -> Monitor {
    Monitor {
        capacity: Time::from_ns(stated.reservation.capacity_ns),
        period: Time::from_ns(stated.reservation.period_ns),
        core: stated.core,
    }
}

/// The throttling that the options ask for; `None` without a threshold.
fn throttling(args: &ThrottlingArgs, check_ns: u64) -> Result<Option<MemoryWish>, Failure> {
    if args.threshold.is_none() {
        return Ok(None);
    }
    Ok(Some(MemoryWish {
        settings: memory::settings(args.rule, args.threshold, args.idle)?,
        check_ns,
        event: args.event.clone(),
        choice: args.source,
        period: Duration::from_nanos(args.memory_period.ns_ceil()),
        in_time: false,
    }))
}
