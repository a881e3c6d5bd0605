//! The kernel's limit of interrupts by events, raised while an engine runs.
//!
//! Problem: the kernel switches an event off until its next tick once it has interrupted more often
//! than `kernel.perf_event_max_sample_rate`, and lowers that rate by itself when it finds a
//! hardware counter's interrupts long (`kernel.perf_cpu_time_max_percent`). Accesses meanwhile are
//! not counted, and no budget is kept. Rule: the rate is raised to the regulation's need, and with
//! a hardware counter the lowering is off, until the engine ends. Beside a lock or dynamic budgets
//! the rate is that of any sample, since another plan may have a smaller one. Source: Linux,
//! kernel/events/core.c; seen in the aarch64 guest of tests/vm, where the rate fell from 100,000 to
//! 2,750. Does not cover: events of others, which may interrupt at the same rate meanwhile.

use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::machine::{self, CPU_TIME, SAMPLE_RATE};
use crate::regulate::event::Event;
use crate::regulate::regulation::Regulation;

/// Raises the limit to the regulation's need. Returns the changes that the kernel refuses, for the
/// user.
pub(super) fn allow(
    changes: &mut Changes,
    regulation: &Regulation,
) -> Result<Option<String>, LinuxError> {
    let rate_of = |per_period| machine::needed_rate(regulation.period_ns, per_period);
    let needed = rate_of(regulation.interrupts_per_period());
    // It cannot be raised later, for another plan.
    let wanted = rate_of(regulation.interrupts_of_any_plan());
    // In this order: the rate cannot be set while the lowering is off.
    if let Some(rate) = machine::sample_rate().filter(|&rate| rate < wanted)
        && let Err(e) = changes.set(SAMPLE_RATE, &wanted.to_string())
        && rate < needed
    {
        return Err(LinuxError::Machine(format!(
            "kernel.perf_event_max_sample_rate cannot be raised to {needed}: {e}; raise it by sysctl"
        )));
    }
    if !counts_in_hardware(regulation) {
        return Ok(None);
    }
    let refused = changes.set(CPU_TIME, "0").err();
    Ok(refused.map(|e| {
        format!(
            "the kernel may switch the counter off for a while if it finds its interrupts long \
                ({e}); sysctl kernel.perf_cpu_time_max_percent=0 prevents this"
        )
    }))
}

fn counts_in_hardware(regulation: &Regulation) -> bool {
    let hardware = |event: &Event| !event.is_software();
    hardware(&regulation.event) || regulation.write_event.as_ref().is_some_and(hardware)
}
