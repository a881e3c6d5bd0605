//! The plan's guarantees, their cost, and the changes that would help where they fail.
//!
//! Rule: each line states one figure of the plan or of the results, with the figure itself in a
//! `data-` attribute. A figure that was not measured has no line. Nothing is guaranteed for a task
//! that a measurement contradicts.

use crate::contradictions::Contradictions;
use crate::elements::{caption, data_table, wide_table};
use crate::format;
use crate::inputs::{Inputs, result_of};
use crate::promises::Found;
use maud::{Markup, html};
use solocore_model::plan::PlanTask;
use solocore_model::provenance::InputRole;
use solocore_model::results::TaskResult;
use solocore_model::system::Policy;

/// Both lists, and advice where the plan is not schedulable.
pub fn part(inputs: &Inputs, found: &Contradictions) -> Markup {
    html! {
        (advice(inputs))
        div.pair.bargain {
            div { h3 { "What is guaranteed" } ul { (guaranteed(inputs, found)) } }
            div { h3 { "What it costs" } ul { (costs(inputs)) } }
        }
    }
}

/// Names in a row: `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "no task".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn names<'a>(tasks: &[&'a PlanTask]) -> Vec<&'a str> {
    tasks.iter().map(|t| t.name.as_str()).collect()
}

fn guaranteed(inputs: &Inputs, found: &Contradictions) -> Markup {
    let plan = inputs.plan;
    let analysed: Vec<&PlanTask> = plan.tasks.iter().filter(|t| !t.best_effort()).collect();
    let (hold, fail): (Vec<&PlanTask>, Vec<&PlanTask>) =
        analysed.iter().copied().partition(|t| t.schedulable);
    let (beyond, hold): (Vec<&PlanTask>, Vec<&PlanTask>) =
        hold.iter().copied().partition(|t| found.about(&t.name));
    let (tardy, punctual): (Vec<&PlanTask>, Vec<&PlanTask>) =
        hold.iter().copied().partition(|t| t.tardiness_ns.is_some());
    // The largest part of its deadline that a task may use, in whole numbers.
    let tightest = punctual
        .iter()
        .filter_map(|t| Some((t, t.wcrt_ns?, t.deadline_ns.filter(|&d| d > 0)?)))
        .max_by_key(|(_, r, d)| u128::from(*r) * 1_000_000_000 / u128::from(*d));
    html! {
        @if !punctual.is_empty() { li { "Each job of " strong { (listed(&names(&punctual))) } " ends by its deadline." } }
        @if let Some((task, wcrt, deadline)) = tightest {
            li data-tightest=(task.name) data-wcrt-ns=(wcrt) data-deadline=(deadline) {
                "The tightest is " (task.name) ": at most " (format::time(wcrt)) " from release to end, of "
                (format::time(deadline)) "."
            }
        }
        @for task in &tardy {
            li { "A job of " strong { (task.name) } " ends at most " (format::time_or(task.tardiness_ns, "")) " after its deadline." }
        }
        @if !fail.is_empty() { li.bad { "Nothing for " (listed(&names(&fail))) ": deadlines may be missed." } }
        @if !beyond.is_empty() {
            li.bad data-contradicted=(beyond.len()) { "Nothing for " (listed(&names(&beyond))) ": a measurement contradicts the plan." }
        }
        @if analysed.is_empty() { li { "Nothing: no task is analysed." } }
        @if !hold.is_empty() && !plan.promises.is_empty() {
            li data-promises=(plan.promises.len()) {
                "This holds while " a href="#promises" { (format::plural(format::len(&plan.promises), "promise")) }
                " are kept and " a href="#assumptions" { (format::plural(format::len(&plan.assumptions), "assumption")) } " hold."
                @if let Some((open, all)) = open(inputs) { " " strong.bad { "Nobody kept " (open) " of " (all) "." } }
            }
        }
    }
}

/// Number of promises that nobody kept in the run or the verification, and of all; `None` if each
/// was kept.
pub fn open(inputs: &Inputs) -> Option<(usize, usize)> {
    let found = Found::of(inputs)?;
    (!found.open.is_empty()).then_some((found.open.len(), found.all))
}

/// Sums over tasks without analysis: managed, with even shares, and unmanaged, in this order;
/// `None` if the unmanaged sum is zero.
fn kept(inputs: &Inputs, of: fn(&TaskResult) -> u64) -> Option<(u64, Option<u64>, u64)> {
    let best: Vec<&PlanTask> = inputs.plan.tasks.iter().filter(|t| t.best_effort()).collect();
    let sum = |result| best.iter().filter_map(|t| result_of(result, &t.name)).map(of).sum::<u64>();
    let (managed, unmanaged) = (sum(inputs.managed), sum(inputs.unmanaged));
    let even = inputs.even.map(|run| sum(Some(run)));
    (inputs.managed.is_some() && unmanaged > 0).then_some((managed, even, unmanaged))
}

/// Accesses of a best-effort job under the plan over those without it, where fewer jobs make more
/// accesses.
fn dearer(inputs: &Inputs) -> Option<f64> {
    let (jobs, _, jobs_before) = kept(inputs, |t| t.jobs)?;
    let (accesses, _, before) = kept(inputs, |t| t.accesses)?;
    let ratio = |managed: u64, unmanaged: u64| managed as f64 / unmanaged as f64;
    (0 < jobs && jobs < jobs_before && before < accesses)
        .then(|| ratio(accesses, before) / ratio(jobs, jobs_before))
}

