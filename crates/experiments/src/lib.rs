//! The experiments of the five papers on simulated boards.
//!
//! Problem: a paper's figure is a claim about one board on one day. Rule: each figure and table is an [`Experiment`] that
//! builds the paper's set-up on a simulated board, measures, and says of each claim whether it holds ([`outcome`]). The shapes
//! and orders are the claims; absolute numbers belong to the papers' boards. docs/reproduction.md is written by [`page`]
//! from what came out.
//!
//! This is the laboratory: nothing that plans or runs a system depends on it. `solocore reproduce` runs it, and `solocore bench ipc` draws
//! with its [`chart`].
//!
//! Not covered: figures that show no measurement (architecture sketches), and MC2's Fig. 15 (`solocore study`).

mod bwlock;
pub mod chart;
mod dynamic;
mod maracas;
mod mc2;
pub mod outcome;
pub mod page;
pub mod run;
mod sce;
pub mod store;

pub use chart::{Chart, Marks, Series};
pub use outcome::{Cell, Check, Outcome, Table};
pub use store::Record;

/// How much to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds of wall time a figure: fewer repetitions, shorter runs, the same shapes.
    Quick,
    /// As many repetitions and as long runs as are worth waiting for.
    Full,
}

/// What an experiment is given.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// How much to simulate.
    pub scale: Scale,
    /// Everything random follows from it.
    pub seed: u64,
    /// Told the share done, 0 to 1, or NaN where it is not known; stops the experiment by returning false.
    pub progress: &'a (dyn Fn(f64) -> bool + Sync),
}

/// A figure or table of a paper.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// What the command line calls it: `sce-fig2`.
    pub id: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Runs it.
    pub run: fn(&Context) -> Result<Outcome, ExperimentError>,
}

/// Why an experiment has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The set-up is impossible: a slip in the experiment, or a platform file that lacks something.
    #[error("{0}")]
    Setup(String),
    /// Writing or reading results.
    #[error(transparent)]
    Files(#[from] solocore_model::ModelError),
}

/// All experiments, in the order of the papers.
#[must_use]
pub fn all() -> Vec<Experiment> {
    [sce::ALL, bwlock::ALL, dynamic::ALL, maracas::ALL, mc2::ALL].concat()
}

/// The experiment of that name.
#[must_use]
pub fn find(id: &str) -> Option<Experiment> {
    all().into_iter().find(|e| e.id == id)
}

impl Context<'_> {
    /// Tells the share done.
    ///
    /// # Errors
    /// [`ExperimentError::Interrupted`] when the caller wants to stop.
    pub fn done(&self, share: f64) -> Result<(), ExperimentError> {
        if (self.progress)(share) { Ok(()) } else { Err(ExperimentError::Interrupted) }
    }

    /// `quick` or `full`, by the scale.
    #[must_use]
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        match self.scale {
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }
}
