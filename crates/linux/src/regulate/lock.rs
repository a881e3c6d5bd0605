//! The bandwidth lock of a plan: what its programs are told, and what the server of its clients
//! must know.
//!
//! Source: bwlock, sections 3 and 4.2. Does not cover: holders of the lock and their pages
//! (`crate::clients`).

use super::dynamic::DynamicRegulation;
use super::shared::UNLIMITED;
use crate::contract::{RUN_BWLOCK, RUN_DYNAMIC, lock_settings};
use zerocopy::FromZeros;

/// The bandwidth lock of a plan, checked for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRegulation {
    /// Accesses per period and CPU of what is not real-time while somebody holds the lock, in whole
    /// samples.
    pub budget: u64,
    /// Longest time for which a section counts; 0: no limit.
    pub max_hold_ns: u64,
    /// Length between two looks of a CPU while there are clients.
    pub look_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
}

/// What the daemon needs to serve clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    /// Length between two looks of a CPU while there are clients.
    pub look_ns: u64,
    /// Longest time for which a section counts; 0: no limit.
    pub max_hold_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Hard tasks with jobs that clients may signal, by their number.
    pub tasks: Vec<String>,
    /// Do the programs know which task runs where?
    pub holders: bool,
    /// Transfers of the time table only: the programs know of no client.
    pub slots_only: bool,
}

impl Serving {
    /// For a plan with a policy without clients, but with transfers in its time table.
    pub fn of_slots() -> Self {
        Self {
            look_ns: 0,
            max_hold_ns: 0,
            cpus: 0,
            tasks: Vec::new(),
            holders: false,
            slots_only: true,
        }
    }
}

/// What the programs are told; all zero without clients.
pub(crate) fn settings(
    lock: Option<&LockRegulation>,
    dynamic: Option<&DynamicRegulation>,
) -> lock_settings {
    let policy = if dynamic.is_some() { RUN_DYNAMIC } else { 0 };
    let none = lock_settings { policy, ..lock_settings::new_zeroed() };
    lock.map_or(none, |lock| lock_settings {
        max_budget: UNLIMITED,
        min_budget: lock.budget,
        max_hold_ns: lock.max_hold_ns,
        policy: RUN_BWLOCK,
        reserved: 0,
    })
}
