//! A machine described: the values of its platform file, their sources, and the notes on them.

use crate::known::{Fact, Note};
use solocore_model::platform::Platform;

/// A machine as a platform file.
#[derive(Debug)]
pub struct Description {
    /// The values of the file.
    pub platform: Platform,
    /// Its keys, in the order of the file.
    pub facts: Vec<Fact>,
    /// Facts beside the keys.
    pub found: Vec<Fact>,
    /// Notes for the user.
    pub notes: Vec<Note>,
    /// Highest clock of the CPUs of each type, in Hz; one where all are alike.
    pub highest: Vec<Option<u64>>,
    /// All CPUs of the cores of each type, in order; one list where all are alike. A second thread
    /// has the type of its core.
    pub threads: Vec<Vec<u32>>,
    /// The described CPUs, in order.
    pub cpus: Vec<u32>,
    /// The CPUs of each group behind another last-level cache, none of which is described.
    pub others: Vec<Vec<u32>>,
}
