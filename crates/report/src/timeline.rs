//! What each core did: the managed run, and below it the unmanaged one, on equal scales.
//!
//! A task has the same colour and number in both. Time under the regulator's stop is hatched. Very
//! long schedules are cut to the first [`SEGMENTS`] stretches, and the caption says so.

use crate::elements::{task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::SimResult;
use solocore_model::plan::PlanTask;
use solocore_model::results::{Activity, Segment};
use std::collections::BTreeMap;

/// Most stretches drawn of one run.
const SEGMENTS: usize = 4000;
const ROW: usize = 22;
const STEP: usize = 28;
/// A stretch this part of the width has room for its task's number.
const ROOM: f64 = 0.03;

/// One run, cut to what is drawn.
struct Run<'a> {
    mode: &'static str,
    title: &'static str,
    result: &'a SimResult,
    segments: Vec<&'a Segment>,
    /// Segments that are not drawn.
    dropped: usize,
    /// End of the last stretch drawn.
    end_ns: u64,
}

impl<'a> Run<'a> {
    fn new(mode: &'static str, title: &'static str, result: Option<&'a SimResult>) -> Option<Self> {
        let result = result.filter(|r| !r.timeline.is_empty())?;
        let mut segments: Vec<&Segment> = result.timeline.iter().collect();
        segments.sort_by_key(|s| (s.start_ns, s.core));
        let dropped = segments.len().saturating_sub(SEGMENTS);
        segments.truncate(SEGMENTS);
        let end_ns = segments.iter().map(|s| s.end_ns).max().unwrap_or(0);
        Some(Self { mode, title, result, segments, dropped, end_ns })
    }

    fn task(&self, segment: &Segment) -> String {
        let found = usize::try_from(segment.task).ok().and_then(|i| self.result.tasks.get(i));
        found.map_or_else(|| format!("task #{}", segment.task), |t| t.name.clone())
    }

    /// Cores of the result and of its segments, in order.
    fn cores(&self) -> Vec<u32> {
        let named = self.result.cores.iter().map(|c| c.id);
        let mut cores: Vec<u32> = named.chain(self.segments.iter().map(|s| s.core)).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
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
                    "No schedule was recorded. Run " code { "solocore sim" }
                    " on the plan so that its result holds a timeline, and give the result to the \
                        report."
                }
            } @else {
                (legend(&runs, &inputs.plan.tasks))
                @for run in &runs { (figure(run, &inputs.plan.tasks, end_ns)) }
            }
        }
    }
}

/// The task's place in the plan, which gives colour and number.
fn place(tasks: &[PlanTask], name: &str) -> usize {
    tasks.iter().position(|t| t.name == name).unwrap_or(tasks.len())
}

fn legend(runs: &[Run], tasks: &[PlanTask]) -> Markup {
    let mut shown: BTreeMap<usize, String> = BTreeMap::new();
    for run in runs {
        for segment in &run.segments {
            let name = run.task(segment);
            shown.entry(place(tasks, &name)).or_insert(name);
        }
    }
    html! {
        ul.legend aria-label="Tasks by colour and number" {
            @for (index, name) in &shown {
                li { (svg::swatch(&svg::task_fill(*index))) span { (index + 1) " " } (task_name(name)) }
            }
            li { (svg::swatch("url(#fill-throttled)")) span { "stopped by the regulator" } }
            @if runs.iter().any(|r| r.segments.iter().any(|s| s.activity == Activity::Prefetch)) {
                li { (svg::swatch("url(#fill-prefetch)")) span { "prefetch and lock" } }
            }
        }
    }
}

fn figure(run: &Run, tasks: &[PlanTask], end_ns: u64) -> Markup {
    let id = format!("timeline-{}", run.mode);
    let cores = run.cores();
    let bottom = STEP * cores.len();
    html! {
        figure.chart.whole {
            figcaption id=(id) { strong { (run.title) } " " span.muted { (caption(run)) } }
            div.wide tabindex="0" role="region" aria-label=(format!("{} timeline, scrolls \
                sideways", run.mode)) {
                svg.timeline width="100%" height=(bottom + 26) role="img" aria-labelledby=(id)
                    data-mode=(run.mode) data-dropped=(run.dropped) {
                    @for tick in svg::ticks(end_ns, 8) {
                        @let x = svg::percent(tick, end_ns);
                        line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
                        text.muted x=(x) y=(bottom + 16) text-anchor="middle" { (format::time(tick)) }
                    }
                    @for (row, core) in cores.iter().enumerate() { (lane(run, *core, STEP * row, end_ns, tasks)) }
                }
            }
            details { summary { "Numbers of this timeline" } (table(run, &cores)) }
        }
    }
}

