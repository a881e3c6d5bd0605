//! What was found of a key.

use super::sampling::{LeftOut, Sampled};
use serde::Serialize;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Key {
    /// Cycles of an instruction.
    #[serde(rename = "cpi")]
    Cpi,
    /// Miss registers of a core.
    #[serde(rename = "pipeline.mshrs")]
    Mshrs,
    /// Latency of the second level.
    #[serde(rename = "l2.latency")]
    L2,
    /// Latency of the shared cache.
    #[serde(rename = "llc.latency")]
    Llc,
    /// Time of controller and interconnect.
    #[serde(rename = "dram.overhead")]
    Overhead,
    /// One access's own worst.
    #[serde(rename = "dram.latency_max")]
    LatencyMax,
    /// An access while all other cores attack.
    #[serde(rename = "attack")]
    Attack,
    /// Bandwidth for each number of active cores.
    #[serde(rename = "bandwidth")]
    Bandwidth,
    /// A read after a burst of writes.
    #[serde(rename = "writes")]
    Writes,
}

impl Key {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 9] = [
        Self::Cpi,
        Self::L2,
        Self::Llc,
        Self::Mshrs,
        Self::Overhead,
        Self::LatencyMax,
        Self::Writes,
        Self::Attack,
        Self::Bandwidth,
    ];

    /// As the platform file or the report calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpi => "cpi",
            Self::Mshrs => "pipeline.mshrs",
            Self::L2 => "l2.latency",
            Self::Llc => "llc.latency",
            Self::Overhead => "dram.overhead",
            Self::LatencyMax => "dram.latency_max",
            Self::Attack => "attack",
            Self::Bandwidth => "bandwidth",
            Self::Writes => "writes",
        }
    }

    /// Of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// What its numbers are.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpi | Self::L2 | Self::Llc => "cycles",
            Self::Mshrs => "registers",
            Self::Overhead | Self::LatencyMax | Self::Attack | Self::Writes => "ns",
            Self::Bandwidth => "MB/s",
        }
    }

    /// Has a platform file a place for it?
    #[must_use]
    pub fn is_written(self) -> bool {
        !matches!(self, Self::Attack | Self::Bandwidth | Self::Writes)
    }
}

/// Which end of an interval no bound is too small with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The upper one: times.
    High,
    /// The lower one: bandwidth.
    Low,
}

/// One number of several, in the key's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is of.
    pub of: String,
    /// The median.
    pub median: f64,
    /// Its interval of 95 %.
    pub ci_low: f64,
    /// See `ci_low`.
    pub ci_high: f64,
    /// The longest piece that counted, where that means something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
}

impl Row {
    /// Of what was sampled.
    pub fn new(of: impl Into<String>, sampled: &Sampled) -> Self {
        let m = sampled.median;
        Self { of: of.into(), median: m.value, ci_low: m.low, ci_high: m.high, worst: None }
    }
}

/// What was found of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Of what.
    pub key: Key,
    /// The key's unit.
    pub unit: &'static str,
    /// The number on the safe side, which the file gets.
    pub value: f64,
    /// The median.
    pub median: f64,
    /// Its interval of 95 %, by order statistics.
    pub ci_low: f64,
    /// See `ci_low`.
    pub ci_high: f64,
    /// Pieces that counted.
    pub samples: usize,
    /// Pieces that did not, by what came between.
    pub left_out: LeftOut,
    /// How it was measured.
    pub method: String,
    /// What the file said before.
    pub before: Option<String>,
    /// What the file says now, where it has such a key.
    pub after: Option<String>,
    /// The file keeps its own value, which is on the safe side of this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// What the user must know.
    pub notes: Vec<String>,
    /// Parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
}

impl Finding {
    /// Of what was sampled, in the key's unit.
    pub fn new(key: Key, sampled: &Sampled, side: Side, method: impl Into<String>) -> Self {
        let m = sampled.median;
        Self {
            key,
            unit: key.unit(),
            value: if side == Side::High { m.high } else { m.low },
            median: m.value,
            ci_low: m.low,
            ci_high: m.high,
            samples: m.samples,
            left_out: sampled.left_out,
            method: method.into(),
            before: None,
            after: None,
            keep: false,
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }
}
