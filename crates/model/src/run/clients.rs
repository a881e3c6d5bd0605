//! What was seen of clients: who is attached, and what the bandwidth lock did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bandwidth lock, or whose jobs are signalled, where the plan has either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLock {
    /// A section counts for at most so long; 0: for ever.
    pub max_hold_ns: u64,
    /// Who is attached.
    pub clients: Vec<RunClient>,
    /// What the lock did.
    pub cores: Vec<RunLockCore>,
}

/// What the lock did on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLockCore {
    /// Which CPU.
    pub cpu: u32,
    /// Periods at whose end somebody held the lock.
    pub held_periods: u64,
    /// How often the CPU was stopped.
    pub stops: u64,
    /// How often it went on before its period ended, as nobody held the lock any more.
    pub early_releases: u64,
}

/// A client, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunClient {
    /// Its process.
    pub pid: u32,
    /// Its thread; that of the process for a program.
    pub thread: u32,
    /// Its user.
    pub uid: u32,
    /// Name of the thread.
    pub name: String,
    /// Thread or program.
    pub scope: String,
    /// Sections begun.
    pub sections: u32,
    /// In how many it is.
    pub depth: u32,
    /// Where it ran at the last look.
    pub cpu: Option<u32>,
    /// The plan's task whose jobs it signals.
    pub task: Option<String>,
    /// Jobs begun.
    pub jobs: u64,
    /// Is one under way?
    pub in_job: bool,
    /// Is its section over the limit, so that it counts no more?
    pub cut: bool,
    /// The transfer of the time table that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<RunClientTransfer>,
}

/// A client that is a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunClientTransfer {
    /// Partition, chain and stage.
    pub name: String,
    /// Slots begun.
    pub slots: u64,
    /// Is it in one?
    pub inside: bool,
}
