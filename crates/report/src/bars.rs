//! Per task: longest execution time solo, unmanaged, with even shares and managed beside its bound,
//! and the bound on the response time beside the deadline.
//!
//! Problem: two pairs are compared, execution times with `C_sce` and the response time with the
//! deadline. Rule: both bounds have bars of their own. Lengths are linear in time. Each task has
//! its own scale, up to its largest value or its deadline, so that tasks of 1 ms and of 1 s both
//! read well. A deadline or a response time beyond [`REACH`] times the largest execution time would
//! shrink the bars to nothing; it is then named at the edge instead of drawn. The line of the
//! deadline lies below the bars, so that no number is struck through; a bar that crosses it shows
//! it again.

use crate::elements::{folded, is_global, task_name};
use crate::inputs::{Inputs, result_of};
use crate::svg::{BAR, STEP};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::plan::PlanTask;

/// Deadlines and response times further out than this many times the largest execution time are
/// not drawn to scale.
const REACH: u64 = 5;
/// Height of the line above the bars, where the deadline is labelled.
const TOP: usize = 22;

/// A bar of a task's chart.
pub struct Bar {
    /// Kind of run, or of bound.
    pub series: &'static str,
    /// Label at the left.
    pub label: &'static str,
    /// Fill of the bar.
    pub fill: &'static str,
    /// Its length.
    pub value_ns: u64,
    /// Addition to the value in words.
    pub note: &'static str,
}

pub fn section(inputs: &Inputs) -> Markup {
    let of = |best: bool| {
        inputs.plan.tasks.iter().enumerate().filter(move |(_, t)| t.best_effort() == best)
    };
    if inputs.plan.tasks.is_empty() {
        return html! {};
    }
    html! {
        section #times aria-labelledby="times-h" {
            h2 #times-h { "Times against their bounds" }
            p {
                @if [inputs.solo, inputs.unmanaged, inputs.managed].iter().any(Option::is_some) {
                    "Longest execution time of a job alone (solo), with all tasks on the plain machine \
                        (unmanaged) and under the plan (managed). "
                }
                @if inputs.even.is_some() { "The bar “even” is of a run under a plan with even shares. " }
                "Under the plan, the bound C holds for the execution time. The bound on the response time (WCRT) \
                    also counts the time in which a job waits for other work; compare it with the deadline. Every task has its own \
                    linear scale from zero, so compare lengths within a task only (→: far beyond \
                    the scale). The numbers are in the table above."
            }
            div.charts { @for (index, task) in of(false) { (chart(inputs, index, task)) } }
            @if of(true).next().is_some() {
                (folded("Best effort", &html! { div.charts { @for (index, task) in of(true) { (chart(inputs, index, task)) } } }))
            }
        }
    }
}

/// The bars of execution times and their bound.
fn bars(inputs: &Inputs, task: &PlanTask) -> Vec<Bar> {
    let measured = [
        ("solo", "solo", "#009e73", inputs.solo),
        ("unmanaged", "unmanaged", "url(#fill-unmanaged)", inputs.unmanaged),
        ("even", "even", "#cc79a7", inputs.even),
        ("managed", "managed", "#0072b2", inputs.managed),
    ];
    let mut bars = Vec::new();
    for (series, label, fill, result) in measured {
        if let Some(seen) = result_of(result, &task.name) {
            let note = if seen.jobs == 0 { " (no job finished)" } else { "" };
            bars.push(Bar { series, label, fill, value_ns: seen.moet_ns, note });
        }
    }
    if task.c_sce_ns != u64::MAX {
        bars.push(Bar {
            series: "bound",
            label: "bound C",
            fill: "url(#fill-bound)",
            value_ns: task.c_sce_ns,
            note: "",
        });
    }
    bars
}

/// Core of a task in words. Under MC2, level C is global.
fn where_it_runs(inputs: &Inputs, task: &PlanTask) -> String {
    if is_global(inputs.plan, task) {
        "all cores".to_owned()
    } else {
        format!("core {}", task.core)
    }
}

