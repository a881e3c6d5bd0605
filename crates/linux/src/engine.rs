//! Engines: ways to keep what is regulated off a throttled CPU.

mod helper;
mod rate;
mod sched_ext;

use crate::error::LinuxError;
use crate::history::Taken;
use crate::lock::{Service, ServiceOptions};
use crate::machine;
use crate::regulation::Regulation;
use crate::shared::Counts;

/// Something that regulates from when it is made until it is dropped; then the machine is as it was.
pub trait Engine {
    /// "sched-ext" or "helper".
    fn name(&self) -> &'static str;

    /// What happened on each regulated CPU, by CPU.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn counts(&self) -> Result<Vec<(u32, Counts)>, LinuxError>;

    /// Does it still regulate?
    ///
    /// # Errors
    /// Why not.
    fn check(&self) -> Result<(), LinuxError>;

    /// The periods that have ended since the last call, by CPU.
    fn periods(&self) -> Vec<Taken>;

    /// What of it falls short of the rule on this machine, for the user.
    fn notes(&self) -> Vec<String>;

    /// Serves clients of the bandwidth lock and of dynamic budgets, where the plan has some, and the transfers of its time table.
    /// End it before the engine.
    ///
    /// # Errors
    /// The socket cannot be opened.
    fn serve(&self, options: ServiceOptions) -> Result<Option<Service>, LinuxError>;
}

/// Which engine the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that this machine can run.
    #[default]
    Auto,
    /// A scheduler that gives throttled CPUs nothing.
    SchedExt,
    /// A real-time thread per CPU that occupies it.
    Helper,
}

/// An engine that regulates, and why a better one does not run.
pub struct Started {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Why not sched_ext.
    pub passed_over: Option<String>,
}

/// Loads the programs that every engine shares, and lets them go.
pub(crate) fn try_load() -> Result<(), LinuxError> {
    helper::load(&helper::settings(1_000_000, 1)).map(drop)
}

/// Loads the scheduler's programs without installing it, and lets them go.
pub(crate) fn try_sched_ext() -> Result<(), LinuxError> {
    machine::check_sched_ext()?;
    sched_ext::load(&sched_ext::settings(1_000_000, 1)).map(drop)
}

/// Starts regulating.
///
/// # Errors
/// What this machine lacks for the chosen engine, or for both. Nothing is left behind then.
pub fn start(regulation: &Regulation, choice: Choice) -> Result<Started, LinuxError> {
    let helper = || -> Result<Box<dyn Engine>, LinuxError> { Ok(Box::new(helper::Helper::start(regulation)?)) };
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
