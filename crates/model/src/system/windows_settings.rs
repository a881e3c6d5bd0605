//! `[sce]` of a system file, and the windows that the planner is to find.

use super::task::{Criticality, SystemTask};
use crate::windows::WindowsInput;
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

/// Where the planner is to choose a duration, the partition must have tasks.
pub(super) fn check_windows(windows: &WindowsInput, tasks: &[SystemTask]) -> Result<(), String> {
    for (at, p) in windows.partitions.iter().enumerate() {
        let analysed =
            tasks.iter().any(|t| t.partition == Some(at) && t.criticality != Criticality::D);
        if p.duration_ns == 0 && !analysed {
            return Err(format!(
                "partition `{}` (line {}) has no duration, and no task of level A to C to find one \
                    for; add duration",
                p.name, p.line
            ));
        }
    }
    Ok(())
}
