//! Per analysed task: the distribution of its jobs' execution times, solo, unmanaged, with even
//! shares and managed, beside their bound, the bound on the response time and the deadline.
//!
//! A curve rises to the share of jobs with at most that time. A job that did not finish has no
//! time: the caption says so if none did, and counts the jobs that missed their deadline. Every
//! task has its own scale, as the longest bars have theirs.

use crate::elements::{data_table, task_name, wide_table};
use crate::inputs::{Inputs, result_of};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::SimResult;
use solocore_model::plan::PlanTask;
use solocore_model::results::TaskResult;
use solocore_model::system::Criticality;

/// Top of the plot, below the labels of bounds and deadline.
const TOP: usize = 6 + ROW * 3;
/// Height of a label's row.
const ROW: usize = 16;
const HEIGHT: usize = 96;
/// A bound or deadline further out than this many times the rest is named at the edge.
const REACH: u64 = 4;

/// Label and colour of each kind of run.
const SERIES: [(&str, &str); 4] =
    [("solo", "#009e73"), ("unmanaged", "#d55e00"), ("even", "#cc79a7"), ("managed", "#0072b2")];

/// Jobs of one kind of run.
struct Series<'a> {
    label: &'static str,
    fill: &'static str,
    result: &'a TaskResult,
}

/// The runs, in the order of [`SERIES`].
const fn runs<'a>(inputs: &Inputs<'a>) -> [Option<&'a SimResult>; 4] {
    [inputs.solo, inputs.unmanaged, inputs.even, inputs.managed]
}

fn series<'a>(inputs: &Inputs<'a>, task: &PlanTask) -> Vec<Series<'a>> {
    let of =
        |((label, fill), run)| Some(Series { label, fill, result: result_of(run, &task.name)? });
    SERIES.into_iter().zip(runs(inputs)).filter_map(of).collect()
}

/// The charts; nothing where no result has distributions.
pub fn charts(inputs: &Inputs) -> Markup {
    let analysed =
        || inputs.plan.tasks.iter().enumerate().filter(|(_, t)| t.criticality != Criticality::D);
    if !analysed().any(|(_, t)| series(inputs, t).iter().any(|s| !s.result.execution_ns.is_empty()))
    {
        return html! {};
    }
    html! {
        div #distributions {
            h3 { "How long jobs take" }
            ul.legend { @for s in SERIES.iter().zip(runs(inputs)).filter_map(|(s, run)| run.and(Some(s))) { li { (svg::swatch(s.1)) span { (s.0) } } } }
            div.charts { @for (index, task) in analysed() { (chart(inputs, index, task)) } }
            p.muted {
                "The share of jobs that take at most a time: each task alone (solo), beside \
                    everybody else on the plain machine "
                "(unmanaged), and the same under the plan (managed). "
                @if inputs.even.is_some() {
                    "The curve “even” is of a run under a plan that gives each core the same \
                        shares. "
                }
                "Under the plan the curve “managed” may not go beyond the bound C. The bound on the \
                    response time (WCRT) also counts the time in which a job waits for other \
                    work; it is the one to compare with the deadline. Each task has its own scale (→: far beyond it)."
            }
        }
    }
}

fn chart(inputs: &Inputs, index: usize, task: &PlanTask) -> Markup {
    let series = series(inputs, task);
    let id = format!("distribution-{index}");
    let longest = series.iter().map(|s| s.result.moet_ns).max().unwrap_or(0);
    let bound = Some(task.c_sce_ns).filter(|b| *b != u64::MAX);
    let mut marks = [
        ("bound", "bound C", bound),
        ("wcrt", "WCRT", task.wcrt_ns),
        ("deadline", "deadline", task.deadline_ns),
    ];
    let within = |ns: u64| ns <= longest.saturating_mul(REACH);
    let scale =
        marks.iter().filter_map(|(.., ns)| ns.filter(|n| within(*n))).fold(longest, u64::max);
    let scale = (scale + scale / 50).max(1);
    // A line begins below its own label, so that none crosses a label at the edge above it.
    marks.sort_by_key(|(.., ns)| ns.is_none_or(|ns| ns <= scale));
    let bottom = TOP + HEIGHT;
    html! {
        figure.chart {
            figcaption id=(id) {
                (task_name(&task.name)) " "
                span.muted { (series.iter().map(in_words).collect::<Vec<_>>().join(", ")) }
            }
            svg.steps width="100%" height=(bottom + 24) role="img" aria-labelledby=(id) {
                @for percent in [0u64, 50, 100] {
                    @let y = TOP + HEIGHT - HEIGHT * percent as usize / 100;
                    line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                    text.muted.end x="0" dx="-8" y=(y + 4) { (percent) " %" }
                }
                @for tick in svg::ticks(scale, 4) {
                    text.muted x=(svg::percent(tick, scale)) y=(bottom + 18) text-anchor="middle" { (if tick == 0 { "0".to_owned() } else { format::time(tick) }) }
                }
                @for (row, (kind, words, ns)) in marks.into_iter().enumerate() {
                    @if let Some(ns) = ns { (limit(&task.name, (kind, words), ns, scale, row)) }
                }
                svg x="0" y=(TOP) width="100%" height=(HEIGHT) viewBox="0 0 1000 1000" preserveAspectRatio="none" {
                    @for s in &series {
                        polyline.distribution stroke=(s.fill) points=(steps(s.result, scale)) data-task=(task.name) data-series=(s.label) {}
                    }
                }
            }
            details { summary { "Numbers of this chart" } (wide_table(&format!("Times of the jobs of {}", task.name), &table(&series))) }
        }
    }
}