fn caption(run: &Run) -> String {
    let drawn = format!(
        "the first {} of {} simulated",
        format::time(run.end_ns),
        format::time(run.result.simulated_ns)
    );
    match run.dropped {
        0 => drawn,
        n => {
            format!(
                "{drawn}; {} not drawn but in the embedded JSON",
                format::plural(n as u64, "further part")
            )
        }
    }
}

fn lane(run: &Run, core: u32, y: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    let segments: Vec<&&Segment> = run.segments.iter().filter(|s| s.core == core).collect();
    let time = |activity| {
        segments.iter().filter(|s| s.activity == activity).map(|s| length(s)).sum::<u64>()
    };
    let label = format!(
        "core {core}, {}: ran {}, stopped by the regulator {}, in {}",
        run.mode,
        format::time(time(Activity::Run)),
        format::time(time(Activity::Throttled)),
        format::plural(format::len(&segments), "part"),
    );
    html! {
        g.mark.lane tabindex="0" role="img" aria-label=(label) {
            text.end x="0" dx="-8" y=(y + 15) { "core " (core) }
            rect.track x="0" y=(y) width="100%" height=(ROW) {}
            @for segment in segments { (stretch(run, segment, y, end_ns, tasks)) }
        }
    }
}

fn length(segment: &Segment) -> u64 {
    segment.end_ns.saturating_sub(segment.start_ns)
}

fn stretch(run: &Run, segment: &Segment, y: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    let name = run.task(segment);
    let index = place(tasks, &name);
    let ran = segment.activity == Activity::Run;
    let (activity, doing, fill) = match segment.activity {
        Activity::Throttled => {
            ("throttled", "stopped by the regulator", "url(#fill-throttled)".to_owned())
        }
        Activity::Prefetch => (
            "prefetch",
            "had its partition's pages prefetched and locked",
            "url(#fill-prefetch)".to_owned(),
        ),
        Activity::Run => ("run", "ran", svg::task_fill(index)),
    };
    let middle = format!(
        "{:.4}%",
        100.0 * (svg::fraction(segment.start_ns, end_ns) + svg::fraction(segment.end_ns, end_ns))
            / 2.0
    );
    html! {
        rect x=(svg::percent(segment.start_ns, end_ns)) y=(y) width=(svg::percent(length(segment), end_ns)) height=(ROW)
            fill=(fill) data-task=(name) data-core=(segment.core) data-activity=(activity)
            data-start-ns=(segment.start_ns) data-end-ns=(segment.end_ns) {
            title {
                "core " (segment.core) ": " (name) " " (doing) " for " (format::time(length(segment)))
                " from " (format::time(segment.start_ns))
            }
        }
        @if ran && svg::fraction(length(segment), end_ns) >= ROOM {
            text class={ "number " (svg::task_ink(index)) } x=(middle) y=(y + 15) text-anchor="middle" { (index + 1) }
        }
    }
}

/// Time of each task on each core.
fn table(run: &Run, cores: &[u32]) -> Markup {
    let mut sums: BTreeMap<(u32, String), (u64, u64, u64)> = BTreeMap::new();
    for segment in &run.segments {
        let sum = sums.entry((segment.core, run.task(segment))).or_default();
        match segment.activity {
            Activity::Run | Activity::Prefetch => sum.0 += length(segment),
            Activity::Throttled => sum.1 += length(segment),
        }
        sum.2 += 1;
    }
    let idle: Vec<String> = cores
        .iter()
        .filter(|c| !sums.keys().any(|(core, _)| core == *c))
        .map(u32::to_string)
        .collect();
    let table = html! {
        table {
            thead {
                tr {
                    th.num scope="col" { "Core" } th scope="col" { "Task" } th.num scope="col" { "Ran" }
                    th.num scope="col" { "Stopped" } th.num scope="col" { "Stretches" }
                }
            }
            tbody {
                @for ((core, task), (ran, stopped, parts)) in &sums {
                    tr {
                        td.num { (core) } td { (task_name(task)) } td.num { (format::time_cell(*ran)) }
                        td.num { (format::time_cell(*stopped)) } td.num { (format::count(*parts)) }
                    }
                }
            }
        }
        @if !idle.is_empty() { p.muted { "Idle in this time: core " (idle.join(", ")) "." } }
    };
    wide_table("Time of each task on each core", &table)
}
