//! The check of the plan on a machine (`solocore verify`): the times of each task, beside its
//! promise.
//!
//! Rule: a chart for each task, with a scale of its own, and all numbers in a table below. Untested
//! cases are listed beside it: a measurement is not a proof.

use crate::bars::{Bar, mark};
use crate::contradiction::Contradiction;
use crate::elements::{caption, data_table, task_name, wide_table};
use crate::format;
use crate::inputs::Inputs;
use crate::svg::STEP;
use maud::{Markup, html};
use solocore_model::verification::{Together, Verification, Verified};
use std::collections::BTreeSet;

/// The section; nothing without a verification.
pub fn section(inputs: &Inputs) -> Markup {
    html! {
        @if let Some(v) = inputs.verification {
            section #verified aria-labelledby="verified-h" {
                h2 #verified-h { "Verified on the machine" }
                p { (verdict(v)) }
                div.charts { @for (index, task) in v.tasks.iter().enumerate() { (chart(index, task)) } }
                @if !v.tasks.is_empty() { (wide_table("Each task beside its promise", &table(v))) }
                @if let Some(t) = &v.together { (wide_table("All tasks at once", &at_once(t))) }
                (list("Promises that nobody kept meanwhile", v.open.iter().map(|a| {
                    format!("{} of {}: {}", a.promise.subject.name(), a.promise.resource, a.why)
                })))
                (list("Promises that were broken meanwhile", v.broken.iter().cloned()))
                (list("Not tested", v.untested.iter().cloned()))
            }
        }
    }
}

fn verdict(v: &Verification) -> String {
    let alone = v.tasks.iter().filter(|t| !t.exceeded.is_empty()).map(|t| &t.name);
    let at_once = v.together.iter().flat_map(|t| &t.tasks).filter(|t| !t.exceeded.is_empty());
    let exceeded: BTreeSet<&String> = alone.chain(at_once.map(|t| &t.name)).collect();
    let mut how = Vec::new();
    if !v.tasks.is_empty() {
        how.push(format!(
            "Each task was measured by itself on its core, {} in each of three cases: alone, \
                beside enemies on all other CPUs, and beside enemies while the plan was enforced.",
            format::plural(v.jobs, "job")
        ));
    }
    if let Some(t) = &v.together {
        how.push(format!(
            "All tasks ran at once, as planned, for {} beside {}.",
            format::time(t.duration_ns),
            if t.channels.is_empty() { "no enemy" } else { "each kind of enemy" }
        ));
    }
    how.push(match exceeded.len() {
        0 => "No task took longer than is promised of it.".to_owned(),
        1 => "1 task took longer than is promised.".to_owned(),
        n => format!("{n} tasks took longer than is promised."),
    });
    how.join(" ")
}

/// Tasks that took longer than their promise.
pub fn contradictions(v: &Verification, all: &mut Vec<Contradiction>) {
    let mut add = |task: &str, sentence: String| all.push(Contradiction::of_task(task, &sentence));
    for task in v.together.iter().flat_map(|t| &t.tasks) {
        if let Some(promise) = task.promise_ns.filter(|&promise| task.max_response_ns > promise) {
            let sentence = format!(
                "a response took {} ({} ns) beside the other tasks on the machine, more than its \
                    bound of {} ({} ns)",
                format::time(task.max_response_ns),
                format::count(task.max_response_ns),
                format::time(promise),
                format::count(promise)
            );
            add(&task.name, sentence);
        }
    }
    for task in &v.tasks {
        let demand = ("alone", task.alone_ns, Some(task.wcet_ns), "C");
        let stalled = ("under attack", task.attacked_ns, task.promise_ns, "C_sce");
        let slowed =
            ("under attack", task.attacked_ns, task.slowdown_bound_ns, "bound by the lock");
        for (how, seen, promise, what) in [demand, stalled, slowed] {
            if let Some(promise) = promise.filter(|&promise| seen > promise) {
                let sentence = format!(
                    "a job took {} ({} ns) {how} on the machine, more than its {what} of {} ({} ns)",
                    format::time(seen),
                    format::count(seen),
                    format::time(promise),
                    format::count(promise)
                );
                add(&task.name, sentence);
            }
        }
    }
}

