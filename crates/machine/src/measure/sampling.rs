//! Samples pieces until they suffice, and counts those that are left out.
//!
//! Rule: a piece counts unless a counter shows a disturbance; none is left out for its length. The
//! pieces that count are summed up by their median and its interval ([`solocore_buffers::median`]).

use super::probe::{Cause, Piece, Probe};
use crate::error::MachineError;
use serde::Serialize;
use solocore_buffers::median::Median;
use std::time::Duration;

/// Pieces that did not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LeftOut {
    /// With an interrupt.
    pub interrupts: usize,
    /// With a switch of the thread.
    pub switches: usize,
    /// With stolen time.
    pub steal: usize,
}

impl LeftOut {
    /// Number of all of them.
    pub fn sum(&self) -> usize {
        self.interrupts + self.switches + self.steal
    }

    /// Counts one more of a kind.
    pub fn count(&mut self, cause: Cause) {
        match cause {
            Cause::Interrupt => self.interrupts += 1,
            Cause::Switch => self.switches += 1,
            Cause::Steal => self.steal += 1,
        }
    }

    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            interrupts: self.interrupts + other.interrupts,
            switches: self.switches + other.switches,
            steal: self.steal + other.steal,
        }
    }
}

/// Summary of pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// Median of those that count, in ns.
    pub median: Median,
    /// The shortest of those that count, in ns.
    pub least: f64,
    /// The longest of those that count, in ns.
    pub worst: f64,
    /// Pieces that do not count.
    pub left_out: LeftOut,
}

impl Sampled {
    /// The summary of these pieces; `None` without pieces.
    pub fn of(kept: Vec<f64>, left_out: LeftOut) -> Option<Self> {
        let least = kept.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = kept.iter().copied().fold(0.0, f64::max);
        Some(Self { median: Median::of(kept)?, least, worst, left_out })
    }

    /// The same in another unit: `number` is applied to each value.
    #[must_use]
    pub fn map(self, number: impl Fn(f64) -> f64) -> Self {
        let (least, worst) = (number(self.least), number(self.worst));
        Self { median: self.median.map(&number), least, worst, ..self }
    }
}

/// Reasons for which there are no numbers.
#[derive(Debug)]
pub enum Ended {
    /// The user asked to stop.
    Stopped,
    /// The measurement failed.
    Failed(MachineError),
}

impl From<MachineError> for Ended {
    fn from(error: MachineError) -> Self {
        Self::Failed(error)
    }
}

/// Fewest pieces that allow an interval of 95 %.
pub const FEWEST: usize = 8;

/// Samples pieces until the wanted number counts, or until the time is over and [`FEWEST`] count.
///
/// # Errors
/// The user asked to stop; a machine that allows no measurement for ten times that time.
pub fn sample<P: Probe + ?Sized>(
    probe: &mut P,
    key: &str,
    wanted: usize,
    time: Duration,
    mut piece: impl FnMut(&mut P) -> Result<Vec<Piece>, MachineError>,
) -> Result<Sampled, Ended> {
    let (mut kept, mut left_out, begun) = (Vec::new(), LeftOut::default(), probe.elapsed());
    loop {
        if probe.stopped() {
            return Err(Ended::Stopped);
        }
        for piece in piece(probe)? {
            match piece.cause {
                Some(cause) => left_out.count(cause),
                None => kept.push(piece.ns),
            }
        }
        let passed = probe.elapsed().saturating_sub(begun);
        if kept.len() >= wanted || passed > time && kept.len() >= FEWEST {
            break;
        }
        if passed > 10 * time {
            return Err(Ended::Failed(MachineError::Machine(format!(
                "{key}: of {} pieces only {} had no interrupt, switch or stolen time in {:.0} s; \
                    free this CPU, or name another with --cpu",
                kept.len() + left_out.sum(),
                kept.len(),
                passed.as_secs_f64()
            ))));
        }
    }
    match Sampled::of(kept, left_out) {
        Some(sampled) => Ok(sampled),
        None => Err(Ended::Failed(MachineError::Machine(format!(
            "{key}: nothing was measured; give more --time"
        )))),
    }
}
