//! The nouns of solocore: units, platforms, systems, profiles, plans and results.
//!
//! Every file that solocore reads or writes has its type here. This crate computes no bound, runs
//! no program and simulates nothing: the crates that do depend on it.

pub mod derivation;
pub mod dma;
pub mod error;
pub mod files;
mod input;
mod kind;
pub mod levels;
mod list;
mod missing;
pub mod output;
pub mod plan;
pub mod platform;
pub mod profile;
pub mod provenance;
pub mod random;
pub mod results;
pub mod run;
pub mod sched_trace;
pub mod schema;
pub mod system;
pub mod times;
pub mod units;
pub mod vcpus;
pub mod verification;
pub mod windows;
mod words;

pub use derivation::Derivation;
pub use error::ModelError;
pub use list::list;
pub use plan::Plan;
pub use platform::Platform;
pub use profile::Profile;
pub use results::SimResult;
pub use system::System;
pub use times::Times;
pub use units::{Bandwidth, Bytes, Cycles, Frequency, Time};
pub use windows::WindowsInput;