/// The largest ratio of a time of an analysed task to its longest job alone.
fn largest<'a>(
    inputs: &Inputs<'a>,
    time_ns: impl Fn(&PlanTask) -> Option<u64>,
) -> Option<(&'a str, f64)> {
    let analysed = inputs.plan.tasks.iter().filter(|t| !t.best_effort());
    let ratio = |t: &'a PlanTask| {
        let alone = result_of(inputs.solo, &t.name).filter(|r| r.moet_ns > 0)?.moet_ns;
        Some((t.name.as_str(), time_ns(t)? as f64 / alone as f64))
    };
    analysed.filter_map(ratio).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn costs(inputs: &Inputs) -> Markup {
    let plan = inputs.plan;
    let locked: u64 = plan.cores.iter().map(|c| c.locked_pages).sum();
    let room: u64 = plan.cores.iter().map(|c| c.lock_capacity_pages).sum();
    let stopped: Vec<(u32, u64)> = inputs.managed.map_or_else(Vec::new, |r| {
        r.cores.iter().filter(|c| c.throttled_ns > 0).map(|c| (c.id, c.throttled_ns)).collect()
    });
    let slowest = largest(inputs, |t| Some(t.c_sce_ns).filter(|&c| c != u64::MAX));
    let slowed = largest(inputs, |t| Some(result_of(inputs.managed, &t.name)?.moet_ns));
    let parts = [
        ("jobs", "jobs", kept(inputs, |t| t.jobs)),
        ("accesses", "memory traffic", kept(inputs, |t| t.accesses)),
    ];
    let nothing = locked == 0 && stopped.is_empty() && parts.iter().all(|p| p.2.is_none());
    html! {
        @for (key, words, part) in parts {
            @if let Some((managed, even, unmanaged)) = part {
                li data-cost=(key) data-managed=(managed) data-even=[even] data-unmanaged=(unmanaged) {
                    "Best effort does " strong { (format::percent_of(managed, unmanaged)) } " of the " (words)
                    " that it does unmanaged" @if key == "jobs" { " (" (format::count(managed)) " of " (format::count(unmanaged)) ")" } "."
                    @if let Some(even) = even { " With even shares it does " (format::percent_of(even, unmanaged)) "." }
                    @if let Some(ratio) = dearer(inputs).filter(|_| key == "accesses") {
                        " Each of its jobs makes " (format::times(ratio)) " times as many accesses."
                    }
                }
            }
        }
        @if let (Some(result), false) = (inputs.managed, stopped.is_empty()) {
            li data-cost="stopped" {
                "The regulator throttled "
                @for (at, (core, ns)) in stopped.iter().enumerate() {
                    @if at > 0 { ", " } "core " (core) " for " (format::percent_of(*ns, result.simulated_ns))
                }
                " of the time."
            }
        } @else if inputs.managed.is_some() && plan.regulation.policy != Policy::None {
            li data-cost="stopped" { "The regulator throttled no core in the managed run." }
        }
        @if locked > 0 {
            li data-cost="locked" data-pages=(locked) {
                (format::plural(locked, "page")) " of the shared cache are locked ("
                (format::bytes(locked.saturating_mul(plan.platform.page.0))) " of the "
                (format::bytes(room.saturating_mul(plan.platform.page.0))) " that can be)."
            }
        }
        @if let Some((name, ratio)) = slowed {
            li data-cost="slowdown" data-task=(name) {
                "Under the plan, the longest job is at most " (format::times(ratio)) " times the longest alone (" (name) ")."
            }
        }
        @if let Some((name, ratio)) = slowest {
            li data-cost="bound" { "Bounds are at most " (format::times(ratio)) " times the time alone (" (name) ")." }
        }
        @if nothing && inputs.managed.is_none() {
            li.muted { "Not measured: simulate the plan, and the machine without it, and give both results." }
        } @else if nothing && slowed.is_none() && plan.regulation.policy == Policy::None {
            li.muted { "Not measured: simulate each task alone, and the machine without the plan, and give both results." }
        }
    }
}

/// Changes that suffice according to the planner.
fn advice(inputs: &Inputs) -> Markup {
    let repair = &inputs.plan.repair;
    if inputs.plan.schedulable {
        return html! {};
    }
    let mut inputs_of_plan = inputs.plan.inputs.iter();
    let own = inputs_of_plan.find(|i| i.role == InputRole::System);
    let file = own.map_or("system.toml", |i| i.file.as_str());
    let rows = html! {
        @for r in repair {
            tr data-repair=(r.change) {
                th.words scope="row" { (r.meaning) @if let Some(step) = &r.step { " (in steps of " (step) ")" } }
                td.code { "solocore plan " (file) " " (r.option()) }
                td { @if r.verified { "planned: schedulable" } @else { "estimated" } }
            }
        }
    };
    html! {
        div.advice role="note" {
            h3 { "What would help" }
            @if repair.is_empty() {
                p { "The planner found no single change that suffices. The reasons below name what does not fit; "
                    code { "solocore plan --what-if KEY=VALUE" } " tries a change." }
            } @else {
                p { "Any one of these changes to the system file suffices." }
                (wide_table("Changes that suffice", &data_table(
                    &caption(&html! { "Each command plans your system file with one change; the file stays as it is." }),
                    &["What changes", "Command that tries it", "Checked"],
                    &rows,
                )))
            }
        }
    }
}
