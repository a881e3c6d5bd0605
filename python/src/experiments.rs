//! The laboratory: the study of MC2, and the papers' figures.

use crate::errors::Error;
use crate::work;
use pyo3::prelude::*;
use serde_json::json;
use solocore_experiments::attack::{Policy, Search, board_named};
use solocore_experiments::{Context, ExperimentError, Record, Scale, chart};
use solocore_model::files;
use solocore_planner::levels::optimiser::Scheme;
use solocore_study::journal::{Journal, Manifest, Points, line};
use solocore_study::parameters::DEFAULT_PARAMETERS;
use solocore_study::{Parameters, Study, StudyError, asked, output, results};
use std::path::PathBuf;

/// Runs a study: JSON with points (CSV), areas, observations and a chart (SVG) of each scenario.
#[pyfunction]
pub fn study(
    py: Python<'_>,
    scenarios: Vec<String>,
    schemes: Option<String>,
    utilization: Option<String>,
    seed: u64,
    directory: Option<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    work::run(py, progress, |watch| {
        let scenarios = asked::scenarios(&scenarios)?;
        if scenarios.is_empty() {
            return Err(Error::input("scenarios: there are none; name at least one"));
        }
        let schemes = schemes.as_deref().map(asked::schemes).transpose()?;
        let schemes = schemes.unwrap_or_else(|| Scheme::paper().collect());
        let utilizations = asked::utilizations(utilization.as_deref().unwrap_or("0.2:8:0.2"))?;
        let parameters = Parameters::parse("parameters.toml".as_ref(), DEFAULT_PARAMETERS)?;
        let digest = parameters.digest();
        let manifest = Manifest::new(digest, seed, &schemes, &scenarios, utilizations, None);
        let mut journal = match &directory {
            Some(dir) => Some(Journal::create(dir, &manifest, DEFAULT_PARAMETERS)?),
            None => None,
        };
        let mut points = Points::new();
        let step = |share: f64| watch.step(share);
        let study = Study { parameters: &parameters, manifest: &manifest, progress: &step };
        study.run(journal.as_mut(), &mut points)?;
        if let Some(dir) = &directory {
            output::write(dir, &manifest, &points)?;
        }
        Ok(document(&manifest, &points)?)
    })
}

/// A scenario of a study: the lines of its journal. `utilizations` in thousandths.
#[pyfunction]
pub fn study_lines(
    py: Python<'_>,
    parameters: String,
    scenario: String,
    schemes: String,
    utilizations: Vec<u32>,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    work::run(py, progress, |watch| {
        let parameters = Parameters::parse("parameters.toml".as_ref(), &parameters)?;
        let (schemes, scenarios) = (asked::schemes(&schemes)?, asked::scenarios(&[scenario])?);
        let digest = parameters.digest();
        let manifest = Manifest::new(digest, seed, &schemes, &scenarios, utilizations, None);
        let mut points = Points::new();
        let step = |share: f64| watch.step(share);
        let study = Study { parameters: &parameters, manifest: &manifest, progress: &step };
        study.run(None, &mut points)?;
        Ok(points.iter().map(|((scenario, milli), point)| line(*scenario, *milli, point)).collect())
    })
}

fn document(manifest: &Manifest, points: &Points) -> Result<String, StudyError> {
    let areas = results::areas(manifest, points)?;
    let csv = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut charts = serde_json::Map::new();
    for scenario in manifest.own_scenarios()? {
        let svg = solocore_study::chart::svg(manifest, points, scenario)?;
        charts.insert(scenario.to_string(), svg.into());
    }
    let sums = results::total(&areas, manifest.schemes.len(), |_| true);
    let areas_by_scheme: Vec<_> = manifest
        .schemes
        .iter()
        .zip(sums)
        .map(|(scheme, sua)| json!({"scheme": scheme, "sua": sua}))
        .collect();
    Ok(files::to_json(&json!({
        "points": csv(results::points_csv(manifest, points)?),
        "sua": areas_by_scheme,
        "observations": results::observations(manifest, &areas),
        "charts": charts,
    })))
}

/// All experiments: name, source and title.
#[pyfunction]
pub fn experiments() -> Vec<(&'static str, &'static str, &'static str)> {
    solocore_experiments::all().iter().map(|e| (e.id, e.source, e.title)).collect()
}

/// Runs the experiments of a name.
fn records(
    py: Python<'_>,
    name: String,
    quick: bool,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Record>> {
    let scale = if quick { Scale::Quick } else { Scale::Full };
    work::run(py, progress, |watch| {
        let chosen = solocore_experiments::named(&[name])?;
        let mut found = Vec::with_capacity(chosen.len());
        for (at, experiment) in chosen.iter().enumerate() {
            let step = |share: f64| watch.step((at as f64 + share) / chosen.len() as f64);
            let context = Context { scale, seed, progress: &step, mutation: None };
            found.push(Record::new(experiment, scale, seed, (experiment.run)(&context)?));
        }
        Ok(found)
    })
}

fn svg(record: &Record) -> Result<String, Error> {
    Ok(chart::svg(&record.outcome.charts).map_err(ExperimentError::Setup)?)
}

/// Runs the experiments of a name: a JSON record and a chart (SVG) of each.
#[pyfunction]
pub fn reproduce(
    py: Python<'_>,
    name: String,
    quick: bool,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, String)>> {
    let found = records(py, name, quick, seed, progress)?;
    let one = |record: &Record| Ok((files::to_json(record), svg(record)?));
    Ok(found.iter().map(one).collect::<Result<_, Error>>()?)
}

/// Runs the experiments of a name: table (CSV), chart (SVG) and record (JSON) of each, as the
/// command writes them.
#[pyfunction]
pub fn reproduce_files(
    py: Python<'_>,
    name: String,
    quick: bool,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, String, String)>> {
    let found = records(py, name, quick, seed, progress)?;
    let one =
        |record: &Record| Ok((record.outcome.table.to_csv(), svg(record)?, files::to_json(record)));
    Ok(found.iter().map(one).collect::<Result<_, Error>>()?)
}

/// Attacks bounds: the result as JSON.
#[pyfunction]
pub fn attack(
    py: Python<'_>,
    policy: String,
    board: String,
    attacks: u64,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    work::run(py, progress, |watch| {
        let step = |share: f64| watch.step(share);
        let search =
            Search { policy: Policy::named(&policy)?, board: board_named(&board)?, attacks, seed };
        Ok(files::to_json(&search.report(&step)?))
    })
}
