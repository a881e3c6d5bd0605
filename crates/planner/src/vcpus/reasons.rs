//! The plan's reasons and assumptions about its VCPUs, in words.

use super::admission::Admission;
use crate::demand::Demand;
use crate::explain;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::plan::{Plan, PlanTask, PlanVcpu};
use solocore_model::vcpus::{BEST_EFFORT, MIGRATION, MONITOR, Settings, Vcpus};

fn time(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// The VCPUs of a plan.
fn planned(plan: &Plan) -> &[PlanVcpu] {
    plan.vcpus().map_or(&[], |v| &v.vcpus)
}

pub fn reasons(
    plan: &Plan,
    vcpus: &Vcpus,
    work: &[Work],
    r: &Resources,
    admissions: &[Admission],
) -> Vec<String> {
    let s = &vcpus.settings;
    let overhead = s.overhead.ns_ceil();
    let mut out = explain::shares(plan, r, None);
    out.push(format!(
        "VCPUs: sporadic servers, rate monotonic on each core. Each capacity is counted with {} for \
            a switch and a late timer. Best effort has {} in {} on each core. In any window of \
            T no VCPU has more than {} of foreground time",
        s.overhead,
        s.best_effort.capacity,
        s.best_effort.period,
        if s.strict { "C (strict)" } else { "2C" }
    ));
    for (core, admission) in (0u32..).zip(admissions) {
        let best = admission.response(None).map_or_else(
            || "has no bound on the time for its capacity".to_owned(),
            |r| format!("gets its capacity within {}", time(r)),
        );
        out.push(format!(
            "core {core}: utilisation {:.3} with the overhead of {} VCPUs; best effort {best}",
            admission.load(overhead),
            admission.claims.len()
        ));
    }
    out.extend(moving(s, r.cores));
    for (v, stated) in planned(plan).iter().zip(&vcpus.vcpus) {
        out.push(vcpu_reason(v, stated.core.is_some()));
    }
    for (t, w) in plan.tasks.iter().zip(work) {
        out.push(task_reason(plan, t));
        out.extend(explain::warnings(t, w, plan));
    }
    out.push(verdict(plan, vcpus, admissions));
    out
}

/// The colours of the cores, and the largest VCPU that moves between them.
fn moving(s: &Settings, cores: u32) -> Option<String> {
    let (have, migration) = (s.core_colours.as_ref()?, s.migration?);
    let list = |core: u32| match have.range(core) {
        (_, 0) => format!("core {core} none"),
        (first, 1) => format!("core {core} {first}"),
        (first, count) => format!("core {core} {first} to {}", first + count - 1),
    };
    Some(format!(
        "page colours: {}. A VCPU goes only where as many are free as it needs, and with at most {} \
            pages: {} for the move and {} for each page fit into the {} of {MIGRATION}. One VCPU moves \
            in {}",
        (0..cores).map(list).collect::<Vec<_>>().join(", "),
        migration.most_pages(),
        migration.base_cost,
        migration.page_cost,
        migration.capacity,
        migration.period
    ))
}

fn vcpu_reason(v: &PlanVcpu, stated: bool) -> String {
    let when = v.response_ns.map_or_else(
        || "the time that it needs for its capacity has no bound".to_owned(),
        |r| format!("it gets its whole capacity within {}", time(r)),
    );
    let tasks = match v.tasks.as_slice() {
        _ if v.name == MONITOR => {
            "its thread reads the memory's counters and throttles background time".to_owned()
        }
        _ if v.name == MIGRATION => "the pages of VCPUs that move are copied in it".to_owned(),
        [] => "no tasks yet".to_owned(),
        tasks => tasks.join(", "),
    };
    format!(
        "VCPU {}: {} in {} on core {} ({}); {when}; {tasks}",
        v.name,
        time(v.capacity_ns),
        time(v.period_ns),
        v.core,
        if stated { "stated" } else { "worst fit" }
    )
}

fn task_reason(plan: &Plan, t: &PlanTask) -> String {
    let Some(v) = planned(plan).iter().find(|v| v.tasks.contains(&t.name)) else {
        return format!(
            "{}: best effort, in the time that is left on core {} and its best-effort VCPU; it \
            has no promise",
            t.name, t.core
        );
    };
    if t.best_effort() {
        return format!(
            "{}: best effort in VCPU {} on core {}; it has no promise of a deadline",
            t.name, v.name, t.core
        );
    }
    let response =
        t.wcrt_ns.map_or_else(|| "is not bounded".to_owned(), |r| format!("at most {}", time(r)));
    let company = match v.tasks.len() {
        1 => "alone".to_owned(),
        2 => "with one other, in any order".to_owned(),
        n => format!("with {} others, in any order", n - 1),
    };
    format!(
        "{}: C = {}, stall of {} accesses {}, C_sce = {}; in VCPU {} {company}: response time \
            {response}",
        t.name,
        time(t.wcet_ns),
        t.misses,
        time(t.stall_ns),
        time(t.c_sce_ns),
        v.name
    )
}

/// Reason for which the plan is schedulable, or the first part that does not fit, with its numbers.
fn verdict(plan: &Plan, vcpus: &Vcpus, admissions: &[Admission]) -> String {
    let overhead = vcpus.settings.overhead.ns_ceil();
    let mut wrong = Vec::new();
    for (core, admission) in admissions.iter().enumerate() {
        for (claim, response) in admission.claims.iter().zip(&admission.responses) {
            if response.is_some_and(|r| r <= claim.period_ns) {
                continue;
            }
            let name = claim
                .vcpu
                .map_or_else(|| format!("{BEST_EFFORT}{core}"), |v| vcpus.vcpus[v].name.clone());
            let when = response.map_or_else(
                || "without a bounded time".to_owned(),
                |r| format!("after {}", time(r)),
            );
            wrong.push(format!(
                "VCPU {name} on core {core} would have its {} {when}, not within {} (utilisation \
                    {:.3})",
                time(claim.capacity_ns),
                time(claim.period_ns),
                admission.load(overhead)
            ));
        }
    }
    if let Some(have) = &vcpus.settings.core_colours {
        for core in (0..).take(admissions.len()) {
            let (used, have): (u64, _) = (
                planned(plan).iter().filter(|v| v.core == core).map(|v| v.colours).sum(),
                have.of(core),
            );
            if used > have {
                wrong.push(format!("the VCPUs of core {core} need {used} page colours of {have}"));
            }
        }
    }
    for t in plan.tasks.iter().filter(|t| !t.schedulable) {
        wrong.push(match (t.wcrt_ns, t.deadline_ns) {
            (Some(r), Some(d)) => {
                format!(
                    "{} may take {}, {} beyond its deadline",
                    t.name,
                    time(r),
                    time(r.saturating_sub(d))
                )
            }
            _ => format!(
                "{} has no bounded response time: its VCPU supplies less than its {} in {}",
                t.name,
                time(t.c_sce_ns),
                time(t.period_ns.unwrap_or(0))
            ),
        });
    }
    if wrong.is_empty() {
        return "verdict: every VCPU fits, and every analysed task meets its deadline".to_owned();
    }
    format!(
        "verdict: not schedulable: {}; give VCPUs more capacity or a shorter period if a task \
        misses its deadline, less on a full core, or spread them over more cores",
        wrong.join("; ")
    )
}

pub fn assumptions(plan: &Plan, work: &[Work]) -> Vec<String> {
    let mut out = crate::assumptions::assumptions(plan, work);
    if let Some(last) = out.last_mut() {
        *last = "interrupts, kernel threads and real-time tasks, outside of the VCPUs, and timer \
        ticks are not charged; a switch and a late timer together cost at most the \
            overhead"
            .to_owned();
    }
    out.push(format!(
        "no VCPU is preempted and resumed more often in its T than its list has entries ({}): a \
        full list delays replenishments beyond the bounds",
        plan.vcpus().map_or(0, |v| v.scheduling.replenishments)
    ));
    if work.iter().any(|w| w.hard() && matches!(w.demand, Demand::Profiled { .. })) {
        out.push(
            "a profiled job finds its lines in the private caches again after another VCPU \
            has run (bounds may be exceeded: the cost of their reload is not charged; state wcet \
            and misses that include it)"
                .to_owned(),
        );
    }
    out.push(
        "a task's jobs do not block before they end, and a VCPU with tasks of the plan runs no \
        other threads"
            .to_owned(),
    );
    out
}
