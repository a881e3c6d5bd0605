//! A fast model of DRAM channels and their controllers, and an independent checker of their
//! commands.
//!
//! Problem: whole-machine simulation needs millions of DRAM requests a second, and schedulability
//! analysis needs a model with commands that a device would accept. Rule: for every bank, the
//! controller keeps the one command that brings it forward and the first cycle at which it may go,
//! and jumps from command to command (docs/dram.md). Memories are data ([`Spec`]); [`Checker`]
//! reads a command trace and counts violations of the JEDEC rules without sharing code with the
//! controller. Not covered: closed-page policies, power-down, per-bank refresh, on-die effects such
//! as tDQSCK.

mod channel;
pub mod checker;
mod command;
pub mod controller;
mod gaps;
mod map;
mod memory;
mod organisation;
mod platform;
mod queue;
mod request;
pub use solocore_model::random;
mod spec;
pub mod traffic;

pub use channel::Limits;
pub use checker::Checker;
pub use command::{Command, CommandKind};
pub use controller::Uncore;
pub use map::{AddressMap, MapSpec, Place};
pub use memory::{Memory, Options};
pub use organisation::Organisation;
pub use platform::OfPlatform;
pub use request::{Completion, Counters, Request};
pub use spec::{PRESETS, Spec, Timing};
