//! A run on a real machine: what each CPU used of its budget over time, when it was throttled, and how the jobs went.
//!
//! A CPU's chart has a column for each span of time: its height is the most accesses that one period of it had, on a linear
//! scale from zero to the budget or the largest column; the line is the budget. The strip below is hatched as far as the CPU
//! was throttled in that span. Long series are drawn with at most [`COLUMNS`] columns; the embedded JSON has them all.

use crate::elements::{caption, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::run::{RunCore, RunResult, RunSpan, RunTask, RunTransfer};

/// Most columns of a chart.
const COLUMNS: usize = 200;
/// Most jobs drawn of a task.
const JOBS: usize = 1000;
const HEIGHT: u64 = 64;
const STRIP: u64 = 10;
const GAP: u64 = 4;
const LANE: usize = 26;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

pub fn section(inputs: &Inputs) -> Markup {
    let Some(run) = inputs.run else { return html! {} };
    let contradictions = contradictions(inputs.plan, run);
    html! {
        section #machine aria-labelledby="machine-h" {
            h2 #machine-h { "On the machine" }
            p { (summary(run)) }
            @if run.stands_in {
                div.alert role="note" {
                    p { "The event " code { (run.event) } " stands in for accesses to memory: this shows the mechanism at work, and no bound of the plan holds." }
                }
            }
            @if !contradictions.is_empty() {
                div.alert role="note" {
                    p { strong { "Beyond what the plan says:" } }
                    ul { @for line in &contradictions { li { (line) } } }
                }
            }
            (cores_table(run))
            div.charts { @for core in run.cores.iter().filter(|c| !c.series.is_empty()) { (chart(run, core)) } }
            (tasks(run))
            (transfers(run))
            @if !run.notes.is_empty() {
                details { summary { "Notes of this run" } ul { @for note in &run.notes { li { (note) } } } }
            }
        }
    }
}

fn summary(run: &RunResult) -> String {
    format!(
        "Regulated for {} by the {} engine: {} in periods of {}; ended by {}.",
        format::time(run.duration_ns),
        run.engine,
        run.event,
        format::time(run.period_ns),
        run.ended
    )
}

/// What was seen and should not have been.
fn contradictions(plan: &Plan, run: &RunResult) -> Vec<String> {
    let mut lines = Vec::new();
    for core in run.cores.iter().filter(|c| c.periods_over_budget > 0) {
        lines.push(format!(
            "CPU {}: {} of {} had more than the budget of {} and one sample of {} (at most {})",
            core.cpu,
            format::count(core.periods_over_budget),
            format::plural(core.periods, "period"),
            format::count(core.budget),
            format::count(core.sample),
            format::count(core.max_accesses_per_period)
        ));
    }
    for core in run.cores.iter().filter(|c| c.periods_over_write_budget > 0) {
        lines.push(format!(
            "CPU {}: {} had more writes than their budget of {} and one sample (at most {})",
            core.cpu,
            format::plural(core.periods_over_write_budget, "period"),
            core.write_budget.map_or_else(|| "none".to_owned(), format::count),
            format::count(core.max_writes_per_period)
        ));
    }
    for t in run.transfers.iter().filter(|t| t.late > 0 || t.missed > 0) {
        lines.push(format!(
            "{}: {} ended after the slot, {} missed by the driver",
            t.name,
            format::plural(t.late, "transfer"),
            format::plural(t.missed, "slot")
        ));
    }
    for task in &run.tasks {
        let Some(planned) = plan.tasks.iter().find(|t| t.name == task.name && !t.best_effort()) else { continue };
        if planned.schedulable && task.misses_deadline > 0 {
            lines.push(format!("{}: {} late", task.name, format::plural(task.misses_deadline, "job")));
        }
        if let Some(bound) = planned.wcrt_ns.filter(|&bound| task.max_response_ns > bound) {
            lines.push(format!(
                "{}: a response took {}, above its bound {}",
                task.name,
                format::time(task.max_response_ns),
                format::time(bound)
            ));
        }
    }
    lines
}

fn budget(core: &RunCore) -> String {
    if core.budget == UNLIMITED { "none".to_owned() } else { format::count(core.budget) }
}

