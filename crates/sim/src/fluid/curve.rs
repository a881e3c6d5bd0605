//! Performance of a memory for each kind of traffic, measured once for each memory and then looked
//! up.
//!
//! Rule. A kind of traffic is a share of writes and a locality (0: uniform over all lines, 1: four
//! streams in banks of their own). For each kind, `solocore-dram` gives the time of a line at full
//! load, and the read latency at an eighth of that load, less the wait there. Other kinds are
//! interpolated. `solve` has the effect of sources on each other.
//!
//! Not covered: the banks of a source (all traffic is spread over all banks).

use super::program::FluidError;
use solocore_dram::Spec;
use solocore_dram::random::fraction;
use solocore_dram::traffic::{self, Pattern, Silent, Traffic};
use solocore_model::Bandwidth;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Write shares that are measured, in eighths.
const WRITES: [u64; 4] = [0, 2, 4, 6];
/// Requests of a measurement at full load.
const REQUESTS: u64 = 40_000;
/// Requests of a measurement at an eighth of full load. At less, refreshes close rows that a busier
/// memory finds open.
const FEW: u64 = 10_000;

/// One kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Time of a line at the peak rate, ps.
    pub line_ps: f64,
    /// Read latency of a request that meets no other, ps.
    pub idle_ps: f64,
}

impl Kind {
    fn mix(&self, other: &Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self {
            line_ps: mix(self.line_ps, other.line_ps),
            idle_ps: mix(self.idle_ps, other.idle_ps),
        }
    }
}

/// Performance of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryCurve {
    /// By locality (random, streams), then by share of writes.
    kinds: [[Kind; WRITES.len()]; 2],
}

impl MemoryCurve {
    /// The figures of a memory, measured at the first call in the process and kept.
    ///
    /// # Errors
    /// When the memory's values are impossible.
    pub fn of(spec: &Spec, row_hit_cap: Option<u32>) -> Result<Arc<Self>, FluidError> {
        static KNOWN: OnceLock<Mutex<BTreeMap<String, Arc<MemoryCurve>>>> = OnceLock::new();
        let key = format!("{row_hit_cap:?} {spec:?}");
        let known = KNOWN.get_or_init(Mutex::default);
        let find = || known.lock().ok()?.get(&key).cloned();
        if let Some(curve) = find() {
            return Ok(curve);
        }
        let curve = Arc::new(Self::measure(spec, row_hit_cap)?);
        if let Ok(mut known) = known.lock() {
            known.insert(key, Arc::clone(&curve));
        }
        Ok(curve)
    }

    /// Measures a memory.
    ///
    /// # Errors
    /// When the memory's values are impossible.
    pub fn measure(spec: &Spec, row_hit_cap: Option<u32>) -> Result<Self, FluidError> {
        // Channels are independent, and one alone can be offered more requests than it serves.
        let mut one = spec.clone();
        one.organisation.channels = 1;
        let alone = one.check().is_ok();
        let (spec, channels) =
            if alone { (&one, f64::from(spec.organisation.channels)) } else { (spec, 1.0) };
        let measure =
            |pattern, eighths| measure_kind(spec, row_hit_cap, pattern, eighths, channels);
        let mut kinds = [[Kind { line_ps: 0.0, idle_ps: 0.0 }; WRITES.len()]; 2];
        for (row, pattern) in kinds.iter_mut().zip([Pattern::Random, Pattern::Stream4]) {
            for (kind, eighths) in row.iter_mut().zip(WRITES) {
                *kind = measure(pattern, eighths)?;
            }
        }
        Ok(Self { kinds })
    }

    /// A memory by hand: every kind of traffic takes `idle_ps` when idle and `line_ps` a line at
    /// the peak.
    #[must_use]
    pub fn uniform(idle_ps: u64, line_ps: u64) -> Self {
        let kind = Kind { line_ps: line_ps.max(1) as f64, idle_ps: idle_ps as f64 };
        Self { kinds: [[kind; WRITES.len()]; 2] }
    }

    /// Traffic with a share of writes and a locality, both 0 to 1 (writes beyond 3/4 count as 3/4).
    #[must_use]
    pub fn kind(&self, writes: f64, locality: f64) -> Kind {
        let x = (writes * 4.0).clamp(0.0, (WRITES.len() - 1) as f64);
        let i = (x as usize).min(WRITES.len() - 2);
        let at = |row: &[Kind; WRITES.len()]| row[i].mix(&row[i + 1], x - i as f64);
        at(&self.kinds[0]).mix(&at(&self.kinds[1]), locality.clamp(0.0, 1.0))
    }
}

fn measure_kind(
    spec: &Spec,
    row_hit_cap: Option<u32>,
    pattern: Pattern,
    eighths: u64,
    channels: f64,
) -> Result<Kind, FluidError> {
    let clock = spec.timing.clock.ps() as f64;
    let line = spec.organisation.line_bytes() as f64;
    let run = |bytes_per_s: f64, requests: u64| {
        let writes = fraction(u128::from(eighths), 8);
        let traffic =
            Traffic { pattern, load: Bandwidth(bytes_per_s as u64), writes, requests, seed: 1 };
        let report = traffic::run(spec, row_hit_cap, &traffic, &mut Silent);
        let report = report.map_err(|e| FluidError::Calibration(e.to_string()))?;
        report.ok_or_else(|| FluidError::Calibration("the traffic was stopped".to_owned()))
    };
    // A request every cycle is more than any memory serves.
    let full = run(line / clock * 1e12, REQUESTS)?;
    let line_ps = full.cycles as f64 * clock / full.answered.max(1) as f64;
    let low = run(line / line_ps * 1e12 / 8.0, FEW)?;
    // Less the wait at that load (`solve`).
    let idle_ps = low.latency.mean() * clock * (1.0 - 1.0 / 64.0);
    Ok(Kind { line_ps: line_ps / channels, idle_ps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_as_fast_as_its_bus_and_its_rows_allow() {
        let spec = Spec::find("ddr3-1333").unwrap();
        let curve = MemoryCurve::of(&spec, Some(4)).unwrap();
        for (writes, locality) in [(0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (0.0, 1.0), (1.0, 1.0)] {
            let kind = curve.kind(writes, locality);
            // 10.67 GB/s is the bus.
            assert!(kind.line_ps > 6000.0 && kind.line_ps < 9000.0, "{}", kind.line_ps);
        }
        // docs/dram.md: 55.8 and 28.9 ns at 1 GB/s.
        assert!((50_000.0..57_000.0).contains(&curve.kind(0.0, 0.0).idle_ps));
        assert!((22_000.0..30_000.0).contains(&curve.kind(0.0, 1.0).idle_ps));
        assert!(Arc::ptr_eq(&curve, &MemoryCurve::of(&spec, Some(4)).unwrap()));
    }
}
