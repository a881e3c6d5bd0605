//! Counts of the jobs of one program.
//!
//! Problem: a job is a run of a program with all its children. Counters must begin with its first
//! instruction and see nothing else, and a CPU has few of them. Rule: the child process waits
//! before it becomes the program until its counters are there; they begin as it does
//! (`enable_on_exec`), and children inherit them. Where the CPU cannot hold all of them at once,
//! the job is run again for the rest: nothing is scaled up. Source: perf_event_open(2). Jobs within
//! a start are those of [`jobs`]; addresses of accesses are sampled apart ([`addresses`]). Does not
//! cover: the work of other programs, interrupts and the kernel's threads on the CPU meanwhile.

mod address_event;
mod addresses;
mod child;
mod counters;
mod jobs;
mod listener;
mod records;

use crate::error::LinuxError;
use crate::host::machine;
use crate::regulate::event::Event;
pub use address_event::AddressEvent;
pub use addresses::{Sampled, Step, sample};
pub use child::{Refused, Start};
pub use counters::{Counter, Counters, Job};
pub use jobs::{Bounds, Inside};

/// The event for last-level misses where this CPU counts them, else page faults as a substitute,
/// with the reason.
///
/// # Errors
/// An unknown name, or a named event that does not count here.
pub fn misses_event(name: Option<&str>) -> Result<(Event, Option<String>), LinuxError> {
    let cpuinfo = machine::cpuinfo();
    let first = Event::find(name.unwrap_or("llc-misses"), &cpuinfo);
    let tried = first.and_then(|event| match event.is_software() {
        true => Ok(event),
        false => event.self_test().map(|_| event),
    });
    match tried {
        Ok(event) => Ok((event, None)),
        Err(LinuxError::Machine(why)) if name.is_none() => {
            Ok((Event::find("page-faults", &cpuinfo)?, Some(why)))
        }
        Err(other) => Err(other),
    }
}