fn cores_table(run: &RunResult) -> Markup {
    let apart = run.cores.iter().any(|c| c.write_budget.is_some());
    let table = html! {
        table {
            (caption(&html! { "Each CPU over the whole run, in whole periods." }))
            thead {
                tr {
                    th.num scope="col" { "CPU" } th.num scope="col" { "Budget" } th.num scope="col" { "Periods" }
                    th.num scope="col" { "Accesses" } th.num scope="col" { "Most in one" } th.num scope="col" { "Over" }
                    th.num scope="col" { "Throttled in" } th.num scope="col" { "Throttled for" }
                    @if apart {
                        th.num scope="col" { "Write budget" } th.num scope="col" { "Writes" }
                        th.num scope="col" { "Most writes" } th.num scope="col" { "Writes over" }
                    }
                }
            }
            tbody {
                @for core in &run.cores {
                    tr {
                        th.num scope="row" { (core.cpu) } td.num { (budget(core)) } td.num { (format::count(core.periods)) }
                        td.num { (format::count(core.accesses)) } td.num { (format::count(core.max_accesses_per_period)) }
                        td.num { (format::count(core.periods_over_budget)) }
                        td.num { (format::percent_of(core.throttled_periods, core.periods)) }
                        td.num { (format::percent_of(core.throttled_ns, run.duration_ns)) }
                        @if apart {
                            td.num { (core.write_budget.filter(|&b| b != UNLIMITED).map_or_else(|| "none".to_owned(), format::count)) }
                            td.num { (format::count(core.writes)) } td.num { (format::count(core.max_writes_per_period)) }
                            td.num { (format::count(core.periods_over_write_budget)) }
                        }
                    }
                }
            }
        }
    };
    wide_table("CPUs of the run", &table)
}

/// The series in at most [`COLUMNS`] columns, and how long a column is.
fn columns(run: &RunResult, core: &RunCore) -> (Vec<RunSpan>, u64) {
    let join = core.series.len().div_ceil(COLUMNS).max(1);
    let sum = |spans: &[RunSpan]| {
        spans.iter().fold(RunSpan::default(), |a, b| RunSpan {
            periods: a.periods.saturating_add(b.periods),
            accesses: a.accesses.saturating_add(b.accesses),
            most: a.most.max(b.most),
            throttled_ns: a.throttled_ns.saturating_add(b.throttled_ns),
        })
    };
    (core.series.chunks(join).map(sum).collect(), run.span_ns.saturating_mul(join as u64))
}

fn chart(run: &RunResult, core: &RunCore) -> Markup {
    let (columns, length) = columns(run, core);
    let limit = (core.budget != UNLIMITED).then_some(core.budget);
    let most = columns.iter().map(|c| c.most).max().unwrap_or(0);
    let scale = most.max(limit.unwrap_or(0)).max(1);
    let total = length.saturating_mul(columns.len() as u64);
    let top = |value: u64| format!("{:.2}", HEIGHT as f64 * (1.0 - svg::fraction(value, scale)));
    let id = format!("machine-cpu-{}", core.cpu);
    let label = format!(
        "CPU {}: at most {} accesses in a period of budget {}, throttled for {} of the time",
        core.cpu,
        format::count(core.max_accesses_per_period),
        budget(core),
        format::percent_of(core.throttled_ns, run.duration_ns)
    );
    let foot = HEIGHT + GAP + STRIP;
    html! {
        figure.chart {
            figcaption id=(id) {
                "CPU " (core.cpu) " " span.muted { "most accesses in a period, by " (format::time(length)) "; below: throttled" }
            }
            svg.curve width="100%" height=(foot + 24) role="img" aria-labelledby=(id) data-cpu=(core.cpu) {
                g.mark tabindex="0" role="img" aria-label=(label) {
                    rect.track x="0" y="0" width="100%" height=(HEIGHT) {}
                    rect.track x="0" y=(HEIGHT + GAP) width="100%" height=(STRIP) {}
                    @for (at, span) in columns.iter().enumerate() { (column(at as u64, span, length, total, scale)) }
                    line.axis x1="0" x2="100%" y1=(HEIGHT) y2=(HEIGHT) {}
                    @if let Some(limit) = limit {
                        line.choice x1="0" x2="100%" y1=(top(limit)) y2=(top(limit)) data-budget=(limit) {}
                    }
                }
                text.end.muted x="0" dx="-6" y="10" { (format::short(scale)) }
                text.end.muted x="0" dx="-6" y=(HEIGHT) { "0" }
                @for tick in svg::ticks(total, 4) {
                    text.muted x=(svg::percent(tick, total)) y=(foot + 16) text-anchor="middle" { (format::time(tick)) }
                }
            }
        }
    }
}

fn column(at: u64, span: &RunSpan, length: u64, total: u64, scale: u64) -> Markup {
    let x = svg::percent(at.saturating_mul(length), total);
    let height = HEIGHT as f64 * svg::fraction(span.most, scale);
    html! {
        @if span.most > 0 {
            rect.column x=(x) y=(format!("{:.2}", HEIGHT as f64 - height)) width=(svg::percent(length, total))
                height=(format!("{height:.2}")) data-start-ns=(at.saturating_mul(length)) data-most=(span.most)
                data-accesses=(span.accesses) data-periods=(span.periods) {}
        }
        @if span.throttled_ns > 0 {
            rect x=(x) y=(HEIGHT + GAP) width=(svg::percent(span.throttled_ns.min(length), total)) height=(STRIP)
                fill="url(#fill-throttled)" data-throttled-ns=(span.throttled_ns) {}
        }
    }
}

