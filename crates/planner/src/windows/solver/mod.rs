//! Offsets of IMA partitions with conflict-free I/O: search, proofs of infeasibility, time tables.
//!
//! From partitions with their periods, windows and I/O chains to offsets. No two activities on a
//! core, on the I/O core or at a device ever overlap, and every chain keeps its order and age
//! (single-core-equivalence, section 2.4). `solocore check-io` checks the results by unrolling,
//! with no code in common.

mod bounds;
mod exact;
mod hos;
pub mod outcome;
pub mod problem;
mod prove;
mod search;
mod solve;
mod state;
pub mod table;
pub mod tasks;
mod timeline;

pub use problem::{Problem, Solution};
pub use solve::{Answer, Lone, Work, alone, solve};
