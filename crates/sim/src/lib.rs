//! A deterministic simulated board that runs the real policies.
//!
//! Problem: the effect of a plan or a policy on a machine must be seen without the machine. Rule:
//! three layers, each knowing only the one below. A [`program`] is a stream of operations
//! ([`workload`] makes them). [`hardware`] is a board that runs programs: [`machine`] computes
//! every request, [`fluid`] whole intervals, for minutes of simulated time. The [`kernel`] releases
//! jobs and asks `solocore-policy` for every decision. A [`board`] puts them together, for a
//! [`plan`], a [`scenario`] file, or an experiment. The same seed gives the same result on any
//! machine.
//!
//! Not covered (CAVEATS.md): power management; prefetchers and page walks for recorded streams and
//! in intervals.

pub mod board;
pub mod fluid;
pub mod hardware;
pub mod kernel;
pub mod machine;
mod placement;
pub mod plan;
pub mod program;
pub mod scenario;
mod windows;
pub mod workload;

pub use board::{Board, BoardError, Place};
pub use plan::{Options, SimError, StandIn, simulate, simulate_traced, simulate_with};
