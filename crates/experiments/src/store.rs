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
    /// The build that made it ([`build`]); empty in records of earlier versions.
    #[serde(default)]
    pub build: String,
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
            build: build().to_owned(),
            scale,
            seed,
            holds: outcome.holds(),
            outcome,
        }
    }

    /// Did another build make it, or one that is not known?
    #[must_use]
    pub fn of_another_build(&self) -> bool {
        self.build.is_empty() || self.build != build()
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

    /// A stored outcome of the same experiment, scale and seed. The build may be another one.
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

/// Builds that made some records; those of records that name none count as one.
#[must_use]
pub fn builds(records: &[Record]) -> usize {
    let mut builds: Vec<&str> = records.iter().map(|r| r.build.as_str()).collect();
    builds.sort_unstable();
    builds.dedup();
    builds.len()
}

/// The identity of this build: a hash of the sources that decide outcomes.
#[must_use]
pub const fn build() -> &'static str {
    crate::build_identity::THIS
}

fn path(dir: &Path, id: &str, kind: &str) -> PathBuf {
    dir.join(format!("{id}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Table, find, page};

    fn made(build: &str) -> Record {
        let experiment: Experiment = find("sce-fig2").expect("an experiment");
        let outcome = Outcome::new(Table::new(&["a"]));
        Record { build: build.to_owned(), ..Record::new(&experiment, Scale::Quick, 1, outcome) }
    }

    #[test]
    fn a_record_of_another_build_is_kept_and_known() {
        let dir = tempfile::tempdir().expect("a directory");
        for (of, another) in [(build(), false), ("0123456789abcdef", true), ("", true)] {
            made(of).write(dir.path()).expect("it is written");
            let kept = Record::find(dir.path(), "sce-fig2", Scale::Quick, 1).expect("it is kept");
            assert_eq!((kept.build.as_str(), kept.of_another_build()), (of, another));
        }
    }

    #[test]
    fn the_page_says_how_many_builds_made_its_outcomes() {
        let page = |records: &[Record]| page::markdown(records, "img", "today");
        assert!(page(&[made("a"), made("a")]).contains("come from one build of solocore"));
        assert!(page(&[made("")]).contains("name no build of solocore"));
        let mixed = page(&[made("a"), made("b"), made("a"), made("")]);
        assert!(mixed.contains("come from 3 builds of solocore"), "{mixed}");
    }
}
