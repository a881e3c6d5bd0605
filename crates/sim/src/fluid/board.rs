//! The interval machine of a request-level one: its configuration, its programs, and the difference
//! between the two machines.

use super::calibrate::{Calibration, Setting, calibrate};
use super::curve::MemoryCurve;
use super::error::{Report, compare};
use super::program::{FluidError, FluidProgram, GoOn};
use super::{Fluid, FluidConfig};
use crate::machine::{Machine, MachineConfig};
use crate::program::{Program, Space};
use solocore_cache::prefetch::PrefetcherKind;
use std::collections::BTreeSet;

/// Makes a program and its place in memory, the same each time.
pub type Maker<'a> = &'a dyn Fn() -> Result<(Box<dyn Program>, Space), FluidError>;

/// Lines of one way of the shared cache.
fn way_lines(config: &MachineConfig) -> u64 {
    config.llc.size.0 / (u64::from(config.llc.ways) * config.llc.line.0).max(1)
}

impl FluidConfig {
    /// The interval machine of a request-level one, with a shared cache in one part. Measures its
    /// memory at the first call.
    ///
    /// # Errors
    /// When the memory's values are impossible.
    pub fn of(config: &MachineConfig) -> Result<Self, FluidError> {
        if config.prefetcher != PrefetcherKind::Off || config.translation.is_some() {
            let message = "intervals have no prefetchers and no page walks; simulate requests";
            return Err(FluidError::Config(message.to_owned()));
        }
        let lines = way_lines(config) * u64::from(config.llc.ways);
        let refill = u128::from(config.llc.latency.0) * 1_000_000_000_000
            / u128::from(config.frequency.max(1));
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
        let ways = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48]
            .into_iter()
            .filter(|&w| w < all)
            .chain([all]);
        Self::new(ways.map(|w| u64::from(w) * way_lines(config)).collect())
    }
}

/// Lines of a program that a number of ways holds, if its lines are spread over the sets by chance
/// (Poisson): the sum over the sets of the lines in each, the ways at most. Only additions,
/// multiplications and divisions: the same on every machine.
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

/// Sets of the shared cache that a program's pages fall into, by their colours.
fn sets_of(config: &MachineConfig, space: &Space) -> Result<u64, FluidError> {
    let layout = config.layout().map_err(|e| FluidError::Calibration(e.to_string()))?;
    let colours: BTreeSet<u64> = space.frames.iter().map(|&f| layout.colour(f)).collect();
    Ok((way_lines(config) * colours.len() as u64 / layout.colours().max(1)).max(1))
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

/// Measures a program on a request-level machine: a share of the cache is a number of its ways.
///
/// # Errors
/// Errors of the machine; [`FluidError::Calibration`] where the runs do not give phases;
/// [`FluidError::Interrupted`].
pub fn calibrate_on(
    config: &MachineConfig,
    name: &str,
    options: &Calibration,
    go_on: GoOn<'_>,
    make: Maker<'_>,
) -> Result<FluidProgram, FluidError> {
    let curve = MemoryCurve::of(&config.memory, config.row_hit_cap)?;
    let way = way_lines(config);
    let mut options = options.clone();
    if options.holds.is_empty() {
        let space = make()?.1;
        let lines = space.frames.len() as u64 * (config.page / config.llc.line.0.max(1));
        let sets = sets_of(config, &space)?;
        options.holds =
            rising(options.cache_lines.iter().map(|l| held(lines, sets, l / way.max(1))));
    }
    calibrate(name, &curve, &options, go_on, |setting: Setting| {
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
        Machine::new(config, vec![(program, space)], vec![])
            .map_err(|e| FluidError::Calibration(e.to_string()))
    })
}

/// Runs programs side by side, the i-th on core i, on both machines.
///
/// # Errors
/// Errors of either machine.
pub fn error(
    config: &MachineConfig,
    fluid: &FluidConfig,
    programs: &[(FluidProgram, Maker<'_>)],
    warm_ps: u64,
    horizon_ps: u64,
) -> Result<Report, FluidError> {
    let made = programs.iter().map(|(_, make)| make()).collect::<Result<Vec<_>, _>>()?;
    let mut exact = Machine::new(config.clone(), made, vec![])
        .map_err(|e| FluidError::Calibration(e.to_string()))?;
    let known: Vec<FluidProgram> = programs.iter().map(|(p, _)| p.clone()).collect();
    let mut fluid = Fluid::new(fluid, &known, &[])?;
    Ok(compare(&mut exact, &mut fluid, programs.len(), warm_ps, horizon_ps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{BuildContext, WorkloadSpec};
    use solocore_model::Platform;
    use std::path::Path;

    /// Two rows of the table of docs/simulator.md hold.
    #[test]
    fn both_machines_agree_on_streams_and_chases() {
        let platform = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        let machine = MachineConfig::of(&platform, 1).unwrap();
        let fluid = FluidConfig::of(&machine).unwrap();
        let ms = 1_000_000_000;
        let options =
            Calibration { warm_ps: ms, horizon_ps: ms, ..Calibration::new(vec![8192, 98_304]) };
        for (kind, cores) in [("bandwidth", 3u64), ("latency", 4)] {
            let build = |core: u64| -> Result<(Box<dyn Program>, Space), FluidError> {
                let spec: WorkloadSpec = toml::from_str(&format!("kind = \"{kind}\"")).unwrap();
                let workload =
                    spec.build(&BuildContext::new(&platform, core + 1, Path::new("."))).unwrap();
                let frame = |page: u64| {
                    ((core << 14) + page).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 21)
                };
                let frames = (0..u64::from(workload.program.pages())).map(frame).collect();
                Ok((
                    workload.program,
                    Space { frames, kinds: vec![], ways: 0xfff, ..Space::default() },
                ))
            };
            let program = calibrate_on(&machine, kind, &options, &|| true, &|| build(0)).unwrap();
            let makers: Vec<_> = (0..cores).map(|core| move || build(core)).collect();
            for count in [1, makers.len()] {
                let programs: Vec<_> =
                    makers[..count].iter().map(|m| (program.clone(), m as Maker<'_>)).collect();
                let report = error(&machine, &fluid, &programs, ms, ms).unwrap();
                let limit = if count == 1 { 5 } else { 100 };
                assert!(report.worst_permille() <= limit, "{kind} {count}: {report:?}");
            }
        }
    }

    #[test]
    fn ways_hold_what_falls_into_their_sets() {
        // One line a set on average: a share of 1 - 1/e of the sets has one.
        assert!(held(8192, 8192, 1).abs_diff(5178) <= 1);
        assert_eq!(held(8192, 8192, 32), 8192);
        assert_eq!(held(1 << 30, 8192, 12), 98_304);
        assert_eq!(rising([3, 3, 3, 9].into_iter()), [3, 4, 5, 9]);
    }
}
