//! `[sce]` of a system file.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[sce]`: settings of the single-core-equivalence method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WindowsSettings {
    /// Slack on top of a partition's least duration, in percent, where the file leaves the duration
    /// out.
    pub slack: u32,
}

impl Default for WindowsSettings {
    /// The value of section 3.1, step 3, of the paper.
    fn default() -> Self {
        Self { slack: 30 }
    }
}
