//! The part of a plan by the single-core-equivalence method: partitions with their windows, the
//! time table, and the log of the search.
//!
//! Source: single-core-equivalence, sections 2.4, 3.1 and 5.0. A plan without partitions has none
//! of this.

use super::task::PlanTask;
use crate::windows::table::{Row, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Longest time in a plan: 24 hours.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Does the board have a property that the method needs?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Has {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The platform file does not say.
    Unknown,
}

/// One question of step 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HardwareItem {
    /// The requirement.
    pub what: String,
    /// The answer.
    pub has: Has,
    /// Consequence for the plan.
    pub follows: String,
}

/// One round of steps 3 to 5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Slack on top of the least duration where the planner chooses the duration, in percent.
    pub slack_percent: u32,
    /// Rule by which partitions were given to cores.
    pub allocation: String,
    /// The step (3, 4 or 5) that ended the round.
    pub step: u32,
    /// The round found a plan.
    pub found: bool,
    /// The outcome.
    pub outcome: String,
}

/// A partition in the plan. Times in nanoseconds, rounded up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanPartition {
    /// Unique name.
    pub name: String,
    /// Core of its windows; `null` where none was found.
    pub core: Option<u32>,
    /// Period of its windows.
    pub period_ns: u64,
    /// Length of its window, without margin.
    pub duration_ns: u64,
    /// The system file states the duration.
    pub stated: bool,
    /// Least duration with which its tasks meet their deadlines; `null` if none within the period
    /// does.
    pub least_duration_ns: Option<u64>,
    /// Pages that are prefetched and locked when each window begins.
    pub locked_pages: u64,
    /// DRAM accesses of this prefetch: lines read, and dirty lines of other partitions written
    /// back.
    pub prefetch_accesses: u64,
    /// Bound of prefetch and lock beside the other cores, without a drained budget.
    pub prefetch_ns: u64,
    /// Time that each window loses to the partition before it: drained budget, refill of private
    /// caches.
    pub switch_ns: u64,
    /// Do its tasks meet their deadlines in this window?
    pub schedulable: bool,
}

/// A device's DMA pace, as transfers of a given size use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTransfer {
    /// Name of the partition.
    pub partition: String,
    /// Number of the chain within its partition, from 1.
    pub chain: usize,
    /// `device-input` or `device-output`.
    pub stage: Stage,
    /// Bytes of the transfer, where the system file gives a size.
    pub bytes: Option<u64>,
    /// Bytes of a block, between two pauses.
    pub block_bytes: Option<u64>,
    /// Time of a block and its pause.
    pub block_ps: Option<u64>,
}

/// Time reserved at the end of every slot of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanMargin {
    /// Physical input and output.
    pub physical_ns: u64,
    /// Transfers on the I/O core.
    pub device_ns: u64,
    /// Windows of partitions.
    pub processing_ns: u64,
}

impl PlanMargin {
    /// Margin of a stage.
    pub const fn of(&self, stage: Stage) -> u64 {
        match stage {
            Stage::PhysicalInput | Stage::PhysicalOutput => self.physical_ns,
            Stage::DeviceInput | Stage::DeviceOutput => self.device_ns,
            Stage::Processing => self.processing_ns,
        }
    }
}

/// The method's part of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowsPlan {
    /// Step 1.
    pub hardware: Vec<HardwareItem>,
    /// The rounds of steps 3 to 5.
    pub rounds: Vec<Round>,
    /// Number of cores that run partitions; these are the first ones.
    pub cores: u32,
    /// The core that only moves data, where there are devices.
    pub io_core: Option<u32>,
    /// Time reserved at the end of slots.
    pub margin: PlanMargin,
    /// Partitions in file order.
    pub partitions: Vec<PlanPartition>,
    /// Transfers on the I/O core.
    pub transfers: Vec<PlanTransfer>,
    /// The time table; empty if none was found.
    pub table: Vec<Row>,
}

impl WindowsPlan {
    /// The window of a partition, by name.
    pub fn window(&self, partition: &str) -> Option<&Row> {
        self.table.iter().find(|r| r.partition == partition && r.stage == Stage::Processing)
    }

    /// Checks that it can be run as it stands.
    ///
    /// # Errors
    /// A value in it that is impossible.
    pub fn check(&self, tasks: &[PlanTask], cores: u32) -> Result<(), String> {
        if self.cores == 0
            || self.cores > cores
            || self.io_core.is_some_and(|c| c >= cores || c < self.cores)
        {
            let io = self.io_core.map_or("no I/O core".to_owned(), |c| format!("I/O core {c}"));
            return Err(format!(
                "sce: {} cores for partitions and {io} do not fit {cores} cores",
                self.cores
            ));
        }
        let margin = [self.margin.physical_ns, self.margin.device_ns, self.margin.processing_ns];
        if margin.iter().any(|ns| *ns > LONGEST_NS) {
            return Err("sce: a margin is above 24 hours".to_owned());
        }
        let mut known: HashMap<&str, &PlanPartition> = HashMap::new();
        for p in &self.partitions {
            if p.period_ns == 0
                || p.duration_ns == 0
                || p.period_ns > LONGEST_NS
                || p.duration_ns > p.period_ns
            {
                return Err(format!(
                    "sce: partition `{}` has an impossible period or duration",
                    p.name
                ));
            }
            if p.core.is_some_and(|c| c >= self.cores) || p.prefetch_accesses > LONGEST_NS {
                return Err(format!(
                    "sce: partition `{}` has an impossible core or prefetch",
                    p.name
                ));
            }
            if known.insert(&p.name, p).is_some() {
                return Err(format!("sce: partition `{}` is there twice", p.name));
            }
        }
        for (at, row) in self.table.iter().enumerate() {
            let Some(p) = known.get(row.partition.as_str()) else {
                return Err(format!(
                    "sce: row {at} of the table is of `{}`, which is not a partition",
                    row.partition
                ));
            };
            let margin = self.margin.of(row.stage);
            let length = row.duration_ns.checked_sub(margin).filter(|ns| *ns > 0);
            if row.period_ns != p.period_ns
                || row.duration_ns > row.period_ns
                || row.offset_ns > 1000 * LONGEST_NS
                || length.is_none()
            {
                return Err(format!("sce: row {at} of the table has an impossible time"));
            }
            let place = match row.stage {
                Stage::Processing => {
                    p.core.is_some_and(|c| row.resource == format!("core {c}"))
                        && length == Some(p.duration_ns)
                }
                _ => {
                    row.chain.is_some_and(|k| k > 0)
                        && row.is_transfer() == (row.resource == "io-core")
                }
            };
            if !place {
                return Err(format!(
                    "sce: row {at} of the table does not fit its partition `{}`",
                    p.name
                ));
            }
        }
        if !self.table.is_empty()
            && let Some(p) = self.partitions.iter().find(|p| self.window(&p.name).is_none())
        {
            return Err(format!("sce: partition `{}` has no window in the table", p.name));
        }
        let known = |t: &PlanTask| {
            t.partition.as_ref().is_some_and(|name| {
                self.partitions
                    .iter()
                    .any(|p| &p.name == name && p.core.is_none_or(|c| c == t.core))
            })
        };
        match tasks.iter().find(|t| !known(t)) {
            Some(t) => Err(format!(
                "task `{}` is not in its partition, or not on its partition's core",
                t.name
            )),
            None => Ok(()),
        }
    }
}
