//! Criticality levels and IMA partitions on stock Linux: a plan's tasks under the scheduler of
//! `bpf/levels.bpf.c`.
//!
//! Problem: MC2's levels (mc2-os-isolation, section 2) and the windows of partitions
//! (single-core-equivalence, section 2.4) need a scheduler of their own; the papers patched
//! kernels. Rule: [`Layout`] makes tasks, levels, tables and budgets from a plan and refuses those
//! that cannot be kept. The [`Scheduler`] loads the programs, passes the layout to them, and takes
//! over every CPU until it is dropped. The module `schedule::jobs` starts programs as tasks;
//! `crate::clients::Yields` answers programs that signal their jobs.
//! Decisions are those of `policy/`, made in the kernel.
//! Does not cover: budgets of memory accesses, shares of the cache, interrupts.

mod layout;
mod scheduler;
mod shared;

pub use layout::{Layout, LayoutTask, Level, Table};
pub use scheduler::Scheduler;
