//! Charts as data, and their drawing as SVG.
//!
//! One plain look for all figures: lines over numbers, or groups of bars over names; the colours of
//! Okabe and Ito, which people with any colour vision tell apart; markers and dashes besides.

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

type Failed = DrawingAreaErrorKind<std::io::Error>;

/// Content of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it, with the unit.
    pub x_label: String,
    /// Beside it, with the unit.
    pub y_label: String,
    /// The marks.
    pub marks: Marks,
}

/// Lines or bars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Marks {
    /// Lines through points.
    Lines {
        /// Each with its name.
        series: Vec<Series>,
        /// Levels to compare with, each a dashed line with its name.
        levels: Vec<(String, f64)>,
        /// Does the vertical axis go up in powers of ten?
        logarithmic: bool,
    },
    /// Bars in groups.
    Bars {
        /// Names of the groups.
        groups: Vec<String>,
        /// Bars: a name, and a value for each group (none leaves a gap).
        series: Vec<(String, Vec<Option<f64>>)>,
    },
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

const SIZE: (u32, u32) = (860, 400);
/// Space right of the plot for the names of the marks, in pixels: marks are never covered.
const LEGEND: u32 = 190;
const FONT: &str = "sans-serif";

/// Okabe and Ito's colours, darkest first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(180, 170, 40),
];

fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

impl Chart {
    /// Lines.
    #[must_use]
    pub fn lines(title: &str, x_label: &str, y_label: &str, series: Vec<Series>) -> Self {
        let marks = Marks::Lines { series, levels: Vec::new(), logarithmic: false };
        Self {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            marks,
        }
    }

    /// Groups of bars.
    #[must_use]
    pub fn bars(
        title: &str,
        y_label: &str,
        groups: Vec<String>,
        series: Vec<(String, Vec<Option<f64>>)>,
    ) -> Self {
        let marks = Marks::Bars { groups, series };
        Self { title: title.to_owned(), x_label: String::new(), y_label: y_label.to_owned(), marks }
    }

    /// With a vertical axis in powers of ten, for lines.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        if let Marks::Lines { logarithmic, .. } = &mut self.marks {
            *logarithmic = true;
        }
        self
    }

    /// With a level to compare with, for lines.
    #[must_use]
    pub fn level(mut self, name: &str, value: f64) -> Self {
        if let Marks::Lines { levels, .. } = &mut self.marks {
            levels.push((name.to_owned(), value));
        }
        self
    }
}

impl Series {
    /// A line through points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// Draws charts below each other.
///
/// # Errors
/// Errors of the drawing library; it has no reason for any.
pub fn svg(charts: &[Chart]) -> Result<String, String> {
    let mut text = String::new();
    let rows = u32::try_from(charts.len().max(1)).unwrap_or(1);
    {
        let area = SVGBackend::with_string(&mut text, (SIZE.0, SIZE.1 * rows)).into_drawing_area();
        let draw = || -> Result<(), Failed> {
            area.fill(&WHITE)?;
            for (chart, area) in charts.iter().zip(area.split_evenly((charts.len().max(1), 1))) {
                let (plot, names) = area.split_horizontally(SIZE.0 - LEGEND);
                legend(&names, &chart.marks)?;
                match &chart.marks {
                    Marks::Lines { series, levels, logarithmic } => {
                        lines(&plot, chart, series, levels, *logarithmic)?
                    }
                    Marks::Bars { groups, series } => bars(&plot, chart, groups, series)?,
                }
            }
            area.present()
        };
        draw().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

/// The names of the marks, one below the other, each beside its colour.
fn legend(area: &Area, marks: &Marks) -> Result<(), Failed> {
    let names: Vec<(&str, bool)> = match marks {
        Marks::Lines { series, levels, .. } => {
            let lines = series.iter().map(|s| (s.name.as_str(), false));
            lines.chain(levels.iter().map(|l| (l.0.as_str(), true))).collect()
        }
        Marks::Bars { series, .. } => series.iter().map(|s| (s.0.as_str(), false)).collect(),
    };
    for (at, (name, level)) in names.into_iter().enumerate() {
        let y = 52 + 22 * i32::try_from(at).unwrap_or(0);
        let style = colour(at);
        let thick = if level { 1 } else { 5 };
        area.draw(&Rectangle::new([(4, y - thick), (20, y + thick)], style.filled()))?;
        let shown: String = name.chars().take(26).collect();
        area.draw_text(&shown, &TextStyle::from((FONT, 13).into_font()), (28, y - 8))?;
    }
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// From a little below the least to a little above the largest; never empty.
fn range(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> (f64, f64) {
    let finite = values.filter(|v| v.is_finite());
    let low = finite.clone().fold(f64::INFINITY, f64::min);
    let high = finite.fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return (0.0, 1.0);
    }
    let low = if from_zero { low.min(0.0) } else { low };
    let margin = if high > low { (high - low) * 0.05 } else { high.abs().max(1.0) * 0.05 };
    (if from_zero && low == 0.0 { 0.0 } else { low - margin }, high + margin)
}

/// A label for an axis: the fewest digits that distinguish neighbours.
fn tick(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        return format!("{value:.1e}");
    }
    if size >= 100.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    // What is left of -0.0001 is not a number to read.
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

fn lines<'a>(
    area: &Area<'a>,
    chart: &Chart,
    series: &[Series],
    levels: &[(String, f64)],
    log: bool,
) -> Result<(), Failed> {
    let points = series.iter().flat_map(|s| s.points.iter());
    let (x_low, x_high) = range(points.clone().map(|p| p.0), false);
    let ys = points.map(|p| p.1).chain(levels.iter().map(|l| l.1));
    let (y_low, y_high) = range(ys.clone(), true);
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&chart.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72);
    if log {
        let least = ys.filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least * 0.8 } else { 0.1 };
        let built = builder
            .build_cartesian_2d(x_low..x_high, (least..y_high.max(least * 10.0)).log_scale())?;
        draw_lines(built, chart, series, levels, (x_low, x_high))
    } else {
        draw_lines(
            builder.build_cartesian_2d(x_low..x_high, y_low..y_high)?,
            chart,
            series,
            levels,
            (x_low, x_high),
        )
    }
}

fn draw_lines<'a, Y>(
    mut built: ChartContext<
        'a,
        SVGBackend<'a>,
        Cartesian2d<plotters::coord::types::RangedCoordf64, Y>,
    >,
    chart: &Chart,
    series: &[Series],
    levels: &[(String, f64)],
    (x_low, x_high): (f64, f64),
) -> Result<(), Failed>
where
    Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    built
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(&chart.x_label)
        .y_desc(&chart.y_label)
        .x_label_formatter(&|x| tick(*x))
        .y_label_formatter(&|y| tick(*y))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (at, line) in series.iter().enumerate() {
        let style = colour(at);
        built.draw_series(LineSeries::new(line.points.iter().copied(), style.stroke_width(2)))?;
        // Many points are a curve of their own; few want to be seen.
        if line.points.len() <= 60 {
            built.draw_series(line.points.iter().map(|&p| Circle::new(p, 3, style.filled())))?;
        }
    }
    for (at, (_, level)) in levels.iter().enumerate() {
        let style = colour(series.len() + at);
        let ends = [(x_low, *level), (x_high, *level)];
        built.draw_series(DashedLineSeries::new(ends, 6, 4, style.stroke_width(2)))?;
    }
    Ok(())
}

