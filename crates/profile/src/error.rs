//! Errors of profiling.
//!
//! Problem: a wrong program and a machine without an emulator need different answers. Rule: the
//! error names the side that is at fault.

use solocore_model::ModelError;
use solocore_plugin::PluginError;

/// Reason for a missing profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The program or its arguments are at fault.
    #[error("{0}")]
    Input(String),
    /// This machine lacks something.
    #[error("{0}")]
    Machine(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Stopped by a signal.
    #[error("interrupted")]
    Interrupted,
}

impl From<PluginError> for ProfileError {
    fn from(error: PluginError) -> Self {
        Self::Machine(error.to_string())
    }
}
