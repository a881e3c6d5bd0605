//! Outcomes on disk: `ID.csv`, `ID.svg` and `ID.json`, each written completely or not at all.

use crate::{ExperimentError, Outcome, Scale, chart};
use serde::{Deserialize, Serialize};
use solocore_model::{ModelError, files};
use std::path::{Path, PathBuf};

/// Written at the head of every outcome file.
const FORMAT: &str = "solocore-outcome/2";

/// An outcome and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `solocore-outcome/2`.
    pub format: String,
    /// The experiment.
    pub id: String,
    /// Its paper and figure.
    pub source: String,
    /// Content of the figure.
    pub title: String,
    /// Amount of simulation.
    pub scale: Scale,
    /// The seed.
    pub seed: u64,
    /// Is there a claim that holds, and none that differs?
    pub holds: bool,
    /// The outcome.
    pub outcome: Outcome,
}

impl Record {
    /// Names the outcome of an experiment.
    #[must_use]
    pub fn new(experiment: &crate::Experiment, scale: Scale, seed: u64, outcome: Outcome) -> Self {
        Self {
            format: FORMAT.to_owned(),
            id: experiment.id.to_owned(),
            source: experiment.source.to_owned(),
            title: experiment.title.to_owned(),
            scale,
            seed,
            holds: outcome.holds(),
            outcome,
        }
    }

    /// Writes the three files; the JSON file last, as it says that the others are there.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ExperimentError> {
        std::fs::create_dir_all(dir)
            .map_err(|source| ModelError::Write { path: dir.to_owned(), source })?;
        let svg = chart::svg(&self.outcome.charts).map_err(ExperimentError::Setup)?;
        files::write_atomically(
            &path(dir, &self.id, "csv"),
            self.outcome.table.to_csv().as_bytes(),
        )?;
        files::write_atomically(&path(dir, &self.id, "svg"), svg.as_bytes())?;
        files::write_json(&path(dir, &self.id, "json"), self)?;
        Ok(())
    }

    /// A stored outcome of the same experiment, scale and seed.
    #[must_use]
    pub fn find(dir: &Path, id: &str, scale: Scale, seed: u64) -> Option<Self> {
        let whole = ["csv", "svg"].iter().all(|kind| path(dir, id, kind).is_file());
        let record: Self = files::read_json(&path(dir, id, "json")).ok()?;
        (whole
            && record.format == FORMAT
            && record.id == id
            && record.scale == scale
            && record.seed == seed)
            .then_some(record)
    }
}

fn path(dir: &Path, id: &str, kind: &str) -> PathBuf {
    dir.join(format!("{id}.{kind}"))
}
