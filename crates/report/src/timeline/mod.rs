//! The schedule of each core: the managed run, and below it the unmanaged one, on equal scales.
//!
//! A task has the same colour and number in both. A lane is a core: a bar where a task ran, a thin
//! line where the regulator stopped it, a strip of shares where it did so too often ([`dense`]).
//! Arrows go up where jobs are released, and down at their deadlines, on the core where the job
//! first ran; a cross is at each deadline that was missed. The axis spans the whole recorded time.
//! The stretches of a task on a core are one path whose coordinates are nanoseconds, so that the
//! drawing is exact, small, and can be zoomed (`zoom.js`). Very long schedules are cut ([`run`]),
//! and the caption says so.

mod dense;
mod lane;
mod run;

use self::lane::{LANE, NUMBER, lane};
use self::run::{Job, Run, length, place};
use crate::elements::{data_table, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::list;
use solocore_model::plan::PlanTask;
use solocore_model::results::{Activity, Mode};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Is there a schedule to draw?
pub fn there(inputs: &Inputs) -> bool {
    [inputs.managed, inputs.unmanaged].into_iter().flatten().any(|r| !r.timeline.is_empty())
}

/// The section; nothing without a schedule.
pub fn section(inputs: &Inputs) -> Markup {
    if !there(inputs) {
        return html! {};
    }
    let runs: Vec<Run> = [
        Run::new("managed", "Managed: under the plan", inputs.managed),
        Run::new("unmanaged", "Unmanaged: the plain machine", inputs.unmanaged),
    ]
    .into_iter()
    .flatten()
    .collect();
    let end_ns = runs.iter().map(|r| r.end_ns).max().unwrap_or(0);
    html! {
        section #timeline aria-labelledby="timeline-h" {
            h2 #timeline-h { "Timeline of the cores" }
            (marks())
            (legend(&runs, &inputs.plan.tasks, end_ns))
            @for run in &runs { (figure(run, inputs, end_ns)) }
        }
    }
}

/// Definitions of the arrows and crosses.
fn marks() -> Markup {
    html! {
        svg.definitions width="0" height="0" aria-hidden="true" {
            defs {
                path #mark-release.job-mark d="M0 0v-9m-3 4l3-4l3 4" {}
                path #mark-deadline.job-mark d="M0 0v9m-3-4l3 4l3-4" {}
                path #mark-miss.miss-mark d="M-5-5L5 5M5-5L-5 5" {}
            }
        }
    }
}

fn legend(runs: &[Run], tasks: &[PlanTask], end_ns: u64) -> Markup {
    let mut shown: BTreeMap<usize, String> = BTreeMap::new();
    for run in runs {
        for segment in &run.segments {
            let name = run.name(segment.task);
            shown.entry(place(tasks, &name)).or_insert(name);
        }
    }
    let mark = |id: &str, y: u64| html! { svg.swatch.mark-swatch width="14" height="14" aria-hidden="true" { use href=(id) x="7" y=(y) {} } };
    let any = |activity| runs.iter().any(|r| r.segments.iter().any(|s| s.activity == activity));
    html! {
        ul.legend aria-label="What the timelines show" {
            @for (index, name) in &shown {
                li { (svg::swatch(&svg::task_fill(*index))) span { (index + 1) " " } (task_name(name)) }
            }
            @if any(Activity::Throttled) {
                li {
                    svg.swatch width="14" height="14" aria-hidden="true" { rect.stopped y="5" width="14" height="4" {} }
                    span { "throttled" }
                }
            }
            @if runs.iter().any(dense::anywhere) {
                li {
                    svg.swatch width="14" height="14" aria-hidden="true" { path.stopped d="M0 14V9h3v-2h4v4h3v-2h4V14z" {} }
                    span { "share of each " (format::time(dense::span_ns(end_ns))) " throttled, up to " (dense::HEIGHT_PERCENT) " % of the bar; zoom in for single stops" }
                }
            }
            @if any(Activity::Prefetch) {
                li {
                    svg.swatch width="14" height="14" aria-hidden="true" { rect.prefetched width="14" height="4" {} rect.prefetched y="10" width="14" height="4" {} }
                    span { "prefetch and lock" }
                }
            }
            @if runs.iter().any(|r| !r.jobs.is_empty()) {
                li { (mark("#mark-release", 12)) span { "release" } }
                li { (mark("#mark-deadline", 2)) span { "deadline" } }
                li { (mark("#mark-miss", 7)) span { "deadline missed" } }
            }
        }
    }
}

