//! The machine: its parts, settings that are changed for a while and put back, where other programs
//! run, and shares that its hardware gives.

pub(crate) mod cgroup;
pub mod cpuset;
pub mod finding;
pub mod instance;
pub mod irq;
pub mod keeper;
pub mod machine;
pub mod notify;
pub mod prefetch;
pub(crate) mod resctrl;
pub mod status;
pub(crate) mod stopped;
pub(crate) mod threads;

pub use resctrl::reserve::Reservation;
