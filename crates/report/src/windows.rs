//! The time table: partitions on their cores, transfers on the I/O core, devices, and the order
//! between them.
//!
//! Drawn as Figs. 16 and 17 of single-core-equivalence: a lane for each resource; each partition
//! has a colour and a number. Prefetch and lock at the start of a window is hatched, for the time
//! that the plan charges. Arrows lead along the chains. The drawing lasts from time 0 until all
//! activities have begun, and one hyperperiod more. Slots beyond the limit are left out, and the
//! caption says so. Where the page is narrower than the drawing, it scrolls below the names of its
//! lanes. Not covered: the tasks inside the windows; the simulated timeline shows them.

use crate::elements::{data_table, task_name, wide_table};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::plan::windows::{Has, WindowsPlan};
use solocore_model::windows::table::{Row, Stage};
use std::collections::BTreeMap;

/// Most slots that are drawn.
const SLOTS: usize = 600;
const ROW: usize = 22;
const STEP: usize = 40;
/// Least part of the width at which a slot has room for its partition's number.
const ROOM: f64 = 0.012;

/// A drawn slot.
struct Slot<'a> {
    row: &'a Row,
    n: u64,
    start_ns: u64,
    end_ns: u64,
}

/// A table made ready to draw.
struct Chart<'a> {
    /// Partitions in the order of the table.
    partitions: Vec<&'a str>,
    /// Resources from top to bottom.
    lanes: Vec<&'a str>,
    slots: Vec<Slot<'a>>,
    end_ns: u64,
    /// Nanoseconds after which the table repeats; `None` if the number is too large.
    repeats_ns: Option<u64>,
    /// Is a part not drawn?
    cut: bool,
    /// Prefetch and lock by partition, as charged.
    prefetch: BTreeMap<&'a str, u64>,
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn hyperperiod(rows: &[Row]) -> Option<u64> {
    let mut hyper = 1u64;
    for row in rows {
        let (mut a, mut b) = (hyper, row.period_ns.max(1));
        while b > 0 {
            (a, b) = (b, a % b);
        }
        hyper = (hyper / a).checked_mul(row.period_ns.max(1))?;
    }
    Some(hyper)
}

/// Cores by number, then the I/O core, then devices by name.
fn rank(resource: &str) -> (u8, u64, &str) {
    match resource.strip_prefix("core ").map(str::parse) {
        Some(Ok(core)) => (0, core, resource),
        _ if resource == "io-core" => (1, 0, resource),
        _ => (2, 0, resource),
    }
}

impl<'a> Chart<'a> {
    fn new(rows: &'a [Row], windows: Option<&'a WindowsPlan>) -> Self {
        let partitions = unique(rows.iter().map(|r| r.partition.as_str()));
        let mut lanes = unique(rows.iter().map(|r| r.resource.as_str()));
        lanes.sort_by_key(|r| rank(r));
        let repeats_ns = hyperperiod(rows);
        let begun =
            rows.iter().map(|r| r.offset_ns.saturating_add(r.duration_ns)).max().unwrap_or(0);
        let wanted = repeats_ns.map_or(u64::MAX, |h| h.saturating_add(begun));
        let (end_ns, cut) = reach(rows, wanted);
        let mut slots: Vec<Slot> = Vec::new();
        for row in rows.iter().filter(|r| r.period_ns > 0) {
            for n in 0u64.. {
                let start_ns = row.offset_ns.saturating_add(n.saturating_mul(row.period_ns));
                if start_ns >= end_ns || slots.len() > SLOTS + rows.len() {
                    break;
                }
                slots.push(Slot {
                    row,
                    n,
                    start_ns,
                    end_ns: start_ns.saturating_add(row.duration_ns),
                });
            }
        }
        let prefetch = windows.map_or_else(BTreeMap::new, |s| {
            s.partitions
                .iter()
                .filter(|p| p.prefetch_accesses > 0)
                .map(|p| (p.name.as_str(), p.prefetch_ns))
                .collect()
        });
        Self { partitions, lanes, slots, end_ns, repeats_ns, cut, prefetch }
    }

