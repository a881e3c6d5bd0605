//! The bandwidth lock of a plan: settings of its programs, and of the server of its clients.
//!
//! Source: bwlock, sections 3 and 4.2. Does not cover: holders of the lock and their pages
//! (`crate::clients`).

use super::bpf;
use super::dynamic::DynamicRegulation;
use super::shared::UNLIMITED;
use crate::contract::{self, RUN_BWLOCK, RUN_DYNAMIC, lock_settings, run_lock};
use libbpf_rs::Object;
use zerocopy::FromZeros;

/// The bandwidth lock of a plan, checked for this machine. The budgets beside it are those of the
/// CPUs (`Regulation::cores`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRegulation {
    /// Longest time for which a section counts, ns; 0: no limit.
    pub max_hold_ns: u64,
    /// Interval between two looks of a CPU while there are clients.
    pub look_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
}

/// The daemon's settings for serving clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    /// Interval between two looks of a CPU while there are clients.
    pub look_ns: u64,
    /// Longest time for which a section counts, ns; 0: no limit.
    pub max_hold_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Hard tasks with jobs that clients may signal, by their number.
    pub tasks: Vec<String>,
    /// Whether every client may hold the lock.
    pub holders: bool,
    /// Whether there are transfers of the time table only: the programs know of no client.
    pub slots_only: bool,
}

impl Serving {
    /// Settings for a policy without clients and a time table with transfers.
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

/// Accesses of a CPU under a held lock that the lock does not limit: those of programs with a
/// real-time policy, and of clients. `None` where the kernel refuses to be read.
pub(crate) fn unlimited(object: &Object, cpu: u32) -> Option<u64> {
    let cores = bpf::map(object, "lock_cores").ok()?;
    contract::look_up(&cores, cpu).ok()?.map(|seen: run_lock| seen.beside)
}

/// Settings of the programs; all zero without clients.
pub(crate) fn settings(
    lock: Option<&LockRegulation>,
    dynamic: Option<&DynamicRegulation>,
) -> lock_settings {
    let policy = if dynamic.is_some() { RUN_DYNAMIC } else { 0 };
    let none = lock_settings { policy, ..lock_settings::new_zeroed() };
    lock.map_or(none, |lock| lock_settings {
        max_budget: UNLIMITED,
        max_hold_ns: lock.max_hold_ns,
        policy: RUN_BWLOCK,
        reserved: 0,
    })
}
