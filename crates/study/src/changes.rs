//! A figure of the dependence on the assumptions: each observation's gain, and where it moves when
//! a range of the parameters is multiplied.
//!
//! Problem: a table of numbers for each range, factor and gain shows nobody which assumption
//! decides. Rule: a panel for each observation, with its first gain; a line for each range, from
//! the gain with the smaller factor to that with the larger one. A thin line is the gain with the
//! parameters as given, a dashed one the paper's number.

use crate::StudyError;
use crate::chart::{FONT, Failed};
use crate::sensitivity::{Change, FACTORS};
use plotters::prelude::*;
use std::ops::Range;

/// Width of a panel, height of a line, and height of titles and labels around the lines, in pixels.
const PANEL: (u32, u32, u32) = (330, 17, 76);
/// Width for the ranges' names, in pixels.
const NAMES: u32 = 190;
/// Of the smaller and of the larger factor (Okabe and Ito).
const COLOURS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];

/// A panel: its title, the gain as given, the paper's, and for each range those of both factors.
/// All in percent.
struct Panel {
    title: String,
    given: f64,
    paper: Option<f64>,
    moved: Vec<[Option<f64>; 2]>,
}

/// The figure as SVG; `None` without a gain of any observation.
///
/// # Errors
/// Errors of the drawing library; it has no reason for any.
pub fn svg(changes: &[Change]) -> Result<Option<String>, StudyError> {
    let mut ranges: Vec<&'static str> = Vec::new();
    for range in changes.iter().filter_map(|c| c.range) {
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    let panels = panels(changes, &ranges);
    if panels.is_empty() || ranges.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    draw(&mut text, &panels, &ranges)
        .map_err(|e| StudyError::Input(format!("sensitivity: cannot draw: {e}")))?;
    Ok(Some(text))
}

/// The panels of the observations that have a gain with the parameters as given.
fn panels(changes: &[Change], ranges: &[&'static str]) -> Vec<Panel> {
    let gain = |range: Option<&str>, factor: f64, at: usize| {
        let of = |c: &&Change| c.range == range && (range.is_none() || c.factor == factor);
        changes.iter().find(of)?.observations.get(at)?.figures.first()?.here
    };
    let given = changes.iter().find(|c| c.range.is_none());
    let panel = |(at, o): (usize, &crate::results::Observation)| {
        let first = o.figures.first()?;
        let name = if o.number == 0 { String::new() } else { format!("Obs. {}: ", o.number) };
        Some(Panel {
            title: format!("{name}{}", first.what),
            given: first.here?,
            paper: first.paper,
            moved: ranges.iter().map(|&r| FACTORS.map(|f| gain(Some(r), f, at))).collect(),
        })
    };
    given.map_or_else(Vec::new, |c| c.observations.iter().enumerate().filter_map(panel).collect())
}

fn draw(text: &mut String, panels: &[Panel], ranges: &[&'static str]) -> Result<(), Failed> {
    let across = panels.len().min(3);
    let down = panels.len().div_ceil(across);
    let lines = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
    let height = PANEL.1 * lines + PANEL.2;
    let count = |n: usize| u32::try_from(n).unwrap_or(1);
    let size = (NAMES + PANEL.0 * count(across), height * count(down) + 26);
    let area = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (all, key) = area.split_vertically(size.1 - 26);
    for (row, strip) in all.split_evenly((down, 1)).iter().enumerate() {
        let (names, plots) = strip.split_horizontally(NAMES);
        let mut within = 0..0;
        let shown = panels.iter().skip(row * across).take(across);
        for (plot, panel) in plots.split_evenly((1, across)).iter().zip(shown) {
            within = draw_panel(plot, panel, ranges.len())?;
        }
        let (top, count) =
            (strip.get_pixel_range().1.start, i32::try_from(ranges.len()).unwrap_or(1));
        for (line, name) in (0..).zip(ranges) {
            let middle = within.start + (2 * line + 1) * (within.end - within.start) / (2 * count);
            names.draw_text(
                name,
                &TextStyle::from((FONT, 12).into_font()),
                (10, middle - top - 7),
            )?;
        }
    }
    for (at, (factor, colour)) in FACTORS.iter().zip(COLOURS).enumerate() {
        let x = 10 + 190 * i32::try_from(at).unwrap_or(0);
        key.draw(&Circle::new((x, 12), 4, colour.filled()))?;
        let words = format!("range times {factor}");
        key.draw_text(&words, &TextStyle::from((FONT, 13).into_font()), (x + 10, 6))?;
    }
    let words = "line: as given; dashed: the paper; across: gain in percent";
    key.draw_text(words, &TextStyle::from((FONT, 13).into_font()), (400, 6))?;
    area.present()
}

/// Draws a panel, and gives the pixels from its first line to its last one, from above.
fn draw_panel<B: DrawingBackend<ErrorType = std::io::Error>>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    panel: &Panel,
    lines: usize,
) -> Result<Range<i32>, Failed> {
    let ends = panel.moved.iter().flatten().flatten().copied();
    let values = || ends.clone().chain(panel.paper).chain([panel.given, 0.0]);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let margin = (0.06 * (high - low)).max(0.5);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 13))
        .margin_right(14)
        .x_label_area_size(30)
        .build_cartesian_2d(low - margin..high + margin, lines as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .x_labels(6)
        .label_style((FONT, 12))
        .draw()?;
    let across = |x: f64| vec![(x, 0.0), (x, lines as f64)];
    chart.draw_series(LineSeries::new(across(panel.given), BLACK.mix(0.6)))?;
    if let Some(paper) = panel.paper {
        chart.draw_series(DashedLineSeries::new(across(paper), 4, 4, BLACK.mix(0.6).into()))?;
    }
    for (line, moved) in panel.moved.iter().enumerate() {
        let y = line as f64 + 0.5;
        let known: Vec<(f64, f64)> = moved.iter().flatten().map(|&x| (x, y)).collect();
        chart.draw_series(LineSeries::new(known, BLACK.mix(0.35).stroke_width(3)))?;
        for (value, colour) in moved.iter().zip(COLOURS) {
            let points = value.map(|x| Circle::new((x, y), 4, colour.filled()));
            chart.draw_series(points)?;
        }
    }
    Ok(chart.plotting_area().get_pixel_range().1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Figure, Observation};

    fn change(range: Option<&'static str>, factor: f64, here: [Option<f64>; 2]) -> Change {
        let observation = |(at, here)| Observation {
            number: 7 + at,
            claim: String::new(),
            holds: None,
            figures: vec![Figure { what: "A over B".to_owned(), paper: Some(5.0), here }],
        };
        let observations = (0u32..).zip(here).map(observation).collect();
        Change { range, factor, observations }
    }

    #[test]
    fn a_point_for_each_range_and_factor() {
        let all = [
            change(None, 1.0, [Some(4.0), None]),
            change(Some("sharing.victim"), 0.5, [Some(1.0), None]),
            change(Some("sharing.victim"), 1.5, [Some(6.0), None]),
            change(Some("ipc.bytes"), 0.5, [Some(4.0), None]),
            change(Some("ipc.bytes"), 1.5, [None, None]),
        ];
        let found = panels(&all, &["sharing.victim", "ipc.bytes"]);
        assert_eq!(found.len(), 1, "an observation without a gain has no panel");
        assert_eq!(found[0].moved, [[Some(1.0), Some(6.0)], [Some(4.0), None]]);
        let text = svg(&all).unwrap().unwrap();
        assert!(text.contains("Obs. 7: A over B") && text.contains("sharing.victim"));
        // Three points, and two in the key.
        assert_eq!(text.matches("<circle").count(), 5);
        assert_eq!(svg(&all[..1]).unwrap(), None);
    }
}
