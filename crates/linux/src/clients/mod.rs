//! The bandwidth lock for programs: the programs that may hold it, and the pages on which they do.
//!
//! Problem: a program takes the lock with a store to a page (client/c/solocore_page.h); the daemon
//! must give it the page, know its owner, and take it back in any state of the program.
//! Rule: the daemon listens at a socket that root and the members of a group may connect to. Each
//! attached thread (or whole program) gets a page of its own, in an unused map, and keeps it until
//! its connection or the thread ends. The BPF programs count a page only while its owner runs, so a
//! holder that dies, sleeps or is stopped no longer holds the lock. A section that is longer than
//! `max_hold` stops counting until the next one begins. Drivers get pages in the same way, for
//! their slots of the time table (`slots`).
//! Source: bwlock, sections 3, 4.2 and 6 (access).
//! Does not cover: a member of the group that locks again and again. This is allowed; keep such a
//! user out of the group.

mod door;
pub mod functions;
mod program;
mod service;
mod silent;
pub mod slots;
mod table;
mod yields;

pub use door::SOCKET;
pub use program::Sections;
pub use service::{Service, ServiceOptions};
pub use silent::SilentTask;
pub(crate) use silent::{OwnPage, OwnPages};
pub use slots::{Slot, SlotTable};
pub use table::LockCounts;
pub use yields::{Join, Yields};
