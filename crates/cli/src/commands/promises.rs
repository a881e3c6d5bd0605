//! A plan's promises for people, with the part that keeps each.
//!
//! Rule: promises of one subject with the same text, apart from their resource, share one line: a
//! plan of four cores has some thirty promises.

use solocore_model::Plan;
use solocore_model::plan::{Answer, Promise, Subject};
use std::collections::HashMap;

/// Promises that a plan's bounds rest on; empty for a plan without bounds.
pub fn of_plan(plan: &Plan) -> String {
    let mut lines = String::new();
    let (of_tasks, shown): (Vec<&Promise>, Vec<&Promise>) =
        plan.promises.iter().partition(|p| plan.is_brief() && p.resource.starts_with("task "));
    if !of_tasks.is_empty() {
        let number = of_tasks.len();
        lines += &format!("  {number} promises about single tasks: only the JSON has them\n");
    }
    for (what, head) in grouped(&shown, |p| p, |p| p.what.clone()) {
        lines += &format!("  {head}: {what}\n");
    }
    if lines.is_empty() { lines } else { format!("\nbounds rest on:\n{lines}") }
}

/// The part that keeps each promise; empty without promises.
pub fn answered(answers: &[Answer]) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let line = |a: &Answer| match (&a.kept_by, a.checked) {
        (None, _) => format!("NOBODY keeps it: {}", a.why),
        (Some(by), true) => format!("kept by {by}, checked: {}", a.why),
        (Some(by), false) => format!("kept by {by}, not checked: {}", a.why),
    };
    let lines = grouped(answers, |a| &a.promise, line);
    let lines: String = lines.into_iter().map(|(how, head)| format!("  {head}: {how}\n")).collect();
    format!("\nbounds rest on:\n{lines}{}\n", verdict(answers))
}

/// The number of promises that nobody keeps, in words.
pub fn verdict(answers: &[Answer]) -> String {
    match answers.iter().filter(|a| a.kept_by.is_none()).count() {
        0 => format!("all {} promises are kept", answers.len()),
        open => format!("nobody keeps {open} of {} promises", answers.len()),
    }
}

/// Equal lines of a subject as one, behind subject and resources; subjects keep their order.
fn grouped<T>(
    all: &[T],
    promise: impl Fn(&T) -> &Promise,
    line: impl Fn(&T) -> String,
) -> Vec<(String, String)> {
    let mut out: Vec<(Subject, String, Vec<&Promise>)> = Vec::new();
    let mut places: HashMap<(Subject, String), usize> = HashMap::new();
    for one in all {
        let (line, promise) = (line(one), promise(one));
        let place = *places.entry((promise.subject, line.clone())).or_insert_with(|| {
            out.push((promise.subject, line, Vec::new()));
            out.len() - 1
        });
        out[place].2.push(promise);
    }
    out.sort_by_key(|(subject, _, _)| *subject);
    let head =
        |subject: Subject, of: &[&Promise]| format!("{} of {}", subject.name(), resources(of));
    out.into_iter().map(|(subject, line, of)| (line, head(subject, &of))).collect()
}

/// The resources of promises: `cores 0, 1` for core 0 and core 1.
fn resources(of: &[&Promise]) -> String {
    let kind = |p: &Promise| p.resource.split(' ').next().unwrap_or_default().to_owned();
    let first = kind(of[0]);
    if of.len() == 1 || of.iter().any(|p| kind(p) != first) {
        return of.iter().map(|p| p.resource.as_str()).collect::<Vec<_>>().join(", ");
    }
    let names: Vec<&str> = of.iter().map(|p| p.name()).collect();
    format!("{first}s {}", names.join(", "))
}
