//! The tables and keys of `system.toml` as written, before they are checked.
//!
//! Rule: the types here define the permitted text, and give editors and the reference their schema
//! ([`schema`]). Does not cover: relations between keys, which [`super::System`] checks.

use super::core_entry::CoreEntry;
use super::regulation::Regulation;
use super::task::TaskEntry;
use super::windows_settings::WindowsSettings;
use crate::dma::DmaEntry;
use crate::levels::{Io, Ipc, LevelsSettings};
use crate::units::Time;
use crate::vcpus::{Settings, VcpuEntry};
use crate::windows::{DeviceEntry, MarginEntry, PartitionEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A system file: the board, the regulation of memory traffic, and the tasks.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SystemFile {
    /// The board: the name of a preset (`solocore platforms` lists them), or the path of a platform
    /// file, relative to this file.
    pub(super) platform: String,
    /// The regulation of memory traffic.
    #[schemars(with = "Option<Regulation>")]
    pub(super) regulation: Option<Spanned<Regulation>>,
    /// Cores that state a share of their own, one table for each.
    #[serde(default)]
    #[schemars(with = "Vec<CoreEntry>")]
    pub(super) core: Vec<Spanned<CoreEntry>>,
    /// Tasks, one table for each. A system needs at least one.
    #[serde(default, deserialize_with = "some_tasks")]
    #[schemars(with = "Vec<TaskEntry>")]
    pub(super) task: Vec<Spanned<TaskEntry>>,
    /// Settings of the single-core-equivalence method, for systems with partitions.
    #[schemars(with = "Option<WindowsSettings>")]
    pub(super) sce: Option<Spanned<WindowsSettings>>,
    /// With partitions: all periods are whole multiples of this time. The default is 1 us.
    #[schemars(with = "Option<Time>")]
    pub(super) base: Option<Spanned<Time>>,
    /// With partitions: pace of the transfers whose size is given, at all devices that state none.
    #[schemars(with = "Option<DmaEntry>")]
    pub(super) dma: Option<Spanned<DmaEntry>>,
    /// With partitions: time that is reserved at the end of each activity.
    #[schemars(with = "Option<MarginEntry>")]
    pub(super) margin: Option<Spanned<MarginEntry>>,
    /// Devices that partitions read and write, one table for each.
    #[serde(default)]
    #[schemars(with = "Vec<DeviceEntry>")]
    pub(super) device: Vec<Spanned<DeviceEntry>>,
    /// Partitions, each with a window on one core in each of its periods. They make the plan one of
    /// windows.
    #[serde(default)]
    #[schemars(with = "Vec<PartitionEntry>")]
    pub(super) partition: Vec<Spanned<PartitionEntry>>,
    /// Criticality levels on isolated hardware. This table makes the plan one of levels.
    #[serde(alias = "mc2")]
    #[schemars(with = "Option<LevelsSettings>")]
    pub(super) levels: Option<Spanned<LevelsSettings>>,
    /// With `[levels]`: messages from one task to another, one table for each pair.
    #[serde(default)]
    #[schemars(with = "Vec<Ipc>")]
    pub(super) ipc: Vec<Spanned<Ipc>>,
    /// With `[levels]`: buffers of devices, one table for each.
    #[serde(default)]
    #[schemars(with = "Vec<Io>")]
    pub(super) io: Vec<Spanned<Io>>,
    /// With `policy = "maracas"`: rules of the VCPUs' scheduling.
    #[schemars(with = "Option<Settings>")]
    pub(super) maracas: Option<Spanned<Settings>>,
    /// With `policy = "maracas"`: VCPUs, one table for each.
    #[serde(default)]
    #[schemars(with = "Vec<VcpuEntry>")]
    pub(super) vcpu: Vec<Spanned<VcpuEntry>>,
}

fn some_tasks<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Spanned<TaskEntry>>, D::Error> {
    Vec::deserialize(deserializer)
}

/// The JSON Schema of a system file.
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(SystemFile)
}