fn chart(index: usize, task: &Verified) -> Markup {
    let bar = |series, fill, value_ns| Bar { series, label: series, fill, value_ns, note: "" };
    let mut bars = vec![
        bar("alone", "#009e73", task.alone_ns),
        bar("unmanaged", "url(#fill-unmanaged)", task.unmanaged_ns),
        bar("attacked", "#0072b2", task.attacked_ns),
    ];
    bars.extend(task.promised_ns().map(|ns| bar("promise", "url(#fill-bound)", ns)));
    let scale = bars.iter().map(|b| b.value_ns).max().unwrap_or(0);
    let id = format!("verified-{index}");
    html! {
        figure.chart {
            figcaption id=(id) { (task_name(&task.name)) " " span.muted { "core " (task.core) } }
            svg.bars width="100%" height=(STEP * bars.len() + 4) role="img" aria-labelledby=(id) {
                line.axis x1="0" x2="0" y1="0" y2=(STEP * bars.len()) {}
                @for (row, bar) in bars.iter().enumerate() { (mark(&task.name, bar, STEP * row, scale)) }
            }
        }
    }
}

fn table(v: &Verification) -> Markup {
    let kind = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
    html! {
        (data_table(&caption(&html! { "Longest job, from release to end, and the enemy that hurt most." }), &["Task", "#C", "#Alone", "#Unmanaged", "Enemy", "#Attacked", "Enemy", "#Median", "#99 %", "#Promise", "#Margin", "Verdict"], &html! {
                @for t in &v.tasks {
                    tr data-verified=(t.name) data-attacked-ns=(t.attacked_ns) data-promise-ns=[t.promised_ns()] {
                        th scope="row" { (task_name(&t.name)) }
                        td.num { (format::time(t.wcet_ns)) } td.num { (format::time(t.alone_ns)) }
                        td.num { (format::time(t.unmanaged_ns)) } td { (kind(&t.worst_unmanaged_channel)) }
                        td.num { (format::time(t.attacked_ns)) } td { (kind(&t.worst_channel)) }
                        td.num { (format::time(t.attacked.p50_ns)) } td.num { (format::time(t.attacked.p99_ns)) }
                        td.num { @if let Some(ns) = t.promised_ns() { (format::time(ns)) } @else { "none" } }
                        td.num { @if let Some(m) = t.margin { (std::format!("{:.1} %", m * 100.0)) } @else { "–" } }
                        td { (judged(t)) }
                    }
                }
            }))
    }
}

fn at_once(together: &Together) -> Markup {
    html! {
        (data_table(
            &caption(&html! { "Longest response of all tasks at once, from release to end." }),
            &["Task", "#Jobs", "#Missed", "#Response", "Enemy", "#Bound", "#Margin", "Verdict"],
            &html! {
                @for t in &together.tasks {
                    tr data-at-once=(t.name) data-response-ns=(t.max_response_ns) {
                        th scope="row" { (task_name(&t.name)) }
                        td.num { (t.jobs) } td.num { (t.misses_deadline) }
                        td.num { (format::time(t.max_response_ns)) }
                        td { (t.worst_channel.as_deref().unwrap_or("none")) }
                        td.num { @if let Some(ns) = t.promise_ns { (format::time(ns)) } @else { "none" } }
                        td.num { @if let Some(m) = t.margin { (std::format!("{:.1} %", m * 100.0)) } @else { "–" } }
                        td {
                            @if !t.exceeded.is_empty() { strong { "exceeds " (t.exceeded.join(", ")) } }
                            @else if t.jobs == 0 { "not measured" }
                            @else if t.promise_ns.is_some() { "held" } @else { "no bound" }
                        }
                    }
                }
            },
        ))
    }
}

fn judged(task: &Verified) -> Markup {
    html! {
        @if task.exceeded.is_empty() { @if task.promised_ns().is_some() { "held" } @else { "no bound" } }
        @else { strong { "exceeds " (task.exceeded.join(", ")) } }
    }
}

fn list(head: &str, lines: impl Iterator<Item = String>) -> Markup {
    let lines: Vec<String> = lines.collect();
    html! { @if !lines.is_empty() { h3 { (head) } ul { @for line in lines { li { (line) } } } } }
}
