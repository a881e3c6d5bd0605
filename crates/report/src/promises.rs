//! The conditions of the bounds, and the parts that kept them in a run.
//!
//! Problem: a plan has dozens of promises, and a bound is as weak as its weakest one. Rule: a
//! sentence counts them by kind; open promises of a run or of a verification come first, in a table
//! of their own. All others are folded, one line each, in the plan's order, with the answers of a
//! run beside them.

use crate::contradiction::Contradiction;
use crate::elements::{caption, data_table, folded, task_name, wide_table};
use crate::format;
use crate::inputs::Inputs;
use maud::{Markup, html};
use solocore_model::plan::{Answer, Promise};

/// The section; nothing for a plan that lists no promises.
pub fn section(inputs: &Inputs) -> Markup {
    let promises = &inputs.plan.promises;
    let all = inputs.plan.tasks.iter().filter(|t| t.verdict.is_some()).count();
    let found = Found::of(inputs);
    let (open, kept) = found.as_ref().map_or((&[][..], &[][..]), |f| (&f.open[..], &f.kept[..]));
    let is_open = |p: &&Promise| open.iter().any(|a| a.promise.id == p.id);
    html! {
        @if !promises.is_empty() {
            section #promises aria-labelledby="promises-h" {
                h2 #promises-h { "Promises" }
                p { "The bounds rest on these promises while the plan runs: " (by_kind(promises)) "." }
                (verdict(found.as_ref()))
                @if !open.is_empty() {
                    (wide_table("Promises that nobody kept", &answered("Kept by nobody.", open, all)))
                }
                @if !kept.is_empty() {
                    @let words = format!("Kept: {}", format::plural(format::len(kept), "promise"));
                    (folded(&words, &wide_table("Promises that were kept", &answered("Each promise, and its keeper.", kept, all))))
                } @else {
                    @let rest: Vec<&Promise> = promises.iter().filter(|p| !is_open(p)).collect();
                    @let words = format!("{}: {}", if open.is_empty() { "All" } else { "The others" }, format::plural(format::len(&rest), "promise"));
                    (folded(&words, &wide_table("What the bounds rest on", &table(&rest, all))))
                }
            }
        }
    }
}

/// What a run or a verification found of the plan's promises.
pub struct Found<'a> {
    /// Answers of promises that nobody kept.
    pub open: Vec<&'a Answer>,
    /// Answers of the others; a verification lists open ones alone.
    kept: Vec<&'a Answer>,
    /// Number of all promises.
    pub all: usize,
    /// When they were kept, as the beginning of a sentence.
    when: &'static str,
}

impl<'a> Found<'a> {
    /// Of the run, or else of the verification; `None` without both.
    pub fn of(inputs: &Inputs<'a>) -> Option<Self> {
        if let Some(run) = inputs.run {
            let (open, kept) = run.promises.iter().partition(|a| a.kept_by.is_none());
            return Some(Self { open, kept, all: run.promises.len(), when: "In the run" });
        }
        let open = inputs.verification?.open.iter().collect();
        let all = inputs.plan.promises.len();
        Some(Self { open, kept: Vec::new(), all, when: "While the plan was verified" })
    }
}

/// A promise that was kept at first.
pub fn broken<'a>(mut promises: impl Iterator<Item = &'a Promise>, id: &str) -> Contradiction {
    let named = promises.find(|p| p.id == id).map_or_else(
        || id.to_owned(),
        |p| format!("{} of {}, {}", p.subject.name(), p.resource, p.what),
    );
    Contradiction::of_other(format!("promise {named}: kept as the run began, and not later"))
}

/// The kinds of promises with their numbers, in the plan's order: `place (2), budget (1)`.
fn by_kind(promises: &[Promise]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for promise in promises {
        let name = promise.subject.name();
        match kinds.iter_mut().find(|(kind, _)| *kind == name) {
            Some((_, number)) => *number += 1,
            None => kinds.push((name, 1)),
        }
    }
    kinds.iter().map(|(kind, number)| format!("{kind} ({number})")).collect::<Vec<_>>().join(", ")
}

/// Number of promises that were kept, in words.
fn verdict(found: Option<&Found>) -> Markup {
    html! {
        @match found.filter(|f| f.all > 0).map(|f| (f.when, f.all, f.open.len())) {
            None => p.muted {
                "A run names the keeper of each: " code { "solocore run" } " answers for each before it starts. "
                "Give its " code { "run.json" } " to the report as well."
            },
            Some((when, all, 0)) => p { (when) ", all " (all) " were kept." },
            Some((when, all, open)) => p { (when) ", nobody kept " (open) " of " (all) ": bounds that rest on these did not hold." },
        }
    }
}

fn answered(words: &str, answers: &[&Answer], all: usize) -> Markup {
    let columns = &["Promise", "Of", "What", "Kept by", "Checked", "Why", "Tasks"];
    data_table(
        &caption(&html! { (words) }),
        columns,
        &html! {
            @for answer in answers {
                tr data-promise=(answer.promise.id) data-kept-by=[answer.kept_by.as_deref()] {
                    (named(&answer.promise))
                    td { @match &answer.kept_by { Some(by) => (by), None => strong { "nobody" } } }
                    td { (if answer.checked { "yes" } else { "no" }) }
                    td.words { (answer.why) }
                    td { (rests(&answer.promise, all)) }
                }
            }
        },
    )
}

fn table(promises: &[&Promise], all: usize) -> Markup {
    data_table(
        &caption(&html! { "Each promise, and the tasks whose bounds rest on it." }),
        &["Promise", "Of", "What", "Tasks"],
        &html! {
            @for promise in promises {
                tr data-promise=(promise.id) { (named(promise)) td { (rests(promise, all)) } }
            }
        },
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::Subject;

    #[test]
    fn kinds_are_counted_in_the_order_of_the_plan() {
        let of = |subject, resource| Promise::new(subject, resource, Vec::new(), String::new());
        let promises = [
            of(Subject::Place, "task a"),
            of(Subject::Budget, "core 1"),
            of(Subject::Place, "task b"),
        ];
        assert_eq!(by_kind(&promises), "place (2), budget (1)");
    }
}
