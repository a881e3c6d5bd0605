//! Laboratory: the paper's schedulability study of MC2. It plans no system.
//!
//! # Problem
//! The share of random task systems that are schedulable under nine ways to manage buffers, in 648
//! scenarios.
//!
//! # Source
//! Kim, Tang, Otterness, Anderson, Smith, Porter, "Supporting I/O and IPC via Fine-Grained OS
//! Isolation for Mixed-Criticality Real-Time Tasks", section 6. Values that the paper leaves open
//! are in `parameters.toml`.
//!
//! # Where to start
//! [`generator::generate`] draws a system, the planner's optimiser
//! (`solocore_planner::levels::optimiser`) decides on it, [`Study`] does so millions of times.

pub mod asked;
pub mod changes;
pub mod chart;
mod error;
pub mod generator;
pub mod journal;
pub mod output;
pub mod parameters;
pub mod random;
pub mod results;
pub mod sampling;
pub mod scenario;
pub mod sensitivity;
pub mod shards;
pub mod sporadic;
pub mod study;

pub use error::StudyError;
pub use journal::{Journal, Manifest, Points};
pub use parameters::Parameters;
pub use scenario::Scenario;
pub use study::Study;
