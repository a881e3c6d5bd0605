//! Time tables of IMA partitions and their I/O: one row per strictly periodic activity.
//!
//! Offsets are absolute: the n-th instance starts at offset + n * period, and a chain's activities
//! of one instance are those with the same n, also where the chain spans periods
//! (single-core-equivalence, sections 2.4 and 5.0).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stage of a chain, in the order of precedence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// From the environment into the device.
    PhysicalInput,
    /// From the device to memory, on the I/O core.
    DeviceInput,
    /// The partition's window, on its core.
    Processing,
    /// From memory to the device, on the I/O core.
    DeviceOutput,
    /// From the device to the environment.
    PhysicalOutput,
}

impl Stage {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PhysicalInput => "physical-input",
            Self::DeviceInput => "device-input",
            Self::Processing => "processing",
            Self::DeviceOutput => "device-output",
            Self::PhysicalOutput => "physical-output",
        }
    }
}

/// One strictly periodic activity with its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the partition.
    pub partition: String,
    /// Number of its chain, from 1; `None` for processing.
    pub chain: Option<usize>,
    /// Stage of the chain.
    pub stage: Stage,
    /// `core N`, `io-core` or `device NAME`.
    pub resource: String,
    /// Start of the first instance, in nanoseconds.
    pub offset_ns: u64,
    /// Length of the slot in nanoseconds, margin included.
    pub duration_ns: u64,
    /// Nanoseconds from one instance to the next.
    pub period_ns: u64,
}

impl Row {
    /// Is it between environment and device?
    pub fn is_physical(&self) -> bool {
        matches!(self.stage, Stage::PhysicalInput | Stage::PhysicalOutput)
    }

    /// Is it on the I/O core?
    pub fn is_transfer(&self) -> bool {
        matches!(self.stage, Stage::DeviceInput | Stage::DeviceOutput)
    }
}

/// A file of `solocore schedule-io`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// Its rows.
    pub activities: Vec<Row>,
}
