//! `solocore run --scheduler levels`: a plan's levels or partitions, scheduled in the kernel.

use crate::args::RunArgs;
use crate::args::scheduling::RunScheduler;
use crate::commands::{isolation, run_options};
use crate::fail::Failure;
use solocore_linux::clients::SOCKET;
use solocore_linux::daemon::{Daemon, Devices, Interrupts, Levels, Settings, Ways, YieldClients};
use solocore_linux::schedule::levels::Layout;
use solocore_linux::schedule::placed::How;
use solocore_model::Plan;
use std::rc::Rc;

/// Whether the scheduler of levels is asked for.
pub fn wanted(args: &RunArgs) -> bool {
    args.scheduling.scheduler == RunScheduler::Levels
}

/// Adds the parts of the run.
pub fn add_parts(daemon: &mut Daemon, args: &RunArgs, plan: &Plan) -> Result<(), Failure> {
    run_options::for_levels(args)?;
    let layout =
        Layout::of(plan).map_err(|e| Failure::from(e).of(&args.plan.display().to_string()))?;
    let places = Rc::new(isolation::layout(&args.isolation, plan, &args.plan)?);
    if let Some(driver) = places.tasks.iter().find(|p| matches!(p.how, How::Drive(_))) {
        return Err(Failure::Input(format!(
            "--command {}=...: drivers of the time table are served only under the kernel's own \
            scheduler; leave one of them out",
            driver.name
        )));
    }
    let traced = args.scheduling.sched_trace.is_some() || args.isolation.trace.is_some();
    daemon.notes = notes(plan, (args.isolation.resctrl, args.isolation.colors));
    let colours = isolation::colours(&args.isolation, plan, &args.plan, &places, daemon)?;
    let settings = Settings::default();
    let mut levels = Levels::new(layout, &places, traced);
    if args.isolation.resctrl {
        let ways = Ways::new(plan, &settings);
        levels = levels.in_ways(&ways);
        daemon.add(ways);
    }
    if let Some(colours) = colours {
        levels = levels.in_colours(&colours);
        daemon.add(colours);
    }
    if !args.isolation.no_move_irqs {
        daemon.add(Interrupts::new(&places, &settings));
    }
    daemon.add(Devices::new(plan, &places, &settings));
    // Started programs find a socket that answers.
    daemon.add(YieldClients::new(levels.scheduler(), SOCKET.into(), &args.group));
    daemon.add(levels);
    Ok(())
}

/// Parts of the plan that are not applied; the options apply the ways, and the banks.
fn notes(plan: &Plan, (ways, banks): (bool, bool)) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.cores.iter().any(|c| c.budget_accesses.is_some()) {
        notes.push(
            "budgets of memory accesses are not enforced beside this scheduler; the plan's \
                response times rest on them"
                .to_owned(),
        );
    }
    let what = match (ways, banks) {
        (false, false) => Some("ways and banks"),
        (true, false) => Some("banks"),
        (false, true) => Some("ways"),
        (true, true) => None,
    };
    if let Some(what) = what.filter(|_| plan.levels().is_some()) {
        notes.push(format!("{what} of the plan are not applied; its execution times rest on them"));
    }
    notes
}