    fn partition(&self, name: &str) -> usize {
        self.partitions.iter().position(|p| *p == name).unwrap_or(0)
    }

    fn lane(&self, resource: &str) -> usize {
        STEP * self.lanes.iter().position(|l| *l == resource).unwrap_or(0)
    }

    /// From the end of one activity to the start of the next, along each instance of each chain.
    fn arrows(&self) -> Vec<(&Slot<'a>, &Slot<'a>)> {
        let mut chains: BTreeMap<(usize, usize, u64), Vec<&Slot>> = BTreeMap::new();
        for slot in &self.slots {
            if let Some(chain) = slot.row.chain {
                chains
                    .entry((self.partition(&slot.row.partition), chain, slot.n))
                    .or_default()
                    .push(slot);
            }
        }
        let mut all = Vec::new();
        for ((partition, _, n), mut path) in chains {
            let window = |s: &&Slot| {
                s.row.stage == Stage::Processing
                    && s.n == n
                    && self.partition(&s.row.partition) == partition
            };
            path.extend(self.slots.iter().find(window));
            path.sort_by_key(|s| s.row.stage);
            all.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
        }
        all
    }
}

/// Time that can be drawn, ns, and whether that is less than `wanted`.
fn reach(rows: &[Row], wanted: u64) -> (u64, bool) {
    let count = |end: u64| -> u64 {
        let of = |r: &Row| {
            end.saturating_sub(r.offset_ns) / r.period_ns.max(1) + u64::from(end > r.offset_ns)
        };
        rows.iter().map(of).fold(0, u64::saturating_add)
    };
    if count(wanted) <= SLOTS as u64 {
        return (wanted.max(1), false);
    }
    let (mut yes, mut no) = (1, wanted);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if count(middle) <= SLOTS as u64 {
            yes = middle;
        } else {
            no = middle;
        }
    }
    (yes, true)
}

/// The picture of a table.
pub fn figure(rows: &[Row], windows: Option<&WindowsPlan>) -> Markup {
    let chart = Chart::new(rows, windows);
    let bottom = STEP * chart.lanes.len();
    html! {
        (legend(&chart))
        figure.chart.whole {
            figcaption #time-table-figure { strong { "Cores, I/O core and devices" } " " span.muted { (caption(&chart)) } }
            div.wide.lanes tabindex="0" role="region" aria-label="time table, scrolls sideways" {
                svg.lane-names width="80" height=(bottom + 20) aria-hidden="true" {
                    @for lane in &chart.lanes { (name(lane, chart.lane(lane))) }
                }
                svg.timeline.table width="100%" height=(bottom + 20) role="img" aria-labelledby="time-table-figure" {
                    @for tick in svg::ticks(chart.end_ns, 12) {
                        @let x = svg::percent(tick, chart.end_ns);
                        line.grid x1=(x) x2=(x) y1="0" y2=(bottom - STEP + ROW + 4) {}
                        text.muted x=(x) y=(bottom + 4) text-anchor=(if tick == 0 { "start" } else { "middle" }) { (format::time(tick)) }
                    }
                    @for lane in &chart.lanes { (self::lane(&chart, lane)) }
                    @for (a, b) in chart.arrows() { (arrow(&chart, a, b)) }
                }
            }
            details { summary { "Numbers of this table" } (numbers(rows)) }
        }
    }
}

fn caption(chart: &Chart) -> String {
    let repeats = chart.repeats_ns.map_or("it repeats after very long".to_owned(), |h| {
        format!("it repeats every {}", format::time(h))
    });
    let cut = if chart.cut { "; the rest is in the numbers" } else { "" };
    format!("the first {}, margins included; {repeats}{cut}", format::time(chart.end_ns))
}

