//! The interface of every engine.

use super::ranker::Ranker;
use crate::error::LinuxError;
use crate::regulate::attach::{Attached, Pulse};
use crate::regulate::dynamic::RunHardTask;
use crate::regulate::handover::Budgets;
use crate::regulate::history::Taken;
use crate::regulate::lock::Serving;
use crate::regulate::shared::Counts;
use libbpf_rs::Object;
use std::collections::BTreeMap;

/// An engine regulates until it is dropped; then the machine is as before.
pub trait Engine {
    /// Name of the engine: "sched-ext" or "helper".
    fn name(&self) -> &'static str;

    /// Counts of each regulated CPU, by CPU.
    ///
    /// # Errors
    /// The kernel refuses to be read.
    fn counts(&self) -> Result<Vec<(u32, Counts)>, LinuxError>;

    /// Checks that it still regulates. The kernel ends a scheduler when a CPU comes or goes: then
    /// it is installed again, and the answer is `true`.
    ///
    /// # Errors
    /// The reason why it does not regulate.
    fn check(&mut self) -> Result<bool, LinuxError>;

    /// Signs of life of the events of regulated CPUs, by CPU. Takes at most some 12 ms, for any
    /// number of CPUs.
    fn pulses(&self, cpus: &[u32]) -> BTreeMap<u32, Pulse>;

    /// Opens the events of a regulated CPU again.
    ///
    /// # Errors
    /// The kernel refuses one; the CPU is not regulated then.
    fn rearm(&mut self, cpu: u32) -> Result<(), LinuxError>;

    /// Asks for other budgets of regulated CPUs. Each CPU takes them as its next period begins.
    ///
    /// # Errors
    /// The kernel refuses access to the state of the CPUs; no CPU was asked then.
    fn ask(&self, asked: &[(u32, Budgets)]) -> Result<(), LinuxError>;

    /// Writes other dynamic budgets of the hard tasks. Each CPU takes them after it is asked next
    /// (`ask`).
    ///
    /// # Errors
    /// The kernel refuses one, or the engine has no dynamic budgets.
    fn ask_for_jobs(&self, _tasks: &[RunHardTask]) -> Result<(), LinuxError> {
        Err(LinuxError::Machine(format!("the {} engine has no dynamic budgets", self.name())))
    }

    /// Gives the counter of a regulated CPU another sample, at once. It forgets the part of a
    /// sample that it has counted.
    ///
    /// # Errors
    /// The kernel refuses it; the CPU keeps its sample then.
    fn resample(&self, cpu: u32, sample: u64) -> Result<(), LinuxError>;

    /// Sets the accesses that a regulated CPU may make until it looks again: under dynamic budgets
    /// it is stopped when less than these are left. The counter keeps its sample.
    ///
    /// # Errors
    /// The kernel refuses access to the state of the CPUs.
    fn expect(&self, cpu: u32, accesses: u64) -> Result<(), LinuxError>;

    /// Sets the accesses beyond their budgets that periods of CPUs may have without counting as
    /// over them.
    ///
    /// # Errors
    /// The kernel refuses access to the state of the CPUs.
    fn tolerate(&self, tolerances: &[(u32, u64)]) -> Result<(), LinuxError>;

    /// The budgets of a CPU's present period; `None` while it has not taken those that it was asked
    /// for.
    ///
    /// # Errors
    /// The kernel refuses access to the state of the CPUs.
    fn in_force(&self, cpu: u32) -> Result<Option<Budgets>, LinuxError>;

    /// Whether an idle-class thread of solocore on a regulated CPU leaves it to other threads, as
    /// the kernel's own scheduler has it.
    fn can_keep_awake(&self) -> bool {
        false
    }

    /// The periods that have ended since the last call, by CPU.
    fn periods(&self) -> Vec<Taken>;

    /// Gaps between the rule and this machine, for the user.
    fn notes(&self) -> Vec<String>;

    /// Whether it can order tasks by itself, so that budgets bind analysed tasks as well.
    fn ranks(&self) -> bool {
        false
    }

    /// The ranks of threads; `None`: the engine knows none.
    ///
    /// # Errors
    /// The kernel refuses access to them.
    fn ranker(&self) -> Result<Option<Ranker>, LinuxError> {
        Ok(None)
    }

    /// Ways in which programs can exceed their budgets on this machine, or take time from analysed
    /// tasks.
    fn holes(&self) -> &[String] {
        &[]
    }

    /// Its side of a service for clients; `None`: it has no clients.
    fn served(&self) -> Option<Served<'_>>;
}

/// The values that a server of clients needs from an engine.
pub struct Served<'e> {
    pub(crate) object: &'e Object,
    pub(crate) events: &'e Attached,
    /// Clients of the policy, if it has any.
    pub(crate) policy: Option<&'e Serving>,
    /// Real-time priority of the thread that answers; 0: none. The thread must run where helpers
    /// occupy CPUs.
    pub(crate) priority: i32,
}