fn chart(inputs: &Inputs, index: usize, task: &PlanTask) -> Markup {
    let bars = bars(inputs, task);
    let longest = bars.iter().map(|b| b.value_ns).max().unwrap_or(0);
    let within = |ns: u64| longest == 0 || ns <= longest.saturating_mul(REACH);
    let drawn = task.deadline_ns.filter(|&ns| within(ns));
    let response = task.wcrt_ns.map(|value_ns| Bar {
        series: "wcrt",
        label: "WCRT",
        fill: "url(#fill-wcrt)",
        value_ns,
        note: if within(value_ns) { "" } else { ", beyond the scale" },
    });
    let bars: Vec<Bar> = bars.into_iter().chain(response).collect();
    let lengths = bars.iter().map(|b| b.value_ns).filter(|&ns| within(ns));
    let scale = lengths.chain(drawn).max().unwrap_or(0);
    let bottom = TOP + STEP * bars.len();
    let id = format!("bars-{index}");
    html! {
        figure.chart {
            figcaption id=(id) {
                (task_name(&task.name))
                " " span.muted { (where_it_runs(inputs, task)) ", level " (format!("{:?}", task.criticality)) }
            }
            svg.bars width="100%" height=(bottom + 4) role="img" aria-labelledby=(id) {
                (deadline(&task.name, task.deadline_ns, drawn, scale, bottom))
                line.axis x1="0" x2="0" y1=(TOP - 4) y2=(bottom) {}
                @for (row, bar) in bars.iter().enumerate() {
                    @let y = TOP + STEP * row;
                    (mark(&task.name, bar, y, scale))
                    @if let Some(x) = drawn.filter(|d| *d < bar.value_ns && bar.value_ns <= scale).map(|d| svg::percent(d, scale)) {
                        line.crossed x1=(x) x2=(x) y1=(y) y2=(y + BAR) {}
                    }
                }
            }
        }
    }
}

/// One bar with its label and number. Beyond the scale it is a number at the edge.
pub fn mark(task: &str, bar: &Bar, y: usize, scale: u64) -> Markup {
    let exact = format!(
        "{task}, {}: {} ({} ns){}",
        bar.label,
        format::time(bar.value_ns),
        bar.value_ns,
        bar.note
    );
    let end = svg::percent(bar.value_ns, scale);
    html! {
        g.mark tabindex="0" role="img" aria-label=(exact) {
            title { (exact) }
            text.end x="0" dx="-8" y=(y + 13) { (bar.label) }
            @if bar.value_ns > scale {
                text.halo.value x="100%" y=(y + 13) text-anchor="end" data-task=(task) data-series=(bar.series)
                    data-value-ns=(bar.value_ns) { (format::time(bar.value_ns)) " →" }
            } @else {
                rect x="0" y=(y) width=(end) height=(BAR) fill=(bar.fill)
                    data-task=(task) data-series=(bar.series) data-value-ns=(bar.value_ns) {}
                text.halo.value x=(end) dx="6" y=(y + 13) { (format::time(bar.value_ns)) (bar.note) }
            }
        }
    }
}

fn deadline(
    task: &str,
    deadline: Option<u64>,
    drawn: Option<u64>,
    scale: u64,
    bottom: usize,
) -> Markup {
    let Some(ns) = deadline else {
        return html! { text.muted x="100%" y="12" text-anchor="end" { "no deadline" } };
    };
    let text = format!("deadline {}", format::time(ns));
    let whole = format!("{task}, {text} ({ns} ns)");
    if drawn.is_none() {
        return html! {
            g.mark.deadline tabindex="0" role="img" aria-label=(format!("{whole}, beyond the \
                scale")) {
                title { (whole) ", beyond the scale" }
                text x="100%" y="12" text-anchor="end" data-task=(task) data-deadline-ns=(ns) { (text) " →" }
            }
        };
    }
    let x = svg::percent(ns, scale);
    html! {
        g.mark.deadline tabindex="0" role="img" aria-label=(whole) {
            title { (whole) }
            line x1=(x) x2=(x) y1="16" y2=(bottom) data-task=(task) data-deadline-ns=(ns) {}
            text x=(x) y="12" text-anchor=(svg::anchor(svg::fraction(ns, scale))) { (text) }
        }
    }
}
