//! Reasons for which a buffer cannot be obtained or used.

use std::io;

/// The fault, its place and the remedy, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// It is wrong on any machine.
    #[error("{0}")]
    Input(String),
    /// This machine cannot do it, or may not.
    #[error("{0}")]
    Machine(String),
}

impl BufferError {
    /// The last system call failed.
    pub(crate) fn os(what: &str, remedy: &str) -> Self {
        Self::io(what, &io::Error::last_os_error(), remedy)
    }

    pub(crate) fn io(what: &str, error: &io::Error, remedy: &str) -> Self {
        Self::Machine(format!("{what}: {error}; {remedy}"))
    }
}
