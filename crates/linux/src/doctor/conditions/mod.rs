//! Conditions of the machine that weaken a plan's promises, though a run would accept them.
//!
//! Problem: a run can hold every budget, and a job may still miss its deadline: a sibling, a low
//! clock or a sleeping machine took its time. Rule: each condition is a function of a root folder,
//! which is `/` or that of a test. Types of CPUs are also compared with those of a plan. A finding
//! has the state, the promises that depend on it, and one command as a remedy. A state that cannot
//! be read is unknown; nothing is changed.
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
use solocore_model::platform::CoreType;

/// All findings, in the order of print. `described`: the core types of a plan's platform.
pub(super) fn all(root: &Root, described: &[CoreType]) -> Vec<Finding> {
    const REST: &[fn(&Root) -> Finding] = &[
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
    let first = std::iter::once(cpus::hybrid(root, described));
    first.chain(REST.iter().map(|look| look(root))).collect()
}

#[cfg(test)]
mod tests;
