//! Errors of a board.

use solocore_model::ModelError;
use solocore_plugin::PluginError;

/// Reason why a board did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The user's request is at fault.
    #[error("{0}")]
    Input(String),
    /// This machine, the archive or the guest is at fault.
    #[error("{0}")]
    Machine(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Stopped by a signal.
    #[error("interrupted")]
    Interrupted,
}

impl From<PluginError> for BoardError {
    fn from(error: PluginError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl BoardError {
    /// An operation on a file or a directory of this machine failed.
    pub(crate) fn file(path: &std::path::Path, what: &str, error: &std::io::Error) -> Self {
        Self::Machine(format!(
            "{}: cannot {what}: {error}; check its permissions and the free space",
            path.display()
        ))
    }
}
