//! The terms of a bound, from the time alone on.
//!
//! Problem: five steps of the analysis lie between the time of a profile and the bound of a plan.
//! Rule: the first terms make the job's `C` (`crate::demand`), the next two its stall (`C_sce = C +
//! stall`). The rest of the response time is due to the other tasks of the core, and to the windows
//! that a partition waits for. Terms are whole picoseconds, so that they sum exactly to the bound.
//! Does not cover: the part of each task of the core (`--explain` lists the terms of the busy
//! window).

use crate::core_plan::TaskPlan;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::plan::waterfall::{Cause, Term, whole_ns};

/// The times of one job under the plan, picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// `C`.
    pub wcet_ps: u64,
    /// Stall beside the other cores, with `once_ps`.
    pub stall_ps: u64,
    /// The part of the stall that is charged once per busy window.
    pub once_ps: u64,
    /// The response time.
    pub response_ps: u64,
}

/// The terms of the bound on an analysed task; `plan` has its numbers, and `once_ps` is the part of
/// its stall that is charged once per busy window. Empty where there is no bound.
pub fn of(w: &Work, plan: &TaskPlan, once_ps: u64, r: &Resources) -> Vec<Term> {
    let Some(response_ps) = plan.response_ps.filter(|_| w.hard()) else { return Vec::new() };
    terms(
        w,
        plan.locked,
        r,
        Bound { wcet_ps: plan.wcet_ps, stall_ps: plan.stall_ps, once_ps, response_ps },
    )
}

/// The terms of a bound on jobs with `k` pages locked.
pub fn terms(w: &Work, k: usize, r: &Resources, bound: Bound) -> Vec<Term> {
    let p = &r.platform;
    let (alone_ps, alone_misses) = w.demand.alone(p);
    let misses = w.misses(k, r);
    let own_ps = i128::from(w.wcet_at(k, p.row_hit().ps(), r));
    let (alone, wcet) = (i128::from(alone_ps), i128::from(bound.wcet_ps));
    let (stall, once) = (i128::from(bound.stall_ps), i128::from(bound.once_ps));
    let causes = [
        (Cause::Alone, alone, Some(alone_misses)),
        (Cause::Cache, own_ps - alone, Some(misses)),
        (Cause::Latency, wcet - own_ps, None),
        (Cause::Others, stall - once, None),
        (Cause::Once, once, None),
        (Cause::Preemption, i128::from(bound.response_ps) - wcet - stall, None),
    ];
    let ns = whole_ns(&causes.map(|(_, ps, _)| ps));
    causes.into_iter().zip(ns).map(|((term, _, misses), ns)| Term { term, ns, misses }).collect()
}
