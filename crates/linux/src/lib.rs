//! Regulation on stock Linux: the papers patched kernels; here, BPF programs do the same on an
//! unpatched one.
//!
//! Problem: a core that misses its caches at full speed slows every other core
//! (single-core-equivalence, section 2.2).
//! Rule: `bpf/` carries the decisions of `policy/` into the kernel; this crate checks the machine
//! and the plan, loads the programs, binds them to counters, and takes everything away again.
//! Folders stand in layers, each above those before it: `contract` (structs shared with the C),
//! `sys`, [`host`], [`regulate`], [`clients`], [`schedule`], [`daemon`]; [`latency`] and [`count`]
//! stand beside regulation, [`doctor`] asks all.
//! Does not cover: cache colours and banks (crates/space). Locked pages are only approximated,
//! where the CPU can divide its ways (schedule/locker.rs).

pub mod clients;
mod contract;
pub mod count;
pub mod daemon;
pub mod doctor;
mod error;
#[cfg(test)]
mod fuzz;
pub mod host;
pub mod latency;
pub mod regulate;
pub mod schedule;
mod sys;

pub use error::LinuxError;
pub use host::Reservation;
pub use host::instance::Instance;
pub use regulate::{Counts, Event, Options, Regulation, Sharing, WriteCounts};
