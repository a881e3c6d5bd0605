//! Progressive lockdown curves: DRAM accesses of one job that remain with the hottest pages
//! locked (SCE section 2.3).
//!
//! The x axis ends where the curve is nearly flat: a quarter beyond the plan's choice, and within 1
//! % of the end of its fall. Long curves are thinned for drawing; the first and last drawn points
//! and the plan's choice are kept, and the whole curve is embedded as JSON. Profiles without a
//! curve are left out.

use crate::elements::{data_table, folded, task_name, wide_table};
use crate::inputs::Inputs;
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::Profile;
use solocore_model::plan::PlanTask;

/// Points of the line.
const LINE: usize = 240;
/// Points with a mark of their own, besides the plan's choice.
const MARKS: usize = 14;
/// Top of the plot, below the axis' title and the label of the plan's choice.
const TOP: usize = 36;
const HEIGHT: usize = 160;

/// Does any profile have a curve?
pub fn there(inputs: &Inputs) -> bool {
    inputs.profiles.iter().any(|(_, profile)| !profile.lockdown.is_empty())
}

/// The section; nothing without a curve.
pub fn section(inputs: &Inputs) -> Markup {
    if !there(inputs) {
        return html! {};
    }
    let of = |best: bool| {
        let is = move |name: &str| inputs.best_effort(name) == best;
        let drawn =
            move |(task, profile): &(String, Profile)| is(task) && !profile.lockdown.is_empty();
        inputs.profiles.iter().enumerate().filter(move |(_, of)| drawn(of))
    };
    html! {
        section #curves aria-labelledby="curves-h" {
            h2 #curves-h { "Lockdown curves" }
            p {
                "DRAM accesses that one job is left with when its hottest pages are locked \
                    in the shared cache and the rest of "
                "the cache is of no use. The diamond marks where the plan stopped."
            }
            div.charts { @for (index, of) in of(false) { (chart(index, of, inputs)) } }
            @if of(true).next().is_some() {
                (folded("Best effort", &html! { div.charts { @for (index, of) in of(true) { (chart(index, of, inputs)) } } }))
            }
        }
    }
}

/// Last page count worth drawing.
fn useful_end(curve: &[u64], marker: Option<usize>) -> usize {
    let last = curve.len().saturating_sub(1);
    let (top, floor) = (curve.first().copied().unwrap_or(0), curve.last().copied().unwrap_or(0));
    let near = floor.saturating_add(top.saturating_sub(floor) / 100);
    let flat = curve.iter().rposition(|misses| *misses > near).map_or(0, |k| k + 1);
    let beyond = marker.map_or(0, |m| m + m / 4 + 1);
    let end = flat.max(beyond).max(8);
    if end >= last - last / 4 { last } else { end }
}

/// About `n` evenly spaced page counts from 0 to `end`, both included, and `marker`.
fn thinned(end: usize, n: usize, marker: Option<usize>) -> Vec<usize> {
    let mut points: Vec<usize> =
        if end < n { (0..=end).collect() } else { (0..n).map(|i| i * end / (n - 1)).collect() };
    points.extend(marker.filter(|m| *m <= end));
    points.sort_unstable();
    points.dedup();
    points
}

/// The chart of a curve that has at least one point.
fn chart(index: usize, (task, profile): &(String, Profile), inputs: &Inputs) -> Markup {
    let planned: Option<&PlanTask> = inputs.plan.tasks.iter().find(|t| t.name == *task);
    let curve = &profile.lockdown;
    let id = format!("curve-{index}");
    let locked = planned.map(|t| t.locked_pages.len());
    let marker = locked.map(|k| k.min(curve.len() - 1));
    let end = useful_end(curve, marker);
    let marks = thinned(end, MARKS, marker);
    html! {
        figure.chart {
            figcaption id=(id) { (task_name(task)) " " span.muted { (caption(profile, locked, end)) } }
            (drawing(&id, task, curve, end, marker))
            details {
                summary { "Numbers of this curve" }
                (wide_table(&format!("Lockdown curve of {task}"), &table(curve, &marks, marker)))
            }
        }
    }
}

fn caption(profile: &Profile, locked: Option<usize>, end: usize) -> String {
    let curve = &profile.lockdown;
    let last = curve.len() - 1;
    let choice = match locked {
        None => "not in the plan".to_owned(),
        Some(k) => format!(
            "the plan locks {}: {} of {} DRAM accesses remain",
            format::plural(k as u64, "page"),
            format::count(profile.residual_misses(k)),
            format::count(profile.llc_accesses())
        ),
    };
    let cut = if end < last {
        format!("; drawn to page {} of {}", format::count(end as u64), format::count(last as u64))
    } else {
        String::new()
    };
    format!("{choice}{cut}")
}

