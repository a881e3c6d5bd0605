//! What the kernel's core and a regulator say to each other.
//!
//! Problem: the core must not know which regulator stops cores. Rule: transactions and messages go
//! in through [`Regulator`]; it says which core must stop, and when it wants to hear more.

use crate::kernel::config::KernelError;
use crate::kernel::cores::CoreSet;

/// Lines transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Read.
    pub reads: u64,
    /// Written.
    pub writes: u64,
}

/// Something that a regulator hears of, on every core that it concerns, after the delay of an
/// interrupt between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A job of a task with a budget began to run.
    Started(usize),
    /// It ended.
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

    /// A core has made this number of transactions since it was last told. True if its budget, as
    /// it stood, is used up: a counter of the hardware would interrupt for that.
    fn account(&mut self, core: usize, made: Made, now_ns: u64, touched: &mut CoreSet) -> bool;

    /// The regulation period ends; every core has been accounted.
    fn tick(&mut self, core: usize, now_ns: u64) {
        let _ = (core, now_ns);
    }

    /// A core runs another task, or nothing; it has been accounted.
    fn switch(&mut self, core: usize, task: Option<usize>) {
        let _ = (core, task);
    }

    /// A running task takes or leaves the lock. False if it may not.
    fn lock(&mut self, task: usize, locks: bool) -> bool {
        let _ = (task, locks);
        false
    }

    /// Has the lock been taken or released for the others since the last call?
    fn lock_changed(&mut self) -> bool {
        false
    }

    /// Do jobs of this task have budgets?
    fn follows(&self, task: usize) -> bool {
        let _ = task;
        false
    }

    /// Tasks that hear messages; those cores are accounted before [`Regulator::deliver`].
    fn listeners(&self) -> CoreSet {
        CoreSet::default()
    }

    /// A message arrives.
    fn deliver(&mut self, message: Message, now_ns: u64) {
        let _ = (message, now_ns);
    }

    /// When the core must be accounted at the latest, in ns; `u64::MAX`: never.
    fn timeout_ns(&self, core: usize) -> u64 {
        let _ = core;
        u64::MAX
    }

    /// Must the core not run what it runs?
    fn stopped(&self, core: usize) -> bool;

    /// After how many transactions, from the last account on, the counter interrupts; `None`: it is
    /// off.
    fn sample(&self, core: usize) -> Option<u64>;
}

/// A number of the regulator that is out of range.
pub fn error(what: impl Into<String>) -> KernelError {
    KernelError::config("regulator", what)
}
