//! Options of `solocore run` that a plan's scheme does not take.
//!
//! Problem: an option that no part reads does nothing, silently. Rule: an option on the command
//! line has an effect, or the run is refused with one line that names it.

use crate::args::RunArgs;
use crate::fail::Failure;

/// Options that budgets of accesses take.
const OF_BUDGETS: &[&str] =
    &["engine", "event", "write_event", "no_write_budgets", "sample", "reclaim", "share"];
/// Options about the places of tasks and other programs, under the kernel's own scheduler.
const OF_PLACES: &[&str] = &["no_fifo", "no_confine"];
/// Options about clients of a run.
const OF_CLIENTS: &[&str] = &["group", "max_hold"];

/// Checks the options for a plan under the kernel's own scheduler. `serves`: the run has clients;
/// `locks`: they may hold a lock.
pub fn for_budgets(args: &RunArgs, (serves, locks): (bool, bool)) -> Result<(), Failure> {
    args.given.refuse(
        &[&["sched_trace"]],
        "records decisions about levels or VCPUs; give --scheduler levels, or a plan with [[vcpu]]",
    )?;
    if !serves {
        args.given.refuse(
            &[&["group"]],
            "is for clients of a run, and this plan has none; leave it out",
        )?;
    }
    if !locks {
        args.given.refuse(
            &[&["max_hold"]],
            "limits sections under the bandwidth lock, which this plan has not (policy = \
                \"bwlock\"); leave it out",
        )?;
    }
    Ok(())
}

/// Checks the options for a plan under the scheduler of levels and windows.
pub fn for_levels(args: &RunArgs) -> Result<(), Failure> {
    args.given.refuse(
        &[OF_BUDGETS, &["max_hold"]],
        "is for budgets of accesses, which --scheduler levels does not enforce; leave one of them \
            out",
    )?;
    args.given.refuse(
        &[OF_PLACES],
        "is for runs under the kernel's own scheduler; --scheduler levels does not move other \
        programs; leave one of them out",
    )
}

/// Checks the options for a plan with VCPUs. `counts`: it counts an event, to throttle background
/// time or to give it to the VCPU with the fewest requests.
pub fn for_vcpus(args: &RunArgs, counts: bool) -> Result<(), Failure> {
    let of_budgets: Vec<&str> =
        OF_BUDGETS.iter().copied().filter(|id| *id != "event" || !counts).collect();
    args.given.refuse(
        &[&of_budgets, OF_CLIENTS, &["resctrl"]],
        "is for budgets of accesses, and a plan with VCPUs has no such budgets; leave it out",
    )?;
    args.given.refuse(
        &[&["no_fifo", "no_confine"]],
        "changes nothing for a plan with VCPUs: its tasks are ordinary threads, and other \
        programs are not moved; leave it out",
    )?;
    args.given.refuse(
        &[&["scheduler"]],
        "is for plans without VCPUs, because VCPUs bring a scheduler of their own; leave it out",
    )
}
