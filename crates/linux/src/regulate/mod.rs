//! Regulation of accesses to memory: events, budgets of a plan, and engines that keep them.
//!
//! Rule: BPF programs (`bpf`, `shared`) count and decide in the kernel; an [`engine`] loads them,
//! binds them to counters (`attach`) and stops a CPU.

pub(crate) mod asked;
pub(crate) mod attach;
pub(crate) mod awake;
pub(crate) mod bpf;
pub mod budget;
pub mod dynamic;
pub mod engine;
pub mod event;
pub(crate) mod handover;
pub mod history;
mod hook;
pub(crate) mod liveness;
#[cfg(test)]
mod liveness_tests;
pub mod lock;
pub(crate) mod paced;
pub mod regulation;
pub(crate) mod shared;

pub use event::Event;
pub use handover::Budgets;
pub use regulation::{Options, Regulation, Sharing};
pub use shared::{Counts, WriteCounts};
