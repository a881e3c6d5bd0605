//! The verdict, at the beginning, and the table of tasks behind it.

use crate::bargain;
use crate::contradictions::Contradictions;
use crate::distributions;
use crate::elements::{caption, core_of, data_table, folded, task_name, wide_table};
use crate::format;
use crate::inputs::{Inputs, result_of};
use maud::{Markup, html};
use solocore_model::plan::PlanTask;
use solocore_model::results::TaskResult;
use solocore_model::system::Criticality;
use solocore_model::{SimResult, list};
use std::collections::HashSet;

/// A task with a promised deadline.
fn analysed(task: &&PlanTask) -> bool {
    task.criticality != Criticality::D
}

pub fn section(inputs: &Inputs) -> Markup {
    let plan = inputs.plan;
    let pass = plan.tasks.iter().filter(analysed).filter(|t| t.schedulable).count();
    let total = plan.tasks.iter().filter(analysed).count();
    let planned = plan.schedulable && pass == total;
    let found = Contradictions::of(inputs);
    let doubt = doubt(inputs, &found).filter(|_| planned && total > 0);
    let (good, mark) = match (planned, &doubt) {
        (true, None) => (true, "✓ "),
        (true, Some(_)) => (false, "! "),
        (false, _) => (false, "✗ "),
    };
    html! {
        section #verdict aria-labelledby="verdict-h" {
            h2 #verdict-h { "Verdict" }
            p.verdict.good[good].bad[!good] {
                span aria-hidden="true" { (mark) } (sentence(inputs, doubt.as_deref().unwrap_or_default()))
            }
            (counts(inputs, &found, pass, total))
            @if !found.all().is_empty() {
                div.alert role="note" {
                    p { strong { "Measurement contradicts the plan:" } }
                    ul { @for one in found.all() { li { (one) } } }
                }
            }
            (reasons(inputs))
            (bargain::part(inputs, &found))
            (table(inputs, &found))
            (distributions::charts(inputs))
            (missing(inputs))
        }
    }
}

/// Numbers of tasks: those that meet their deadlines by the plan, those that may miss them, those
/// without a promise, and those that a measurement contradicts.
fn counts(inputs: &Inputs, found: &Contradictions, pass: usize, total: usize) -> Markup {
    let tasks = &inputs.plan.tasks;
    let holds = |t: &&PlanTask| analysed(t) && t.schedulable;
    let beyond = tasks.iter().filter(holds).filter(|t| found.about(&t.name)).count();
    html! {
        ul.counts aria-label="Tasks by verdict" {
            li.good[beyond == 0] { strong { (pass) } @if pass == 1 { " meets" } @else { " meet" } }
            li.bad[total > pass] { strong { (total - pass) } " may miss" }
            li { strong { (tasks.len() - total) } " best effort" }
            @if beyond > 0 { li.bad { strong { (beyond) } " contradicted" } }
        }
    }
}

/// Why tasks may miss their deadlines: the plan's verdict, and its reasons for each such task.
fn reasons(inputs: &Inputs) -> Markup {
    let plan = inputs.plan;
    let failing = plan.tasks.iter().filter(analysed).filter(|t| !t.schedulable);
    let failing: HashSet<&str> = failing.map(|t| t.name.as_str()).collect();
    let because: Vec<(&str, &str)> = plan
        .reasons
        .iter()
        .filter_map(|reason| reason.split_once(": "))
        .filter(|(of, _)| *of == "verdict" || failing.contains(of))
        .collect();
    html! {
        @if !plan.schedulable && !because.is_empty() {
            ul.because {
                @for (of, why) in because {
                    li data-because=(of) {
                        @if of != "verdict" { (task_name(of)) ": " }
                        (why)
                    }
                }
            }
        }
    }
}

fn sentence(inputs: &Inputs, doubt: &str) -> String {
    let tasks: Vec<&PlanTask> = inputs.plan.tasks.iter().filter(analysed).collect();
    format!("{}{doubt}{}.", planned(inputs, &tasks), unmanaged(inputs, &tasks))
}

