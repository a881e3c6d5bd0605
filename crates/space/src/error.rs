//! Reasons for which memory is not divided. The cause (input or machine) decides the exit code.

/// The fault, its place and the remedy, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// An option or a file is wrong on any machine.
    #[error("{0}")]
    Input(String),
    /// This machine cannot do it, or may not.
    #[error("{0}")]
    Machine(String),
}

impl SpaceError {
    /// A failed system call.
    pub(crate) fn os(what: &str, remedy: &str) -> Self {
        Self::of_io(what, &std::io::Error::last_os_error(), remedy)
    }

    /// A failed operation of the system.
    pub(crate) fn of_io(what: &str, error: &std::io::Error, remedy: &str) -> Self {
        Self::Machine(format!("{what}: {error}; {remedy}"))
    }
}