fn legend(chart: &Chart) -> Markup {
    html! {
        ul.legend aria-label="Partitions by colour and number" {
            @for (index, name) in chart.partitions.iter().enumerate() {
                li { (svg::swatch(&svg::task_fill(index))) span { (index + 1) " " } (task_name(name)) }
            }
            @if !chart.prefetch.is_empty() {
                li { (svg::swatch("url(#fill-prefetch)")) span { "prefetch and lock, at most \
                    (drawn 5 pixels wide where it is shorter)" } }
            }
        }
    }
}

fn lane(chart: &Chart, resource: &str) -> Markup {
    let y = chart.lane(resource);
    let slots: Vec<&Slot> = chart.slots.iter().filter(|s| s.row.resource == resource).collect();
    let label = format!("{resource}: {} in this time", format::plural(format::len(&slots), "slot"));
    html! {
        g.mark.lane tabindex="0" role="img" aria-label=(label) {
            rect.track x="0" y=(y) width="100%" height=(ROW) {}
            @for slot in slots { (self::slot(chart, slot, y)) }
        }
    }
}

/// The name of a lane, beside it.
fn name(resource: &str, y: usize) -> Markup {
    let name = match resource.strip_prefix("device ") {
        Some(device) => device,
        None if resource == "io-core" => "I/O core",
        None => resource,
    };
    html! { text.end x="72" y=(y + 15) { title { (resource) } (short(name)) } }
}

/// The part of a name that fits into the margin.
fn short(name: &str) -> String {
    if name.chars().count() <= 9 {
        return name.to_owned();
    }
    name.chars().take(8).chain(['…']).collect()
}

fn slot(chart: &Chart, slot: &Slot, y: usize) -> Markup {
    let index = chart.partition(&slot.row.partition);
    let end = slot.end_ns.min(chart.end_ns);
    let width = end - slot.start_ns;
    let at = (svg::fraction(slot.start_ns, chart.end_ns) + svg::fraction(end, chart.end_ns)) * 50.0;
    let stage = slot.row.stage.name();
    let chain = slot.row.chain.map_or(String::new(), |k| format!(" of chain {k}"));
    let prefetch = chart
        .prefetch
        .get(slot.row.partition.as_str())
        .filter(|_| slot.row.stage == Stage::Processing);
    html! {
        rect.slot x=(svg::percent(slot.start_ns, chart.end_ns)) y=(y) width=(svg::percent(width, chart.end_ns)) height=(ROW)
            fill=(svg::task_fill(index)) stroke=(svg::task_fill(index)) data-partition=(slot.row.partition) data-stage=(stage)
            data-resource=(slot.row.resource) data-start-ns=(slot.start_ns) data-end-ns=(slot.end_ns) {
            title {
                (slot.row.resource) ": " (stage) (chain) " of " (slot.row.partition) ", " (format::time(slot.row.duration_ns))
                " from " (format::time(slot.start_ns))
            }
        }
        @if let Some(ns) = prefetch {
            rect x=(svg::percent(slot.start_ns, chart.end_ns)) y=(y) height=(ROW)
                style=(format!("width:max({},5px)", svg::percent((*ns).min(width), chart.end_ns))) fill="url(#fill-prefetch)"
                data-partition=(slot.row.partition) data-prefetch-ns=(ns) {
                title { "prefetch and lock of " (slot.row.partition) ": at most " (format::time(*ns)) }
            }
        }
        @if svg::fraction(width, chart.end_ns) >= ROOM {
            text class={ "number " (svg::task_ink(index)) } x=(format!("{at:.4}%")) y=(y + 15) text-anchor="middle" { (index + 1) }
        }
    }
}

