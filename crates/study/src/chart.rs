//! One plot per scenario, in the manner of the paper's Fig. 15: utilization across, share of
//! schedulable systems upwards.
//!
//! The colour gives the place of I/O buffers, the form of the line that of message buffers (dotted
//! R, dashed C, solid O), so that ten curves can be distinguished. Colours are those of Okabe and
//! Ito.

use crate::StudyError;
use crate::journal::{Manifest, Points};
use crate::scenario::Scenario;
use crate::study::curve;
use plotters::prelude::*;
use solocore_planner::levels::optimiser::scheme::{Io, Ipc, Scheme};

pub(crate) type Failed = DrawingAreaErrorKind<std::io::Error>;

const SIZE: (u32, u32) = (860, 420);
/// Space right of the plot, for names, in pixels.
const LEGEND: u32 = 170;
pub(crate) const FONT: &str = "sans-serif";

fn colour(io: Io) -> RGBColor {
    match io {
        Io::Random => RGBColor(90, 90, 90),
        Io::LevelC => RGBColor(0, 114, 178),
        Io::All => RGBColor(213, 94, 0),
        Io::LongPeriods => RGBColor(0, 158, 115),
        Io::ShortPeriods => RGBColor(204, 121, 167),
        Io::PerBuffer => RGBColor(230, 159, 0),
    }
}

/// Length of dashes and of the gaps between, in pixels; no gap for a solid line.
fn dash(ipc: Ipc) -> (i32, i32) {
    match ipc {
        Ipc::Random => (2, 4),
        Ipc::LevelC => (8, 5),
        Ipc::Optimized => (1, 0),
    }
}

/// The plot of a scenario as SVG.
///
/// # Errors
/// Errors of the drawing library; it has no reason for any.
pub fn svg(manifest: &Manifest, points: &Points, scenario: Scenario) -> Result<String, StudyError> {
    let mut text = String::new();
    draw(&mut text, manifest, points, scenario)
        .map_err(|e| StudyError::Input(format!("{scenario}: cannot draw: {e}")))?;
    Ok(text)
}

fn draw(
    text: &mut String,
    manifest: &Manifest,
    points: &Points,
    scenario: Scenario,
) -> Result<(), Failed> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, names) = area.split_horizontally(SIZE.0 - LEGEND);
    let last =
        curve(points, scenario, &manifest.utilizations).last().map_or(1000, |(milli, _)| milli);
    let mut chart = ChartBuilder::on(&plot)
        .caption(format!("({})", scenario.to_string().replace(',', ", ")), (FONT, 17))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..f64::from(last) / 1000.0, 0.0..1.02)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("system utilization")
        .y_desc("schedulable systems")
        .x_label_formatter(&|x| format!("{x:.1}"))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (at, name) in manifest.schemes.iter().enumerate() {
        let Ok(scheme) = Scheme::parse(name) else { continue };
        let shares = curve(points, scenario, &manifest.utilizations).map(|(milli, p)| {
            (f64::from(milli) / 1000.0, f64::from(p.schedulable[at]) / f64::from(p.systems))
        });
        let line: Vec<(f64, f64)> = std::iter::once((0.0, 1.0)).chain(shares).collect();
        let style = colour(scheme.io).stroke_width(2);
        let y = 52 + 22 * i32::try_from(at).unwrap_or(0);
        match dash(scheme.ipc) {
            (_, 0) => {
                chart.draw_series(LineSeries::new(line, style))?;
                names.draw(&PathElement::new([(4, y), (34, y)], style))?;
            }
            (on, off) => {
                chart.draw_series(DashedLineSeries::new(
                    line,
                    u32::try_from(on).unwrap_or(1),
                    u32::try_from(off).unwrap_or(1),
                    style,
                ))?;
                for x in (4..34).step_by(usize::try_from(on + off).unwrap_or(1)) {
                    names.draw(&PathElement::new([(x, y), ((x + on).min(34), y)], style))?;
                }
            }
        }
        names.draw_text(name, &TextStyle::from((FONT, 13).into_font()), (42, y - 7))?;
    }
    area.present()
}
