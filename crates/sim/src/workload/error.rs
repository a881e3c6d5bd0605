//! Reasons for which a workload could not be built: the key, or the place in a file, and the
//! remedy.

use solocore_model::ModelError;
use std::path::{Path, PathBuf};

/// Reasons for which a workload could not be built.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter has an impossible value.
    #[error("workload `{kind}`: {key} = {value}; {message}")]
    Value {
        /// Kind of the workload.
        kind: &'static str,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The fault and its remedy.
        message: String,
    },
    /// A required parameter is missing.
    #[error("workload `{kind}`: {key} is missing; {message}")]
    Missing {
        /// Kind of the workload.
        kind: &'static str,
        /// The key.
        key: &'static str,
        /// Advice on the value.
        message: &'static str,
    },
    /// The parameters are possible, the platform's figures are not.
    #[error("workloads: impossible platform: {0}")]
    Platform(String),
    /// A trace cannot be replayed.
    #[error("{}{}: {message}", path.display(), place.as_ref().map_or(String::new(), |p| format!(", {p}")))]
    Trace {
        /// The file.
        path: PathBuf,
        /// Line or record, where it is known.
        place: Option<String>,
        /// The fault there and its remedy.
        message: String,
    },
    /// A profile cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl WorkloadError {
    pub(super) fn trace(path: &Path, place: Option<String>, message: String) -> Self {
        Self::Trace { path: path.to_owned(), place, message }
    }
}
