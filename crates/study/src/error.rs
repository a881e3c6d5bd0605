//! Why a study was refused or ended early.

use solocore_model::ModelError;
use solocore_planner::levels::optimiser::scheme::UnknownScheme;
use std::path::PathBuf;

/// What went wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An argument makes no sense.
    #[error("{0}")]
    Input(String),
    /// A scheme that there is not.
    #[error(transparent)]
    Scheme(#[from] UnknownScheme),
    /// A file could not be read or written, or is not what its format asks for.
    #[error(transparent)]
    Files(#[from] ModelError),
    /// Directories that do not belong together, or what they hold is not a study.
    #[error("{path}: {message}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// The caller asked to stop; what was done is kept.
    #[error("interrupted")]
    Interrupted,
}
