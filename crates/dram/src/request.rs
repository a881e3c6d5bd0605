//! Requests to a memory, their answers, and the counts of a PMU.

/// A request of a core or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Physical address; any byte of the line.
    pub address: u64,
    /// Does it write?
    pub write: bool,
    /// Index of the sender; below the number of cores given to [`Memory::new`](crate::Memory::new).
    pub core: u16,
    /// The caller's name for it, handed back.
    pub tag: u64,
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Cycle of the answer.
    pub at: u64,
    /// Cycle of the arrival.
    pub arrived: u64,
    /// The caller's name for it.
    pub tag: u64,
    /// Index of the sender.
    pub core: u16,
    /// Did it write?
    pub write: bool,
}

/// Counts of a core, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests taken.
    pub requests: u64,
    /// Requests that are reads.
    pub reads: u64,
    /// Requests that are writes.
    pub writes: u64,
    /// Reads answered by a waiting write.
    pub forwarded: u64,
    /// Writes absorbed by a waiting write.
    pub merged: u64,
    /// Column commands.
    pub accesses: u64,
    /// Column commands to a row that had been used since it was opened.
    pub row_hits: u64,
    /// Sum over all cycles of the reads under way (Little's law: the sum of their latencies).
    pub read_cycles: u64,
}

impl Counters {
    /// Adds another core's counts.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.writes += other.writes;
        self.forwarded += other.forwarded;
        self.merged += other.merged;
        self.accesses += other.accesses;
        self.row_hits += other.row_hits;
        self.read_cycles += other.read_cycles;
    }
}
