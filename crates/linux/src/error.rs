//! Errors of regulation: the cause (the input, the machine, or solocore) decides the exit code.

/// The fault, its place and the remedy, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinuxError {
    /// The plan or an option is wrong on any machine.
    #[error("{0}")]
    Input(String),
    /// This machine cannot do it, or this process may not.
    #[error("{0}")]
    Machine(String),
}

impl LinuxError {
    /// The same error, with its subject in front.
    #[must_use]
    pub fn of(self, what: &str) -> Self {
        match self {
            Self::Input(text) => Self::Input(format!("{what}: {text}")),
            Self::Machine(text) => Self::Machine(format!("{what}: {text}")),
        }
    }

    /// A failed operation of the system.
    pub(crate) fn of_io(what: &str, error: &std::io::Error, remedy: &str) -> Self {
        Self::Machine(format!("{what}: {error}; {remedy}"))
    }
}
