//! Queries of the estimators to a memory: the real one, or a made-up one of a test.
//!
//! Rule: each answer is a piece: a time, and the counters' evidence of a disturbance.

use crate::error::MachineError;
use std::time::Duration;

/// Kind of a disturbance, by the kernel's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An interrupt of the CPU.
    Interrupt,
    /// The thread lost its CPU.
    Switch,
    /// The hypervisor took time away.
    Steal,
}

/// A timed piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Time in ns; the probe's method defines its meaning.
    pub ns: f64,
    /// Reason for which it does not count.
    pub cause: Option<Cause>,
}

pub use solocore_buffers::order::{Order, Pattern};
pub use solocore_buffers::walk::Access;

/// A piece of pages by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Loads of each page in a row of the memory, the one that opens it included.
    pub row_loads: u32,
    /// Loads of a piece that are timed.
    pub loads: u32,
}

/// One access after others of the same bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Difference (XOR) of the other line's address from the line's own, in bytes.
    pub offset: u64,
    /// Lines beside the other one that are written and flushed before; 0: the other line is read.
    pub writes: u32,
    /// Differences (XOR) of the rows that are written by turns from the other line's, in bytes:
    /// each combination is a row of the same bank. 0: no further rows.
    pub rows: [u64; 3],
    /// Time between the last of these and the access, in ns.
    pub gap_ns: u32,
    /// The access that is timed.
    pub access: Access,
}

impl Case {
    /// Rows that are written.
    pub fn row_count(&self) -> usize {
        1 << self.rows.iter().filter(|&&bits| bits != 0).count()
    }

    /// Difference (XOR) of a row from the other line's, in bytes.
    pub fn row(&self, row: usize) -> u64 {
        let chosen = self.rows.iter().enumerate().filter(|(n, _)| row >> n & 1 == 1);
        chosen.fold(0, |all, (_, bits)| all ^ bits)
    }
}

/// A memory and a core in front of it.
pub trait Probe {
    /// One run of a program whose data lie in the first level: ns an instruction.
    fn compute(&mut self) -> Piece;

    /// Dependent loads that go round through `bytes` bytes: ns a load.
    fn level(&mut self, bytes: u64) -> Piece;

    /// Loads that come from memory, `chains` dependent chains side by side: ns a load.
    fn memory(&mut self, chains: u32) -> Piece;

    /// Alternating dependent loads of two pages whose addresses differ in these bits, for each
    /// of the offsets: ns a load. A multiple of [`Probe::offset_step`], below
    /// [`Probe::offsets`]; it may be XORed with one of [`Probe::far`].
    fn pairs(&mut self, offsets: &[u64]) -> Vec<Piece>;

    /// The pieces of [`Probe::pairs`].
    fn pairs_shape(&self) -> Shape;

    /// One access that comes from memory, `times` times: ns, a first-level hit included.
    fn single(&mut self, case: Case, times: usize) -> Vec<Piece>;

    /// `active` cores pass through memory with this pattern for a moment: ns a line of all of them
    /// together.
    ///
    /// # Errors
    /// There is no memory for the others, or their CPUs cannot be used.
    fn stream(&mut self, active: u32, pattern: &Pattern) -> Result<Piece, MachineError>;

    /// Sets all other cores to work with this pattern, or lets them rest.
    ///
    /// # Errors
    /// As [`Probe::stream`].
    fn attack(&mut self, pattern: Option<&Pattern>) -> Result<(), MachineError>;

    /// Cores that can be active, this one included.
    fn cores(&self) -> u32;

    /// Address bits of a page below this value are the memory's own, in bytes; 0: none is known.
    fn offsets(&self) -> u64;

    /// Differences (XOR) of addresses between whole pages, in bytes: multiples of
    /// [`Probe::offsets`], each once. Empty: where the pages lie is not known.
    fn far(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The least offset of another page, in bytes.
    fn offset_step(&self) -> u64 {
        4096
    }

    /// Bytes of a line.
    fn line(&self) -> u64 {
        64
    }

    /// Can lines be flushed from all caches one by one, so that writes go to memory at once?
    fn flushes(&self) -> bool;

    /// Time since the beginning.
    fn elapsed(&self) -> Duration;

    /// Has the user asked to stop?
    fn stopped(&self) -> bool;
}
