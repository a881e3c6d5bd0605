//! Observations of solocore's schedulers in a run: tasks under levels and windows, VCPUs.

use crate::contradiction::Contradiction;
use crate::elements::{caption, data_table, task_name, wide_table};
use crate::format;
use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::run::{RunLevelTask, RunLevels, RunVcpu, RunVcpus};

/// Tasks under a scheduler of levels or windows, beside the plan's numbers.
pub fn levels(plan: &Plan, levels: &RunLevels) -> Markup {
    let table = html! {
        (data_table(&caption(&html! { "Tasks under the scheduler; a response lasts from release to end, \
                tardiness from deadline to end." }), &["Task", "Level", "#Core", "How", "#Jobs", "#Done", "#Skipped", "#Overruns", "#Missed", "#Longest response", "#Tardy by", "#Bound", "#Began late by"], &html! { @for task in &levels.tasks { (level_row(plan, task)) } }))
    };
    html! {
        (wide_table("Tasks under the scheduler", &table))
        (intruders(levels.intruders.iter().map(|i| i.text()).collect()))
    }
}

fn level_row(plan: &Plan, t: &RunLevelTask) -> Markup {
    let time = |ns: u64| format::time_or((t.completed > 0).then_some(ns), "–");
    let bound =
        plan.tasks.iter().find(|p| p.name == t.name).and_then(|p| p.tardiness_ns.or(p.wcrt_ns));
    html! {
        tr data-level-task=(t.name) {
            th scope="row" { (task_name(&t.name)) } td { (t.level) }
            td.num { @match t.core { Some(core) => (core), None => "all" } }
            td { (t.how) } td.num { (format::count(t.jobs)) } td.num { (format::count(t.completed)) }
            td.num { (format::count(t.skipped)) } td.num { (format::count(t.overruns)) } td.num { (format::count(t.late)) }
            td.num { (time(t.max_response_ns)) } td.num { (time(t.max_tardiness_ns)) } td.num { (format::time_or(bound, "–")) }
            td.num { (time(t.max_start_late_ns)) }
        }
    }
}

/// Observations under levels that contradict the plan.
pub fn contradictions(plan: &Plan, levels: &RunLevels, all: &mut Vec<Contradiction>) {
    for seen in &levels.tasks {
        let Some(planned) = plan.tasks.iter().find(|t| t.name == seen.name && t.schedulable) else {
            continue;
        };
        let pairs = [
            ("a response took", seen.max_response_ns, planned.wcrt_ns),
            ("a job was tardy by", seen.max_tardiness_ns, planned.tardiness_ns),
        ];
        for (what, seen_ns, bound) in pairs {
            if let Some(bound) = bound.filter(|&bound| seen_ns > bound) {
                let (seen_for, bound) = (format::time(seen_ns), format::time(bound));
                let sentence = format!("{what} {seen_for}, above its bound {bound}");
                all.push(Contradiction::of_task(&seen.name, &sentence));
            }
        }
    }
}

/// VCPUs and CPUs.
pub fn vcpus(v: &RunVcpus) -> Markup {
    let table = html! {
        (data_table(&caption(&html! { "VCPUs: time with budget, and time beside it." }),
            &["VCPU", "#Core", "#C", "#T", "#With budget", "#In background", "#Moves"], &html! {
            @for vcpu in &v.vcpus { (vcpu_row(vcpu)) } }))
    };
    html! {
        (wide_table("VCPUs of the run", &table))
        @if let Some(t) = &v.throttling { p { (t.text().trim()) } }
        @if let Some(m) = &v.migration { p { (m.text().trim()) } }
        (intruders(v.intruders.iter().map(|i| i.text()).collect()))
    }
}

fn vcpu_row(v: &RunVcpu) -> Markup {
    html! {
        tr data-vcpu=(v.name) {
            th scope="row" { (v.name) } td.num { (v.core) } td.num { (format::time(v.capacity_ns)) }
            td.num { (format::time(v.period_ns)) } td.num { (format::time(v.foreground_ns)) }
            td.num { (format::time(v.background_ns)) } td.num { (format::count(v.moves)) }
        }
    }
}

fn intruders(all: Vec<String>) -> Markup {
    html! {
        @if !all.is_empty() {
            details { summary { "Real-time threads beside the scheduler" } ul { @for one in &all { li { (one) } } } }
        }
    }
}
