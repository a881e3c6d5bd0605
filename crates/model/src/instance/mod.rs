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

mod read;

pub(crate) use read::{DeviceEntry, MarginEntry, PartitionEntry, Sections, schema};

use crate::dma::Dma;
use crate::kind::Kind;
use crate::{Bandwidth, ModelError, Time, files};
use read::{InstanceFile, Reader, Refusal};
use std::path::{Path, PathBuf};

/// Longest time accepted, 24 hours in nanoseconds: more probably has a wrong unit.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Most cores accepted.
const MOST_CORES: u32 = 1024;
/// Periods are whole multiples of this unless the file states another base: 1 us.
const BASE_NS: u64 = 1_000;

/// A checked instance; all times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Path of the file.
    pub path: PathBuf,
    /// Cores for processing; the I/O core is one more.
    pub cores: u32,
    /// Periods are whole multiples of it.
    pub base_ns: u64,
    /// Time reserved beyond each duration.
    pub margin: Margin,
    /// Devices in file order.
    pub devices: Vec<Device>,
    /// Partitions in file order.
    pub partitions: Vec<Partition>,
}

/// Time reserved at the end of every activity of a class, in nanoseconds: it may start late or take
/// longer by as much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Margin {
    /// Physical input and output.
    pub physical_ns: u64,
    /// Transfers on the I/O core.
    pub device_ns: u64,
    /// Partitions on their cores.
    pub processing_ns: u64,
}

/// A device; its physical inputs and outputs exclude each other.
#[derive(Clone, Debug)]
pub struct Device {
    /// Unique name.
    pub name: String,
    /// Pace of its transfers, where they are given in bytes.
    pub dma: Option<Dma>,
    /// Line of its table.
    pub line: usize,
}

/// A partition.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Unique name.
    pub name: String,
    /// Period in nanoseconds, of all its activities.
    pub period_ns: u64,
    /// Length of its window in every period, in nanoseconds, without margin; 0 where a system file
    /// leaves it to the planner.
    pub duration_ns: u64,
    /// Core, where the file states one.
    pub core: Option<u32>,
    /// Its inputs and outputs.
    pub chains: Vec<Chain>,
    /// Tasks inside, in file order.
    pub tasks: Vec<Task>,
    /// Line of its table.
    pub line: usize,
}

/// One way of data through a partition: an input, an output, or both.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The transfer before processing.
    pub input: Option<Transfer>,
    /// The transfer after processing.
    pub output: Option<Transfer>,
    /// Most nanoseconds from the start of the first activity to the end of the last.
    pub age_ns: u64,
    /// Line of its table.
    pub line: usize,
}

/// A device's half of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the device.
    pub device: usize,
    /// Time between environment and device, in nanoseconds.
    pub physical_ns: u64,
    /// Time between device and memory, on the I/O core, in nanoseconds.
    pub transfer_ns: u64,
    /// Bytes moved, where the file gives bytes.
    pub bytes: Option<u64>,
}

/// A task inside a partition.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Period in nanoseconds.
    pub period_ns: u64,
    /// Worst-case execution time in nanoseconds.
    pub wcet_ns: u64,
}

impl Instance {
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
    /// As [`Instance::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let file: InstanceFile = toml::from_str(text).map_err(|e| {
            Kind::Instance.explains(path, text, ModelError::from_toml(path, text, &e))
        })?;
        let InstanceFile { cores, base, dma, margin, device, partition } = file;
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

    /// The share of the I/O core's time that transfers take, margins included.
    pub fn io_load(&self) -> f64 {
        let of = |p: &Partition| {
            let halves = p.chains.iter().flat_map(|c| [c.input, c.output]).flatten();
            halves
                .map(|t| (t.transfer_ns + self.margin.device_ns) as f64 / p.period_ns as f64)
                .sum::<f64>()
        };
        self.partitions.iter().map(of).sum()
    }
}

/// A number of nanoseconds as a time with its unit.
pub fn time(ns: u64) -> Time {
    Time::from_ns(ns)
}
