//! Amount of measurement.

use std::time::Duration;

/// Numbers of pieces, and the time for all of them.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Pieces of each number.
    pub pieces: usize,
    /// Pairs of pages that are timed to find a bank.
    pub pairs: usize,
    /// Other lines of one bank that are tried for the longest access.
    pub neighbours: usize,
    /// Accesses of one case.
    pub singles: usize,
    /// Time for all numbers together.
    pub time: Duration,
}

impl Effort {
    /// Effort on a machine with its own time.
    #[must_use]
    pub fn full(time: Duration) -> Self {
        Self { pieces: 201, pairs: 2000, neighbours: 24, singles: 32, time }
    }

    /// Effort where an emulator computes each load: a few thousand accesses for each number.
    #[must_use]
    pub fn emulated(time: Duration) -> Self {
        Self { pieces: 15, pairs: 1536, neighbours: 1, singles: 8, time }
    }

    /// A part of the time.
    #[must_use]
    pub fn share(&self, part: f64) -> Duration {
        self.time.mul_f64(part)
    }
}
