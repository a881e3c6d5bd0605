//! Reasons for which there is no description. The cause (input or machine) decides the exit code.

/// The fault, its place and the remedy, on one line.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// An option or a file is wrong on any machine.
    #[error("{0}")]
    Input(String),
    /// This machine does not give enough information, or cannot do it.
    #[error("{0}")]
    Machine(String),
    /// A file of the model could not be read or written.
    #[error(transparent)]
    Model(#[from] solocore_model::ModelError),
}
