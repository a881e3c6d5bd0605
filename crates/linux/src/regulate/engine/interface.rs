//! What every engine is.

use crate::error::LinuxError;
use crate::regulate::attach::Attached;
use crate::regulate::history::Taken;
use crate::regulate::lock::Serving;
use crate::regulate::shared::Counts;
use libbpf_rs::Object;

/// Something that regulates from when it is made until it is dropped; then the machine is as it
/// was.
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

    /// Can it order tasks by itself, so that budgets bind analysed tasks as well?
    fn ranks(&self) -> bool {
        false
    }

    /// Gives a thread a rank, 1 before all others of its CPU; with `children_only`, the programs
    /// that it starts.
    ///
    /// # Errors
    /// The thread is not there, or the engine knows no ranks.
    fn rank(&self, thread: u32, _rank: u32, _children_only: bool) -> Result<(), LinuxError> {
        Err(LinuxError::Machine(format!(
            "thread {thread} gets no rank: the {} engine knows none",
            self.name()
        )))
    }

    /// What lets programs past their budgets on this machine.
    fn holes(&self) -> &[String] {
        &[]
    }

    /// What its clients are served with; `None`: it serves nobody.
    fn served(&self) -> Option<Served<'_>>;
}

/// What a server of clients needs of an engine.
pub struct Served<'e> {
    pub(crate) object: &'e Object,
    pub(crate) events: &'e Attached,
    /// Whom the policy has as clients, if anybody.
    pub(crate) policy: Option<&'e Serving>,
    /// Real-time priority of the thread that answers; 0: none. It must be heard where helpers
    /// occupy CPUs.
    pub(crate) priority: i32,
}
