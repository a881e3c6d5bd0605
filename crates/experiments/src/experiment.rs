//! What an experiment is, what it is given, and why it has no outcome.
//!
//! Problem: all figures are run, stopped and listed in one way. Rule: each is an [`Experiment`], a
//! constant with a function; its [`Context`] says how much to simulate, and stops it.

use crate::outcome::Outcome;

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
    /// Told the share done, 0 to 1, or NaN where it is not known; stops the experiment by returning
    /// false.
    pub progress: &'a (dyn Fn(f64) -> bool + Sync),
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
