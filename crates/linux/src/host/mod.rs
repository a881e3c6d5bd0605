//! The machine: its parts, temporary changes of settings, the places of other programs, and shares
//! of the hardware.

pub(crate) mod cgroup;
pub(crate) mod cpu_time;
pub mod cpuset;
pub mod finding;
pub mod instance;
pub mod irq;
pub mod keeper;
pub mod machine;
pub(crate) mod newcomers;
pub mod notify;
pub mod prefetch;
pub mod reclaim;
pub(crate) mod resctrl;
pub mod said;
pub(crate) mod server;
pub mod status;
pub(crate) mod stopped;
pub(crate) mod threads;

pub use resctrl::reserve::Reservation;