/// Longest written name of a group, in characters; longer ones are shortened, the table has them
/// whole.
const NAME: usize = 16;

fn bars(
    area: &Area,
    chart: &Chart,
    groups: &[String],
    series: &[(String, Vec<Option<f64>>)],
) -> Result<(), Failed> {
    let values = series.iter().flat_map(|(_, v)| v.iter().flatten().copied());
    let (low, high) = range(values, true);
    let count = groups.len().max(1);
    let mut built = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..count as f64, low..high)?;
    built
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .y_desc(&chart.y_label)
        .y_label_formatter(&|y| tick(*y))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    let width = 0.8 / series.len().max(1) as f64;
    for (at, (_, values)) in series.iter().enumerate() {
        let style = colour(at);
        let rectangles = values.iter().enumerate().filter_map(|(group, value)| {
            let left = group as f64 + 0.1 + width * at as f64;
            value.map(|v| Rectangle::new([(left, 0.0), (left + width, v)], style.filled()))
        });
        built.draw_series(rectangles)?;
    }
    let bottom = area.dim_in_pixel().1;
    for (at, name) in groups.iter().enumerate() {
        let shown: String = name.chars().take(NAME).collect();
        let (x, _) = built.backend_coord(&(at as f64 + 0.5, low));
        let base = area.get_base_pixel();
        // Every second name sits lower, so that neighbours do not touch.
        let step = if groups.len() > 8 && at % 2 == 1 { 15 } else { 0 };
        let y = i32::try_from(bottom).unwrap_or(0) - 46 + step;
        let style =
            TextStyle::from((FONT, 13).into_font()).pos(plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Center,
                plotters::style::text_anchor::VPos::Top,
            ));
        area.draw_text(&shown, &style, (x - base.0, y))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_lines_and_bars() {
        let line =
            Chart::lines("A & B", "x", "y", vec![Series::new("one", vec![(1.0, 2.0), (2.0, 4.0)])]);
        let bar = Chart::bars("C", "y", vec!["g".into()], vec![("s".into(), vec![Some(1.0)])]);
        let text = svg(&[line.clone().level("limit", 3.0), line.logarithmic(), bar]).unwrap();
        assert!(text.starts_with("<svg") && text.contains("A &amp; B") && text.contains("limit"));
    }

    #[test]
    fn draws_nothing_without_failing() {
        let empty = Chart::lines("empty", "x", "y", Vec::new());
        let none = Chart::bars("none", "y", Vec::new(), Vec::new());
        assert!(svg(&[empty, none]).is_ok());
        assert!(svg(&[]).is_ok());
    }

    #[test]
    fn ticks_have_no_needless_digits() {
        let of = [0.0, -0.0, 0.5, 1.25, 40.0, 99.5, 812.4, 2.5e6].map(tick);
        assert_eq!(of, ["0", "0", "0.5", "1.25", "40", "99.5", "812", "2.5e6"]);
    }

    #[test]
    fn flat_and_odd_values_have_a_range() {
        assert_eq!(range([5.0].into_iter(), false), (4.75, 5.25));
        assert_eq!(range([0.0].into_iter(), true), (0.0, 0.05));
        assert_eq!(range([f64::NAN].into_iter(), true), (0.0, 1.0));
    }
}
