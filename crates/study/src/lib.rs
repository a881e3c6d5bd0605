//! The offline optimiser of MC2 and the paper's schedulability study.
//!
//! # Problem
//! Which task of levels A and B on which core, which message and I/O buffers where, how many ways of the shared cache to
//! whom; and what share of random task systems is schedulable so, under nine ways to manage buffers, in 648 scenarios.
//!
//! # Source
//! Kim, Tang, Otterness, Anderson, Smith, Porter, "Supporting I/O and IPC via Fine-Grained OS Isolation for
//! Mixed-Criticality Real-Time Tasks", sections 4 to 6. What the paper leaves open is in `parameters.toml`.
//!
//! # Optimiser and laboratory
//! The study ([`study`], [`sampling`], [`journal`], [`output`], [`sensitivity`], and the drawing of random systems in [`generator`]) is laboratory: it plans
//! no system. What it repeats a million times does: [`allocate`] with [`placement`], [`tables`], [`ways`], [`per_buffer`] and [`verify`] plans every system
//! with `[mc2]`, translated by `solocore-planner` into the types of [`generator`] and [`scheme`].
//!
//! # Where to start
//! [`System::generate`] draws a system, [`Allocator::allocate`] optimises it, [`verify::verify`] checks the result by other
//! means, [`Study`] does so millions of times.

pub mod allocate;
pub mod chart;
pub mod columns;
mod error;
pub mod generator;
pub mod journal;
pub mod output;
pub mod parameters;

pub mod per_buffer;
pub mod placement;
pub mod random;
pub mod results;
pub mod sampling;
pub mod scenario;
pub mod scheme;
pub mod sensitivity;
pub mod study;
pub mod tables;
pub mod verify;
pub mod ways;

pub use allocate::{Allocation, Allocator, Answer};
pub use error::StudyError;
pub use generator::System;
pub use journal::{Journal, Manifest, Points};
pub use parameters::Parameters;
pub use scenario::Scenario;
pub use scheme::Scheme;
pub use study::Study;
pub use ways::Objective;
