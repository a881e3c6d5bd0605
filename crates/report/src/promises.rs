//! The conditions of the bounds, and the parts that kept them in a run.
//!
//! Rule: one line for each promise, in the plan's order; with a run, its answers stand beside them,
//! and open promises come first. A bound is as weak as its weakest promise, so the reader should
//! see that one at once.

use crate::elements::{caption, data_table, task_name, wide_table};
use crate::inputs::Inputs;
use maud::{Markup, html};
use solocore_model::plan::{Answer, Promise};

/// The section; nothing for a plan that lists no promises.
pub fn section(inputs: &Inputs) -> Markup {
    let promises = &inputs.plan.promises;
    let mut answers: Vec<&Answer> =
        inputs.run.map_or_else(Vec::new, |run| run.promises.iter().collect());
    answers.sort_by_key(|a| a.kept_by.is_some());
    let all = inputs.plan.tasks.iter().filter(|t| t.verdict.is_some()).count();
    html! {
        @if !promises.is_empty() {
            section #promises aria-labelledby="promises-h" {
                h2 #promises-h { "Promises" }
                p { "The bounds rest on these promises while the plan runs." }
                @match verdict(&answers) {
                    Some(text) => p { (text) },
                    None => p.muted {
                        "A run names the keeper of each: " code { "solocore run" } " answers for each before it starts. "
                        "Give its " code { "run.json" } " to the report as well."
                    },
                }
                (wide_table("What the bounds rest on", &table(promises, &answers, all)))
            }
        }
    }
}

/// Number of promises that a run kept, in words.
fn verdict(answers: &[&Answer]) -> Option<String> {
    let open = answers.iter().filter(|a| a.kept_by.is_none()).count();
    match (answers.len(), open) {
        (0, _) => None,
        (all, 0) => Some(format!("In the run, all {all} were kept.")),
        (all, open) => Some(format!(
            "In the run, nobody kept {open} of {all}: bounds that rest on these did not hold."
        )),
    }
}

fn table(promises: &[Promise], answers: &[&Answer], all: usize) -> Markup {
    let run = &["Promise", "Of", "What", "Kept by", "Checked", "Why"][..];
    let columns = if answers.is_empty() { &["Promise", "Of", "What", "Tasks"][..] } else { run };
    html! {
        (data_table(&caption(&html! { "Each promise, and the tasks whose bounds rest on it." }), columns, &html! {
                @for promise in promises.iter().filter(|_| answers.is_empty()) {
                    tr data-promise=(promise.id) {
                        (named(promise))
                        td { (rests(promise, all)) }
                    }
                }
                @for answer in answers {
                    tr data-promise=(answer.promise.id) data-kept-by=[answer.kept_by.as_deref()] {
                        (named(&answer.promise))
                        td { @match &answer.kept_by { Some(by) => (by), None => strong { "nobody" } } }
                        td { (if answer.checked { "yes" } else { "no" }) }
                        td.words { (answer.why) }
                    }
                }
            }))
    }
}

/// The tasks with bounds that rest on it.
fn rests(promise: &Promise, all: usize) -> Markup {
    html! {
        @if promise.bound_of.len() == all { "all" }
        @else if let [first, others @ ..] = &promise.bound_of_cores[..] {
            "tasks of core " (first) @for core in others { ", " (core) }
        } @else {
            @for (i, name) in promise.bound_of.iter().enumerate() {
                @if i > 0 { ", " } (task_name(name))
            }
        }
    }
}

fn named(promise: &Promise) -> Markup {
    html! {
        td { (promise.subject.name()) } td { (promise.resource) } td.words { (promise.what) }
    }
}
