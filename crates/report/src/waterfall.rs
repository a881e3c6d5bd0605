//! Per task: from the time alone to the bound, term by term.
//!
//! Each term of the plan's `waterfall` has a bar that starts at the end of the one before it; a bar
//! that lowers the sum has another fill. Where nothing bounds the response time, the terms end at
//! `C_sce`, and the caption says so. Each task has its own scale from zero, as in [`crate::bars`].
//! Terms of zero are in the table alone. Tasks without terms are left out.

use crate::elements::{data_table, task_name, wide_table};
use crate::svg::{BAR, STEP};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::plan::PlanTask;
use solocore_model::plan::waterfall::Term;

const TOP: usize = 4;

/// Does any task have terms?
pub fn there(plan: &Plan) -> bool {
    plan.tasks.iter().any(|t| !t.waterfall.is_empty())
}

pub fn section(plan: &Plan) -> Markup {
    html! {
        @if there(plan) {
            section #gap aria-labelledby="gap-h" {
                h2 #gap-h { "From the time alone to the bound" }
                p {
                    "Where the bound on a response time comes from: each bar begins where the one \
                        above it ends, and the last one ends at the bound. For a task without a \
                        bound on its response, the last one ends at C_sce. "
                    "A striped bar lowers the sum. Every task has its own scale from zero. The \
                        tables below the pictures explain the words, and have the terms of zero too."
                }
                div.charts {
                    @for (index, task) in plan.tasks.iter().enumerate().filter(|(_, t)| !t.waterfall.is_empty()) { (chart(index, task)) }
                }
            }
        }
    }
}

/// A term, and the sums before and after it.
struct Step<'a> {
    term: &'a Term,
    before_ns: u64,
    after_ns: u64,
}

fn steps(terms: &[Term]) -> Vec<Step<'_>> {
    let mut sum: i64 = 0;
    let whole = |ns: i64| u64::try_from(ns).unwrap_or(0);
    terms
        .iter()
        .map(|term| {
            let before_ns = whole(sum);
            sum = sum.saturating_add(term.ns);
            Step { term, before_ns, after_ns: whole(sum) }
        })
        .collect()
}

fn chart(index: usize, task: &PlanTask) -> Markup {
    let steps = steps(&task.waterfall);
    let drawn: Vec<&Step> = steps.iter().filter(|s| s.term.ns != 0).collect();
    let scale = steps.iter().map(|s| s.after_ns).max().unwrap_or(0);
    let height = TOP + STEP * drawn.len();
    let id = format!("gap-{index}");
    html! {
        figure.chart {
            figcaption id=(id) { (task_name(&task.name)) " " span.muted { (end(task)) } }
            svg.bars width="100%" height=(height) role="img" aria-labelledby=(id) {
                line.axis x1="0" x2="0" y1="0" y2=(height) {}
                @for (row, step) in drawn.iter().enumerate() { (mark(&task.name, step, TOP + STEP * row, scale)) }
            }
            details { summary { "The terms of " (task.name) } (wide_table(&format!("The terms of {}", task.name), &table(&steps))) }
        }
    }
}

/// The sum of all terms, in words.
fn end(task: &PlanTask) -> Markup {
    html! {
        @match task.wcrt_ns {
            Some(bound) => { "bound " (format::time_cell(bound)) }
            None => { "no bound on the response; the terms end at C_sce, " (format::time_cell(task.c_sce_ns)) }
        }
    }
}

fn mark(task: &str, step: &Step, y: usize, scale: u64) -> Markup {
    let (low, high) = (step.before_ns.min(step.after_ns), step.before_ns.max(step.after_ns));
    let lowers = step.term.ns < 0;
    let (name, value) = (step.term.term.word(), signed(step.term.ns));
    let exact = format!("{task}, {name}: {value} ({} ns)", step.term.ns);
    html! {
        g.mark tabindex="0" role="img" aria-label=(exact) {
            title { (exact) }
            text.end x="0" dx="-8" y=(y + 13) { (name) }
            rect x=(svg::percent(low, scale)) y=(y) width=(svg::percent(high - low, scale)) height=(BAR)
                fill=(if lowers { "url(#fill-bound)" } else { "#0072b2" })
                data-task=(task) data-term=(name) data-from-ns=(step.before_ns) data-term-ns=(step.term.ns) {}
            text.halo.value x=(svg::percent(high, scale)) dx="6" y=(y + 13) { (value) }
        }
    }
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "−" } else { "" }, format::time(ns.unsigned_abs()))
}

fn table(steps: &[Step]) -> Markup {
    html! {
        (data_table(&html! {}, &["Term", "What it is", "#Time", "#Sum", "#DRAM accesses"], &html! {
                @for step in steps {
                    tr {
                        th scope="row" { (step.term.term.word()) }
                        td.words { (step.term.term.words()) }
                        td.num { data value=(step.term.ns) title=(format!("{} ns", step.term.ns)) { (signed(step.term.ns)) } }
                        td.num { (format::time_cell(step.after_ns)) }
                        td.num { (step.term.misses.map_or_else(String::new, format::count)) }
                    }
                }
            }))
    }
}