fn drawing(id: &str, task: &str, curve: &[u64], end: usize, marker: Option<usize>) -> Markup {
    let top = curve[..=end].iter().copied().max().unwrap_or(0);
    let pages = end as u64;
    let bottom = TOP + HEIGHT;
    html! {
        svg.curve width="100%" height=(bottom + 42) role="img" aria-labelledby=(id) {
            text.muted x="0" dx="-54" y="12" { "DRAM accesses of a job" }
            @for tick in svg::ticks(top, 4) {
                @let y = height_at(tick, top);
                line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                text.muted.end x="0" dx="-8" dy="4" y=(y) { (format::short(tick)) }
            }
            @for tick in svg::ticks(pages, 4) {
                @let x = svg::percent(tick, pages);
                line.axis x1=(x) x2=(x) y1=(bottom) y2=(bottom + 4) {}
                text.muted x=(x) y=(bottom + 18) text-anchor="middle" { (format::count(tick)) }
            }
            line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
            text.muted x="50%" y=(bottom + 36) text-anchor="middle" { "pages locked" }
            svg x="0" y=(TOP) width="100%" height=(HEIGHT) viewBox="0 0 1000 1000" preserveAspectRatio="none" {
                polyline.curve-line points=(line(curve, end, marker, top)) {}
            }
            @for k in thinned(end, MARKS, marker) { (point(task, k, curve[k], pages, top, marker == Some(k))) }
        }
    }
}

fn height_at(misses: u64, top: u64) -> String {
    format!("{:.2}", TOP as f64 + HEIGHT as f64 * (1.0 - svg::fraction(misses, top)))
}

fn line(curve: &[u64], end: usize, marker: Option<usize>, top: u64) -> String {
    let place = |k: &usize| {
        let (x, y) = (svg::fraction(*k as u64, end as u64), 1.0 - svg::fraction(curve[*k], top));
        format!("{:.2},{:.2}", x * 1000.0, y * 1000.0)
    };
    thinned(end, LINE, marker).iter().map(place).collect::<Vec<_>>().join(" ")
}

fn point(task: &str, pages: usize, misses: u64, end: u64, top: u64, chosen: bool) -> Markup {
    let (x, y) = (svg::percent(pages as u64, end), height_at(misses, top));
    let what = if chosen { " (the plan's choice)" } else { "" };
    let label = format!(
        "{task}: {} locked{what}, {} remain",
        format::plural(pages as u64, "page"),
        format::plural(misses, "DRAM access")
    );
    html! {
        @if chosen {
            line.choice x1=(x) x2=(x) y1=(TOP - 4) y2=(TOP + HEIGHT) {}
            text.value x=(x) y=(TOP - 8) text-anchor="middle" { (format::count(pages as u64)) }
        }
        g.mark tabindex="0" role="img" aria-label=(label) {
            title { (label) }
            @if chosen {
                svg.choice x=(x) y=(y) width="1" height="1" {
                    path.chosen d="M0-8L8 0L0 8L-8 0Z" data-task=(task) data-pages=(pages) data-misses=(misses) data-marker="plan" {}
                }
            } @else {
                circle.point cx=(x) cy=(y) r="3.5" data-task=(task) data-pages=(pages) data-misses=(misses) {}
            }
        }
    }
}

fn table(curve: &[u64], marks: &[usize], marker: Option<usize>) -> Markup {
    let mut rows = marks.to_vec();
    if rows.last() != Some(&(curve.len() - 1)) {
        rows.push(curve.len() - 1);
    }
    html! {
        (data_table(&html! {}, &["#Pages locked", "#DRAM accesses", "Choice"], &html! {
                @for k in rows {
                    tr {
                        td.num { (format::count(k as u64)) }
                        td.num { (format::count(curve[k])) }
                        td { @if marker == Some(k) { "◆ plan" } }
                    }
                }
            }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_marker() {
        for (end, n, marker) in [
            (0, 14, Some(0)),
            (5, 14, None),
            (10_000, 14, Some(217)),
            (13, 14, Some(3)),
            (14, 14, Some(3)),
        ] {
            let points = thinned(end, n, marker);
            assert_eq!((points[0], *points.last().unwrap()), (0, end));
            assert!(marker.is_none_or(|m| points.contains(&m)));
            assert!(points.len() <= n + 1 && points.windows(2).all(|w| w[0] < w[1]), "{points:?}");
        }
    }

    #[test]
    fn the_range_ends_where_the_curve_is_flat() {
        let curve: Vec<u64> =
            (0..1000).map(|k: u64| 100_000u64.saturating_sub(k * 2_000)).collect();
        assert_eq!(useful_end(&curve, None), 50);
        assert_eq!(useful_end(&curve, Some(400)), 501);
        assert_eq!(useful_end(&curve, Some(999)), 999);
        assert_eq!(useful_end(&[7], Some(0)), 0);
        assert_eq!(useful_end(&[0, 0, 0], None), 2);
    }
}
