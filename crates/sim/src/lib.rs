//! A deterministic simulated board: cores replay what profiled programs did to memory, the shared
//! cache and DRAM answer, and the regulators and schedulers are the policies of `policy/`.
//!
//! Parts and their interfaces: [`source::TaskSource`] gives each job's stream of computation and
//! shared-cache accesses; [`memory::MemoryModel`] answers accesses with times; [`engine`] moves time,
//! releases jobs, and asks `solocore-policy` for every decision. The same seed gives the same result.
//!
//! Not covered yet (see CAVEATS.md): several outstanding requests of one core, refresh, write queues,
//! prefetchers, interrupt costs.

mod allocate;
mod dram;
mod engine;
pub mod fluid;
pub mod hardware;
pub mod kernel;
mod llc;
pub mod machine;
pub mod memory;
pub mod program;
pub mod source;
pub mod workload;

pub use dram::Dram;
pub use engine::{Loaded, Options, SimError, load, simulate};
