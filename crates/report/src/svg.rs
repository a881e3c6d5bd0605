//! Common parts of the charts: places in percent, ticks, colours and patterns.
//!
//! Charts are drawn without a scaled coordinate system: widths are percentages of the box, texts
//! keep their size in pixels. So a chart fits a telephone and a sheet of paper alike, and its
//! labels stay readable.

use maud::{Markup, html};

/// Height of a bar in a list of them.
pub const BAR: usize = 18;
/// Distance from one bar to the next.
pub const STEP: usize = 25;

/// Okabe and Ito's colours, with grey in place of black so that it shows on dark ground, too.
const COLOURS: [&str; 8] =
    ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2", "#999999"];

/// `value` as a percentage of `max`; nothing where there is no scale.
pub fn percent(value: u64, max: u64) -> String {
    format!("{:.4}%", fraction(value, max) * 100.0)
}

/// `value` over `max`, 0 to 1.
pub fn fraction(value: u64, max: u64) -> f64 {
    if max == 0 { 0.0 } else { (value as f64 / max as f64).min(1.0) }
}

/// Round values from 0 to `max`, at most `intervals` apart (1, 2 or 5 times a power of ten).
pub fn ticks(max: u64, intervals: u64) -> Vec<u64> {
    let mut step: u64 = 1;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut decade: u64 = 1;
    while max / step > intervals {
        let factor = factors.next().unwrap_or(10);
        let Some(next) = decade.checked_mul(factor) else { return vec![0] };
        step = next;
        if factor == 10 {
            decade = next;
        }
    }
    (0..=max / step).map(|k| k * step).collect()
}

/// The fill of a task's marks: a colour, beyond eight tasks with stripes over it.
pub fn task_fill(index: usize) -> String {
    match index / COLOURS.len() {
        0 => COLOURS[index % COLOURS.len()].to_owned(),
        _ => format!("url(#fill-task-{index})"),
    }
}

/// The colour of a task alone, where stripes would be distorted.
pub fn task_solid(index: usize) -> String {
    COLOURS[index % COLOURS.len()].to_owned()
}

/// Class of a label that lies on a task's fill.
pub fn task_ink(index: usize) -> &'static str {
    if COLOURS[index % COLOURS.len()] == "#0072b2" { "on-dark" } else { "on-light" }
}

/// A square of a fill, for legends.
pub fn swatch(fill: &str) -> Markup {
    html! { svg.swatch width="14" height="14" aria-hidden="true" { rect width="14" height="14" fill=(fill) {} } }
}

/// Patterns that the fills refer to; once per page, before the charts.
pub fn definitions(tasks: usize) -> Markup {
    html! {
        svg.definitions width="0" height="0" aria-hidden="true" {
            defs {
                (stripes("fill-unmanaged", 45, 8, html! {
                    rect width="8" height="8" fill="#d55e00" {} rect width="2" height="8" fill="#ffb27a" {}
                }))
                (stripes("fill-bound", -45, 6, html! {
                    rect.paper width="6" height="6" {} rect.ink width="2" height="6" {}
                }))
                (stripes("fill-wcrt", 0, 4, html! {
                    rect.paper width="4" height="4" {} rect.ink width="2.4" height="4" {}
                }))
                (stripes("fill-throttled", 45, 5, html! {
                    rect.paper width="5" height="5" {} rect.ink width="1.6" height="5" {}
                }))
                (stripes("fill-prefetch", -45, 5, html! {
                    rect width="5" height="5" fill="#fff" fill-opacity="0.75" {} rect width="2" height="5" fill="#000" {}
                }))
                marker.tip id="fill-arrow" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="6" markerHeight="6" orient="auto" {
                    path d="M0 0 L6 3 L0 6 z" {}
                }
                @for index in COLOURS.len()..tasks { (striped_colour(index)) }
            }
        }
    }
}

fn striped_colour(index: usize) -> Markup {
    let width = 4 + 3 * (index / COLOURS.len());
    stripes(
        &format!("fill-task-{index}"),
        0,
        width,
        html! {
            rect width=(width) height=(width) fill=(COLOURS[index % COLOURS.len()]) {}
            rect width="1" height=(width) fill="#000" fill-opacity="0.4" {}
        },
    )
}

fn stripes(id: &str, angle: i32, size: usize, content: Markup) -> Markup {
    html! {
        pattern id=(id) patternUnits="userSpaceOnUse" width=(size) height=(size)
            patternTransform=(format!("rotate({angle})")) { (content) }
    }
}

/// Anchor of a label beside a vertical line, so that the label stays within the chart.
pub fn anchor(fraction: f64) -> &'static str {
    if fraction > 0.5 { "end" } else { "start" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0, 4), [0]);
        assert_eq!(ticks(3, 4), [0, 1, 2, 3]);
        assert_eq!(ticks(10, 4), [0, 5, 10]);
        assert_eq!(ticks(260, 4), [0, 100, 200]);
        assert_eq!(ticks(217, 4), [0, 50, 100, 150, 200]);
        assert_eq!(ticks(574_093, 4), [0, 200_000, 400_000]);
        for max in [1, 99, 12_345, u64::MAX / 3, u64::MAX] {
            let all = ticks(max, 4);
            assert!(all.len() <= 5 && all.iter().all(|t| *t <= max), "{max}: {all:?}");
        }
    }

    #[test]
    fn no_scale_is_no_length() {
        assert_eq!(percent(0, 0), "0.0000%");
        assert_eq!(percent(5, 0), "0.0000%");
        assert_eq!(percent(1, 4), "25.0000%");
        assert_eq!(percent(9, 4), "100.0000%");
    }

    #[test]
    fn fills_differ() {
        let mut fills: Vec<String> = (0..20).map(task_fill).collect();
        fills.sort();
        fills.dedup();
        assert_eq!(fills.len(), 20);
    }
}
