//! A program as the interval machine knows it: phases, and the demand of each on the memory.
//!
//! Rule. A phase is a piece of the program with about constant rates. Alone, with reads that take L
//! from arrival at the controller to data, it takes `max(least, serial + n L / k)`: n its DRAM
//! reads (or writes, if it only writes), k how many are outstanding. `serial` is the time that is
//! not overlapped with memory, `least` the time of computation at any memory speed.
//! [`super::calibrate`] finds the numbers; [`Phase::new`] makes them by hand.
//!
//! Not covered: differences between the passes of a program that repeats (the phases repeat
//! exactly).

use crate::program::Signal;
use thiserror::Error;

/// A fault in the parts of an interval machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FluidError {
    /// The configuration is impossible.
    #[error("fluid configuration: {0}")]
    Config(String),
    /// A program is impossible.
    #[error("program {index} (`{name}`): {message}")]
    Program {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// The fault and its remedy.
        message: String,
    },
    /// A device is impossible.
    #[error("device {index} (`{name}`): {message}")]
    Device {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// The fault and its remedy.
        message: String,
    },
    /// A measurement did not work.
    #[error("calibration: {0}")]
    Calibration(String),
    /// The caller asked to stop while something was measured.
    #[error("interrupted")]
    Interrupted,
}

/// Called from time to time during a measurement; false stops it.
pub type GoOn<'a> = &'a dyn Fn() -> bool;

/// Demand of a phase on the memory while it has this part of the shared cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Lines of the shared cache that the program holds.
    pub cache_lines: u64,
    /// Misses of the shared cache in the phase.
    pub llc_misses: u64,
    /// Lines read from DRAM in the phase.
    pub dram_reads: u64,
    /// Lines written to DRAM in the phase.
    pub dram_writes: u64,
    /// Time of the phase that no memory can shorten, ps.
    pub least_ps: u64,
    /// Time of the phase that is not overlapped with DRAM, ps; negative where the line of time
    /// against latency, steep only at long latencies, cuts the axis below zero.
    pub serial_ps: i64,
    /// Mean read latency of the program alone, ps; `None` takes the value of the memory curve.
    pub latency_ps: Option<u64>,
    /// Reads outstanding while there are any, in thousandths.
    pub concurrency_milli: u32,
    /// Locality of the accesses, in thousandths: 0 for random ones, 1000 for streams (row hits).
    pub locality_milli: u32,
}

/// A piece of a program with constant rates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Cycles of computation.
    pub compute_cycles: u64,
    /// Accesses by operations.
    pub accesses: u64,
    /// Accesses to the shared cache.
    pub llc_accesses: u64,
    /// Demand on the memory, by rising share of the cache; a single entry means that the cache
    /// makes no difference.
    pub demands: Vec<Demand>,
    /// Signal to the kernel at its end.
    pub end: Option<Signal>,
}

impl Phase {
    /// A phase by hand: `compute_cycles` of a core with `frequency_hz`, and DRAM traffic,
    /// `concurrency` reads at a time.
    #[must_use]
    pub fn new(
        compute_cycles: u64,
        frequency_hz: u64,
        reads: u64,
        writes: u64,
        concurrency: u32,
    ) -> Self {
        let ps = u128::from(compute_cycles) * 1_000_000_000_000 / u128::from(frequency_hz.max(1));
        let demand = Demand {
            llc_misses: reads,
            dram_reads: reads,
            dram_writes: writes,
            least_ps: u64::try_from(ps).unwrap_or(u64::MAX),
            serial_ps: if concurrency <= 1 { i64::try_from(ps).unwrap_or(i64::MAX) } else { 0 },
            concurrency_milli: concurrency.max(1).saturating_mul(1000),
            ..Demand::default()
        };
        let llc = reads.max(writes);
        Self { compute_cycles, accesses: llc, llc_accesses: llc, demands: vec![demand], end: None }
    }