fn tasks(run: &RunResult) -> Markup {
    let ran: Vec<&RunTask> = run.tasks.iter().filter(|t| t.how != "not run").collect();
    if ran.is_empty() {
        return html! { p.muted { "No task of the plan was started or attached by solocore in this run." } };
    }
    let table = html! {
        table {
            (caption(&html! { "Tasks of the plan that solocore started or bound; a response lasts from release to end." }))
            thead {
                tr {
                    th scope="col" { "Task" } th.num scope="col" { "Core" } th scope="col" { "How" }
                    th.num scope="col" { "Jobs" } th.num scope="col" { "Late" } th.num scope="col" { "Failed" }
                    th.num scope="col" { "Longest response" } th.num scope="col" { "Mean" } th.num scope="col" { "Most CPU time" }
                }
            }
            tbody { @for task in &ran { (row(task)) } }
        }
    };
    html! { (wide_table("Tasks of the run", &table)) (lanes(run, &ran)) }
}

/// Input and output by the time table; nothing without it.
fn transfers(run: &RunResult) -> Markup {
    if run.transfers.is_empty() {
        return html! {};
    }
    let time = |t: &RunTransfer, ns: u64| format::time_or((t.begun > 0).then_some(ns), "–");
    let table = html! {
        table {
            (caption(&html! { "Input and output by the time table: what drivers made of their slots." }))
            thead {
                tr {
                    th scope="col" { "Transfer" } th scope="col" { "On" } th.num scope="col" { "Slots" }
                    th.num scope="col" { "Begun" } th.num scope="col" { "Late" } th.num scope="col" { "Missed" }
                    th.num scope="col" { "No driver" } th.num scope="col" { "Begun late by" } th.num scope="col" { "Over by" }
                }
            }
            tbody {
                @for t in &run.transfers {
                    tr data-transfer=(t.name) {
                        th scope="row" { (t.name) } td { (t.resource) } td.num { (format::count(t.slots)) }
                        td.num { (format::count(t.begun)) } td.num { (format::count(t.late)) }
                        td.num { (format::count(t.missed)) } td.num { (format::count(t.unattended)) }
                        td.num { (time(t, t.max_start_late_ns)) } td.num { (time(t, t.max_end_late_ns)) }
                    }
                }
            }
        }
    };
    wide_table("Transfers of the run", &table)
}

fn row(task: &RunTask) -> Markup {
    let time = |ns: u64| format::time_or((task.jobs > 0).then_some(ns), "–");
    let how = task.fifo.map_or_else(|| task.how.clone(), |p| format!("{}, SCHED_FIFO {p}", task.how));
    html! {
        tr {
            th scope="row" { (task_name(&task.name)) } td.num { (task.core) } td { (how) }
            td.num { (format::count(task.jobs)) } td.num { (format::count(task.misses_deadline)) }
            td.num { (format::count(task.failed)) } td.num { (time(task.max_response_ns)) }
            td.num { (time(task.mean_response_ns)) } td.num { (time(task.max_cpu_ns)) }
        }
    }
}

/// When the jobs ran.
fn lanes(run: &RunResult, ran: &[&RunTask]) -> Markup {
    let with_jobs: Vec<&&RunTask> = ran.iter().filter(|t| !t.latest.is_empty()).collect();
    if with_jobs.is_empty() {
        return html! {};
    }
    let total = run.duration_ns.max(1);
    let bottom = LANE * with_jobs.len();
    html! {
        figure.chart.whole {
            figcaption #machine-jobs { strong { "Jobs" } " " span.muted { "from release to end; at most the latest " (format::count(JOBS as u64)) " of each task" } }
            div.wide tabindex="0" role="region" aria-label="Jobs over time, scrolls sideways" {
                svg.jobs width="100%" height=(bottom + 26) role="img" aria-labelledby="machine-jobs" {
                    @for tick in svg::ticks(total, 8) {
                        @let x = svg::percent(tick, total);
                        line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
                        text.muted x=(x) y=(bottom + 16) text-anchor="middle" { (format::time(tick)) }
                    }
                    @for (at, task) in with_jobs.iter().enumerate() { (lane(run, task, at, total)) }
                }
            }
        }
    }
}

fn lane(run: &RunResult, task: &RunTask, at: usize, total: u64) -> Markup {
    let index = run.tasks.iter().position(|t| t.name == task.name).unwrap_or(0);
    let y = LANE * at;
    let from = task.latest.len().saturating_sub(JOBS);
    html! {
        g.mark tabindex="0" role="img" aria-label=(format!("{}: {}", task.name, format::plural(task.jobs, "job"))) {
            title { (task.name) }
            rect.track x="0" y=(y + 2) width="100%" height="14" {}
            @for job in &task.latest[from..] {
                rect x=(svg::percent(job.release_ns, total)) y=(y + 2)
                    width=(svg::percent(job.end_ns.saturating_sub(job.release_ns), total)) height="14"
                    fill=(svg::task_fill(index)) data-task=(task.name) data-release-ns=(job.release_ns) data-end-ns=(job.end_ns) {}
            }
            text.halo x="2" y=(y + 14) { (task.name.chars().take(24).collect::<String>()) }
        }
    }
}
