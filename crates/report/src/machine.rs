//! A run on a real machine: the use of each CPU's budget over time, its throttling, and the jobs.
//!
//! A CPU's chart has a column for each span of time. Its height is the most accesses that one
//! period of it had, on a linear scale from zero to the budget or the largest column. The line is
//! the budget; one far beyond the columns is named at the edge. The strip below is hatched as far
//! as the CPU was throttled in that span. Long series are drawn with at most `regulated::COLUMNS`
//! columns; the embedded JSON has them all.

use crate::contradiction::Contradiction;
use crate::elements::{caption, core_of, data_table, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, promises, regulated, schedulers, svg};
use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::run::{RunResult, RunTask, RunTransfer};

/// Most jobs of a task that are drawn.
const JOBS: usize = 1000;
/// A lane: its task's name, and the track below it.
const LANE: usize = 36;
const TRACK: usize = 18;

pub fn section(inputs: &Inputs) -> Markup {
    let Some(run) = inputs.run else { return html! {} };
    let contradictions = contradictions(inputs.plan, run);
    html! {
        section #machine aria-labelledby="machine-h" {
            h2 #machine-h { "On the machine" }
            p { (summary(run)) }
            @if run.earlier_handovers > 0 {
                p { "Handovers before those below: " (format::count(run.earlier_handovers)) "." }
            }
            @for handover in &run.handovers { p { (handover.text()) "." } }
            @if !contradictions.is_empty() {
                div.alert role="note" {
                    p { strong { "Beyond the plan:" } }
                    ul { @for found in &contradictions { li { (found) } } }
                }
            }
            @if let Some(regulation) = &run.regulation { (regulated::part(regulation, run.duration_ns)) }
            @if let Some(levels) = &run.levels { (schedulers::levels(inputs.plan, levels)) }
            @if let Some(vcpus) = &run.vcpus { (schedulers::vcpus(vcpus)) }
            (tasks(inputs.plan, run))
            (transfers(run))
            @if !run.notes.is_empty() {
                details { summary { "Notes of this run" } ul { @for note in &run.notes { li { (note) } } } }
            }
        }
    }
}

fn summary(run: &RunResult) -> String {
    let time = format::time(run.duration_ns);
    let what = match (&run.regulation, &run.vcpus) {
        (Some(r), _) => format!(
            "Regulated for {time} by the {} engine: {} in periods of {}",
            r.engine,
            r.event,
            format::time(r.period_ns)
        ),
        (None, Some(v)) => {
            format!("VCPUs were scheduled for {time}; background time: {}", v.background)
        }
        (None, None) => format!("Scheduled for {time}, by {}", run.scheme.name()),
    };
    format!("{what}; ended by {}.", run.ended)
}

/// Observations that contradict the plan.
pub fn contradictions(plan: &Plan, run: &RunResult) -> Vec<Contradiction> {
    let of_run = || run.promises.iter().map(|a| &a.promise);
    let mut all: Vec<Contradiction> =
        run.broken.iter().map(|id| promises::broken(of_run(), id)).collect();
    if let Some(regulation) = &run.regulation {
        regulated::contradictions(regulation, &mut all);
    }
    if let Some(levels) = &run.levels {
        schedulers::contradictions(plan, levels, &mut all);
    }
    for t in run.transfers.iter().filter(|t| t.late > 0 || t.missed > 0) {
        all.push(Contradiction::of_other(format!(
            "{}: {} ended after the slot, {} missed by the driver",
            t.name,
            format::plural(t.late, "transfer"),
            format::plural(t.missed, "slot")
        )));
    }
    for task in &run.tasks {
        let Some(planned) = plan.tasks.iter().find(|t| t.name == task.name && !t.best_effort())
        else {
            continue;
        };
        let mut add = |sentence: String| all.push(Contradiction::of_task(&task.name, &sentence));
        // After a handover, a job may be one under an earlier plan. A handover that was given up
        // can have raised the bound of the run as well.
        let bound = match run.handovers.is_empty() {
            true => planned.wcrt_ns.map(|bound| bound.max(task.bound_ns.unwrap_or(0))),
            false => task.bound_ns,
        };
        let meets = run.handovers.is_empty()
            || bound.zip(planned.deadline_ns).is_some_and(|(bound, deadline)| bound <= deadline);
        if planned.schedulable && meets && task.misses_deadline > 0 {
            add(format!("{} missed the deadline", format::plural(task.misses_deadline, "job")));
        }
        if let Some(bound) = bound.filter(|&bound| task.max_response_ns > bound) {
            add(format!(
                "a response took {}, above its bound {}",
                format::time(task.max_response_ns),
                format::time(bound)
            ));
        }
    }
    all
}

