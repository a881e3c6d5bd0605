//! MC2: criticality levels A, B and C on one multicore chip, level by level.
//!
//! # Problem
//! Tasks of several criticalities share `m` cores. Each has a provisioned execution time (PET) per
//! level, and the guarantees of a level are checked with the PETs of that level for *all* tasks
//! (Vestal 2007).
//!
//! # Rule
//! Kim, Tang, Otterness, Anderson, Smith, Porter, "Supporting I/O and IPC via Fine-Grained OS
//! Isolation for Mixed-Criticality Real-Time Tasks", section 2, and the works it builds on:
//! * level A, per core: a cyclic executive; [`level_a`];
//! * level B, per core: rate monotonic under the table; [`level_b`], or [`level_b_response`] where
//!   periods do not divide;
//! * level C: global EDF on the remaining time, bounded tardiness; [`level_c`], [`tardiness`];
//! * PETs: [`PetScaling`]; costs of preemptions, interrupts and the scheduler: [`overheads`],
//!   [`crpd`].
//!
//! A verdict on a whole system is [`verdict`]; [`explain`] gives it with reasons. [`verdict`] does
//! not allocate, unless a sum of utilizations is within `n * 2^-64` of its limit.
//!
//! # Not covered
//! Level D has no guarantee. Tasks poll for I/O; a task that suspends itself breaks the premises of
//! levels A and B.

pub mod crpd;
mod exact;
mod harmonic;
mod left_over;
mod level_c;
pub mod overheads;
mod system;
mod task;

pub use harmonic::{AnalysedCore, CoreVerdict, hyperperiod, level_a, level_b};
pub use left_over::{level_a_within, level_b_response};
pub use level_c::{Form, LevelCVerdict, Tardiness, explain_level_c, level_c, tardiness};
pub use overheads::{Interrupt, Noise, Overheads};
pub use system::{Verdict, explain, verdict};
pub use task::{Level, LevelsTask, PetScaling, Pets};
