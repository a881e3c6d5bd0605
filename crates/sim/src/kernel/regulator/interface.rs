//! The interface between the kernel's core and a regulator.
//!
//! Problem: the core must not depend on the kind of regulator. Rule: accesses and messages go
//! in through [`Regulator`]; it answers which core must stop, and when it must be called again.

use crate::kernel::config::KernelError;
use crate::kernel::cores::CoreSet;

/// Lines transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
}

/// A message to a regulator, which reaches every core that it concerns after the delay of an
/// interrupt between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A job of a task with a budget began to run.
    Started(usize),
    /// That job ended.
    Finished(usize),
    /// A lock was taken or released.
    LockChanged,
}

/// A regulator. Cores and tasks are indices, times ns.
pub trait Regulator: Send {
    /// The regulation period.
    fn period_ps(&self) -> Option<u64> {
        None
    }

    /// A core has made this number of accesses since the last call. True if its budget of that
    /// time is used up: a hardware counter would interrupt then.
    fn account(&mut self, core: usize, made: Made, now_ns: u64, touched: &mut CoreSet) -> bool;

    /// The regulation period ends; the accesses of every core have been reported.
    fn tick(&mut self, core: usize, now_ns: u64) {
        let _ = (core, now_ns);
    }

    /// A core runs another task, or none; its accesses have been reported.
    fn switch(&mut self, core: usize, task: Option<usize>) {
        let _ = (core, task);
    }

    /// A running task takes or leaves the lock. False if it may not.
    fn lock(&mut self, task: usize, locks: bool) -> bool {
        let _ = (task, locks);
        false
    }

    /// Has the lock been taken or released for the other cores since the last call?
    fn lock_changed(&mut self) -> bool {
        false
    }

    /// Do jobs of this task have budgets?
    fn follows(&self, task: usize) -> bool {
        let _ = task;
        false
    }

    /// Cores that receive messages; their accesses are reported before [`Regulator::deliver`].
    fn listeners(&self) -> CoreSet {
        CoreSet::default()
    }

    /// A message arrives.
    fn deliver(&mut self, message: Message, now_ns: u64) {
        let _ = (message, now_ns);
    }

    /// Time at which the core's accesses must be reported at the latest, ns; `u64::MAX`: never.
    fn timeout_ns(&self, core: usize) -> u64 {
        let _ = core;
        u64::MAX
    }

    /// Must the core stop?
    fn stopped(&self, core: usize) -> bool;

    /// Accesses since the last report after which the counter interrupts; `None`: it is off.
    fn sample(&self, core: usize) -> Option<u64>;
}

/// A number of the regulator that is out of range.
pub fn error(what: impl Into<String>) -> KernelError {
    KernelError::config("regulator", what)
}
