//! Places and times of tasks: the plan's tasks on their cores, and schedulers of levels, windows
//! and VCPUs.
//!
//! Rule: under a plan with budgets, the kernel's own scheduler runs the tasks, with priorities
//! ([`isolate`]); [`levels`] and [`vcpus`] replace it (`bpf/levels.bpf.c`, `bpf/vcpu.bpf.c`), and
//! give every CPU back when they are dropped.

pub(crate) mod coloured;
mod drivers;
pub mod intruders;
pub mod isolate;
pub mod jobs;
pub mod levels;
mod lockdown;
pub mod locker;
pub mod placed;
pub(crate) mod prefetch;
pub(crate) mod programs;
pub mod sched_trace;
pub(crate) mod task_groups;
pub mod vcpus;
pub mod windows;
