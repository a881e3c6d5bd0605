//! Effect of regulation on each CPU: a table, and a chart over time.
//!
//! The budget is a line with its number. A budget beyond [`REACH`] times the largest column would
//! press the columns flat; it is then named at the edge.

use crate::contradiction::Contradiction;
use crate::elements::{caption, data_table, wide_table};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::run::{RunCore, RunRegulation, RunSpan, RunWrites};

/// Most columns of a chart.
const COLUMNS: usize = 200;
/// Height above the drawing, for the label of the budget.
const TOP: u64 = 16;
const HEIGHT: u64 = 64;
const STRIP: u64 = 10;
const GAP: u64 = 4;

/// A budget further out than this many times the largest column is named, not drawn.
const REACH: u64 = 4;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The part for each CPU; `duration_ns`: length of the run.
pub fn part(r: &RunRegulation, duration_ns: u64) -> Markup {
    html! {
        @if r.stands_in {
            div.alert role="note" {
                p { "The event " code { (r.event) } " stands in for accesses to memory: this shows \
                    the mechanism at work, and no bound of the plan holds." }
            }
        }
        (cores_table(r, duration_ns))
        div.charts { @for core in r.cores.iter().filter(|c| !c.series.is_empty()) { (chart(r, core, duration_ns)) } }
    }
}

/// Observations that contradict the plan.
pub fn contradictions(r: &RunRegulation, all: &mut Vec<Contradiction>) {
    let mut add = |sentence| all.push(Contradiction::of_other(sentence));
    for core in r.cores.iter().filter(|c| c.periods_over_budget > 0) {
        add(format!(
            "CPU {}: {} of {} exceeded the budget of {} accesses by more than the tolerance of {} \
                (the most was {})",
            core.cpu,
            format::count(core.periods_over_budget),
            format::plural(core.periods, "period"),
            format::count(core.budget),
            format::count(core.tolerance),
            format::count(core.max_accesses_per_period)
        ));
    }
    let over = r
        .cores
        .iter()
        .filter_map(|c| Some((c.cpu, c.writes.filter(|w| w.periods_over_write_budget > 0)?)));
    for (cpu, writes) in over {
        add(format!(
            "CPU {}: {} had more writes than their budget of {} and one sample (the most was {})",
            cpu,
            format::plural(writes.periods_over_write_budget, "period"),
            format::count(writes.write_budget),
            format::count(writes.max_writes_per_period)
        ));
    }
}

fn budget(core: &RunCore) -> String {
    if core.budget == UNLIMITED { "none".to_owned() } else { format::count(core.budget) }
}

fn cores_table(r: &RunRegulation, duration_ns: u64) -> Markup {
    let apart = r.cores.iter().any(|c| c.writes.is_some());
    let mut columns = vec![
        "#CPU",
        "#Budget",
        "#Periods",
        "#Accesses",
        "#Most in one",
        "#Over",
        "#Throttled in",
        "#Throttled for",
    ];
    if apart {
        columns.extend(["#Write budget", "#Writes", "#Most writes", "#Writes over"]);
    }
    let table = html! {
        (data_table(&caption(&html! { "Each CPU over the whole run, in whole periods." }), &columns, &html! {
                @for core in &r.cores {
                    tr {
                        th.num scope="row" { (core.cpu) } td.num { (budget(core)) } td.num { (format::count(core.periods)) }
                        td.num { (format::count(core.accesses)) } td.num { (format::count(core.max_accesses_per_period)) }
                        td.num { (format::count(core.periods_over_budget)) }
                        td.num { (format::percent_of(core.throttled_periods, core.periods)) }
                        td.num { (format::percent_of(core.throttled_ns, duration_ns)) }
                        @if apart {
                            @let w = core.writes.unwrap_or(RunWrites { write_budget: UNLIMITED, ..RunWrites::default() });
                            td.num { @if w.write_budget == UNLIMITED { "none" } @else { (format::count(w.write_budget)) } }
                            td.num { (format::count(w.writes)) } td.num { (format::count(w.max_writes_per_period)) }
                            td.num { (format::count(w.periods_over_write_budget)) }
                        }
                    }
                }
            }))
    };
    wide_table("CPUs of the run", &table)
}

