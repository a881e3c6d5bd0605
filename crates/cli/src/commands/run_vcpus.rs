//! `solocore run` of a plan with VCPUs: schedules them as planned, with the plan's tasks in them.
//!
//! Rule: the scheduler of `solocore vcpu serve` with the plan's options; its VCPUs on the plan's
//! cores, each admitted again before anything runs. Tasks are started or attached as in every run,
//! as ordinary threads, and bound to their VCPUs before the first job is released. Threads that are
//! bound to none are best effort. While it runs, `solocore vcpu` and `solocore exec --vcpu` find
//! it. A plan's `throttle` is applied as that of `solocore vcpu serve --threshold`; no bound rests
//! on it.
//! Does not cover: budgets of accesses.

use crate::args::{DEFAULT_EVENT, RunArgs};
use crate::commands::{isolation, run_options};
use crate::fail::Failure;
use solocore_linux::daemon::{
    Colours, Daemon, Interrupts, Memory, MemoryWish, Moving, Scheduling, Settings, Tasks,
};
use solocore_linux::schedule::vcpus::Options;
use solocore_model::Plan;
use solocore_model::plan::VcpusPlan;
use solocore_model::vcpus::Background;
use std::rc::Rc;

/// Adds the parts of the run.
pub fn add_parts(
    daemon: &mut Daemon,
    args: &RunArgs,
    plan: &Plan,
    planned: &VcpusPlan,
) -> Result<(), Failure> {
    let counts = planned.scheduling.throttle.is_some()
        || planned.scheduling.background == Background::LeastMemory;
    run_options::for_vcpus(args, counts)?;
    let layout =
        Rc::new(isolation::layout_with(&args.isolation, plan, &args.plan, (false, false))?);
    // Without an option, the first event that this machine counts is taken.
    let event = (args.event != DEFAULT_EVENT).then_some(args.event.as_str());
    let memory = planned.scheduling.throttle.map(|t| MemoryWish::of_plan(&t, event));
    let defaults = Options::default();
    let options = Options {
        scheduling: planned.scheduling.clone(),
        traced: args.scheduling.sched_trace.is_some() || args.isolation.trace.is_some(),
        throttling: memory.as_ref().map(|m| m.settings),
        check_ns: memory.as_ref().map_or(defaults.check_ns, |m| m.check_ns),
        ..defaults
    };
    let path = args.plan.display().to_string();
    let scheduling = Scheduling::planned(options, &planned.vcpus, &path).counting(event);
    let settings = Settings::default();
    let mut tasks = Tasks::new(&layout, &settings).bound(scheduling.bind(&settings));
    let colours = isolation::colours(&args.isolation, plan, &args.plan, &layout, daemon)?;
    let moving = moving(plan, planned, &scheduling, colours.as_ref())?;
    if let Some(colours) = &colours {
        tasks = tasks.in_colours(colours);
    }
    // The scheduler before the others: it has the monitor's VCPU.
    let memory = memory.map(|memory| Memory::new(memory, scheduling.vcpus()));
    daemon.add(scheduling);
    if let Some(memory) = memory {
        daemon.add(memory);
    }
    if let Some(colours) = colours {
        daemon.add(colours);
    }
    // After the programs' servers, which it asks.
    if let Some(moving) = moving {
        daemon.add(moving);
    }
    if !args.isolation.no_move_irqs {
        daemon.add(Interrupts::new(&layout, &settings));
    }
    daemon.add(tasks);
    Ok(())
}

/// The part that moves pages, if the plan asks for it.
fn moving(
    plan: &Plan,
    planned: &VcpusPlan,
    scheduling: &Scheduling,
    colours: Option<&Colours>,
) -> Result<Option<Moving>, Failure> {
    let rules = &planned.scheduling;
    let (Some(migration), Some(have)) = (rules.migration, &rules.core_colours) else {
        return Ok(None);
    };
    let colours = colours.ok_or_else(|| {
        Failure::Input(
            "the plan moves pages with their VCPUs ([maracas] migration), and the programs must be \
                in colours for that; give --colors"
                .to_owned(),
        )
    })?;
    let cores = u32::try_from(plan.cores.len()).unwrap_or(u32::MAX);
    let moving = Moving::new(migration, have, cores, scheduling.vcpus());
    Ok(Some(moving.planned(&planned.vcpus, colours)?))
}
