//! The bandwidth lock of a plan: what its programs are told, and what whoever serves its clients must know.
//!
//! Source: bwlock, sections 3 and 4.2. Does not cover: who holds the lock, and their pages (`crate::clients`).

use super::dynamic::DynamicRegulation;
use super::shared::UNLIMITED;

/// Bytes of `struct lock_settings`.
pub(crate) const SETTINGS_BYTES: usize = 32;
const RUN_BWLOCK: u32 = 1;
const RUN_DYNAMIC: u32 = 2;

/// The bandwidth lock of a plan, checked for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRegulation {
    /// Accesses per period and CPU of what is not real-time while somebody holds the lock, in whole samples.
    pub budget: u64,
    /// A section counts for at most so long; 0: for ever.
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
    /// A section counts for at most so long; 0: for ever.
    pub max_hold_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Hard tasks whose jobs clients may signal, by their number.
    pub tasks: Vec<String>,
    /// Do the programs know who runs where?
    pub holders: bool,
    /// Transfers of the time table only: the programs know of no client.
    pub slots_only: bool,
}

impl Serving {
    /// For a plan whose policy has no clients, but whose time table has transfers.
    pub fn of_slots() -> Self {
        Self { look_ns: 0, max_hold_ns: 0, cpus: 0, tasks: Vec::new(), holders: false, slots_only: true }
    }
}

/// `struct lock_settings`; all zero without clients.
pub(crate) fn encode_settings(
    lock: Option<&LockRegulation>,
    dynamic: Option<&DynamicRegulation>,
) -> [u8; SETTINGS_BYTES] {
    let mut bytes = [0; SETTINGS_BYTES];
    if dynamic.is_some() {
        bytes[24..28].copy_from_slice(&RUN_DYNAMIC.to_ne_bytes());
    }
    if let Some(lock) = lock {
        for (place, value) in bytes.chunks_exact_mut(8).zip([UNLIMITED, lock.budget, lock.max_hold_ns]) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes[24..28].copy_from_slice(&RUN_BWLOCK.to_ne_bytes());
    }
    bytes
}
