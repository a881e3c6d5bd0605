//! How long a read takes in a memory that is busy: measured once for each memory, then looked up.
//!
//! Rule. The state of the memory is one number, its utilisation u: the sum over all sources of their rate over the peak rate of
//! their kind of traffic. A kind is a share of writes and a locality (0: uniform over all lines, 1: four streams in banks of
//! their own); the read latency at u is taken from open-loop traffic of that kind through `solocore-dram` at
//! u times its peak, between the points linearly, and beyond 15/16 along a hyperbola that has no end at u = 1.
//! So rates never sum to more than the peak, and more traffic never makes anybody faster.
//!
//! Not covered: which banks a source uses (all traffic is spread over all banks), and that a victim's delay depends on
//! the locality of the others and not only on its own.

use super::program::FluidError;
use solocore_dram::Spec;
use solocore_dram::random::fraction;
use solocore_dram::traffic::{self, Pattern, Silent, Traffic};
use solocore_model::Bandwidth;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Points of utilisation, sixteenths from 0.
pub const POINTS: usize = 16;
/// Write shares that are measured, in eighths.
const WRITES: [u64; 4] = [0, 2, 4, 6];
/// Requests of one measurement.
const REQUESTS: u64 = 12_000;

/// Latency and peak of one kind of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Time of a line at the peak rate, ps.
    pub line_ps: f64,
    /// Read latency at each sixteenth of the peak, ps; not falling.
    pub latency_ps: [f64; POINTS],
}

impl Kind {
    /// Read latency at a utilisation below 1, ps.
    #[inline]
    #[must_use]
    pub fn at(&self, u: f64) -> f64 {
        curve_at(&self.latency_ps, u)
    }

    fn mix(&self, other: &Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self {
            line_ps: mix(self.line_ps, other.line_ps),
            latency_ps: std::array::from_fn(|i| mix(self.latency_ps[i], other.latency_ps[i])),
        }
    }
}

/// Reads the points at a utilisation of 0 to below 1.
#[inline]
pub(super) fn curve_at(points: &[f64; POINTS], u: f64) -> f64 {
    let x = if u > 0.0 { u * POINTS as f64 } else { 0.0 };
    let i = x as usize;
    if i + 1 < POINTS {
        return points[i] + (points[i + 1] - points[i]) * (x - i as f64);
    }
    // Continuous in value and slope.
    let last = POINTS - 1;
    let step = points[last] - points[last - 1];
    let step = if step < 1000.0 { 1000.0 } else { step };
    let u = if u < 0.999_999_9 { u } else { 0.999_999_9 };
    points[last] + step * (x - last as f64) / (POINTS as f64 * (1.0 - u))
}

/// Latency of a memory under load.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryCurve {
    /// By locality (random, streams), then by share of writes.
    kinds: [[Kind; WRITES.len()]; 2],
}

impl MemoryCurve {
    /// The curve of a memory, measured at the first call in the process and kept.
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
        // Channels are independent, and one alone can be offered more than it takes.
        let mut one = spec.clone();
        one.organisation.channels = 1;
        let alone = one.check().is_ok();
        let (spec, channels) = if alone { (&one, f64::from(spec.organisation.channels)) } else { (spec, 1.0) };
        let mut rows = Vec::with_capacity(2);
        for pattern in [Pattern::Random, Pattern::Stream4] {
            let mut row = Vec::with_capacity(WRITES.len());
            for eighths in WRITES {
                row.push(measure_kind(spec, row_hit_cap, pattern, eighths, channels)?);
            }
            rows.push(row.try_into().map_err(|_| FluidError::Calibration("write shares".to_owned()))?);
        }
        let kinds = rows.try_into().map_err(|_| FluidError::Calibration("localities".to_owned()))?;
        Ok(Self { kinds })
    }

    /// A memory by hand: every kind of traffic takes `idle_ps` when idle and `line_ps` a line at the peak.
    #[must_use]
    pub fn uniform(idle_ps: u64, line_ps: u64) -> Self {
        let latency_ps = std::array::from_fn(|i| {
            let u = i as f64 / POINTS as f64;
            idle_ps as f64 + line_ps as f64 * u / (2.0 * (1.0 - u))
        });
        let kind = Kind { line_ps: line_ps.max(1) as f64, latency_ps };
        Self { kinds: std::array::from_fn(|_| std::array::from_fn(|_| kind.clone())) }
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
    let run = |bytes_per_s: f64, requests: u64| {
        let traffic = Traffic {
            pattern,
            load: Bandwidth(bytes_per_s as u64),
            writes: fraction(u128::from(eighths), 8),
            requests,
            seed: 1,
        };
        let report = traffic::run(spec, row_hit_cap, &traffic, &mut Silent);
        let report = report.map_err(|e| FluidError::Calibration(e.to_string()))?;
        report.ok_or_else(|| FluidError::Calibration("the traffic was stopped".to_owned()))
    };
    let line = spec.organisation.line_bytes() as f64;
    // A request every cycle is more than any memory takes.
    let full = run(line / clock * 1e12, 3 * REQUESTS)?;
    let line_ps = full.cycles as f64 * clock / full.answered.max(1) as f64;
    let mut latency_ps = [0.0; POINTS];
    let mut least = 0.0;
    for (i, point) in latency_ps.iter_mut().enumerate() {
        // At no load at all, nothing would be measured.
        let u = if i == 0 { 1.0 / 64.0 } else { i as f64 / POINTS as f64 };
        let report = run(u * line / line_ps * 1e12, if i == 0 { REQUESTS / 4 } else { REQUESTS })?;
        let mean = report.latency.mean() * clock;
        least = if mean > least { mean } else { least };
        *point = least;
    }
    Ok(Kind { line_ps: line_ps / channels, latency_ps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_and_has_no_end_at_the_peak() {
        let spec = Spec::find("ddr3-1333").unwrap();
        let curve = MemoryCurve::of(&spec, Some(4)).unwrap();
        for (writes, locality) in [(0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (0.0, 1.0), (1.0, 1.0)] {
            let kind = curve.kind(writes, locality);
            let mut before = 0.0;
            for i in 0..1000 {
                let now = kind.at(f64::from(i) / 1000.0);
                assert!(now >= before, "{writes} {locality} {i}");
                before = now;
            }
            assert!(before > 10.0 * kind.at(0.0));
            // 10.67 GB/s is the bus.
            assert!(kind.line_ps > 6000.0 && kind.line_ps < 9000.0, "{}", kind.line_ps);
        }
        // docs/dram.md: 71 ns at 5 GB/s, random reads.
        let random = curve.kind(0.0, 0.0);
        let at5 = random.at(5e9 / 64.0 * random.line_ps / 1e12);
        assert!((68_000.0..75_000.0).contains(&at5), "{at5}");
        assert!(Arc::ptr_eq(&curve, &MemoryCurve::of(&spec, Some(4)).unwrap()));
    }
}
