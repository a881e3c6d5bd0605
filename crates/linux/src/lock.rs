//! The bandwidth lock for programs: who may hold it, and the pages on which they do.
//!
//! Problem: a program takes the lock with a store to a page (client/c/solocore_page.h); somebody must give it the page, know
//! whose it is, and take it back, whatever the program does.
//! Rule: the daemon listens at a socket that root and the members of a group may connect to. Each attached thread (or whole
//! program) gets a page of its own, a map that nobody used before, and keeps it for as long as its connection and the thread
//! exist. The BPF programs count a page only while its owner runs, so a holder that dies, sleeps or is stopped holds
//! nothing from that moment on; one that holds for longer than `max_hold` counts no more until its next section.
//! Drivers get pages in the same way, for their slots of the time table (`slots`).
//! Source: bwlock, sections 3 and 4.2, 6 (who may).
//! Does not cover: a member of the group that locks again and again. It may; who should not is no member.

pub mod jobs;
pub(crate) mod service;
pub mod slots;
pub(crate) mod table;

pub use service::{Client, Service, ServiceOptions, Transfer};
pub use slots::{Slot, SlotRun, SlotTable};
pub use table::LockCounts;

/// Where clients ask for pages (`SC_CLIENT_SOCKET`).
pub const SOCKET: &str = "/run/solocore-client.sock";

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
