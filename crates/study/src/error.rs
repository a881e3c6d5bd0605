//! Reasons for which a study was refused or ended early.

use solocore_model::ModelError;
use solocore_planner::levels::optimiser::scheme::UnknownScheme;
use std::path::PathBuf;

/// The fault, its place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An argument makes no sense.
    #[error("{0}")]
    Input(String),
    /// No scheme has this name.
    #[error(transparent)]
    Scheme(#[from] UnknownScheme),
    /// A file could not be read or written, or does not match its format.
    #[error(transparent)]
    Files(#[from] ModelError),
    /// Directories that do not belong together, or without a study.
    #[error("{path}: {message}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The fault and its remedy.
        message: String,
    },
    /// The caller asked to stop; finished points are kept.
    #[error("interrupted")]
    Interrupted,
}
