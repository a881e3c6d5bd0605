//! The regulators that stop cores, behind one interface.
//!
//! At each event of a core, its regulator is told the core's transfers. It answers whether the core
//! must stop, and the number of accesses after which its counter must interrupt. Decisions are
//! `solocore-policy`'s. A regulator marks cores about which its answers may have changed in the set
//! `touched`.

mod bwlock;
mod dynamic;
mod interface;
mod memguard;

pub use interface::{Made, Message, Regulator};

use super::config::{KernelError, RegulatorSpec, TaskSpec};
use super::cores::CoreSet;

/// Stops no core.
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
/// [`KernelError`] if a number is out of range, or a core or task that does not exist is named.
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
        RegulatorSpec::MemGuard { .. } => {
            Box::new(memguard::MemGuardRegulator::new(spec, cores, now_ns)?)
        }
        RegulatorSpec::BwLock { .. } => {
            Box::new(bwlock::BwLockRegulator::new(spec, tasks, cores, now_ns)?)
        }
        RegulatorSpec::Dynamic { hard, soft } => {
            Box::new(dynamic::DynamicRegulator::new(hard, soft, tasks, cores, now_ns)?)
        }
    })
}
