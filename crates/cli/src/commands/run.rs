//! `solocore run`: a plan on this machine.
//!
//! Rule: the plan's scheme determines the parts of a run; one daemon (`solocore_linux::daemon`)
//! checks, starts, watches and undoes them.

use crate::args::{Format, RunArgs, RunEngine, RunSharing};
use crate::commands::daemon::{self, Destination};
use crate::commands::other_machine::OtherMachine;
use crate::commands::{
    isolation, levels, run_options, run_preview, run_replace, run_text, run_vcpus,
};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::computing;
use solocore_linux::clients::{SOCKET, ServiceOptions};
use solocore_linux::daemon::{
    Confinement, Daemon, Interrupts, LockClients, Regulating, Settings, Tasks, Ways,
};
use solocore_linux::host::machine;
use solocore_linux::regulate::engine::Choice;
use solocore_linux::{Event, Options, Regulation, Sharing};
use solocore_model::run::RunScheme;
use solocore_model::{Plan, files};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Checks, runs, and prints the result; or prints the preview of a dry run.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    if args.duration.is_some_and(|d| d.ps() < 1_000_000_000) {
        return Err(Failure::Input(
            "--duration is below 1 ms, the length of a period; give for example \"10 s\""
                .to_owned(),
        ));
    }
    let plan = computing(|| Plan::load(&args.plan))?;
    if args.replace {
        return run_replace::run(args, &plan);
    }
    let daemon = prepared(args, plan)?;
    if args.dry_run {
        return dry_run(args, daemon);
    }
    let to = Destination {
        sched_trace: args.scheduling.sched_trace.as_deref(),
        trace: args.isolation.trace.as_deref(),
        output: args.output.as_deref(),
        format: args.format,
    };
    daemon::run(daemon, &to)
}

/// The run of a plan, which was read from `args.plan`, with all its parts; nothing is started yet.
pub(crate) fn prepared(args: &RunArgs, plan: Plan) -> Result<Daemon, Failure> {
    let mut daemon = Daemon::default();
    if let Some(planned) = plan.vcpus() {
        run_vcpus::add_parts(&mut daemon, args, &plan, planned)?;
    } else if levels::wanted(args) {
        levels::add_parts(&mut daemon, args, &plan)?;
    } else {
        add_parts(&mut daemon, args, &plan)?;
    }
    if let Some(other) = OtherMachine::of(&plan) {
        daemon.add(other);
    }
    daemon.scheme = RunScheme::of(&plan);
    daemon.notes.extend(run_text::unschedulable(&plan));
    daemon.duration = args.duration.map(|d| Duration::from_nanos(d.ns_ceil()));
    daemon.metrics.clone_from(&args.metrics);
    daemon.plan = Some(plan);
    daemon.partial = args.partial;
    daemon.vouched.clone_from(&args.vouched);
    Ok(daemon)
}

fn dry_run(args: &RunArgs, mut daemon: Daemon) -> Result<ExitCode, Failure> {
    let (preview, refused) = daemon.preview();
    match args.format {
        Format::Json => print(&files::to_json(&preview))?,
        Format::Text => print(&run_preview::text(&preview))?,
    }
    refused.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// Adds the parts of a run with budgets of accesses, under the kernel's own scheduler.
fn add_parts(daemon: &mut Daemon, args: &RunArgs, plan: &Plan) -> Result<(), Failure> {
    let layout = Rc::new(isolation::layout(&args.isolation, plan, &args.plan)?);
    let regulation = Regulation { binds_fifo: layout.has_fifo(), ..regulation_of(args, plan)? };
    let locks = regulation.lock.is_some();
    let serves = locks || regulation.dynamic.is_some() || !layout.slots.slots.is_empty();
    run_options::for_budgets(args, (serves, locks))?;
    let max_hold_ns = regulation.lock.map_or(0, |lock| lock.max_hold_ns);
    let silent = layout.silent(regulation.dynamic.is_some(), locks);
    let clients = ServiceOptions::new(Path::new(SOCKET), &args.group)
        .with_slots(&layout.slots)
        .with_silent(silent);
    let regulating =
        Regulating::new(regulation, choice(args.engine), args.isolation.trace.is_some());
    let settings = Settings::default();
    // Started drivers find a socket that answers.
    let engine = regulating.engine();
    let colours = isolation::colours(&args.isolation, plan, &args.plan, &layout, daemon)?;
    let clients = LockClients::new(engine, clients, max_hold_ns);
    let mut tasks = Tasks::new(&layout, &settings).beside(&regulating).signalled(&clients);
    daemon.add(regulating);
    daemon.add(clients);
    if args.isolation.resctrl {
        let ways = Ways::new(plan, &settings);
        tasks = tasks.in_ways(&ways);
        daemon.add(ways);
    }
    let mut confinement = Confinement::new(&layout, &settings);
    if let Some(colours) = colours {
        tasks = tasks.in_colours(&colours);
        confinement = confinement.in_colours(&colours);
        daemon.add(colours);
    }
    if !args.isolation.no_move_irqs {
        daemon.add(Interrupts::new(&layout, &settings));
    }
    if !args.isolation.no_confine {
        daemon.add(confinement);
    }
    daemon.add(tasks);
    Ok(())
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
        skid: plan.regulation.skid,
    };
    let online = machine::online_cpus()?;
    Regulation::new(plan, &options, &online)
        .map_err(|e| Failure::from(e).of(&args.plan.display().to_string()))
}

pub(crate) fn choice(engine: RunEngine) -> Choice {
    match engine {
        RunEngine::Auto => Choice::Auto,
        RunEngine::SchedExt => Choice::SchedExt,
        RunEngine::Helper => Choice::Helper,
    }
}