/// Reason not to count on the plan's verdict here, as the end of a sentence.
fn doubt(inputs: &Inputs, found: &Contradictions) -> Option<String> {
    if !found.all().is_empty() {
        return Some(", but measurements contradict the plan".to_owned());
    }
    let (open, all) = bargain::open(inputs)?;
    Some(format!(", but nobody kept {open} of the {all} promises that this rests on"))
}

fn planned(inputs: &Inputs, tasks: &[&PlanTask]) -> String {
    let title = &inputs.plan.platform.title;
    let kind = if tasks.len() < inputs.plan.tasks.len() { "analysed task" } else { "task" };
    let failing: Vec<&str> =
        tasks.iter().filter(|t| !t.schedulable).map(|t| t.name.as_str()).collect();
    match (tasks.len(), failing.len()) {
        (n, k) if k > 0 => {
            let whose = if k == 1 { "its deadline" } else { "their deadlines" };
            format!(
                "{k} of {} may miss {whose} under the plan on {title}",
                format::plural(n as u64, kind)
            )
        }
        (0, _) if inputs.plan.schedulable => {
            format!("The plan on {title} promises no deadline: no task is analysed")
        }
        _ if !inputs.plan.schedulable => {
            format!(
                "The plan on {title} is not schedulable, although no single task fails (see the \
                    plan's reasons)"
            )
        }
        (n, _) if tasks.iter().any(|t| t.tardiness_ns.is_some()) => {
            format!(
                "All {n} {kind}s keep their promises under the plan on {title}: levels A and B \
                    their deadlines, level C a bound on tardiness"
            )
        }
        (1, _) => format!("The only {kind} meets its deadline under the plan on {title}"),
        (n, _) => format!("All {n} {kind}s meet their deadlines under the plan on {title}"),
    }
}

/// Results without the plan, where they were measured.
fn unmanaged(inputs: &Inputs, tasks: &[&PlanTask]) -> String {
    let measured: Vec<_> =
        tasks.iter().filter_map(|t| result_of(inputs.unmanaged, &t.name)).collect();
    if measured.is_empty() {
        return String::new();
    }
    let late = match measured.iter().filter(|t| t.misses_deadline > 0).count() {
        0 => "no simulated job missed its deadline".to_owned(),
        1 => "1 of them misses its deadline".to_owned(),
        k => format!("{k} of them miss their deadlines"),
    };
    let slowdown = tasks.iter().filter_map(|t| slowdown(inputs, &t.name)).fold(0.0, f64::max);
    let slow = match slowdown {
        0.0 => String::new(),
        x if x < 1.05 => " and none slows down".to_owned(),
        x => format!(" and they slow down by up to {} times", format::times(x)),
    };
    format!("; unmanaged, {late}{slow}")
}

/// Unmanaged over solo execution time, where both were measured.
fn slowdown(inputs: &Inputs, name: &str) -> Option<f64> {
    let solo = result_of(inputs.solo, name).filter(|t| t.moet_ns > 0)?;
    let unmanaged = result_of(inputs.unmanaged, name).filter(|t| t.jobs > 0)?;
    Some(unmanaged.moet_ns as f64 / solo.moet_ns as f64)
}

/// The runs that the page has, in the order of their columns: name of the column, and its words.
fn runs<'a>(inputs: &Inputs<'a>) -> Vec<(&'static str, &'static str, &'a SimResult)> {
    [
        ("#Solo", "alone", inputs.solo),
        ("#Unmanaged", "unmanaged", inputs.unmanaged),
        ("#Even", "with even shares", inputs.even),
        ("#Managed", "under the plan", inputs.managed),
    ]
    .into_iter()
    .filter_map(|(column, words, run)| Some((column, words, run?)))
    .collect()
}

fn table(inputs: &Inputs, found: &Contradictions) -> Markup {
    let (promised, best): (Vec<&PlanTask>, Vec<&PlanTask>) =
        inputs.plan.tasks.iter().partition(analysed);
    let measured = list(runs(inputs).into_iter().map(|(_, words, _)| words));
    let words = html! {
        @if !measured.is_empty() { "Longest execution time of a job " (measured) "; its bound " }
        @else { "Bound on the execution time of a job, " }
        (c_sce()) "; the worst-case response time (WCRT) on its core against the deadline."
    };
    let best_words = html! { "Nothing is promised of these; they take the rest." };
    html! {
        @if !promised.is_empty() { (wide_table("Tasks and their times", &rows(inputs, found, &promised, &words))) }
        @if !best.is_empty() {
            (folded(
                &format!("Best effort: {}", format::plural(format::len(&best), "task")),
                &wide_table("Best-effort tasks and their times", &rows(inputs, found, &best, &best_words)),
            ))
        }
    }
}

