//! Observations of clients: attached clients, and the actions of the bandwidth lock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bandwidth lock, and programs that signal jobs, where the plan has either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLock {
    /// Longest time for which a section counts; 0: no limit.
    pub max_hold_ns: u64,
    /// Attached clients.
    pub clients: Vec<RunClient>,
    /// Actions of the lock on each CPU.
    pub cores: Vec<RunLockCore>,
}

/// Actions of the lock on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLockCore {
    /// Number of the CPU.
    pub cpu: u32,
    /// Periods that ended while a program held the lock.
    pub held_periods: u64,
    /// Number of times that the CPU was stopped.
    pub stops: u64,
    /// Number of times that the CPU went on before its period ended, because the lock was released.
    pub early_releases: u64,
}

/// A client: a thread or program that is attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunClient {
    /// Number of the process.
    pub pid: u32,
    /// Number of the thread; for a whole program that of the process.
    pub thread: u32,
    /// Number of the user.
    pub uid: u32,
    /// Name of the thread.
    pub name: String,
    /// `thread` or `program`: the holder of the lock.
    pub scope: String,
    /// Sections begun.
    pub sections: u32,
    /// Number of nested sections that it is in; 0: it does not hold the lock.
    pub depth: u32,
    /// CPU on which it ran at the last reading; `null`: on none.
    pub cpu: Option<u32>,
    /// The task of the plan for which it signals jobs.
    pub task: Option<String>,
    /// Jobs begun.
    pub jobs: u64,
    /// A job is under way.
    pub in_job: bool,
    /// The section is over the limit, and no longer counts.
    pub cut: bool,
    /// The transfer of the time table that the client makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<RunClientTransfer>,
}

/// A client that is a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunClientTransfer {
    /// Partition, chain and stage of the transfer.
    pub name: String,
    /// Slots begun.
    pub slots: u64,
    /// The client is in a slot now.
    pub inside: bool,
}