fn figure(run: &Run, inputs: &Inputs, end_ns: u64) -> Markup {
    let id = format!("timeline-{}", run.mode);
    let cores = run.cores();
    let bottom = LANE * cores.len();
    let mode = if run.mode == "managed" { Mode::Managed } else { Mode::Unmanaged };
    let trace = inputs.traces.iter().find(|(of, _)| *of == mode);
    html! {
        figure.chart.whole.zooms {
            figcaption id=(id) { strong { (run.title) } " " span.muted { (caption(run)) } }
            p.controls hidden {
                button type="button" data-zoom="in" { "Zoom in" } button type="button" data-zoom="out" { "Zoom out" }
                button type="button" data-zoom="all" { "All" } button type="button" data-zoom="miss" { "Next miss" }
                span.muted { "Keys on the timeline: + − 0 n. Mouse: Ctrl and the wheel, or a double click." }
            }
            div.wide tabindex="0" role="region" aria-label=(format!("{} timeline, scrolls sideways when zoomed", run.mode)) {
                svg.timeline width="100%" height=(bottom + 26) role="img" aria-labelledby=(id) data-mode=(run.mode)
                    data-dropped=(run.dropped) data-dropped-jobs=(run.dropped_jobs) data-end-ns=(end_ns) data-lane=(LANE)
                    data-number-y=(NUMBER) data-most-stops=(dense::STOPS) data-bottom=(bottom) data-cores=(format!("{cores:?}")) {
                    g.ticks { (ticks(end_ns, bottom)) }
                    @for (row, core) in cores.iter().enumerate() { (lane(run, *core, LANE * row, end_ns, &inputs.plan.tasks)) }
                    g.near {}
                }
            }
            output.muted aria-live="off" {}
            @if let Some((_, href)) = trace {
                p.trace { a href=(href) download { "Trace of this timeline" } " for ui.perfetto.dev; it lies beside this page." }
            }
            details { summary { "Numbers of this timeline" } (table(run, &cores)) }
        }
    }
}

/// The ticks of the axis. Every other one is left out on narrow pages.
fn ticks(end_ns: u64, bottom: usize) -> Markup {
    html! {
        @for (n, tick) in svg::ticks(end_ns, 8).into_iter().enumerate() {
            @let x = svg::percent(tick, end_ns);
            @let part = svg::fraction(tick, end_ns);
            @let anchor = if tick == 0 { "start" } else if part > 0.95 { "end" } else { "middle" };
            line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
            text.muted.fine[n % 2 == 1] x=(x) y=(bottom + 16) text-anchor=(anchor) { @if tick == 0 { "0" } @else { (format::time(tick)) } }
        }
    }
}

fn caption(run: &Run) -> String {
    let mut text = format!(
        "the first {} of {} simulated",
        format::time(run.end_ns),
        format::time(run.result.simulated_ns)
    );
    if !run.jobs.is_empty() {
        let _ = match run.missed().count() {
            0 => write!(text, "; no deadline missed in it"),
            n => write!(text, "; {} missed in it", format::plural(n as u64, "deadline")),
        };
    }
    if run.dropped > 0 {
        let parts = format::plural(run.dropped as u64, "further part");
        let _ = write!(text, "; {parts} not drawn but in the embedded JSON");
    }
    if run.dropped_jobs > 0 {
        let jobs = format::plural(run.dropped_jobs as u64, "job");
        let _ = write!(
            text,
            "; releases and deadlines of {jobs} not drawn, after those of missed deadlines"
        );
    }
    text
}

/// Time of each task on each core.
fn table(run: &Run, cores: &[u32]) -> Markup {
    let mut sums: BTreeMap<(u32, u32), (u64, u64, u64)> = BTreeMap::new();
    for segment in &run.segments {
        let sum = sums.entry((segment.core, segment.task)).or_default();
        match segment.activity {
            Activity::Run | Activity::Prefetch => sum.0 += length(segment),
            Activity::Throttled => sum.1 += length(segment),
        }
        sum.2 += 1;
    }
    for job in &run.jobs {
        sums.entry((job.core, job.of.task)).or_default();
    }
    let count = |core: u32, task: u32, late: bool| {
        let of = |j: &&Job| j.core == core && j.of.task == task && (!late || j.of.late);
        format::count(run.jobs.iter().filter(of).count() as u64)
    };
    let idle: Vec<&u32> = cores
        .iter()
        .filter(|c| !sums.iter().any(|((core, _), sum)| core == *c && sum.2 > 0))
        .collect();
    let columns = &[
        "#Core",
        "Task",
        "#Ran",
        "#Throttled",
        "#Stretches",
        "#Jobs with deadlines",
        "#Of these missed",
    ];
    let table = html! {
        (data_table(&html! {}, columns, &html! {
            @for ((core, task), (ran, stopped, parts)) in &sums {
                tr {
                    td.num { (core) } td { (task_name(&run.name(*task))) } td.num { (format::time_cell(*ran)) }
                    td.num { (format::time_cell(*stopped)) } td.num { (format::count(*parts)) }
                    td.num { (count(*core, *task, false)) } td.num { (count(*core, *task, true)) }
                }
            }
        }))
        @if !idle.is_empty() { p.muted { "Idle in this time: core " (list(idle)) "." } }
    };
    wide_table(&format!("Time of each task on each core, {}", run.mode), &table)
}