fn arrow(chart: &Chart, a: &Slot, b: &Slot) -> Markup {
    if b.start_ns > chart.end_ns || a.end_ns > chart.end_ns {
        return html! {};
    }
    let (from, to) = (chart.lane(&a.row.resource), chart.lane(&b.row.resource));
    // From the nearer edge of one lane to that of the other.
    let (y1, y2) = if from > to { (from, to + ROW) } else { (from + ROW, to) };
    html! {
        line.arrow x1=(svg::percent(a.end_ns, chart.end_ns)) y1=(y1) x2=(svg::percent(b.start_ns, chart.end_ns)) y2=(y2)
            marker-end="url(#fill-arrow)" data-from=(a.row.stage.name()) data-to=(b.row.stage.name())
            data-partition=(a.row.partition) {}
    }
}

fn numbers(rows: &[Row]) -> Markup {
    let table = html! {
        (data_table(&html! {}, &["Partition", "#Chain", "Activity", "On", "#First at", "#Slot", "#Every"], &html! {
                @for row in rows {
                    tr {
                        td { (task_name(&row.partition)) }
                        td.num { (row.chain.map_or("–".to_owned(), |k| k.to_string())) }
                        td { (row.stage.name()) } td { (row.resource) }
                        td.num { (format::time_cell(row.offset_ns)) } td.num { (format::time_cell(row.duration_ns)) }
                        td.num { (format::time_cell(row.period_ns)) }
                    }
                }
            }))
    };
    wide_table("Activities of the time table", &table)
}

/// The section of a plan's page; nothing where the plan has no partitions.
pub fn section(plan: &Plan) -> Markup {
    let Some(windows) = plan.windows() else { return html! {} };
    html! {
        section #time-table aria-labelledby="time-table-h" {
            h2 #time-table-h { "Time table of the partitions" }
            @if windows.table.is_empty() {
                p.bad { "No table was found; the log below says what was tried." }
            } @else {
                (figure(&windows.table, Some(windows)))
            }
            h3 { "Partitions" }
            (wide_table("Partitions in the plan", &partitions(windows)))
            @if !windows.rounds.is_empty() {
                div.tried {
                    h3 { "What was tried" }
                    (wide_table("Rounds of steps 3 to 5", &rounds(windows)))
                }
            }
            @if !windows.hardware.is_empty() {
                h3 { "What the board has" }
                ul { @for item in &windows.hardware { li { (item.what) ": " strong { (answer(item.has)) } ": " (item.follows) } } }
            }
        }
    }
}

fn answer(has: Has) -> &'static str {
    match has {
        Has::Yes => "yes",
        Has::No => "no",
        Has::Unknown => "unknown",
    }
}

fn partitions(windows: &WindowsPlan) -> Markup {
    html! {
        (data_table(&html! {}, &["Partition", "#Core", "#Window", "#Needed", "#Every", "#Locked pages", "#Prefetch, at most", "#Lost to others, at most", "Its tasks"], &html! {
                @for p in &windows.partitions {
                    tr {
                        th scope="row" { (task_name(&p.name)) }
                        td.num { (p.core.map_or("–".to_owned(), |c| c.to_string())) }
                        td.num { (format::time_cell(p.duration_ns)) }
                        td.num { (format::time_or(p.least_duration_ns, "no window is long enough")) }
                        td.num { (format::time_cell(p.period_ns)) }
                        td.num { (format::count(p.locked_pages)) }
                        td.num { (format::time_cell(p.prefetch_ns)) }
                        td.num { (format::time_cell(p.switch_ns)) }
                        td.bad[!p.schedulable] { (if p.schedulable { "meet their deadlines" } else { "may miss deadlines" }) }
                    }
                }
            }))
    }
}

fn rounds(windows: &WindowsPlan) -> Markup {
    html! {
        (data_table(&html! {}, &["#Round", "#Slack", "Cores", "#Step", "Outcome"], &html! {
                @for (n, round) in windows.rounds.iter().enumerate() {
                    tr {
                        th.num scope="row" { (n + 1) } td.num { (round.slack_percent) " %" } td { (round.allocation) }
                        td.num { (round.step) } td.bad[!round.found] { (round.outcome) }
                    }
                }
            }))
    }
}