/// The curve's main figures in words.
fn in_words(s: &Series) -> String {
    let r = s.result;
    let longest = if r.jobs == 0 { "no job done".to_owned() } else { format::time(r.moet_ns) };
    match r.misses_deadline {
        0 => format!("{} {longest}", s.label),
        n => format!("{} {longest} ({} missed)", s.label, format::plural(n, "deadline")),
    }
}

fn table(series: &[Series]) -> Markup {
    html! {
        (data_table(&html! {}, &["Run", "#Jobs", "#Median", "#95 %", "#Longest", "#Deadlines missed"], &html! {
                @for s in series {
                    tr {
                        th scope="row" { (s.label) }
                        td.num { (format::count(s.result.jobs)) }
                        @for percent in [50, 95, 100] { td.num { (format::time_or(quantile(s.result, percent), "-")) } }
                        td.num { (format::count(s.result.misses_deadline)) }
                    }
                }
            }))
    }
}

/// A time that `percent` of the jobs do not exceed, ns; `None` without jobs.
fn quantile(r: &TaskResult, percent: u64) -> Option<u64> {
    let all = r.execution_ns.last()?.1;
    r.execution_ns
        .iter()
        .find(|(_, jobs)| jobs.saturating_mul(100) >= all.saturating_mul(percent))
        .map(|(ns, _)| *ns)
}

/// The curve: flat up to a time, then up.
fn steps(r: &TaskResult, scale: u64) -> String {
    let all = r.execution_ns.last().map_or(0, |(_, jobs)| *jobs);
    if all == 0 {
        return String::new();
    }
    let place = |ns: u64, jobs: u64| {
        format!(
            "{:.2},{:.2}",
            svg::fraction(ns, scale) * 1000.0,
            (1.0 - svg::fraction(jobs, all)) * 1000.0
        )
    };
    let mut points = vec![place(0, 0)];
    let mut before = 0;
    for &(ns, jobs) in &r.execution_ns {
        points.push(place(ns, before));
        points.push(place(ns, jobs));
        before = jobs;
    }
    points.push(place(scale, all));
    points.join(" ")
}

/// A bound or the deadline: a line, and its label in a row of its own. The lines of the rows above
/// pass behind the label.
fn limit(task: &str, (kind, words): (&str, &str), ns: u64, scale: u64, row: usize) -> Markup {
    let label = format!("{words} {}", format::time(ns));
    let y = 12 + ROW * row;
    let whole = format!("{task}, {label} ({ns} ns)");
    html! {
        g.mark.deadline tabindex="0" role="img" aria-label=(whole) {
            title { (whole) }
            @if ns <= scale {
                @let x = svg::percent(ns, scale);
                line class=(kind) x1=(x) x2=(x) y1=(y + 4) y2=(TOP + HEIGHT) data-task=(task) data-limit=(kind) data-value-ns=(ns) {}
                text.halo x=(x) y=(y) text-anchor=(svg::anchor(svg::fraction(ns, scale))) { (label) }
            } @else {
                text.halo x="100%" y=(y) text-anchor="end" data-task=(task) data-limit=(kind) data-value-ns=(ns) { (label) " →" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_where_jobs_end() {
        let result = TaskResult {
            name: "a".to_owned(),
            core: 0,
            jobs: 4,
            misses_deadline: 0,
            moet_ns: 100,
            acet_ns: 60,
            max_response_ns: 100,
            execution_ns: vec![(50, 3), (100, 4)],
            accesses: 0,
        };
        let expected =
            "0.00,1000.00 250.00,1000.00 250.00,250.00 500.00,250.00 500.00,0.00 1000.00,0.00";
        assert_eq!(steps(&result, 200), expected);
        assert_eq!(
            [50, 75, 76, 100].map(|p| quantile(&result, p)),
            [Some(50), Some(50), Some(100), Some(100)]
        );
        assert_eq!(steps(&TaskResult { execution_ns: Vec::new(), ..result }, 200), "");
    }
}