/// The series in at most [`COLUMNS`] columns, and the length of a column, ns.
fn columns(r: &RunRegulation, core: &RunCore) -> (Vec<RunSpan>, u64) {
    let join = core.series.len().div_ceil(COLUMNS).max(1);
    let sum = |spans: &[RunSpan]| {
        spans.iter().fold(RunSpan::default(), |a, b| RunSpan {
            periods: a.periods.saturating_add(b.periods),
            accesses: a.accesses.saturating_add(b.accesses),
            most: a.most.max(b.most),
            throttled_ns: a.throttled_ns.saturating_add(b.throttled_ns),
        })
    };
    (core.series.chunks(join).map(sum).collect(), r.span_ns.saturating_mul(join as u64))
}

fn chart(r: &RunRegulation, core: &RunCore, duration_ns: u64) -> Markup {
    let (columns, length) = columns(r, core);
    let limit = (core.budget != UNLIMITED).then_some(core.budget);
    let most = columns.iter().map(|c| c.most).max().unwrap_or(0);
    let drawn = limit.filter(|&limit| most == 0 || limit <= most.saturating_mul(REACH));
    let scale = most.max(drawn.unwrap_or(0)).max(1);
    let total = length.saturating_mul(columns.len() as u64);
    let id = format!("machine-cpu-{}", core.cpu);
    let label = format!(
        "CPU {}: at most {} accesses in a period of budget {}, throttled for {} of the time",
        core.cpu,
        format::count(core.max_accesses_per_period),
        budget(core),
        format::percent_of(core.throttled_ns, duration_ns)
    );
    let bottom = TOP + HEIGHT;
    let foot = bottom + GAP + STRIP;
    html! {
        figure.chart {
            figcaption id=(id) {
                "CPU " (core.cpu) " " span.muted { "most accesses in a period, by " (format::time(length)) "; below: throttled" }
            }
            svg.curve width="100%" height=(foot + 24) role="img" aria-labelledby=(id) data-cpu=(core.cpu) {
                g.mark tabindex="0" role="img" aria-label=(label) {
                    rect.track x="0" y=(TOP) width="100%" height=(HEIGHT) {}
                    rect.track x="0" y=(bottom + GAP) width="100%" height=(STRIP) {}
                    @for (at, span) in columns.iter().enumerate() { (column(at as u64, span, length, total, scale)) }
                    line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
                    @if let Some(limit) = limit { (budget_line(limit, drawn, scale)) }
                }
                text.end.muted x="0" dx="-6" y=(TOP + 10) { (format::short(scale)) }
                text.end.muted x="0" dx="-6" y=(bottom) { "0" }
                @for tick in svg::ticks(total, 4) {
                    text.muted x=(svg::percent(tick, total)) y=(foot + 16) text-anchor="middle" { (format::time(tick)) }
                }
            }
        }
    }
}

/// The line of the budget with its number; only the number, at the edge, where it is not `drawn`.
fn budget_line(limit: u64, drawn: Option<u64>, scale: u64) -> Markup {
    let label = format!("budget {}", format::count(limit));
    let y = TOP as f64 + HEIGHT as f64 * (1.0 - svg::fraction(limit, scale));
    html! {
        @if drawn.is_some() {
            line.choice x1="0" x2="100%" y1=(format!("{y:.2}")) y2=(format!("{y:.2}")) data-budget=(limit) {}
            text.halo.end x="100%" y=(format!("{y:.2}")) dy="-4" { (label) }
        } @else {
            text.halo.end x="100%" y=(TOP - 4) data-budget=(limit) { (label) ", beyond the scale ↑" }
        }
    }
}

fn column(at: u64, span: &RunSpan, length: u64, total: u64, scale: u64) -> Markup {
    let x = svg::percent(at.saturating_mul(length), total);
    let height = HEIGHT as f64 * svg::fraction(span.most, scale);
    html! {
        @if span.most > 0 {
            rect.column x=(x) y=(format!("{:.2}", (TOP + HEIGHT) as f64 - height)) width=(svg::percent(length, total))
                height=(format!("{height:.2}")) data-start-ns=(at.saturating_mul(length)) data-most=(span.most)
                data-accesses=(span.accesses) data-periods=(span.periods) {}
        }
        @if span.throttled_ns > 0 {
            rect x=(x) y=(TOP + HEIGHT + GAP) width=(svg::percent(span.throttled_ns.min(length), total)) height=(STRIP)
                fill="url(#fill-throttled)" data-throttled-ns=(span.throttled_ns) {}
        }
    }
}
