//! The terms of a bound, from the time alone on.
//!
//! Problem: five steps of the analysis lie between the time of a profile and the bound of a plan.
//! Rule: the first terms make the job's `C` (`crate::demand`), the next two its stall (`C_sce = C +
//! stall`). The rest of the response time is due to the other tasks of the core, to the windows
//! that a partition waits for, and to the budget that a VCPU waits for. Without a bound on the
//! response time the terms end at `C_sce`. Terms are whole picoseconds, so that they sum exactly.
//! Does not cover: the part of each task of the core (`--explain` lists the terms of the busy
//! window), and levels (`crate::levels`).

use crate::core_plan::TaskPlan;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::plan::waterfall::{Cause, Term, whole_ns};
use solocore_model::platform::Pace;

/// A term in picoseconds, with the DRAM accesses up to it where it changes them.
pub type Part = (Cause, i128, Option<u64>);

/// The times of one job under the plan, picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Pace of a core in `C`.
    pub pace: Pace,
    /// `C`.
    pub wcet_ps: u64,
    /// Stall beside the other cores, with `once_ps`.
    pub stall_ps: u64,
    /// The part of the stall that is charged once per busy window.
    pub once_ps: u64,
    /// The response time.
    pub response_ps: u64,
}

/// The longest busy window of a VCPU's tasks, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// Its length, which bounds the response times.
    pub window_ns: u64,
    /// The part in which the tasks' jobs execute, with their stalls.
    pub jobs_ns: u64,
}

/// The terms of the bound on an analysed task; `plan` has its numbers, and `once_ps` is the part of
/// its stall that is charged once per busy window. Up to `C_sce` where nothing bounds the response
/// time; empty where that has no bound either.
pub fn of(w: &Work, plan: &TaskPlan, once_ps: u64, r: &Resources) -> Vec<Term> {
    let (wcet_ps, stall_ps) = (plan.wcet_ps, plan.stall_ps);
    match plan.response_ps {
        _ if !w.hard() => Vec::new(),
        Some(response_ps) => {
            let pace = plan.pace;
            terms(w, plan.locked, r, Bound { pace, wcet_ps, stall_ps, once_ps, response_ps })
        }
        None => to_c_sce(w, plan, once_ps, r),
    }
}

/// The terms of a bound on jobs with `k` pages locked.
pub fn terms(w: &Work, k: usize, r: &Resources, bound: Bound) -> Vec<Term> {
    let (wcet, stalled) = (i128::from(bound.wcet_ps), i128::from(bound.stall_ps));
    let rest = i128::from(bound.response_ps) - wcet - stalled;
    let mut parts = execution(w, k, r, (bound.pace, bound.wcet_ps)).to_vec();
    parts.extend(stall(bound.stall_ps, bound.once_ps));
    parts.push((Cause::Preemption, rest, None));
    whole(&parts)
}

/// The same for an analysed task of a VCPU, where `busy` is absent without a bound.
pub fn in_vcpu(
    w: &Work,
    plan: &TaskPlan,
    once_ps: u64,
    r: &Resources,
    busy: Option<Busy>,
) -> Vec<Term> {
    if !w.hard() {
        return Vec::new();
    }
    let mut out = to_c_sce(w, plan, once_ps, r);
    if let Some(Busy { window_ns, jobs_ns }) = busy {
        let c_sce_ns: i64 = out.iter().map(|term| term.ns).sum();
        let ns = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let (supply, others) = (ns(window_ns) - ns(jobs_ns), ns(jobs_ns) - c_sce_ns);
        out.push(Term { term: Cause::Supply, ns: supply, misses: None });
        out.push(Term { term: Cause::Preemption, ns: others, misses: None });
    }
    out
}

/// The terms of `C` of a job with `k` pages locked, on a core with the pace in `C`.
pub fn to_c(w: &Work, k: usize, r: &Resources, c: (Pace, u64)) -> Vec<Term> {
    whole(&execution(w, k, r, c))
}

/// The terms of `C_sce`, which has `C` and the stall rounded up each by itself.
fn to_c_sce(w: &Work, plan: &TaskPlan, once_ps: u64, r: &Resources) -> Vec<Term> {
    if plan.stall_ps == u64::MAX {
        return Vec::new();
    }
    let mut out = to_c(w, plan.locked, r, (plan.pace, plan.wcet_ps));
    out.extend(whole(&stall(plan.stall_ps, once_ps)));
    out
}

fn execution(w: &Work, k: usize, r: &Resources, (pace, wcet_ps): (Pace, u64)) -> [Part; 3] {
    let p = &r.platform;
    let (alone_ps, alone_misses) = w.demand.alone_at(p, pace);
    let own_ps = i128::from(w.wcet_at(k, p.row_hit().ps(), r, pace));
    let alone = i128::from(alone_ps);
    [
        (Cause::Alone, alone, Some(alone_misses)),
        (Cause::Cache, own_ps - alone, Some(w.misses(k, r))),
        (Cause::Latency, i128::from(wcet_ps) - own_ps, None),
    ]
}

fn stall(stall_ps: u64, once_ps: u64) -> [Part; 2] {
    let (all, once) = (i128::from(stall_ps), i128::from(once_ps));
    [(Cause::Others, all - once, None), (Cause::Once, once, None)]
}

/// Terms in whole nanoseconds of terms in picoseconds.
pub fn whole(parts: &[Part]) -> Vec<Term> {
    let ps: Vec<i128> = parts.iter().map(|(_, ps, _)| *ps).collect();
    let terms = parts.iter().zip(whole_ns(&ps));
    terms.map(|(&(term, _, misses), ns)| Term { term, ns, misses }).collect()
}
