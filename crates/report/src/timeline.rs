//! The schedule of each core: the managed run, and below it the unmanaged one, on equal scales.
//!
//! A task has the same colour and number in both. A lane is a core: a bar where a task ran, a thin
//! line where the regulator stopped it. Arrows go up where jobs are released, and down at their
//! deadlines; a cross is at each deadline that was missed. The stretches of a task on a core are
//! one path whose coordinates are nanoseconds, so that the drawing is exact, small, and can be
//! zoomed (`zoom.js`). Very long schedules are cut to the first [`SEGMENTS`] stretches and [`JOBS`]
//! jobs, and the caption says so.

use crate::elements::{data_table, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::SimResult;
use solocore_model::plan::PlanTask;
use solocore_model::results::{Activity, Mode, Segment, TimelineJob};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most stretches of one run that are drawn.
const SEGMENTS: usize = 20_000;
/// Most jobs of one run whose releases and deadlines are drawn.
const JOBS: usize = 500;
/// Height of a bar.
const ROW: usize = 20;
/// Distance from a lane's top to its bar, for its name and the arrows of releases.
const ABOVE: usize = 30;
/// Distance from one lane to the next; the arrows of deadlines are below the bar.
const LANE: usize = 68;
/// Least part of the width at which a stretch has room for its task's number.
const ROOM: f64 = 0.04;

/// One run, cut to the drawn part.
struct Run<'a> {
    mode: &'static str,
    title: &'static str,
    result: &'a SimResult,
    segments: Vec<&'a Segment>,
    /// Segments that are not drawn.
    dropped: usize,
    /// End of the last stretch drawn.
    end_ns: u64,
    jobs: Vec<&'a TimelineJob>,
    /// Jobs in this time that are not drawn.
    dropped_jobs: usize,
}

impl<'a> Run<'a> {
    fn new(mode: &'static str, title: &'static str, result: Option<&'a SimResult>) -> Option<Self> {
        let result = result.filter(|r| !r.timeline.is_empty())?;
        let mut segments: Vec<&Segment> = result.timeline.iter().collect();
        segments.sort_by_key(|s| (s.start_ns, s.core));
        let dropped = segments.len().saturating_sub(SEGMENTS);
        segments.truncate(SEGMENTS);
        let end_ns = segments.iter().map(|s| s.end_ns).max().unwrap_or(0);
        let mut jobs: Vec<&TimelineJob> =
            result.jobs.iter().filter(|j| j.release_ns <= end_ns).collect();
        let dropped_jobs = jobs.len().saturating_sub(JOBS);
        // The most important jobs stay: those that missed their deadlines.
        jobs.sort_by_key(|j| (!j.late, j.release_ns));
        jobs.truncate(JOBS);
        Some(Self { mode, title, result, segments, dropped, end_ns, jobs, dropped_jobs })
    }

    fn name(&self, task: u32) -> String {
        let found = usize::try_from(task).ok().and_then(|i| self.result.tasks.get(i));
        found.map_or_else(|| format!("task #{task}"), |t| t.name.clone())
    }

    /// Cores of the result and of its segments, in order.
    fn cores(&self) -> Vec<u32> {
        let named = self.result.cores.iter().map(|c| c.id);
        let mut cores: Vec<u32> = named.chain(self.segments.iter().map(|s| s.core)).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Jobs that missed a deadline in the drawn time, and only those.
    fn missed(&self) -> impl Iterator<Item = &&'a TimelineJob> {
        self.jobs.iter().filter(|j| j.late && j.deadline_ns <= self.end_ns)
    }
}

pub fn section(inputs: &Inputs) -> Markup {
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
            @if runs.is_empty() {
                p.muted {
                    "No schedule was recorded. Run " code { "solocore sim --timeline \"200 ms\"" }
                    " on the plan, and give the result to the report."
                }
            } @else {
                (marks())
                (legend(&runs, &inputs.plan.tasks))
                @for run in &runs { (figure(run, inputs, end_ns)) }
            }
        }
    }
}

