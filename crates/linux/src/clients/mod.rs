//! The bandwidth lock for programs: the programs that may hold it, and the pages on which they do.
//!
//! Problem: a program takes the lock with a store to a page (client/c/solocore_page.h); the daemon
//! must give it the page, know its owner, and take it back, whatever the program does.
//! Rule: the daemon listens at a socket that root and the members of a group may connect to. Each
//! attached thread (or whole program) gets a page of its own, a map that nobody used before, and
//! keeps it for as long as its connection and the thread exist. The BPF programs count a page only
//! while its owner runs, so a holder that dies, sleeps or is stopped holds nothing from that moment
//! on; one that holds for longer than `max_hold` counts no more until its next section. Drivers get
//! pages in the same way, for their slots of the time table (`slots`).
//! Source: bwlock, sections 3 and 4.2, 6 (who may).
//! Does not cover: a member of the group that locks again and again. It may; a user who should not
//! is no member.

mod door;
pub mod functions;
mod program;
mod service;
mod silent;
pub mod slots;
mod table;
mod yields;

pub(crate) use door::start_of;
pub use program::Sections;
pub use service::{Service, ServiceOptions, SilentTask};
pub(crate) use silent::{OwnPage, OwnPages};
pub use slots::{Slot, SlotTable};
pub use table::LockCounts;
pub use yields::{Join, Yields};

/// Where clients ask for pages (`SC_CLIENT_SOCKET`).
pub const SOCKET: &str = "/run/solocore-client.sock";
