//! How fast sources of traffic go together: the fixed point of rates and latency.
//!
//! Rule. A source repeats a unit of work that takes T(u) = max(least, line + slope * L(u)) at utilisation u and uses the
//! memory's peak rate for `service` ps of it. The utilisation is the sum of service / T(u), which falls in u, so
//! there is one solution below 1. Found by false position (Illinois) inside a bracket, with IEEE
//! additions, multiplications, divisions and comparisons in a fixed order: the same on every machine.
//!
//! Source: the response-time law of closed queueing networks (Lazowska et al., Quantitative System Performance, 1984,
//! chapter 5), with a measured latency curve in place of a service centre.

use super::curve::{Kind, POINTS, curve_at};

/// A unit of work as the solver sees it: a phase at a share of the cache, or lines of a device.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Time that no memory can shorten, ps.
    pub least_ps: f64,
    /// Time at latency 0 of the sloping part, ps; may be negative.
    pub line_ps: f64,
    /// Time for each ps of latency.
    pub slope: f64,
    /// Time of the memory at its peak rate, ps.
    pub service_ps: f64,
    /// Read latency against utilisation, ps.
    pub curve: [f64; POINTS],
    /// What its latency is beyond that curve, ps.
    pub beyond_ps: f64,
}

/// A phase's numbers in the solver's terms.
pub(super) struct Work {
    pub reads: f64,
    pub writes: f64,
    pub least_ps: f64,
    pub serial_ps: f64,
    pub latency_ps: Option<f64>,
    pub concurrency: f64,
}

/// Most of the memory that a source alone can have: what measured more takes the memory to be faster by so much.
const MOST_ALONE: f64 = 0.98;

impl Unit {
    /// Alone, the unit takes exactly what its own numbers say.
    pub fn new(work: &Work, kind: &Kind) -> Self {
        let lines = work.reads + work.writes;
        let n = if work.reads > 0.0 { work.reads } else { work.writes };
        let slope = if n > 0.0 { n / work.concurrency } else { 0.0 };
        let mut unit = Self {
            least_ps: if work.least_ps > 1.0 { work.least_ps } else { 1.0 },
            line_ps: work.serial_ps,
            slope,
            service_ps: lines * kind.line_ps,
            curve: kind.latency_ps,
            beyond_ps: 0.0,
        };
        if let (Some(latency), true) = (work.latency_ps, lines > 0.0) {
            let alone = unit.time(latency);
            if unit.service_ps > MOST_ALONE * alone {
                unit.service_ps = MOST_ALONE * alone;
            }
            unit.beyond_ps = latency - curve_at(&unit.curve, unit.service_ps / alone);
        }
        unit
    }

    /// Read latency at a utilisation, ps.
    pub fn latency(&self, u: f64) -> f64 {
        let latency = curve_at(&self.curve, u) + self.beyond_ps;
        if latency > 0.0 { latency } else { 0.0 }
    }

    fn time(&self, latency: f64) -> f64 {
        let time = self.line_ps + self.slope * latency;
        if time > self.least_ps { time } else { self.least_ps }
    }

    /// Time of the unit at a utilisation, ps.
    pub fn time_at(&self, u: f64) -> f64 {
        self.time(self.latency(u))
    }
}

/// Utilisation above which nothing is distinguished.
const TOP: f64 = 0.999_999;
/// Accuracy of the utilisation.
const CLOSE: f64 = 1e-8;

/// The utilisation at which sources that run together settle: the upper end of the last bracket, where the memory is
/// offered no more than it takes.
pub(super) fn utilisation(units: &[&Unit]) -> f64 {
    let excess =
        |u: f64| units.iter().filter(|x| x.service_ps > 0.0).map(|x| x.service_ps / x.time_at(u)).sum::<f64>() - u;
    let (mut low, mut high) = (0.0, TOP);
    let (mut at_low, mut at_high) = (excess(low), excess(high));
    if at_low <= 0.0 {
        return low;
    }
    if at_high >= 0.0 {
        return high;
    }
    let mut side = 0;
    for round in 0..64 {
        if high - low < CLOSE {
            break;
        }
        let guess =
            if round % 4 == 3 { (low + high) / 2.0 } else { (low * at_high - high * at_low) / (at_high - at_low) };
        let guess = if guess > low && guess < high { guess } else { (low + high) / 2.0 };
        let at = excess(guess);
        if at > 0.0 {
            (low, at_low) = (guess, at);
            if side == 1 {
                at_high /= 2.0;
            }
            side = 1;
        } else {
            (high, at_high) = (guess, at);
            if at > -CLOSE {
                break;
            }
            if side == 2 {
                at_low /= 2.0;
            }
            side = 2;
        }
    }
    high
}
