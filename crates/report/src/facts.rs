//! The profiler's findings on each task's program.

use crate::elements::{caption, data_table, folded, is_global, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::plan::PlanTask;
use solocore_model::profile::{BandwidthSeries, FunctionProfile, Level, PageProfile, best_to_lock};
use solocore_model::{Plan, Profile};

/// Rows of the tables of pages and functions.
const TOP: usize = 10;
/// Columns of the drawing of bandwidth over time.
const COLUMNS: usize = 120;
/// Rows of its table.
const ROWS: usize = 24;
const HEIGHT: usize = 96;
/// Height above the drawing, for the label of the budget.
const ABOVE: usize = 18;
/// A budget further out than this many times the peak is named, not drawn.
const REACH: u64 = 4;

pub fn section(inputs: &Inputs) -> Markup {
    let of = |best: bool| {
        let is = move |name: &str| inputs.best_effort(name) == best;
        inputs.profiles.iter().enumerate().filter(move |(_, (task, _))| is(task))
    };
    if inputs.profiles.is_empty() {
        return html! {};
    }
    html! {
        section #profiles aria-labelledby="profiles-h" {
            h2 #profiles-h { "Profiles" }
            @for (index, (task, profile)) in of(false) { (article(index, task, profile, inputs)) }
            @if of(true).next().is_some() {
                (folded("Best effort", &html! {
                    @for (index, (task, profile)) in of(true) { (article(index, task, profile, inputs)) }
                }))
            }
        }
    }
}

fn article(index: usize, task: &str, profile: &Profile, inputs: &Inputs) -> Markup {
    let planned = inputs.plan.tasks.iter().find(|t| t.name == *task);
    let id = format!("profile-{index}");
    let notes = notes(profile);
    html! {
        article aria-labelledby=(id) {
            h3 id=(id) { (task_name(task)) }
            p.command { code { (profile.command.join(" ")) } }
            @if !notes.is_empty() { ul.alert { @for note in &notes { li { (note) } } } }
            (numbers(profile))
            (bandwidth(index, task, &profile.bandwidth, budget(inputs.plan, planned).as_ref()))
            (crate::flame::figure(index, task, profile))
            (wide_table(&format!("Cache levels of {task}"), &levels(&profile.levels)))
            div.pair {
                (wide_table(&format!("Hottest pages of {task}"), &pages(profile, planned)))
                (wide_table(&format!("Functions of {task} by misses"), &functions(profile)))
            }
        }
    }
}

/// Limits of this profile's validity.
fn notes(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    if profile.exit_code != 0 {
        notes.push(format!("The program ended with exit status {}.", profile.exit_code));
    }
    if profile.children > 0 {
        let children = format::plural(u64::from(profile.children), "child process");
        notes.push(format!(
            "It is the sum of the program and {}, one after the other.",
            children.replace("processs", "processes")
        ));
    }
    for (number, run) in (1..).zip(&profile.origin.inputs) {
        let worst = profile.origin.worst.iter().filter(|w| w.input + 1 == number);
        let quantities: Vec<&str> = worst.map(|w| w.quantity.as_str()).collect();
        if !quantities.is_empty() {
            let arguments = run.arguments.join(" ");
            let what = quantities.join(", ");
            notes.push(format!("Input {number} ({arguments}) gave the worst {what}."));
        }
    }
    if profile.trace.as_ref().is_some_and(|t| t.truncated) {
        notes.push("The recorded trace reached its limit before the program ended.".to_owned());
    }
    notes
}

