//! Runs an unmodified program under QEMU user-mode emulation with the solocore plugin and turns the
//! counts into a [`Profile`](solocore_model::Profile).
//!
//! It needs no hardware counters and no privileges, and takes any ELF program with an installed
//! emulator for its instruction set. One run of the program, with all processes that it starts, is
//! one job. Not covered: writes of the kernel on the program's behalf.

mod build;
pub mod carried;
mod elf;
mod emulation;
mod error;
mod functions;
mod inlined;
mod inputs;
mod job;
mod parts;
mod store;
mod symbols;
mod types;

pub use elf::Program;
pub use emulation::{TRACE_LIMIT, put, scratch, stop_child, trace_path};
pub use error::ProfileError;
pub use inputs::profile_inputs;
pub use job::{Job, Seen};
pub use solocore_cache::regions::Regions;
pub use store::{Cache, Kept, Known, key};
pub use types::profile;
