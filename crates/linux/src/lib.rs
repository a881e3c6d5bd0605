//! Regulation on stock Linux: what the papers did with patched kernels, with BPF programs on a kernel that nobody patched.
//!
//! Problem: a core that misses its caches at full speed slows every other core (single-core-equivalence, section 2.2).
//! Rule: `bpf/` carries the decisions of `policy/` into the kernel; this crate checks the machine and the plan, loads the
//! programs, binds them to counters, and takes everything away again. An [`engine`] is a way to keep tasks off a CPU.
//! Does not cover: cache colours and banks (crates/space). Locked pages are approached only, where the CPU shares ways out (isolate/locker.rs).

pub(crate) mod bpf;
pub mod doctor;
pub mod engine;
mod error;
pub mod event;
pub mod history;
mod instance;
pub mod intruders;
pub mod isolate;
pub mod keeper;
pub mod latency;
pub mod levels;
pub mod lock;
pub mod machine;
pub mod notify;
pub mod regulation;
pub(crate) mod resctrl;
pub mod sched_trace;
mod shared;
pub mod status;
mod sys;
pub mod vcpus;

pub use error::LinuxError;
pub use event::Event;
pub use instance::Instance;
pub use regulation::{Options, Regulation, Sharing};
pub use resctrl::GroupRun;
pub use resctrl::reserve::Reservation;
pub use shared::{Counts, WriteCounts};
