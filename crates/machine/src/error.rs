//! Why there is no description: whose fault it is decides the exit code.

/// What was wrong, where, and what to do, on one line.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// An option or a file is wrong on any machine.
    #[error("{0}")]
    Input(String),
    /// This machine does not tell enough, or cannot do it.
    #[error("{0}")]
    Machine(String),
    /// A file of the model could not be read or written.
    #[error(transparent)]
    Model(#[from] solocore_model::ModelError),
}
