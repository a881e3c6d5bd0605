//! The method's steps, verdict and assumptions in words.

use crate::explain;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::Time;
use solocore_model::plan::Plan;
use solocore_model::plan::windows::{HardwareItem, Has, PlanPartition, Round, WindowsPlan};
use solocore_model::windows::WindowsInput;

fn time(ns: u64) -> Time {
    Time::from_ns(ns)
}

/// One line per question, rule, round, partition and task, then the verdict.
pub fn reasons(plan: &Plan, work: &[Work], r: &Resources) -> Vec<String> {
    let Some(windows) = plan.windows() else { return Vec::new() };
    let mut out: Vec<String> = windows.hardware.iter().map(hardware).collect();
    out.extend(explain::shares(plan, r, None).into_iter().map(|line| format!("step 2: {line}")));
    out.extend(windows.rounds.iter().enumerate().map(|(n, round)| self::round(n, round)));
    out.extend(windows.partitions.iter().map(partition));
    for (t, w) in plan.tasks.iter().zip(work) {
        out.push(explain::task_reason(t, w, r));
        out.extend(explain::warnings(t, w, plan));
    }
    out.push(verdict(plan, windows));
    out
}

fn hardware(item: &HardwareItem) -> String {
    let answer = match item.has {
        Has::Yes => "yes",
        Has::No => "no",
        Has::Unknown => "unknown",
    };
    format!("step 1: {}: {answer}: {}", item.what, item.follows)
}

fn round(n: usize, round: &Round) -> String {
    let head = format!(
        "round {}: step 3 with {} percent of slack, {}",
        n + 1,
        round.slack_percent,
        round.allocation
    );
    if round.found {
        return format!("{head}; {}", round.outcome);
    }
    format!("{head}; step {} failed: {}", round.step, round.outcome)
}

fn partition(p: &PlanPartition) -> String {
    let least = match p.least_duration_ns {
        Some(0) => "it has no analysed task".to_owned(),
        Some(ns) if ns <= p.duration_ns => {
            let slack = (p.duration_ns - ns) as f64 * 100.0 / ns as f64;
            format!("its tasks need {}, so {slack:.1} percent are slack", time(ns))
        }
        Some(ns) => format!("its tasks need {}, {} more", time(ns), time(ns - p.duration_ns)),
        None => "no window of its period is long enough for its tasks".to_owned(),
    };
    format!(
        "partition `{}`: {} {} every {} ({}); {least}; each window starts with {} pages to \
            prefetch and lock ({} accesses, at most {}) and loses at most {} to the windows \
            before it",
        p.name,
        p.core.map_or("no core,".to_owned(), |c| format!("core {c},")),
        time(p.duration_ns),
        time(p.period_ns),
        if p.stated { "stated" } else { "chosen" },
        p.locked_pages,
        p.prefetch_accesses,
        time(p.prefetch_ns),
        time(p.switch_ns)
    )
}

fn verdict(plan: &Plan, windows: &WindowsPlan) -> String {
    if plan.schedulable {
        return "verdict: the table is free of conflicts and every analysed task meets its deadline \
            in its partition's windows".to_owned();
    }
    let last = windows
        .rounds
        .last()
        .map_or("nothing was tried".to_owned(), |r| format!("step {}: {}", r.step, r.outcome));
    let rounds = match windows.rounds.len() {
        1 => "one round".to_owned(),
        n => format!("rounds 1 to {n}"),
    };
    format!(
        "verdict: not schedulable in {rounds}; {last}; use more cores or a faster board, lengthen \
            windows or ages, or lower the tasks' times or misses"
    )
}

/// Adds the assumptions of the verdict of a system with partitions.
pub fn assume(plan: &mut Plan, input: &WindowsInput) {
    let more = [
        "windows begin at their place in the table or up to the margin later, last their whole \
            duration, and are not interrupted by other partitions",
        "a task is released when a window begins if its period is a multiple of its partition's \
        period; deadlines count from there",
        "when a window begins, its locked pages are prefetched and locked before its tasks run; the \
            cost of lock instructions themselves is not charged",
    ];
    plan.assumptions.extend(more.map(str::to_owned));
    if !input.devices.is_empty() {
        plan.assumptions.push(
            "transfers of a stated time, like paced ones, keep to the I/O core's \
            share of memory bandwidth, one request at a time"
                .to_owned(),
        );
        plan.assumptions.push("physical input and output takes no memory bandwidth".to_owned());
    }
}