    /// The same phase with a signal at its end.
    #[must_use]
    pub fn ending(mut self, end: Signal) -> Self {
        self.end = Some(end);
        self
    }

    /// The same phase with the accesses of a row-hit share, in thousandths.
    #[must_use]
    pub fn with_locality(mut self, milli: u32) -> Self {
        self.demands.iter_mut().for_each(|d| d.locality_milli = milli);
        self
    }
}

/// A program as a cycle of phases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FluidProgram {
    /// Its name, for messages.
    pub name: String,
    /// Its phases, again and again.
    pub phases: Vec<Phase>,
    /// Lines of the private caches that it reads again from the shared cache after another program
    /// ran on the core.
    pub private_lines: u64,
    /// Part of the shared cache that it fills, an index into [`super::FluidConfig::partitions`].
    pub partition: usize,
}

/// Longest phase, ps: an hour.
const LONGEST_PS: u64 = 3_600_000_000_000_000;
/// Most of any count in a phase.
const MOST: u64 = 1 << 44;

impl FluidProgram {
    /// Checks that the program can be run.
    ///
    /// # Errors
    /// The phase and its fault.
    pub fn check(&self) -> Result<(), String> {
        let first = self.phases.first().ok_or("it has no phase; give at least one")?;
        if self.private_lines > 1 << 24 {
            return Err(format!("private_lines = {}; give at most 2^24", self.private_lines));
        }
        let sizes = |p: &Phase| p.demands.iter().map(|d| d.cache_lines).collect::<Vec<_>>();
        let expected = sizes(first);
        if expected.is_empty() || !expected.is_sorted() {
            return Err(
                "phase 0: demands must have cache_lines that do not fall, at least one".to_owned()
            );
        }
        for (i, phase) in self.phases.iter().enumerate() {
            if sizes(phase) != expected {
                return Err(format!(
                    "phase {i}: its demands are for other cache_lines than those of phase 0"
                ));
            }
            phase.check().map_err(|m| format!("phase {i}: {m}"))?;
        }
        let work = |p: &Phase| {
            p.compute_cycles + p.accesses + p.demands[0].least_ps + p.demands[0].dram_reads
        };
        if self.phases.iter().all(|p| work(p) == 0) {
            return Err("no phase has any work; give computation or reads".to_owned());
        }
        Ok(())
    }
}

impl Phase {
    fn check(&self) -> Result<(), String> {
        let counts = [("compute_cycles", self.compute_cycles), ("accesses", self.accesses)];
        let counts = counts.into_iter().chain([("llc_accesses", self.llc_accesses)]);
        let of_demands = self.demands.iter().flat_map(|d| {
            [
                ("llc_misses", d.llc_misses),
                ("dram_reads", d.dram_reads),
                ("dram_writes", d.dram_writes),
            ]
        });
        for (key, value) in counts.chain(of_demands) {
            if value > MOST {
                return Err(format!(
                    "{key} = {value}; give at most 2^44, in several phases if necessary"
                ));
            }
        }
        for d in &self.demands {
            if d.least_ps > LONGEST_PS || d.serial_ps.unsigned_abs() > LONGEST_PS {
                return Err(format!(
                    "least_ps = {}, serial_ps = {}; give an hour at most, in several phases if \
                    necessary",
                    d.least_ps, d.serial_ps
                ));
            }
            if d.concurrency_milli < 1000 && d.dram_reads + d.dram_writes > 0 {
                return Err(format!(
                    "concurrency_milli = {}; give 1000 (one at a time) or more",
                    d.concurrency_milli
                ));
            }
            if d.locality_milli > 1000 {
                return Err(format!("locality_milli = {}; give 0 to 1000", d.locality_milli));
            }
            if d.latency_ps.is_some_and(|l| l > 1_000_000_000) {
                return Err(
                    "latency_ps is above a millisecond; give the latency alone on the machine"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}
