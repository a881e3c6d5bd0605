//! A lane: a core's stretches, its tasks' numbers, and the arrows of the jobs that first ran on it.

use super::dense::{self, Bar};
use super::run::{Job, Run, length, place};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::plan::PlanTask;
use solocore_model::results::{Activity, Segment};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Height of a bar.
const ROW: usize = 20;
/// Distance from a lane's top to its bar, for its name and the arrows of releases.
const ABOVE: usize = 30;
/// Distance from one lane to the next; the arrows of deadlines are below the bar.
pub const LANE: usize = 68;
/// From a lane's top to the foot of a task's number.
pub const NUMBER: usize = ABOVE + 14;
/// The same where the strip of stops lies below it.
const RAISED: usize = ABOVE + 11;
/// Least part of the width at which a stretch has room for its task's number.
const ROOM: f64 = 0.04;

/// Stretches of one task on one core with the same fill.
type Group = (u32, &'static str);

pub fn lane(run: &Run, core: u32, y: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    let segments: Vec<&Segment> = run.segments.iter().copied().filter(|s| s.core == core).collect();
    let time = |activity| {
        segments.iter().filter(|s| s.activity == activity).map(|s| length(s)).sum::<u64>()
    };
    let (ran, stopped) = (time(Activity::Run), time(Activity::Throttled));
    let shares = format!(
        "core {core}: ran {}, throttled {}",
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
    let bar = y + ABOVE;
    let stops = Some(dense::stops(&segments)).filter(|&stops| stops > dense::STOPS);
    html! {
        g.mark.lane.dense[stops.is_some()] tabindex="0" role="img" aria-label=(label) data-core=(core) data-ran-ns=(ran)
            data-stopped-ns=(stopped) data-stops=[stops] {
            text.lane-name x="0" y=(y + 13) { (shares) }
            rect.track x="0" y=(bar) width="100%" height=(ROW) {}
            svg x="0" y=(bar) width="100%" height=(ROW) viewBox=(format!("0 0 {} 10", end_ns.max(1))) preserveAspectRatio="none" {
                g.exact { (exact(run, core, &segments, tasks)) }
                @if stops.is_some() { g.coarse { (coarse(run, core, &segments, end_ns, tasks)) } }
            }
            @if stops.is_some() {
                @for bar in dense::bars(&segments, end_ns) { (number(run, &bar, y + RAISED, end_ns, tasks)) }
            } @else {
                @for s in segments.iter().filter(|s| s.activity == Activity::Run) {
                    (number(run, &Bar { task: s.task, start_ns: s.start_ns, end_ns: s.end_ns }, y + NUMBER, end_ns, tasks))
                }
            }
            @for job in run.jobs.iter().filter(|j| j.core == core) { (arrows(run, job, bar, end_ns)) }
        }
    }
}

fn activity(of: Activity) -> &'static str {
    match of {
        Activity::Throttled => "throttled",
        Activity::Prefetch => "prefetch",
        Activity::Run => "run",
    }
}

/// Every stretch.
fn exact(run: &Run, core: u32, segments: &[&Segment], tasks: &[PlanTask]) -> Markup {
    let mut groups: BTreeMap<Group, Vec<&Segment>> = BTreeMap::new();
    for segment in segments {
        groups.entry((segment.task, activity(segment.activity))).or_default().push(segment);
    }
    html! {
        @for ((task, activity), segments) in &groups { (stretches(run, core, *task, activity, segments, tasks)) }
    }
}

/// Bars over the stops, and the strip of their shares. Paths, because a browser limits the length
/// of a rectangle.
fn coarse(run: &Run, core: u32, segments: &[&Segment], end_ns: u64, tasks: &[PlanTask]) -> Markup {
    html! {
        @for bar in dense::bars(segments, end_ns) {
            @let name = run.name(bar.task);
            @let d = format!("M{0} 0H{1}v10H{0}z", bar.start_ns, bar.end_ns);
            path fill=(svg::task_solid(place(tasks, &name))) d=(d) { title { "core " (core) ": " (name) } }
        }
        (dense::strip(core, segments, end_ns))
    }
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
        "throttled" => (3, 4, "stopped", "throttled"),
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
    let runs = class.is_empty();
    html! {
        path class=[Some(class).filter(|c| !c.is_empty())] fill=[runs.then(|| svg::task_solid(index))] d=(d) data-task=(name)
            data-core=(core) data-activity=(activity) data-number=[runs.then_some(index + 1)] data-ink=[runs.then(|| svg::task_ink(index))] {
            title { "core " (core) ": " (name) " " (doing) " for " (format::time(all)) " in " (format::plural(format::len(segments), "stretch").replace("stretchs", "stretches")) }
        }
    }
}

/// The task's number, where there is room.
fn number(run: &Run, bar: &Bar, foot: usize, end_ns: u64, tasks: &[PlanTask]) -> Markup {
    if svg::fraction(bar.end_ns.saturating_sub(bar.start_ns), end_ns) < ROOM {
        return html! {};
    }
    let middle = 50.0 * (svg::fraction(bar.start_ns, end_ns) + svg::fraction(bar.end_ns, end_ns));
    let index = place(tasks, &run.name(bar.task));
    html! {
        text class={ "number " (svg::task_ink(index)) } data-fill=(svg::task_solid(index)) x=(format!("{middle:.4}%")) y=(foot) text-anchor="middle" { (index + 1) }
    }
}

fn arrows(run: &Run, job: &Job, bar: usize, end_ns: u64) -> Markup {
    let job = job.of;
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
