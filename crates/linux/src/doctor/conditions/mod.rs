//! Conditions of the machine that weaken a plan's promises, though a run would accept them.
//!
//! Problem: a run can hold every budget, and a job may still miss its deadline: a sibling, a low
//! clock or a sleeping machine took its time. Rule: each condition is a function of a root folder,
//! which is `/` or that of a test. Its finding has the state, the promises that depend on it, and
//! one command as a remedy. A state that cannot be read is unknown; nothing is changed.
//! Source: docs/promises.md; Linux, Documentation/ABI and Documentation/admin-guide.
//! Does not cover: firmware (system management interrupts), other guests of a host, memory's speed.

mod cpus;
mod groups;
mod interrupts;
mod memory;
mod power;
mod root;
mod scheduler;

pub(super) use root::Root;

use crate::host::finding::Finding;

/// All findings, in the order of print.
pub(super) fn all(root: &Root) -> Vec<Finding> {
    const ALL: &[fn(&Root) -> Finding] = &[
        cpus::hybrid,
        cpus::siblings,
        cpus::virtual_machine,
        memory::numa,
        memory::prefetchers,
        power::suspend,
        power::frequency,
        power::boost,
        power::idle_states,
        interrupts::nmi_watchdog,
        interrupts::irqbalance,
        groups::pid_namespace,
        groups::cpu_max,
        groups::cpuset,
        groups::memory_max,
        groups::shares,
        scheduler::fair_server,
        scheduler::ext_server,
        scheduler::real_time,
        scheduler::preemption,
    ];
    ALL.iter().map(|look| look(root)).collect()
}

#[cfg(test)]
mod tests;