/// The task's place in the plan, which determines colour and number.
fn place(tasks: &[PlanTask], name: &str) -> usize {
    tasks.iter().position(|t| t.name == name).unwrap_or(tasks.len())
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

fn legend(runs: &[Run], tasks: &[PlanTask]) -> Markup {
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
            li {
                svg.swatch width="14" height="14" aria-hidden="true" { rect.stopped y="5" width="14" height="4" {} }
                span { "stopped by the regulator" }
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
                    data-bottom=(bottom) data-cores=(format!("{cores:?}")) {
                    g.ticks { (ticks(end_ns, bottom)) }
                    @for (row, core) in cores.iter().enumerate() { (lane(run, *core, LANE * row, end_ns, &inputs.plan.tasks)) }
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

/// Stretches of one task on one core with the same fill.
type Group = (u32, &'static str);

fn lane(run: &Run, core: u32, y: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    let segments: Vec<&&Segment> = run.segments.iter().filter(|s| s.core == core).collect();
    let time = |activity| {
        segments.iter().filter(|s| s.activity == activity).map(|s| length(s)).sum::<u64>()
    };
    let (ran, stopped) = (time(Activity::Run), time(Activity::Throttled));
    let shares = format!(
        "core {core}: ran {}, stopped {}",
        format::percent_of(ran, run.end_ns),
        format::percent_of(stopped, run.end_ns)
    );
    let label = format!(
        "{shares}: {}, {}, in {}, {}",
        format::time(ran),
        format::time(stopped),
        format::plural(format::len(&segments), "part"),
        run.mode
    );
    let mut groups: BTreeMap<Group, Vec<&Segment>> = BTreeMap::new();
    for segment in &segments {
        groups.entry((segment.task, activity(segment.activity))).or_default().push(segment);
    }
    let bar = y + ABOVE;
    html! {
        g.mark.lane tabindex="0" role="img" aria-label=(label) data-core=(core) data-ran-ns=(ran) data-stopped-ns=(stopped) {
            text.lane-name x="0" y=(y + 13) { (shares) }
            rect.track x="0" y=(bar) width="100%" height=(ROW) {}
            svg x="0" y=(bar) width="100%" height=(ROW) viewBox=(format!("0 0 {} 10", end_ns.max(1))) preserveAspectRatio="none" {
                @for ((task, activity), segments) in &groups { (stretches(run, core, *task, activity, segments, tasks)) }
            }
            @for segment in segments.iter().filter(|s| s.activity == Activity::Run) { (number(run, segment, bar, end_ns, tasks)) }
            @for job in run.jobs.iter().filter(|j| of_core(run, j, core)) { (arrows(run, job, bar, end_ns)) }
        }
    }
}

/// Does the job's task run on this core? The job's arrows are drawn there.
fn of_core(run: &Run, job: &TimelineJob, core: u32) -> bool {
    usize::try_from(job.task)
        .ok()
        .and_then(|i| run.result.tasks.get(i))
        .is_some_and(|t| t.core == core)
}

fn activity(of: Activity) -> &'static str {
    match of {
        Activity::Throttled => "throttled",
        Activity::Prefetch => "prefetch",
        Activity::Run => "run",
    }
}

fn length(segment: &Segment) -> u64 {
    segment.end_ns.saturating_sub(segment.start_ns)
}

/// One path: a rectangle for each stretch, `M start y h length v height H start z`.
fn stretches(
    run: &Run,
    core: u32,
    task: u32,
    activity: &str,
    segments: &[&Segment],
    tasks: &[PlanTask],
) -> Markup {
    let name = run.name(task);
    let (top, height, class, doing) = match activity {
        "throttled" => (3, 4, "stopped", "stopped by the regulator"),
        "prefetch" => (0, 3, "prefetched", "its partition's pages prefetched and locked"),
        _ => (0, 10, "", "ran"),
    };
    let mut d = String::new();
    for segment in segments {
        let (start, length) = (segment.start_ns, length(segment));
        let _ = write!(d, "M{start} {top}h{length}v{height}H{start}z");
        if activity == "prefetch" {
            let _ = write!(d, "M{start} 7h{length}v{height}H{start}z");
        }
    }
    let index = place(tasks, &name);
    let all: u64 = segments.iter().map(|s| length(s)).sum();
    let fill = class.is_empty().then(|| svg::task_solid(index));
    html! {
        path class=[Some(class).filter(|c| !c.is_empty())] fill=[fill] d=(d) data-task=(name) data-core=(core) data-activity=(activity) {
            title { "core " (core) ": " (name) " " (doing) " for " (format::time(all)) " in " (format::plural(format::len(segments), "stretch").replace("stretchs", "stretches")) }
        }
    }
}

/// The task's number, where there is room.
fn number(run: &Run, segment: &Segment, bar: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    if svg::fraction(length(segment), end_ns) < ROOM {
        return html! {};
    }
    let middle =
        50.0 * (svg::fraction(segment.start_ns, end_ns) + svg::fraction(segment.end_ns, end_ns));
    let index = place(tasks, &run.name(segment.task));
    html! {
        text class={ "number " (svg::task_ink(index)) } data-fill=(svg::task_solid(index)) x=(format!("{middle:.4}%")) y=(bar + 14) text-anchor="middle" { (index + 1) }
    }
}

fn arrows(run: &Run, job: &TimelineJob, bar: usize, end_ns: u64) -> Markup {
    let name = run.name(job.task);
    let ended = job.end_ns.map_or("did not end in the simulation".to_owned(), |ns| {
        format!("ended at {}", format::time(ns))
    });
    let whole = format!(
        "{name}: released at {}, {ended}, deadline {}",
        format::time(job.release_ns),
        format::time(job.deadline_ns)
    );
    html! {
        use href="#mark-release" x=(svg::percent(job.release_ns, end_ns)) y=(bar) data-task=(name) data-release-ns=(job.release_ns) { title { (whole) } }
        @if job.deadline_ns <= run.end_ns {
            @let x = svg::percent(job.deadline_ns, end_ns);
            use href="#mark-deadline" x=(x) y=(bar + ROW) data-task=(name) data-deadline=(job.deadline_ns) { title { (whole) } }
            @if job.late {
                use href="#mark-miss" x=(x) y=(bar + ROW + 5) data-task=(name) data-miss-ns=(job.deadline_ns) { title { (whole) ": missed" } }
            }
        }
    }
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
    let count = |task: u32, late: bool| {
        let of = |j: &&&TimelineJob| j.task == task && (!late || j.late);
        format::count(run.jobs.iter().filter(of).count() as u64)
    };
    let idle: Vec<String> = cores
        .iter()
        .filter(|c| !sums.keys().any(|(core, _)| core == *c))
        .map(u32::to_string)
        .collect();
    let columns = &[
        "#Core",
        "Task",
        "#Ran",
        "#Stopped",
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
                    td.num { (count(*task, false)) } td.num { (count(*task, true)) }
                }
            }
        }))
        @if !idle.is_empty() { p.muted { "Idle in this time: core " (idle.join(", ")) "." } }
    };
    wide_table(&format!("Time of each task on each core, {}", run.mode), &table)
}