fn numbers(profile: &Profile) -> Markup {
    let set = &profile.working_set;
    let facts = [
        ("Instructions", format::count(profile.instructions)),
        ("References", format::count(profile.references)),
        ("Loads", format::count(profile.loads)),
        ("Stores", format::count(profile.stores)),
        (
            "Working set",
            format!("{} in {}", format::bytes(set.bytes), format::plural(set.pages, "page")),
        ),
        ("Threads", format::count(u64::from(profile.threads))),
        ("Child processes", format::count(u64::from(profile.children))),
        ("Machine", format!("{}, {}", profile.isa, profile.engine)),
        ("Caches of", profile.platform.clone()),
    ];
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

fn levels(levels: &[Level]) -> Markup {
    html! {
        (data_table(&caption(&html! { "Cache levels" }), &["Level", "#Accesses", "#Misses", "#Miss ratio", "#Write-backs"], &html! {
                @for level in levels {
                    tr {
                        th scope="row" { (level.name) }
                        td.num { (format::count(level.accesses)) }
                        td.num { (format::count(level.misses)) }
                        td.num { (format::percent_of(level.misses, level.accesses)) }
                        td.num { (format::count(level.writebacks)) }
                    }
                }
            }))
    }
}

fn pages(profile: &Profile, planned: Option<&PlanTask>) -> Markup {
    if profile.pages.is_empty() {
        return html! { p.muted { "The profile names no pages." } };
    }
    let locked = |page: &PageProfile| planned.is_some_and(|t| t.locked_pages.contains(&page.name));
    html! {
        (data_table(&caption(&html! { (head("Hottest pages", profile.pages.len())) }), &["Page", "#LLC reads", "#LLC writes", "#References", "#Lines", "Locked"], &html! {
                @for page in profile.pages.iter().take(TOP) {
                    tr {
                        th.code scope="row" { span.name title=(page.name.region) { (page.name.region) } "+" (page.name.offset) }
                        td.num { (format::count(page.llc_reads)) }
                        td.num { (format::count(page.llc_writes)) }
                        td.num { (format::count(page.references)) }
                        td.num { (page.lines) }
                        td { (if locked(page) { "yes" } else { "no" }) }
                    }
                }
            }))
    }
}

fn functions(profile: &Profile) -> Markup {
    if profile.functions.is_empty() {
        return html! { p.muted { "The profile names no functions." } };
    }
    html! {
        (data_table(&caption(&html! { (head("Functions by misses: candidates for a bandwidth lock \
                (BWLOCK)", profile.functions.len())) }), &["Function", "File", "#LLC misses", "#Share"], &html! { @for function in profile.functions.iter().take(TOP) { (function_row(function)) } }))
        (best(profile))
    }
}

/// The line of a system file that locks the best function.
fn best(profile: &Profile) -> Markup {
    let Some((function, calls)) = best_to_lock(&profile.functions) else { return html! {} };
    let Some(lock) = &function.lock else { return html! {} };
    let all = profile.functions.iter().map(|f| f.llc_misses).sum();
    html! {
        p {
            code { "lock = [\"" (lock) "\"]" } " covers "
            (format::percent_of(calls.llc_misses, all)) " of the misses; its longest call took "
            (format::time(calls.longest_ns)) " alone on the board."
        }
    }
}

fn function_row(function: &FunctionProfile) -> Markup {
    html! {
        tr {
            th.code scope="row" { span.name title=(function.name) { (function.name) } }
            td { span.name title=(function.file) { (function.file) } }
            td.num { (format::count(function.llc_misses)) }
            td.num { (format::percent(function.share)) }
        }
    }
}

fn head(what: &str, total: usize) -> String {
    if total > TOP {
        format!("{what} (first {TOP} of {})", format::count(total as u64))
    } else {
        what.to_owned()
    }
}

/// Peak and mean of `n` or fewer equal spans of the series.
fn spans(series: &[u64], n: usize) -> Vec<(usize, u64, u64)> {
    let size = series.len().div_ceil(n).max(1);
    let mean =
        |part: &[u64]| part.iter().map(|v| u128::from(*v)).sum::<u128>() / part.len() as u128;
    let span = |(i, part): (usize, &[u64])| {
        let mean = u64::try_from(mean(part)).unwrap_or(u64::MAX);
        (i * size, part.iter().copied().max().unwrap_or(0), mean)
    };
    series.chunks(size).enumerate().map(span).collect()
}

/// Traffic of a core under the plan.
struct Budget {
    core: u32,
    bytes_per_s: u64,
}

fn budget(plan: &Plan, planned: Option<&PlanTask>) -> Option<Budget> {
    let core = planned.filter(|task| !is_global(plan, task))?.core;
    let bytes_per_s = plan.cores.iter().find(|c| c.id == core)?.bandwidth_bytes_per_s?;
    Some(Budget { core, bytes_per_s })
}

fn bandwidth(
    index: usize,
    task: &str,
    series: &BandwidthSeries,
    budget: Option<&Budget>,
) -> Markup {
    let Some((_, peak, mean)) = spans(&series.bytes_per_s, 1).first().copied() else {
        return html! { p.muted { "The profile holds no bandwidth over time." } };
    };
    let id = format!("bandwidth-{index}");
    let length = series.interval_ns.saturating_mul(format::len(&series.bytes_per_s));
    let label = format!(
        "{task}: memory bandwidth over {}, peak {}, mean {}",
        format::time(length),
        format::bandwidth(peak),
        format::bandwidth(mean)
    );
    // A budget far above would press the columns flat.
    let line = budget.filter(|b| b.bytes_per_s <= peak.saturating_mul(REACH));
    let scale = peak.max(line.map_or(0, |b| b.bytes_per_s));
    let bottom = ABOVE + HEIGHT;
    let height_at = |value| {
        format!("{:.2}", ABOVE as f64 + HEIGHT as f64 * (1.0 - svg::fraction(value, scale)))
    };
    html! {
        figure.chart.whole {
            figcaption id=(id) {
                "Memory bandwidth alone on the machine, over " (format::time(length)) ": peak " (format::bandwidth(peak))
                ", mean " (format::bandwidth(mean)) ". "
                span.muted {
                    "A column is the peak of one of " (spans(&series.bytes_per_s, COLUMNS).len()) " spans. "
                    @match (budget, line) {
                        (Some(b), Some(_)) => { "The dashed line is the budget of core " (b.core) " in the plan." },
                        (Some(b), None) => { "The budget of core " (b.core) " in the plan is " (format::bandwidth(b.bytes_per_s)) ", beyond the scale." },
                        (None, _) => { "The plan has no budget for it." },
                    }
                }
            }
            svg.bandwidth width="100%" height=(bottom + 24) role="img" aria-labelledby=(id) data-chart="bandwidth" {
                @for tick in svg::ticks(scale, 3) {
                    @let y = height_at(tick);
                    line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                    text.muted.end x="0" dx="-6" dy="4" y=(y) { @if tick == 0 { "0" } @else { (format::bandwidth(tick)) } }
                }
                g.mark tabindex="0" role="img" aria-label=(label) {
                    title { (label) }
                    (columns(&series.bytes_per_s, scale))
                }
                @if let Some(b) = line {
                    @let y = height_at(b.bytes_per_s);
                    line.choice x1="0" x2="100%" y1=(y) y2=(y) data-budget=(b.bytes_per_s) {}
                    text.halo.end x="100%" y=(y) dy="-4" { "budget " (format::bandwidth(b.bytes_per_s)) }
                } @else if let Some(b) = budget {
                    text.halo.end x="100%" y=(ABOVE - 4) data-budget-beyond=(b.bytes_per_s) { "budget " (format::bandwidth(b.bytes_per_s)) " ↑" }
                }
                line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
                @for tick in svg::ticks(length, 4) {
                    @let part = svg::fraction(tick, length);
                    @let anchor = if tick == 0 { "start" } else if part > 0.95 { "end" } else { "middle" };
                    line.axis x1=(svg::percent(tick, length)) x2=(svg::percent(tick, length)) y1=(bottom) y2=(bottom + 4) {}
                    text.muted x=(svg::percent(tick, length)) y=(bottom + 18) text-anchor=(anchor) { @if tick == 0 { "0" } @else { (format::time(tick)) } }
                }
            }
            details { summary { "Numbers of this chart" } (wide_table(&format!("Bandwidth of {task}"), &bandwidth_table(series))) }
        }
    }
}

fn columns(series: &[u64], scale: u64) -> Markup {
    let spans = spans(series, COLUMNS);
    let all = spans.len() as u64;
    html! {
        @for (i, (_, value, _)) in spans.iter().enumerate() {
            @let height = HEIGHT as f64 * svg::fraction(*value, scale);
            rect.column x=(svg::percent(i as u64, all)) width=(svg::percent(1, all)) y=(format!("{:.2}", (ABOVE + HEIGHT) as f64 - height))
                height=(format!("{height:.2}")) data-bytes-per-s=(value) {}
        }
    }
}

fn bandwidth_table(series: &BandwidthSeries) -> Markup {
    html! {
        (data_table(&html! {}, &["#From", "#Peak", "#Mean"], &html! {
                @for (first, peak, mean) in spans(&series.bytes_per_s, ROWS) {
                    tr {
                        td.num { (format::time(series.interval_ns.saturating_mul(first as u64))) }
                        td.num { (format::bandwidth(peak)) }
                        td.num { (format::bandwidth(mean)) }
                    }
                }
            }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_the_series() {
        assert!(spans(&[], 24).is_empty());
        assert_eq!(spans(&[1, 2, 9], 1), [(0, 9, 4)]);
        assert_eq!(spans(&[1, 2, 9], 24), [(0, 1, 1), (1, 2, 2), (2, 9, 9)]);
        assert_eq!(spans(&[4, 2, 9], 2), [(0, 4, 3), (2, 9, 9)]);
    }
}
