//! `instance.toml`: partitions, the devices they read and write, and what every activity takes.
//!
//! Problem: partitions that come from single-core systems share devices once they run side by side,
//! and their I/O must be given slots that never collide. Rule: physical input -> device input ->
//! processing -> device output -> physical output, each strictly periodic with the partition's
//! period (single-core-equivalence, sections 2.4 and 5). A system file may hold the same sections:
//! its cores, tasks and the I/O core's bandwidth then come from the rest of that file, and
//! durations may be left to the planner.
//! Not covered: jobs that skip periods, devices with several independent ports (describe each port
//! as a device).

mod parts;
mod read;
pub mod table;

pub use parts::{Chain, Device, Margin, Partition, PartitionTask, Transfer, WindowsInput, time};
pub(crate) use read::{DeviceEntry, MarginEntry, PartitionEntry, Sections, schema};

use crate::kind::Kind;
use crate::{Bandwidth, ModelError, files};
use read::{Reader, Refusal, WindowsFile};
use std::path::Path;

/// Most cores accepted.
const MOST_CORES: u32 = 1024;

impl WindowsInput {
    /// Reads and checks an instance.
    ///
    /// # Errors
    /// One line with file, line, the rule and what to do.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::parse(path, &files::read_text(path)?)
    }

    /// Parses and checks the text of an instance; `path` names it in errors.
    ///
    /// # Errors
    /// As [`WindowsInput::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let file: WindowsFile = toml::from_str(text).map_err(|e| {
            Kind::Instance.explains(path, text, ModelError::from_toml(path, text, &e))
        })?;
        let WindowsFile { cores, base, dma, margin, device, partition } = file;
        let read = || -> Result<Self, Refusal> {
            let start = cores.span().start;
            let cores = cores.into_inner();
            if cores == 0 || cores > MOST_CORES {
                return Err((start, format!("cores = {cores}; give 1 to {MOST_CORES}")));
            }
            let sections = Sections { base, dma, margin, device, partition };
            Reader::new(text, cores, None).instance(path, sections)
        };
        read().map_err(|(offset, message)| ModelError::invalid_at(path, text, offset, message))
    }

    /// Reads the sections of a system file with `cores` for its partitions, and with this bandwidth
    /// of its I/O core.
    pub(crate) fn of_system(
        path: &Path,
        text: &str,
        sections: Sections,
        cores: u32,
        share: Bandwidth,
    ) -> Result<Self, Refusal> {
        Reader::new(text, cores, Some(share)).instance(path, sections)
    }
}
