//! The files of a finished study, each written completely or not at all.

use crate::journal::{Manifest, Points};
use crate::results::{self, Observation};
use crate::study::curve;
use crate::{StudyError, chart};
use rayon::prelude::*;
use solocore_model::files::write_atomically;
use std::path::Path;

/// Results of a study.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Scheme and its area.
    pub sua: Vec<(String, f64)>,
    /// Observations 7 to 11.
    pub observations: Vec<Observation>,
    /// Points up to each scenario's end.
    pub points: usize,
    /// Systems tried in them.
    pub systems: u64,
    /// Systems on which O|opt was left open.
    pub undecided: u64,
}

/// Works out the results and writes `points.csv`, `sua.csv`, `sua_by_scenario.csv`,
/// `observations.csv` and a plot per scenario.
///
/// # Errors
/// When a file cannot be written.
pub fn write(dir: &Path, manifest: &Manifest, points: &Points) -> Result<Summary, StudyError> {
    let areas = results::areas(manifest, points)?;
    let observations = results::observations(manifest, &areas);
    write_atomically(&dir.join("points.csv"), &results::points_csv(manifest, points)?)?;
    write_atomically(&dir.join("sua.csv"), &results::sua_csv(manifest, &areas)?)?;
    write_atomically(
        &dir.join("sua_by_scenario.csv"),
        &results::scenario_sua_csv(manifest, &areas)?,
    )?;
    write_atomically(&dir.join("observations.csv"), &results::observations_csv(&observations)?)?;
    manifest.own_scenarios()?.par_iter().try_for_each(|&scenario| -> Result<(), StudyError> {
        let plot = chart::svg(manifest, points, scenario)?;
        Ok(write_atomically(&dir.join(format!("{}.svg", scenario.file_name())), plot.as_bytes())?)
    })?;
    let sums = results::total(&areas, manifest.schemes.len(), |_| true);
    let mut summary = Summary {
        sua: manifest.schemes.iter().cloned().zip(sums).collect(),
        observations,
        points: 0,
        systems: 0,
        undecided: 0,
    };
    // Points beyond a scenario's end may exist, depending on threads; they do not count.
    for scenario in manifest.own_scenarios()? {
        for (_, point) in curve(points, scenario, &manifest.utilizations) {
            summary.points += 1;
            summary.systems += u64::from(point.systems);
            summary.undecided += u64::from(point.undecided);
        }
    }
    Ok(summary)
}
