//! The job that is slowed: it reads memory that no cache holds.
//!
//! Rule: a cycle through all lines in random order, so that each read waits for the one before. Its
//! time beside a disturbance over its time alone, less one, is a share. Both are measured in each
//! repetition, one after the other. All its time goes into memory, so other jobs are slowed by
//! less.

use crate::fail::Failure;
use solocore_buffers::Mapping;
use solocore_buffers::walk::{Chase, Random};
use std::time::Instant;

/// Reads of one measurement.
const READS: usize = 100_000;

/// The job.
pub struct Job(Chase);

impl Job {
    /// A job that reads this memory.
    pub fn new(memory: Mapping) -> Result<Self, Failure> {
        Ok(Self(Chase::new(memory, Some(&mut Random::new(1)))?))
    }

    /// Time of a fixed number of reads, ns, once the caches are as they are now.
    pub fn time(&mut self) -> f64 {
        self.0.follow(READS / 10);
        let begun = Instant::now();
        self.0.follow(READS);
        begun.elapsed().as_nanos() as f64
    }
}
