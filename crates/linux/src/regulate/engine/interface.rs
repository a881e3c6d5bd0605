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

    /// What its clients are served with; `None`: it serves nobody.
    fn served(&self) -> Option<Served<'_>>;
}

/// What whoever serves clients needs of an engine.
pub struct Served<'e> {
    pub(crate) object: &'e Object,
    pub(crate) events: &'e Attached,
    /// Whom the policy has as clients, if anybody.
    pub(crate) policy: Option<&'e Serving>,
    /// Real-time priority of whoever answers; 0: none. It must be heard where helpers occupy CPUs.
    pub(crate) priority: i32,
}
