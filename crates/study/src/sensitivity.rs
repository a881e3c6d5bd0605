//! Dependence of the results on the assumptions.
//!
//! Rule: the study is run again with each range of the parameters multiplied by 1/2 and by 3/2 (cut
//! to its permitted values), all else unchanged, on the same seeds. The figures of the observations
//! are compared. A figure that keeps its sign and size under every change does not depend on the
//! assumptions.
//!
//! Not covered: several ranges changed together.

use crate::StudyError;
use crate::journal::{Manifest, Points};
use crate::parameters::Parameters;
use crate::results::{self, Observation};
use crate::study::Study;
use std::collections::BTreeSet;

/// Factors by which ranges are multiplied.
pub const FACTORS: [f64; 2] = [0.5, 1.5];

/// The observations under one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The range that was multiplied; none for the parameters as given.
    pub range: Option<&'static str>,
    /// The factor.
    pub factor: f64,
    /// Observations 7 to 11.
    pub observations: Vec<Observation>,
}

/// Runs the study as given, then with each change. `progress` is told the share done and may stop
/// it.
///
/// # Errors
/// [`StudyError::Interrupted`].
pub fn run(
    parameters: &Parameters,
    manifest: &Manifest,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<Vec<Change>, StudyError> {
    let mut cases: Vec<(Option<&'static str>, f64)> = vec![(None, 1.0)];
    cases.extend(
        Parameters::names().into_iter().flat_map(|name| FACTORS.map(|factor| (Some(name), factor))),
    );
    let mut out = Vec::with_capacity(cases.len());
    for (at, &(range, factor)) in cases.iter().enumerate() {
        let changed = range
            .and_then(|name| parameters.scaled(name, factor))
            .unwrap_or_else(|| parameters.clone());
        let part = |share: f64| {
            let whole = if share < 0.0 { share } else { (at as f64 + share) / cases.len() as f64 };
            progress(whole)
        };
        let mut points = Points::new();
        Study { parameters: &changed, manifest, progress: &part }.run(None, &mut points)?;
        let areas = results::areas(manifest, &points)?;
        out.push(Change { range, factor, observations: results::observations(manifest, &areas) });
    }
    Ok(out)
}

/// `sensitivity.csv`: parameter, factor, observation, holds, figure, percent, change (in percentage
/// points).
///
/// # Errors
/// None: writing a table of text does not fail.
pub fn to_csv(changes: &[Change]) -> Result<Vec<u8>, StudyError> {
    let header = ["parameter", "factor", "observation", "holds", "figure", "percent", "change"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let Some(base) = changes.first() else { return results::to_csv(&rows) };
    for change in changes {
        for (o, before) in change.observations.iter().zip(&base.observations) {
            for (f, was) in o.figures.iter().zip(&before.figures) {
                let moved = f.here.zip(was.here).map(|(now, then)| now - then);
                let number = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.2}"));
                let holds = o.holds.map_or_else(String::new, |h| h.to_string());
                let range = change.range.unwrap_or("as given").to_owned();
                let observation =
                    if o.number == 0 { "O|opt".to_owned() } else { o.number.to_string() };
                let factor = format!("{}", change.factor);
                rows.push(vec![
                    range,
                    factor,
                    observation,
                    holds,
                    f.what.clone(),
                    number(f.here),
                    number(moved),
                ]);
            }
        }
    }
    results::to_csv(&rows)
}

/// For each observation, the changes under which it does not hold.
#[must_use]
pub fn broken(changes: &[Change]) -> Vec<(u32, BTreeSet<String>)> {
    let Some(base) = changes.first() else { return Vec::new() };
    let failing = |number: u32| {
        let fails = |c: &&Change| {
            c.observations.iter().any(|o| o.number == number && o.holds == Some(false))
        };
        changes
            .iter()
            .filter(fails)
            .map(|c| format!("{} x {}", c.range.unwrap_or("as given"), c.factor))
            .collect()
    };
    base.observations.iter().map(|o| (o.number, failing(o.number))).collect()
}
