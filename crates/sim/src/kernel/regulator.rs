//! Who stops cores: the regulators behind one interface.
//!
//! A regulator is told what a core has transferred whenever something happens there, and says whether the core must stop and
//! after how many transactions its counter must interrupt. Decisions are `solocore-policy`'s. A regulator marks cores about
//! which its answers may have changed in the set `touched`.

mod bwlock;
mod dynamic;
mod memguard;

use super::config::{KernelError, RegulatorSpec, TaskSpec};
use super::cores::CoreSet;

/// Lines transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Read.
    pub reads: u64,
    /// Written.
    pub writes: u64,
}

/// Something that a regulator hears of, on every core that it concerns, after the delay of an interrupt between cores.
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

    /// A core has made so many transactions since it was last told. True if its budget, as it stood, is used up: a
    /// counter of the hardware would interrupt for that.
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

    /// Who hears messages; those cores are accounted before [`Regulator::deliver`].
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

    /// After how many transactions, from the last account on, the counter interrupts; `None`: it is off.
    fn sample(&self, core: usize) -> Option<u64>;
}

/// Stops nobody.
struct Nobody;

impl Regulator for Nobody {
    fn account(&mut self, _: usize, _: Made, _: u64, _: &mut CoreSet) -> bool {
        false
    }

    fn stopped(&self, _: usize) -> bool {
        false
    }

    fn sample(&self, _: usize) -> Option<u64> {
        None
    }
}

/// The regulator of a system; `None` if there is none.
///
/// # Errors
/// [`KernelError`] if a number is out of range or names what is not there.
pub fn build(
    spec: &RegulatorSpec,
    tasks: &[TaskSpec],
    cores: usize,
    now_ps: u64,
) -> Result<Box<dyn Regulator>, KernelError> {
    if let (Some(task), false) =
        (tasks.iter().find(|t| t.budget.is_some()), matches!(spec, RegulatorSpec::Dynamic { .. }))
    {
        return Err(KernelError::task(
            task,
            "has a budget for soft cores, but the regulator is not dynamic; remove it",
        ));
    }
    let now_ns = now_ps / 1000;
    Ok(match spec {
        RegulatorSpec::None => Box::new(Nobody),
        RegulatorSpec::MemGuard { .. } => Box::new(memguard::MemGuardRegulator::new(spec, cores, now_ns)?),
        RegulatorSpec::BwLock { .. } => Box::new(bwlock::BwLockRegulator::new(spec, tasks, cores, now_ns)?),
        RegulatorSpec::Dynamic { hard, soft } => {
            Box::new(dynamic::DynamicRegulator::new(hard, soft, tasks, cores, now_ns)?)
        }
    })
}

fn error(what: impl Into<String>) -> KernelError {
    KernelError::config("regulator", what)
}
