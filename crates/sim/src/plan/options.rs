//! Options and errors of a plan's simulation.
//!
//! Problem: partitions, levels and VCPUs set a board up from the same choices. Rule: all take
//! [`Options`] and fail with [`SimError`]; a plan counts in ns, the simulator in ps ([`PS`]).

use crate::board::BoardError;
use crate::kernel::KernelError;
use solocore_model::ModelError;
use solocore_model::results::Mode;

/// Picoseconds of a nanosecond.
pub const PS: u64 = 1000;

/// Reasons for which a plan could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A file it refers to is missing or wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A trace is missing or damaged, or the plan does not fit the board.
    #[error("{0}")]
    Input(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<BoardError> for SimError {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Kernel(KernelError::Interrupted) => Self::Interrupted,
            other => Self::Input(other.to_string()),
        }
    }
}

/// Options of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Alone, together, or together under the plan.
    pub mode: Mode,
    /// Simulated time.
    pub duration_ns: u64,
    /// Seed of page placement.
    pub seed: u64,
    /// Length of the first stretch whose timeline is recorded, ns.
    pub timeline_ns: u64,
}
