//! An event of a CPU whose period can be changed while it counts.
//!
//! Problem: the server of clients sets the periods of events while there are clients, and a
//! handover gives a counter another sample at any time. Rule: an event has a period of its own, and
//! a present one. A change of the first shows at once unless the event is paced. Both are changed
//! under one mutex. Does not cover: the number that an overflow reports (`asked.rs`).

use crate::error::LinuxError;
use crate::sys::{self, seqpacket};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// An event of a CPU whose period can be changed. A copy is the same event, also after it was
/// opened again.
#[derive(Clone)]
pub(crate) struct Paced {
    pub cpu: u32,
    /// Its period when it was opened.
    opened: u64,
    now: Arc<Mutex<Now>>,
}

/// An open event and its present period.
struct Now {
    event: OwnedFd,
    period: u64,
    /// The period that it has by itself, while nobody paces it.
    own: u64,
}

impl Paced {
    pub fn of(cpu: u32, event: &OwnedFd, period: u64) -> Result<Self, LinuxError> {
        let event = event.try_clone().map_err(|e| no_event("an event", cpu, &e))?;
        let now = Now { event, period, own: period };
        Ok(Self { cpu, opened: period, now: Arc::new(Mutex::new(now)) })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The period that it has by itself.
    pub fn own(&self) -> u64 {
        self.now().own
    }

    /// Changes the period; `None`: to its own.
    pub fn pace(&self, period: Option<u64>) -> io::Result<()> {
        let mut now = self.now();
        let period = period.unwrap_or(now.own);
        self.set(&mut now, period)
    }

    /// Gives it another period of its own, also while it is paced.
    pub fn take(&self, period: u64) -> io::Result<()> {
        let mut now = self.now();
        if now.period == now.own {
            self.set(&mut now, period)?;
        }
        now.own = period;
        Ok(())
    }

    fn set(&self, now: &mut Now, period: u64) -> io::Result<()> {
        sys::on_cpu(self.cpu, || seqpacket::set_period(&now.event, period))?;
        now.period = period;
        Ok(())
    }

    /// The count so far. A pinned event in error gives `UnexpectedEof`.
    pub fn count(&self) -> io::Result<u64> {
        sys::perf_read(&self.now().event)
    }

    /// Takes this event, just opened, in place of the old one, with the present period.
    pub fn renew(&self, event: &OwnedFd) -> Result<(), LinuxError> {
        let fail = |e| no_event("an event", self.cpu, &e);
        let mut now = self.now();
        now.event = event.try_clone().map_err(fail)?;
        if now.period != self.opened {
            seqpacket::set_period(&now.event, now.period).map_err(fail)?;
        }
        Ok(())
    }
}

/// The error for an event that cannot be opened.
pub(super) fn no_event(what: &str, cpu: u32, error: &io::Error) -> LinuxError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "run as root, or with CAP_PERFMON",
        Some(libc::EBUSY) => "another program has pinned the counter: stop it (perf, nmi_watchdog)",
        Some(libc::ENODEV | libc::ENXIO) => "is the CPU online?",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => "choose another --event; `solocore doctor` lists those that count here",
    };
    LinuxError::Machine(format!("CPU {cpu}: {what} cannot be opened: {error}; {remedy}"))
}
