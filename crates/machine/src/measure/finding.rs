//! The finding for a key.

use super::sampling::{LeftOut, Sampled};
use serde::Serialize;

/// Quantities that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
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
    /// The worst time of an access by itself.
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
    /// All keys, in the order in which they are measured.
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

    /// Its name in the platform file or the report.
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

    /// The key with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Unit of its numbers.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpi | Self::L2 | Self::Llc => "cycles",
            Self::Mshrs => "registers",
            Self::Overhead | Self::LatencyMax | Self::Attack | Self::Writes => "ns",
            Self::Bandwidth => "MB/s",
        }
    }

    /// Is it a number of a core, which types of cores may differ in?
    #[must_use]
    pub fn is_of_core(self) -> bool {
        matches!(self, Self::Cpi | Self::L2 | Self::Mshrs)
    }

    /// Does a platform file have a place for it?
    #[must_use]
    pub fn is_written(self) -> bool {
        !matches!(self, Self::Attack | Self::Bandwidth | Self::Writes)
    }
}

/// The end of an interval with which no bound is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The upper one: times.
    High,
    /// The lower one: bandwidth.
    Low,
}

/// One number of several, in the key's unit.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Description of the number.
    pub of: String,
    /// Median, in the key's unit.
    pub median: f64,
    /// Its interval of 95 %.
    pub ci_low: f64,
    /// See `ci_low`.
    pub ci_high: f64,
    /// The longest piece that counted, where it has a meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
}

impl Row {
    /// The row of a sample.
    pub fn new(of: impl Into<String>, sampled: &Sampled) -> Self {
        let m = sampled.median;
        Self { of: of.into(), median: m.value, ci_low: m.low, ci_high: m.high, worst: None }
    }
}

/// The finding for a key.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// The key.
    pub key: Key,
    /// The type of core that it is of; left out: the whole platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_type: Option<String>,
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
    /// Number of pieces that counted.
    pub samples: usize,
    /// Pieces that did not count, by cause.
    pub left_out: LeftOut,
    /// Method of the measurement.
    pub method: String,
    /// Former value in the file.
    pub before: Option<String>,
    /// New value in the file, where the file has such a key.
    pub after: Option<String>,
    /// Does the file keep its own value, because it is on the safe side of this one?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Its single numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
}

impl Finding {
    /// The name of its key, with that of the type of core.
    #[must_use]
    pub fn name(&self) -> String {
        let key = self.key.name();
        self.core_type.as_ref().map_or_else(|| key.to_owned(), |kind| format!("{key} ({kind})"))
    }

    /// The finding from a sample, in the key's unit.
    pub fn new(key: Key, sampled: &Sampled, side: Side, method: impl Into<String>) -> Self {
        let m = sampled.median;
        Self {
            key,
            core_type: None,
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
