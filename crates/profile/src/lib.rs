//! Runs an unmodified program under QEMU user-mode emulation with the solocore plugin and turns
//! what it counted into a [`Profile`](solocore_model::Profile).
//!
//! Needs no hardware counters and no privileges, and takes any ELF program whose instruction set
//! has an emulator installed. One run of the program is one job. Not covered: memory use of child
//! processes (counted and said), and what the kernel writes on the program's behalf.

mod build;
mod cache;
mod elf;
mod emulation;
mod error;
mod job;
mod symbols;

pub use cache::{Cache, key};
pub use elf::Program;
pub use emulation::{TRACE_LIMIT, profile, stop_child, trace_path};
pub use error::ProfileError;
pub use job::Job;
