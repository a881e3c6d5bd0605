//! A verification for people.

use crate::table::{ms, render};
use solocore_model::verification::{Together, Verification, Verified};
use std::fmt::Write as _;

pub fn of(v: &Verification) -> String {
    let head = [
        "task",
        "core",
        "C ms",
        "alone",
        "unmanaged",
        "by",
        "attacked",
        "by",
        "promise",
        "margin",
        "verdict",
    ];
    let mut out = String::new();
    if !v.tasks.is_empty() {
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(v.tasks.iter().map(row));
        out = render(&rows);
        let _ = writeln!(
            out,
            "\nlongest of {}, ms from release to end; {} beside each kind of enemy before",
            some(v.jobs),
            some(v.search_jobs)
        );
    }
    out += &spread(&v.tasks);
    for task in v.tasks.iter().filter(|t| !t.beside.is_empty()) {
        let _ = writeln!(out, "beside {} ran as planned: {}", task.name, task.beside.join(", "));
    }
    if let Some(at_once) = &v.together {
        out += &together(at_once);
    }
    list(
        &mut out,
        "promises that nobody kept meanwhile:",
        v.open
            .iter()
            .map(|a| format!("{} of {}: {}", a.promise.subject.name(), a.promise.resource, a.why)),
    );
    list(&mut out, "promises that were broken meanwhile:", v.broken.iter().cloned());
    list(&mut out, "not tested:", v.untested.iter().cloned());
    let verdict = match (v.exceeded, v.broken.is_empty()) {
        (true, _) => "\nexceeded: a task took longer than promised\n",
        (false, false) => "\nbroken: no task took longer than promised, but a promise was broken\n",
        (false, true) => {
            "\nheld: no task took longer than promised; a measurement is not a proof\n"
        }
    };
    out + verdict
}

/// Quantiles of the jobs' times in the three cases.
fn spread(tasks: &[Verified]) -> String {
    let head = ["task", "case", "jobs", "median ms", "99 %", "longest"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for task in tasks {
        let cases =
            [("alone", &task.alone), ("unmanaged", &task.unmanaged), ("attacked", &task.attacked)];
        for (case, times) in cases.into_iter().filter(|(_, times)| !times.times_ns.is_empty()) {
            let quantiles = [times.p50_ns, times.p99_ns, times.max_ns].map(|ns| ms(Some(ns)));
            let name = [task.name.clone(), case.to_owned(), times.times_ns.len().to_string()];
            rows.push([&name[..], &quantiles[..]].concat());
        }
    }
    if rows.len() > 1 { format!("\n{}", render(&rows)) } else { String::new() }
}

/// All tasks at once.
fn together(t: &Together) -> String {
    let head =
        ["task", "core", "jobs", "missed", "response ms", "by", "bound", "margin", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(t.tasks.iter().map(|task| {
        let verdict = match (task.exceeded.as_slice(), task.promise_ns) {
            ([], _) if task.jobs == 0 => "not measured".to_owned(),
            ([], None) => "no bound".to_owned(),
            ([], Some(_)) => "held".to_owned(),
            (exceeded, _) => format!("exceeds {}", exceeded.join(", ")),
        };
        vec![
            task.name.clone(),
            task.core.to_string(),
            task.jobs.to_string(),
            task.misses_deadline.to_string(),
            ms(Some(task.max_response_ns)),
            task.worst_channel.clone().unwrap_or_else(|| "-".to_owned()),
            ms(task.promise_ns),
            task.margin.map_or_else(|| "-".to_owned(), |m| format!("{:.1} %", m * 100.0)),
            verdict,
        ]
    }));
    let beside = match t.channels.as_slice() {
        [] => "no enemy".to_owned(),
        kinds => {
            format!("enemies on CPUs {} ({})", solocore_model::list(&t.enemies), kinds.join(", "))
        }
    };
    let seconds = t.duration_ns as f64 / 1e9;
    format!("\nall tasks at once, as planned, {seconds:.1} s beside {beside}:\n\n{}", render(&rows))
}

/// A number of jobs in words.
pub fn some(jobs: u64) -> String {
    format!("{jobs} job{}", if jobs == 1 { "" } else { "s" })
}

fn list(out: &mut String, head: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|l| format!("  {l}\n")).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n{head}\n{}", lines.concat());
    }
}

fn row(t: &Verified) -> Vec<String> {
    let kind = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let verdict = match (t.exceeded.as_slice(), t.promised_ns()) {
        ([], None) => "no bound".to_owned(),
        ([], Some(_)) => "held".to_owned(),
        (exceeded, _) => {
            let what = |e: &String| if e == "demand" { "C" } else { "C_sce" };
            format!("exceeds {}", exceeded.iter().map(what).collect::<Vec<_>>().join(", "))
        }
    };
    vec![
        t.name.clone(),
        t.core.to_string(),
        ms(Some(t.wcet_ns)),
        ms(Some(t.alone_ns)),
        ms(Some(t.unmanaged_ns)),
        kind(&t.worst_unmanaged_channel),
        ms(Some(t.attacked_ns)),
        kind(&t.worst_channel),
        ms(t.promised_ns()),
        t.margin.map_or_else(|| "-".to_owned(), |m| format!("{:.1} %", m * 100.0)),
        verdict,
    ]
}
