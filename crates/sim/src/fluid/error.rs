//! The difference between the interval machine and the request-level one: both run the same
//! programs for some milliseconds.
//!
//! Rule. Program i has core i for itself. After a warm-up, the throughput of each (progress: cycles
//! of computation plus accesses) and the mean read latency of the memory are compared over a
//! horizon. docs/intervals.md has the figures.

use crate::hardware::{Hardware, Notice, ProgramId};

/// A program's throughput on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Cycles of computation plus accesses on the request-level machine.
    pub exact: u64,
    /// The same on the interval machine.
    pub fluid: u64,
}

/// Relative difference in thousandths, of the first of two.
#[must_use]
pub fn permille(exact: u64, fluid: u64) -> i64 {
    let difference = i128::from(fluid) - i128::from(exact);
    i64::try_from(difference * 1000 / i128::from(exact.max(1))).unwrap_or(i64::MAX)
}

impl Row {
    /// Speed of the interval machine above the request-level one, in thousandths.
    #[must_use]
    pub fn permille(&self) -> i64 {
        permille(self.exact, self.fluid)
    }
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One row for each program.
    pub programs: Vec<Row>,
    /// Mean read latency of the request-level machine, ps.
    pub exact_latency_ps: u64,
    /// The same of the interval machine.
    pub fluid_latency_ps: u64,
}

impl Report {
    /// The largest difference of a throughput, in thousandths.
    #[must_use]
    pub fn worst_permille(&self) -> u64 {
        self.programs.iter().map(|r| r.permille().unsigned_abs()).max().unwrap_or(0)
    }
}

/// Runs the first `programs` programs of both machines, which must be fresh, each on its own core.
pub fn compare(
    exact: &mut dyn Hardware,
    fluid: &mut dyn Hardware,
    programs: usize,
    warm_ps: u64,
    horizon_ps: u64,
) -> Report {
    let (a, exact_latency_ps) = measure(exact, programs, warm_ps, horizon_ps);
    let (b, fluid_latency_ps) = measure(fluid, programs, warm_ps, horizon_ps);
    let programs = a.into_iter().zip(b).map(|(exact, fluid)| Row { exact, fluid }).collect();
    Report { programs, exact_latency_ps, fluid_latency_ps }
}

fn measure(
    hardware: &mut dyn Hardware,
    programs: usize,
    warm_ps: u64,
    horizon_ps: u64,
) -> (Vec<u64>, u64) {
    let id = |i: usize| ProgramId(u32::try_from(i).unwrap_or(u32::MAX));
    (0..programs).for_each(|i| hardware.dispatch(i, Some(id(i)), 0));
    let until = |hardware: &mut dyn Hardware, at: u64| {
        while let Some(notice) = hardware.advance(at) {
            if let Notice::Signal { core, program, .. } = notice {
                hardware.dispatch(core, Some(program), 0);
            }
        }
        let progress = |i| {
            let c = hardware.program(id(i));
            c.compute_cycles + c.accesses
        };
        ((0..programs).map(progress).collect::<Vec<u64>>(), hardware.uncore())
    };
    let (before, uncore) = until(hardware, warm_ps);
    let (after, end) = until(hardware, warm_ps.saturating_add(horizon_ps));
    let reads = (end.reads - uncore.reads).max(1);
    let latency = (end.read_occupancy_ps - uncore.read_occupancy_ps) / reads;
    (after.into_iter().zip(before).map(|(a, b)| a - b).collect(), latency)
}
