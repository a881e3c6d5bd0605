//! The bandwidth lock in a plan: the accesses of the other programs while a task holds it.
//!
//! Problem: in their memory-intensive sections, soft real-time tasks lose time to the other cores'
//! accesses. Rule: while a section holds the lock, programs that are not real-time may make
//! `lock_bandwidth` worth of accesses per period and core. Otherwise they are not limited. A
//! real-time task is never throttled. Source: bwlock, sections 3 and 6; 100 MB/s is the value of
//! its section 3.3. Does not cover: bounds that count on the lock. Programs take it while they run,
//! at times that the plan does not know. So the bounds are those of a machine without regulation,
//! which the lock can only improve.

use crate::error::PlanError;
use crate::whole::before_verdict;
use solocore_model::system::{Policy, System};
use solocore_model::{Bandwidth, Plan};

/// The bandwidth that the paper's machine could bear beside a section.
const USUAL: Bandwidth = Bandwidth(100_000_000);

/// Accesses per period and core beside a held lock; `None` without a lock.
pub(crate) fn budget(system: &System) -> Result<Option<u64>, PlanError> {
    if system.regulation.policy != Policy::Bwlock {
        return Ok(None);
    }
    let bandwidth = system.regulation.lock_bandwidth.unwrap_or(USUAL);
    let bytes =
        u128::from(bandwidth.0) * u128::from(system.regulation.period.ps()) / 1_000_000_000_000;
    match u64::try_from(bytes / u128::from(system.platform.llc.line.0)).unwrap_or(u64::MAX) {
        0 => Err(PlanError(format!(
            "[regulation] lock_bandwidth = {bandwidth} is below one access per period; raise it, \
                or lengthen the period"
        ))),
        accesses => Ok(Some(accesses)),
    }
}

/// Adds the lock's note to the plan.
pub(crate) fn note(plan: &mut Plan, budget: Option<u64>) {
    let Some(budget) = budget else { return };
    plan.regulation.lock_budget_accesses = Some(budget);
    let note = format!(
        "bandwidth lock: while a program holds it, a core may make {budget} accesses per period for \
            tasks that are not real-time; no bound counts on it"
    );
    before_verdict(plan, [note]);
    plan.assumptions.push(
        "The lock throttles no analysed task: each runs with a real-time policy, or is attached to \
            solocore (client/c)."
            .to_owned(),
    );
}
