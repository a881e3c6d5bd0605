//! Rates of traffic sources that share a memory: the fixed point of rates and latency.
//!
//! Rule. A source repeats a unit of work that takes T = max(least, line + slope L) at read latency
//! L, and moves lines in it that take the memory `service` ps at its peak rate. Utilisation u is
//! the sum of service / T; the backlog B the sum of L service / T: the lines under way (Little's
//! law) with the time that each takes. A request waits d = u B: the queue that it finds, reduced by
//! u because the memory serves several requests at once while it is not full. The latency of each
//! source is its own idle one plus d. Alone, each source takes exactly its measured time.
//!
//! As each L is at least d, d = u B is at least u^2 d, so u is at most 1: rates never sum to more
//! than the peak. A further source adds to u and to B, so the greatest solution d rises: other
//! programs never help a program. One source of constant rate gives L = idle / (1 - u^2): 71 ns for
//! random reads of DDR3-1333 at 5 GB/s, as docs/dram.md. Found by false position (Illinois) in a
//! bracket, with IEEE additions, multiplications, divisions and comparisons in a fixed order: the
//! same on every machine.
//!
//! Source: approximate mean value analysis of closed queueing networks (Schweitzer 1979; Lazowska
//! et al., Quantitative System Performance, 1984, chapter 6); the factor u is ours, checked against
//! the request-level machine (docs/simulator.md).

use super::curve::Kind;

/// A unit of work as the solver sees it: a phase at a share of the cache, or lines of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// Time that no memory can shorten, ps.
    pub least_ps: f64,
    /// Time at latency 0 of the sloping part, ps; may be negative.
    pub line_ps: f64,
    /// Time for each ps of latency.
    pub slope: f64,
    /// Time of the memory at its peak rate, ps.
    pub service_ps: f64,
    /// Read latency without any wait, ps.
    pub idle_ps: f64,
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

/// Largest part of the memory's peak rate that one source alone can use. If a source measured more,
/// the memory is taken to be faster by that factor.
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
            idle_ps: kind.idle_ps,
        };
        if let (Some(latency), true) = (work.latency_ps, lines > 0.0) {
            let alone = unit.time(latency);
            if unit.service_ps > MOST_ALONE * alone {
                unit.service_ps = MOST_ALONE * alone;
            }
            let u = unit.service_ps / alone;
            unit.idle_ps = latency * (1.0 - u * u);
        }
        unit
    }

    /// Read latency when requests wait this time, ps.
    pub fn latency(&self, wait_ps: f64) -> f64 {
        self.idle_ps + wait_ps
    }

    #[inline]
    fn time(&self, latency: f64) -> f64 {
        let time = self.line_ps + self.slope * latency;
        if time > self.least_ps { time } else { self.least_ps }
    }

    /// Time of the unit when requests wait this time, ps.
    pub fn time_at(&self, wait_ps: f64) -> f64 {
        self.time(self.latency(wait_ps))
    }
}

/// u B - d.
#[inline]
fn excess(units: &[Unit], wait: f64) -> f64 {
    let (mut u, mut backlog) = (0.0, 0.0);
    for x in units {
        let latency = x.latency(wait);
        let share = x.service_ps / x.time(latency);
        u += share;
        backlog += share * latency;
    }
    u * backlog - wait
}

/// Accuracy of the wait, ps.
const CLOSE: f64 = 1e-4;

/// Waiting time of requests of sources that run together, ps: the upper end of the last bracket,
/// where the demand does not exceed the memory's rate.
pub(super) fn wait_ps(units: &[Unit]) -> f64 {
    let (mut low, mut high) = (0.0, 100_000.0);
    let mut at_low = excess(units, low);
    if at_low <= 0.0 {
        return low;
    }
    let mut at_high = excess(units, high);
    while at_high > 0.0 {
        (low, at_low) = (high, at_high);
        high *= 4.0;
        if high > 1e13 {
            return high;
        }
        at_high = excess(units, high);
    }
    let mut side = 0;
    for round in 0..64 {
        if high - low < CLOSE {
            break;
        }
        let half = (low + high) / 2.0;
        let guess = if round % 4 == 3 {
            half
        } else {
            (low * at_high - high * at_low) / (at_high - at_low)
        };
        let guess = if guess > low && guess < high { guess } else { half };
        let at = excess(units, guess);
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