fn rows(inputs: &Inputs, found: &Contradictions, tasks: &[&PlanTask], words: &Markup) -> Markup {
    let mut columns = vec!["Task", "#Core", "Level"];
    columns.extend(runs(inputs).into_iter().map(|(column, ..)| column));
    columns.extend(["#Bound C_sce", "#WCRT", "#Deadline", "Verdict"]);
    data_table(
        &caption(words),
        &columns,
        &html! { @for task in tasks { (row(inputs, found, task)) } },
    )
}

fn c_sce() -> Markup {
    html! { span.math { "C" sub { "sce" } } }
}

fn row(inputs: &Inputs, found: &Contradictions, task: &PlanTask) -> Markup {
    let promised = analysed(&task);
    html! {
        tr {
            th scope="row" { (task_name(&task.name)) }
            td.num { (core_of(inputs.plan, task)) }
            td { (format!("{:?}", task.criticality)) }
            @for (.., run) in runs(inputs) { td.num { (measured(inputs, result_of(Some(run), &task.name))) } }
            td.num { (format::time_or(Some(task.c_sce_ns).filter(|&c| c != u64::MAX), "no bound")) }
            td.num { (format::time_or(task.wcrt_ns, if promised { "unbounded" } else { "–" })) }
            td.num { (format::time_or(task.deadline_ns, "none")) }
            td {
                @match (promised, task.schedulable) {
                    (true, true) if found.about(&task.name) => span.bad { "! contradicted" },
                    (true, true) if task.tardiness_ns.is_some() => span.good { "✓ tardy by at most " (format::time_or(task.tardiness_ns, "")) },
                    (false, _) => span.muted { "best effort" },
                    (true, true) => span.good { "✓ meets" },
                    (true, false) if task.wcrt_ns.is_none() => span.bad { "✗ no bound" },
                    (true, false) => span.bad { "✗ may miss" },
                }
            }
        }
    }
}

/// A task's measured time in a run, its ratio to solo, and the number of jobs that missed the
/// deadline.
fn measured(inputs: &Inputs, result: Option<&TaskResult>) -> Markup {
    let Some(seen) = result else { return html! { span.muted { "–" } } };
    if seen.jobs == 0 {
        return html! {
            span.muted { "no job" }
            @if seen.misses_deadline > 0 { small.bad { (format::count(seen.misses_deadline)) " missed" } }
        };
    }
    let solo =
        result_of(inputs.solo, &seen.name).filter(|s| s.moet_ns > 0 && !std::ptr::eq(*s, seen));
    html! {
        (format::time_cell(seen.moet_ns))
        @if let Some(solo) = solo { small { (format::times(seen.moet_ns as f64 / solo.moet_ns as f64)) "×" } }
        @if seen.misses_deadline > 0 {
            // Jobs that never ended have missed it too.
            @let of = if seen.misses_deadline > seen.jobs { String::new() } else { format!("of {} ", format::count(seen.jobs)) };
            small.bad { (format::count(seen.misses_deadline)) " " (of) "missed" }
        }
    }
}

/// The absent runs, and the commands that make them.
fn missing(inputs: &Inputs) -> Markup {
    let absent: Vec<(&str, &str)> = [
        ("solo times", "solocore sim --solo", inputs.solo),
        ("the machine without the plan", "solocore sim --unmanaged", inputs.unmanaged),
        ("the plan at work", "solocore sim", inputs.managed),
    ]
    .into_iter()
    .filter(|(.., run)| run.is_none())
    .map(|(what, command, _)| (what, command))
    .collect();
    html! {
        @if !absent.is_empty() {
            p.muted {
                "Not measured: "
                @for (at, (what, command)) in absent.iter().enumerate() {
                    @if at > 0 { ", " } (what) " (" code { (command) } ")"
                }
                ". Run the command on the plan with " code { "-o" } ", and give its result to the report too."
            }
        }
    }
}
