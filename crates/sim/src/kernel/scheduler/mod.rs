//! The five schedulers, which decide the task of each core, behind one interface.
//!
//! The kernel's core knows jobs, cores and time; a scheduler knows which task a core should run,
//! and asks `solocore-policy`. A scheduler marks the cores that must pick again in the set `dirty`
//! that every call carries. The kernel handles all events of an instant, then lets the dirty cores
//! pick until none is left, and only then switches.

mod fixed_priority;
mod global_edf;
mod interface;
mod levels;
mod places;
mod vcpu;
mod vcpu_cores;
mod vcpu_setup;
mod windows;

pub use interface::{Call, JobTimes, Overlap, Pick, Readings, Scheduler};

use super::config::{KernelError, SchedulerSpec, TaskSpec};

/// The scheduler of a system.
///
/// # Errors
/// [`KernelError`] if a task, a core or a time does not fit it.
pub fn build(
    spec: &SchedulerSpec,
    tasks: &[TaskSpec],
    cores: usize,
    now_ps: u64,
) -> Result<Box<dyn Scheduler>, KernelError> {
    if tasks.len() > solocore_policy::MAX_TASKS {
        return Err(KernelError::config(
            "tasks",
            format!(
                "there are {}, and a simulation has at most {}; join tasks with equal periods, or \
                    simulate parts of the machine separately",
                tasks.len(),
                solocore_policy::MAX_TASKS
            ),
        ));
    }
    Ok(match spec {
        SchedulerSpec::FixedPriority => Box::new(fixed_priority::FixedPriority::new(tasks, cores)?),
        SchedulerSpec::Vcpu(config) => Box::new(vcpu_setup::build(config, tasks, cores, now_ps)?),
        SchedulerSpec::Levels { tables } => {
            Box::new(levels::LevelScheduler::new(tables, tasks, cores, now_ps)?)
        }
        SchedulerSpec::Windows { tables } => {
            Box::new(windows::WindowScheduler::new(tables, tasks, cores)?)
        }
        SchedulerSpec::GlobalEdf => Box::new(global_edf::GlobalEdf::new(cores)),
    })
}
