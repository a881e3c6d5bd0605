//! Limit on the hits of an open row that may pass an older request to its bank.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Most younger row hits that may pass an older request of their bank (`row_hit_cap` of `[dram]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowHitCap {
    /// At most this number; the controller then also gives ranks, reads and writes turns
    /// (docs/dram.md).
    Limit(u32),
    /// Any number: no read's delay is bounded beside others that are not regulated.
    Off,
}

impl RowHitCap {
    /// The number, if there is a limit.
    pub const fn limit(self) -> Option<u32> {
        match self {
            Self::Limit(n) => Some(n),
            Self::Off => None,
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for RowHitCap {
    /// Assumed of every board, as in the fair schedulers of Mutlu and Moscibroda (MICRO 2007).
    fn default() -> Self {
        Self::Limit(4)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RowHitCapEntry {
    Limit(u32),
    Named(String),
}

impl JsonSchema for RowHitCap {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RowHitCap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "off"}]})
    }
}

impl Serialize for RowHitCap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Limit(n) => RowHitCapEntry::Limit(*n),
            Self::Off => RowHitCapEntry::Named("off".to_owned()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RowHitCap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match RowHitCapEntry::deserialize(deserializer) {
            Ok(RowHitCapEntry::Limit(n)) => Ok(Self::Limit(n)),
            Ok(RowHitCapEntry::Named(name)) if name == "off" => Ok(Self::Off),
            _ => Err(serde::de::Error::custom("row_hit_cap is a number of row hits, or \"off\"")),
        }
    }
}
