//! An experiment, its context, and the reasons why it has no outcome.
//!
//! Problem: all figures are run, stopped and listed in one way. Rule: each is an [`Experiment`], a
//! constant with a function; its [`Context`] sets the amount of simulation, and stops it.

use crate::Mutation;
use crate::outcome::Outcome;

/// Amount of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds of wall time a figure: fewer repetitions, shorter runs, the same shapes.
    Quick,
    /// The full number of repetitions, and longer runs.
    Full,
}

/// Input of an experiment.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Amount of simulation.
    pub scale: Scale,
    /// Seed of all draws.
    pub seed: u64,
    /// Is told the share done, 0 to 1, or NaN where it is not known; stops the experiment by
    /// returning false.
    pub progress: &'a (dyn Fn(f64) -> bool + Sync),
    /// What is changed, to see whether verdicts fall; `None`: nothing.
    pub mutation: Option<Mutation>,
}

impl Context<'_> {
    /// Tells the share done.
    ///
    /// # Errors
    /// [`ExperimentError::Interrupted`] when the caller wants to stop.
    pub fn done(&self, share: f64) -> Result<(), ExperimentError> {
        if (self.progress)(share) { Ok(()) } else { Err(ExperimentError::Interrupted) }
    }

    /// Is the set-up changed in this way?
    #[must_use]
    pub fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
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
    /// Its name on the command line: `sce-fig2`.
    pub id: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// Content of the figure.
    pub title: &'static str,
    /// Runs it.
    pub run: fn(&Context) -> Result<Outcome, ExperimentError>,
}

/// Reasons for which an experiment has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The set-up is impossible: a mistake in the experiment, or a platform file that lacks a
    /// value.
    #[error("{0}")]
    Setup(String),
    /// Results could not be written or read.
    #[error(transparent)]
    Files(#[from] solocore_model::ModelError),
}
