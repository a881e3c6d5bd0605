//! The interval machine of a request-level one: its configuration, its programs, and how far apart the two are.

use super::calibrate::{Calibration, Setting, calibrate};
use super::curve::MemoryCurve;
use super::error::{Report, compare};
use super::program::{FluidError, FluidProgram};
use super::{Fluid, FluidConfig};
use crate::machine::{Machine, MachineConfig};
use crate::program::{Program, Space};

/// Makes a program and its place in memory, the same each time.
pub type Maker<'a> = &'a dyn Fn() -> Result<(Box<dyn Program>, Space), FluidError>;

/// Lines of one way of the shared cache.
fn way_lines(config: &MachineConfig) -> u64 {
    config.llc.size.0 / (u64::from(config.llc.ways) * config.llc.line.0).max(1)
}

impl FluidConfig {
    /// The interval machine of a request-level one, with a shared cache in one part. Measures its memory at the first call.
    ///
    /// # Errors
    /// When the memory's values are impossible.
    pub fn of(config: &MachineConfig) -> Result<Self, FluidError> {
        let lines = way_lines(config) * u64::from(config.llc.ways);
        let refill = u128::from(config.llc.latency.0) * 1_000_000_000_000 / u128::from(config.frequency.max(1));
        Ok(Self {
            cores: config.cores as usize,
            partitions: vec![lines],
            curve: MemoryCurve::of(&config.memory, config.row_hit_cap)?,
            refill_line_ps: u64::try_from(refill).unwrap_or(u64::MAX),
        })
    }
}

impl Calibration {
    /// With the shares of a board's cache: 1, 2, 3, 4, 6, 8, 10, 12, 14, 16 ... ways and all.
    #[must_use]
    pub fn of(config: &MachineConfig) -> Self {
        let all = config.llc.ways;
        let ways = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48].into_iter().filter(|&w| w < all).chain([all]);
        Self::new(ways.map(|w| u64::from(w) * way_lines(config)).collect())
    }
}

/// Lines of a program that so many ways hold, if its lines are spread over the sets by chance (Poisson): the sum over the
/// sets of the lines in each, the ways at most. Only additions, multiplications and divisions: the same on every machine.
fn held(lines: u64, sets: u64, ways: u64) -> u64 {
    let mean = lines as f64 / sets.max(1) as f64;
    // Far more lines than ways fill every set; and the series would not fit.
    if mean > 300.0 {
        return sets * ways;
    }
    let (mut term, mut total, mut sum) = (1.0, 1.0, 0.0);
    for n in 1..2000u64 {
        term *= mean / n as f64;
        total += term;
        sum += term * n.min(ways) as f64;
    }
    (sets as f64 * sum / total + 0.5) as u64
}

/// Strictly rising, by as little as is needed.
fn rising(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0;
    values
        .map(|v| {
            last = v.max(last + 1);
            last
        })
        .collect()
}

/// Measures a program on a request-level machine: a share of the cache is so many of its ways.
///
/// # Errors
/// What the machine refuses, or why the runs do not give phases.
pub fn calibrate_on(
    config: &MachineConfig,
    name: &str,
    options: &Calibration,
    make: Maker<'_>,
) -> Result<FluidProgram, FluidError> {
    let curve = MemoryCurve::of(&config.memory, config.row_hit_cap)?;
    let way = way_lines(config);
    let lines = make()?.1.frames.len() as u64 * (config.page / config.llc.line.0.max(1));
    let ways = options.cache_lines.iter().map(|l| l / way.max(1));
    let options = Calibration { holds: rising(ways.map(|w| held(lines, way, w))), ..options.clone() };
    calibrate(name, &curve, &options, |setting: Setting| {
        let (program, mut space) = make()?;
        let mut left = setting.cache_lines / way.max(1);
        // The lowest of the ways that it may use.
        let keep = |bit: u32| {
            let is_set = space.ways >> bit & 1 == 1;
            let taken = is_set && left > 0;
            left -= u64::from(taken);
            if taken { 1 << bit } else { 0 }
        };
        space.ways = (0..u64::BITS).map(keep).sum();
        let mut config = config.clone();
        config.overhead_ps += setting.extra_ps;
        Machine::new(config, vec![(program, space)], vec![]).map_err(|e| FluidError::Calibration(e.to_string()))
    })
}

/// Runs programs side by side, the i-th on core i, on both machines.
///
/// # Errors
/// What either machine refuses.
pub fn error(
    config: &MachineConfig,
    fluid: &FluidConfig,
    programs: &[(FluidProgram, Maker<'_>)],
    warm_ps: u64,
    horizon_ps: u64,
) -> Result<Report, FluidError> {
    let made = programs.iter().map(|(_, make)| make()).collect::<Result<Vec<_>, _>>()?;
    let mut exact = Machine::new(config.clone(), made, vec![]).map_err(|e| FluidError::Calibration(e.to_string()))?;
    let known: Vec<FluidProgram> = programs.iter().map(|(p, _)| p.clone()).collect();
    let mut fluid = Fluid::new(fluid, &known, &[])?;
    Ok(compare(&mut exact, &mut fluid, programs.len(), warm_ps, horizon_ps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_hold_what_falls_into_their_sets() {
        // One line a set on average: a share of 1 - 1/e of the sets has one.
        assert!(held(8192, 8192, 1).abs_diff(5178) <= 1);
        assert_eq!(held(8192, 8192, 32), 8192);
        assert_eq!(held(1 << 30, 8192, 12), 98_304);
        assert_eq!(rising([3, 3, 3, 9].into_iter()), [3, 4, 5, 9]);
    }
}
