//! The offline optimiser of MC2.
//!
//! # Problem
//! The assignment of tasks of levels A and B to cores, of message and I/O buffers to banks, and of
//! ways of the shared cache to regions, under nine ways to manage buffers.
//!
//! # Source
//! Kim, Tang, Otterness, Anderson, Smith, Porter, "Supporting I/O and IPC via Fine-Grained OS
//! Isolation for Mixed-Criticality Real-Time Tasks", sections 4 to 6.
//!
//! # Where to start
//! [`Allocator::allocate`] optimises a [`TaskSystem`] on a [`Machine`] (phases in [`placement`],
//! [`tables`] and [`ways`]); [`verify::verify`] checks the result by other means.
//! `super::translate` makes a task system from a system file; the laboratory `study` draws random
//! ones.

mod allocate;
mod by_scheme;
pub mod curve;
mod machine;
pub mod per_buffer;
pub mod placement;
pub mod scheme;
pub mod tables;
pub mod tasks;
pub mod verify;
pub mod ways;

pub use allocate::{Allocation, Allocator, Answer, Problem};
pub use machine::Machine;
pub use scheme::Scheme;
pub use tasks::TaskSystem;
pub use ways::Objective;
