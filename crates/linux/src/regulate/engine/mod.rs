//! Engines: ways to keep regulated programs off a throttled CPU.

#[cfg(test)]
mod double;
mod helper;
mod interface;
mod ranker;
mod rate;
mod sched_ext;

#[cfg(test)]
pub(crate) use double::quiet_engine;
pub use interface::{Engine, Served};
pub use ranker::Ranker;

use super::regulation::Regulation;
use super::shared::Settings;
use crate::error::LinuxError;
use crate::host::machine;
use libbpf_rs::Object;

/// The user's choice of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that this machine can run.
    #[default]
    Auto,
    /// A scheduler that runs nothing on throttled CPUs.
    SchedExt,
    /// A real-time thread per CPU that occupies it.
    Helper,
}

/// An engine that regulates, and the reason why a better one does not run.
pub struct Started {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Reason why sched_ext does not run.
    pub passed_over: Option<String>,
}

/// Loads the programs that every engine shares; nothing calls them.
pub(crate) fn load() -> Result<Object, LinuxError> {
    helper::load(&helper::settings(1_000_000, 1))
}

/// Loads the same programs, and unloads them.
pub(crate) fn try_load() -> Result<(), LinuxError> {
    load().map(drop)
}

/// Loads the scheduler's programs without installing it, and unloads them.
pub(crate) fn try_sched_ext() -> Result<(), LinuxError> {
    machine::check_sched_ext()?;
    let puts_off = u32::from(sched_ext::COUNTERS_INTERRUPT_ALL);
    sched_ext::load(&Settings { puts_off, ..sched_ext::settings(1_000_000, 1) }).map(drop)
}

/// Starts regulating.
///
/// # Errors
/// This machine lacks something for the chosen engine, or for both. Nothing is left behind then.
pub fn start(regulation: &Regulation, choice: Choice) -> Result<Started, LinuxError> {
    let helper = || -> Result<Box<dyn Engine>, LinuxError> {
        Ok(Box::new(helper::Helper::start(regulation)?))
    };
    let sched_ext = || -> Result<Box<dyn Engine>, LinuxError> {
        machine::check_sched_ext()?;
        Ok(Box::new(sched_ext::SchedExt::start(regulation)?))
    };
    match choice {
        Choice::SchedExt => Ok(Started { engine: sched_ext()?, passed_over: None }),
        Choice::Helper => Ok(Started { engine: helper()?, passed_over: None }),
        Choice::Auto => match sched_ext() {
            Ok(engine) => Ok(Started { engine, passed_over: None }),
            Err(reason) => Ok(Started { engine: helper()?, passed_over: Some(reason.to_string()) }),
        },
    }
}
