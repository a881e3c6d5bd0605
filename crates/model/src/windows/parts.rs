//! A checked instance: its devices, and its partitions with their chains and tasks.

use crate::Time;
use crate::dma::Dma;
use std::path::PathBuf;

/// Longest time accepted, 24 hours in nanoseconds: more probably has a wrong unit.
pub(super) const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Periods are whole multiples of this unless the file states another base: 1 us.
pub(super) const BASE_NS: u64 = 1_000;

/// A checked instance; all times in nanoseconds.
#[derive(Clone, Debug)]
pub struct WindowsInput {
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
    pub tasks: Vec<PartitionTask>,
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
pub struct PartitionTask {
    /// Its name.
    pub name: String,
    /// Period in nanoseconds.
    pub period_ns: u64,
    /// Worst-case execution time in nanoseconds.
    pub wcet_ns: u64,
}

impl WindowsInput {
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