fn tasks(plan: &Plan, run: &RunResult) -> Markup {
    let ran: Vec<&RunTask> = run.tasks.iter().filter(|t| t.how != "not run").collect();
    if ran.is_empty() {
        return html! { p.muted { "No task of the plan was started or attached by solocore in this \
        run." } };
    }
    let table = html! {
        (data_table(&caption(&html! { "Tasks of the plan that solocore started or bound; a response lasts \
                from release to end." }), &["Task", "#Core", "How", "#Jobs", "#Missed", "#Failed", "#Longest response", "#Mean", "#Most CPU time"], &html! { @for task in &ran { (row(plan, task)) } }))
    };
    html! { (wide_table("Tasks of the run", &table)) (lanes(run, &ran)) }
}

/// Input and output by the time table; nothing for a run without one.
fn transfers(run: &RunResult) -> Markup {
    if run.transfers.is_empty() {
        return html! {};
    }
    let time = |t: &RunTransfer, ns: u64| format::time_or((t.begun > 0).then_some(ns), "–");
    let table = html! {
        (data_table(&caption(&html! { "Input and output by the time table: how drivers used their \
            slots." }), &["Transfer", "On", "#Slots", "#Begun", "#Late", "#Missed", "#No driver", "#Begun late by", "#Over by"], &html! {
                @for t in &run.transfers {
                    tr data-transfer=(t.name) {
                        th scope="row" { (t.name) } td { (t.resource) } td.num { (format::count(t.slots)) }
                        td.num { (format::count(t.begun)) } td.num { (format::count(t.late)) }
                        td.num { (format::count(t.missed)) } td.num { (format::count(t.unattended)) }
                        td.num { (time(t, t.max_start_late_ns)) } td.num { (time(t, t.max_end_late_ns)) }
                    }
                }
            }))
    };
    wide_table("Transfers of the run", &table)
}

fn row(plan: &Plan, task: &RunTask) -> Markup {
    let planned = plan.tasks.iter().find(|t| t.name == task.name);
    let core = planned.map_or_else(|| task.core.to_string(), |t| core_of(plan, t));
    let time = |ns: u64| format::time_or((task.jobs > 0).then_some(ns), "–");
    let how =
        task.fifo.map_or_else(|| task.how.clone(), |p| format!("{}, SCHED_FIFO {p}", task.how));
    html! {
        tr {
            th scope="row" { (task_name(&task.name)) } td.num { (core) } td { (how) }
            td.num { (format::count(task.jobs)) } td.num { (format::count(task.misses_deadline)) }
            td.num { (format::count(task.failed)) } td.num { (time(task.max_response_ns)) }
            td.num { (time(task.mean_response_ns)) } td.num { (time(task.max_cpu_ns)) }
        }
    }
}

/// The jobs over time.
fn lanes(run: &RunResult, ran: &[&RunTask]) -> Markup {
    let with_jobs: Vec<&&RunTask> = ran.iter().filter(|t| !t.latest.is_empty()).collect();
    if with_jobs.is_empty() {
        return html! {};
    }
    let total = run.duration_ns.max(1);
    let bottom = LANE * with_jobs.len();
    html! {
        figure.chart.whole {
            figcaption #machine-jobs { strong { "Jobs" } " " span.muted { "from release to end; at \
                most the latest " (format::count(JOBS as u64)) " of each task" } }
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
            text x="0" y=(y + 14) { (task.name.chars().take(60).collect::<String>()) }
            rect.track x="0" y=(y + TRACK) width="100%" height="14" {}
            @for job in &task.latest[from..] {
                rect x=(svg::percent(job.release_ns, total)) y=(y + TRACK)
                    width=(svg::percent(job.end_ns.saturating_sub(job.release_ns), total)) height="14"
                    fill=(svg::task_fill(index)) data-task=(task.name) data-release-ns=(job.release_ns) data-end-ns=(job.end_ns) {}
            }
        }
    }
}
