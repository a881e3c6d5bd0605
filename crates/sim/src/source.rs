//! Where a task's behaviour comes from.

use solocore_cache::trace::{self, Kind, TraceError};
use solocore_model::Platform;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// One step of a job: computation, then perhaps an access to the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Core cycles from the start of the job to the access, all earlier shared-cache accesses taken as free.
    pub at_cycles: u64,
    /// The access; `None` at the end of the job.
    pub access: Option<(u64, Kind)>,
}

/// The behaviour of a task: every job is the same stream of steps, read by index.
pub trait TaskSource: Send + Sync {
    /// Step `index` of a job.
    fn step(&self, index: u64) -> Step;
    /// Number of program pages the accesses refer to.
    fn pages(&self) -> u32;
    /// A preempted job fills its private caches again by reading its last lines. Stated numbers
    /// include that already.
    fn reloads(&self) -> bool;
}

/// A recorded program.
#[derive(Debug)]
pub struct Recorded {
    /// Cycles and `line << 2 | kind` of each access.
    records: Vec<(u64, u64)>,
    total_cycles: u64,
    pages: u32,
}

impl Recorded {
    /// Reads the trace of a profile; the other arguments are the profile's.
    ///
    /// # Errors
    /// When the file is missing, damaged, or another run's.
    pub fn load(
        path: &Path,
        expected: u64,
        total_cycles: u64,
        pages: u32,
        lines_per_page: u32,
    ) -> Result<Self, TraceError> {
        let file = BufReader::new(std::fs::File::open(path)?);
        let mut records = Vec::new();
        let count = trace::read(file, |a| records.push((a.at_cycles, a.line << 2 | a.kind as u64)))?;
        let lines = u64::from(pages) * u64::from(lines_per_page);
        if count != expected || records.iter().any(|r| r.1 >> 2 >= lines) {
            return Err(TraceError::Damaged("of another run", count));
        }
        let last = records.last().map_or(0, |r| r.0);
        Ok(Self { records, total_cycles: total_cycles.max(last), pages })
    }

    /// A stream made by hand, for tests: cycles, line and kind of each access.
    pub fn from_steps(steps: &[(u64, u64, Kind)], total_cycles: u64, pages: u32) -> Self {
        let records = steps.iter().map(|&(at, line, kind)| (at, line << 2 | kind as u64)).collect();
        Self { records, total_cycles, pages }
    }
}

impl TaskSource for Recorded {
    fn step(&self, index: u64) -> Step {
        let record = usize::try_from(index).ok().and_then(|i| self.records.get(i));
        match record {
            Some(&(at_cycles, packed)) => {
                let kind = match packed & 3 {
                    0 => Kind::Read,
                    1 => Kind::Fetch,
                    _ => Kind::Write,
                };
                Step { at_cycles, access: Some((packed >> 2, kind)) }
            }
            None => Step { at_cycles: self.total_cycles, access: None },
        }
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn reloads(&self) -> bool {
        true
    }
}

/// A task of which only the execution time and the number of misses are known: the misses are spread
/// evenly over the computation and walk through memory line by line.
#[derive(Debug)]
pub struct Spread {
    compute_cycles: u64,
    misses: u64,
    lines: u64,
    pages: u32,
}

impl Spread {
    /// `wcet_ps` includes `misses` accesses of at most `L_max` each; what is left is computation.
    pub fn new(platform: &Platform, wcet_ps: u64, misses: u64) -> Self {
        // Each access of the simulated board costs a look-up of the shared cache too.
        let access = platform.dram.latency_max.ps() + platform.cycles_to_ps(platform.llc.latency.0);
        let compute_ps = u128::from(wcet_ps).saturating_sub(u128::from(misses) * u128::from(access));
        let cycles = compute_ps * u128::from(platform.frequency.0) / 1_000_000_000_000;
        let lines_per_page = u64::from(platform.lines_per_page());
        // A buffer of 16 MiB, or as much as the misses touch.
        let lines = misses.clamp(1, (16 << 20) / platform.llc.line.0);
        let pages = u32::try_from(lines.div_ceil(lines_per_page)).expect("at most 16 MiB of pages");
        Self { compute_cycles: u64::try_from(cycles).unwrap_or(u64::MAX), misses, lines, pages }
    }
}

impl TaskSource for Spread {
    fn step(&self, index: u64) -> Step {
        if index >= self.misses {
            return Step { at_cycles: self.compute_cycles, access: None };
        }
        let at = u128::from(self.compute_cycles) * u128::from(index + 1) / (u128::from(self.misses) + 1);
        Step { at_cycles: u64::try_from(at).unwrap_or(u64::MAX), access: Some((index % self.lines, Kind::Read)) }
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn reloads(&self) -> bool {
        false
    }
}

/// A shared source.
pub type Source = Arc<dyn TaskSource>;
