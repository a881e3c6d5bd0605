//! A scenario file, and its reader.
//!
//! Problem: a message about a table needs the table's line. Rule: tasks and devices keep their
//! lines; the platform is checked with the file's values in place of its own.

use super::entries::{
    CostsEntry, DeviceEntry, RegulationEntry, SchedulerEntry, Simulation, TableEntry, TaskEntry,
    VcpuEntry,
};
use schemars::{JsonSchema, Schema, schema_for};
use serde::Deserialize;
use solocore_model::{ModelError, Platform, files};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A simulation with all that it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    /// The board and the length of the simulation.
    simulation: Simulation,
    /// Rule that chooses the tasks to run. The default is `fixed_priority`.
    #[serde(default)]
    #[schemars(with = "Option<SchedulerEntry>")]
    scheduler: SchedulerEntry,
    /// Limits on the cores' accesses. The default is none.
    #[serde(default)]
    #[schemars(with = "Option<RegulationEntry>")]
    regulation: RegulationEntry,
    /// Costs of the kernel's own work. The default is none.
    #[serde(default)]
    #[schemars(with = "Option<CostsEntry>")]
    costs: CostsEntry,
    /// Tasks; there is at least one.
    #[serde(default)]
    #[schemars(with = "Vec<TaskEntry>", length(min = 1))]
    task: Vec<Spanned<TaskEntry>>,
    /// VCPUs, for the scheduler `vcpu`.
    #[serde(default)]
    vcpu: Vec<VcpuEntry>,
    /// Time tables of cores, for the schedulers `levels` and `windows`.
    #[serde(default)]
    table: Vec<TableEntry>,
    /// DMA engines.
    #[serde(default)]
    #[schemars(with = "Vec<DeviceEntry>")]
    device: Vec<Spanned<DeviceEntry>>,
}

/// The schema of a scenario file.
#[must_use]
pub fn schema() -> Schema {
    schema_for!(ScenarioFile)
}

/// A parsed scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Path of the file; relative paths count from its directory.
    pub path: PathBuf,
    /// The board.
    pub platform: Platform,
    /// `[simulation]`.
    pub simulation: Simulation,
    /// `[scheduler]`.
    pub scheduler: SchedulerEntry,
    /// `[regulation]`.
    pub regulation: RegulationEntry,
    /// `[costs]`.
    pub costs: CostsEntry,
    /// `[[task]]` with their lines in the file.
    pub tasks: Vec<(TaskEntry, usize)>,
    /// `[[vcpu]]`.
    pub vcpus: Vec<VcpuEntry>,
    /// `[[table]]`.
    pub tables: Vec<TableEntry>,
    /// `[[device]]` with their lines.
    pub devices: Vec<(DeviceEntry, usize)>,
}

impl Scenario {
    /// Is this text a scenario? A scenario has a `[simulation]` table.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("simulation"))
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// One line with file, line, fault and remedy.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::parse(path, &files::read_text(path)?)
    }

    /// Parses the text of a scenario; `path` names it and anchors relative paths.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let file: ScenarioFile =
            toml::from_str(text).map_err(|e| ModelError::from_toml(path, text, &e))?;
        let mut platform = Platform::find(&file.simulation.platform, files::parent_dir(path))?;
        let s = &file.simulation;
        platform.pipeline.mshrs = s.mshrs.unwrap_or(platform.pipeline.mshrs);
        platform.pipeline.window = s.window.unwrap_or(platform.pipeline.window);
        for own in platform.core_types.iter_mut().filter_map(|kind| kind.pipeline.as_mut()) {
            own.mshrs = s.mshrs.unwrap_or(own.mshrs);
            own.window = s.window.unwrap_or(own.window);
        }
        platform.llc.replacement = s.replacement.unwrap_or(platform.llc.replacement);
        let invalid =
            |message: String| ModelError::Invalid { path: path.to_owned(), line: None, message };
        platform.check().map_err(|e| invalid(format!("[simulation]: {e}")))?;
        if file.task.is_empty() {
            return Err(invalid(
                "it has no [[task]]; add one with a name and a workload".to_owned(),
            ));
        }
        let line = |offset: usize| text[..offset.min(text.len())].lines().count().max(1);
        Ok(Self {
            path: path.to_owned(),
            platform,
            simulation: file.simulation,
            scheduler: file.scheduler,
            regulation: file.regulation,
            costs: file.costs,
            tasks: file
                .task
                .into_iter()
                .map(|t| (t.span().start, t))
                .map(|(at, t)| (t.into_inner(), line(at)))
                .collect(),
            vcpus: file.vcpu,
            tables: file.table,
            devices: file
                .device
                .into_iter()
                .map(|d| (d.span().start, d))
                .map(|(at, d)| (d.into_inner(), line(at)))
                .collect(),
        })
    }
}
