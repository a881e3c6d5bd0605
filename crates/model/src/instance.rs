//! `instance.toml`: partitions, the devices they read and write, and what every activity takes.
//!
//! Problem: partitions that come from single-core systems share devices once they run side by side, and their I/O
//! must be given slots that never collide. Rule: physical input -> device input -> processing -> device output ->
//! physical output, each strictly periodic with the partition's period (single-core-equivalence, sections 2.4 and 5).
//! A system file may hold the same sections: its cores, tasks and the I/O core's bandwidth then come from the rest of that
//! file, and durations may be left to the planner.
//! Not covered: jobs that skip periods, devices with several independent ports (describe each port as a device).

use crate::dma::{Dma, DmaEntry};
use crate::{Bandwidth, Bytes, ModelError, Time, files};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Longest time accepted, 24 hours in nanoseconds: more is surely a slip of the unit.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Most cores accepted.
const MOST_CORES: u32 = 1024;
/// Periods are whole multiples of this unless the file states another base: 1 us.
const BASE_NS: u64 = 1_000;

/// A checked instance; all times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Where it was read.
    pub path: PathBuf,
    /// Cores for processing; the I/O core is one more.
    pub cores: u32,
    /// Periods are whole multiples of it.
    pub base_ns: u64,
    /// What is reserved beyond each duration.
    pub margin: Margin,
    /// Devices in file order.
    pub devices: Vec<Device>,
    /// Partitions in file order.
    pub partitions: Vec<Partition>,
}

/// Time reserved at the end of every activity of a class, in nanoseconds: it may start late or take longer by as much.
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
    /// How its transfers are paced, where they are given in bytes.
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
    /// Length of its window in every period, in nanoseconds, without margin; 0 where a system file leaves it to the planner.
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
    /// What is read before processing.
    pub input: Option<Transfer>,
    /// What is written after processing.
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
    /// Between environment and device, in nanoseconds.
    pub physical_ns: u64,
    /// Between device and memory, on the I/O core, in nanoseconds.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceFile {
    cores: Spanned<u32>,
    base: Option<Spanned<Time>>,
    dma: Option<Spanned<DmaEntry>>,
    #[serde(default)]
    margin: Option<Spanned<MarginEntry>>,
    #[serde(default)]
    device: Vec<Spanned<DeviceEntry>>,
    #[serde(default)]
    partition: Vec<Spanned<PartitionEntry>>,
}

/// The sections of an instance that a system file can have.
#[derive(Default)]
pub(crate) struct Sections {
    pub base: Option<Spanned<Time>>,
    pub dma: Option<Spanned<DmaEntry>>,
    pub margin: Option<Spanned<MarginEntry>>,
    pub device: Vec<Spanned<DeviceEntry>>,
    pub partition: Vec<Spanned<PartitionEntry>>,
}

/// `[margin]`, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MarginEntry {
    physical: Time,
    device: Time,
    processing: Time,
}

/// `[[device]]`, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceEntry {
    name: String,
    dma: Option<DmaEntry>,
}

/// `[[partition]]`, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionEntry {
    name: String,
    period: Spanned<Time>,
    duration: Option<Spanned<Time>>,
    core: Option<Spanned<u32>>,
    age: Option<Spanned<Time>>,
    #[serde(default)]
    task: Vec<Spanned<TaskEntry>>,
    #[serde(default)]
    chain: Vec<Spanned<ChainEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskEntry {
    name: String,
    period: Time,
    wcet: Time,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainEntry {
    age: Option<Spanned<Time>>,
    input: Option<Spanned<TransferEntry>>,
    output: Option<Spanned<TransferEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferEntry {
    device: Spanned<String>,
    physical: Spanned<Time>,
    transfer: Spanned<String>,
}

/// What is wrong, and at which byte of the text.
pub(crate) type Refusal = (usize, String);

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
        let file: InstanceFile = toml::from_str(text).map_err(|e| ModelError::from_toml(path, text, &e))?;
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

    /// Reads the sections of a system file whose partitions have `cores` and whose I/O core has this bandwidth.
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
            halves.map(|t| (t.transfer_ns + self.margin.device_ns) as f64 / p.period_ns as f64).sum::<f64>()
        };
        self.partitions.iter().map(of).sum()
    }
}

/// What is known while reading.
struct Reader<'a> {
    text: &'a str,
    /// The I/O core's bandwidth in a system file; none in an instance file.
    share: Option<Bandwidth>,
    base_ns: u64,
    cores: u32,
    margin: Margin,
    devices: Vec<Device>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, cores: u32, share: Option<Bandwidth>) -> Self {
        Self { text, share, base_ns: BASE_NS, cores, margin: Margin::default(), devices: Vec::new() }
    }

    fn instance(mut self, path: &Path, file: Sections) -> Result<Instance, Refusal> {
        let cores = self.cores;
        if let Some(base) = &file.base {
            self.base_ns = positive("base", base)?;
        }
        if let Some(margin) = file.margin {
            self.margin = margins(&margin)?;
        }
        let dma = file.dma.map(|d| self.dma(d.get_ref()).map_err(|m| (d.span().start, m))).transpose()?;
        for entry in file.device {
            let device = self.device(entry, dma)?;
            self.devices.push(device);
        }
        if file.partition.is_empty() {
            return Err((0, "there is no [[partition]]; add one with name, period and duration".to_owned()));
        }
        let mut partitions: Vec<Partition> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for entry in file.partition {
            let start = entry.span().start;
            let partition = self.partition(entry)?;
            if let Some(line) = known.insert(partition.name.clone(), partition.line) {
                let message =
                    format!("partition `{}` is defined twice (first on line {line}); rename one", partition.name);
                return Err((start, message));
            }
            partitions.push(partition);
        }
        Ok(Instance {
            path: path.to_owned(),
            cores,
            base_ns: self.base_ns,
            margin: self.margin,
            devices: self.devices,
            partitions,
        })
    }

    /// In a system file, transfers keep to the I/O core's share.
    fn dma(&self, entry: &DmaEntry) -> Result<Dma, String> {
        match self.share {
            None => Dma::of(entry),
            Some(share) => Dma::within(entry, share),
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn device(&self, entry: Spanned<DeviceEntry>, common: Option<Dma>) -> Result<Device, Refusal> {
        let start = entry.span().start;
        let entry = entry.into_inner();
        check_name("device", &entry.name).map_err(|m| (start, m))?;
        if let Some(twin) = self.devices.iter().find(|d| d.name == entry.name) {
            let message = format!("device `{}` is defined twice (first on line {}); rename one", entry.name, twin.line);
            return Err((start, message));
        }
        let own = entry.dma.map(|d| self.dma(&d)).transpose();
        let own = own.map_err(|m| (start, format!("device `{}`: {m}", entry.name)))?;
        Ok(Device { name: entry.name, dma: own.or(common), line: self.line(start) })
    }

    fn partition(&self, entry: Spanned<PartitionEntry>) -> Result<Partition, Refusal> {
        let start = entry.span().start;
        let entry = entry.into_inner();
        let name = entry.name;
        check_name("partition", &name).map_err(|m| (start, m))?;
        let named = |(at, m): Refusal| (at, format!("partition `{name}`: {m}"));
        let period_ns = positive("period", &entry.period).map_err(named)?;
        if !period_ns.is_multiple_of(self.base_ns) {
            return Err(named((entry.period.span().start, self.no_base(period_ns))));
        }
        let limit = Limit { period_ns };
        let duration_ns = match (&entry.duration, self.share) {
            (Some(duration), _) => {
                let ns = positive("duration", duration).map_err(named)?;
                limit.check("duration", ns, self.margin.processing_ns, duration.span().start).map_err(named)?;
                ns
            }
            (None, Some(_)) => 0,
            (None, None) => {
                let what = if entry.chain.is_empty() { "it has" } else { "its chains have" };
                return Err(named((
                    start,
                    format!("{what} no processing; add duration, the window's length in each period"),
                )));
            }
        };
        if let Some(task) = entry.task.first().filter(|_| self.share.is_some()) {
            let at = task.span().start;
            let message = format!(
                "in a system file tasks are [[task]]s; write one with partition = \"{name}\" in place of task `{}`",
                task.get_ref().name
            );
            return Err(named((at, message)));
        }
        if let Some(core) = entry.core.as_ref().filter(|c| *c.get_ref() >= self.cores) {
            let message = format!("core {} is out of range; there are cores 0 to {}", core.get_ref(), self.cores - 1);
            return Err(named((core.span().start, message)));
        }
        let age_ns = match &entry.age {
            Some(age) => positive("age", age).map_err(named)?,
            // Two periods: one for waiting on the way in, one on the way out.
            None => 2 * period_ns,
        };
        let chains: Result<_, Refusal> =
            entry.chain.into_iter().map(|chain| self.chain(chain, limit, age_ns).map_err(named)).collect();
        let tasks: Result<_, Refusal> = entry.task.into_iter().map(|t| task(t).map_err(named)).collect();
        let (chains, tasks) = (chains?, tasks?);
        let core = entry.core.map(Spanned::into_inner);
        let line = self.line(start);
        Ok(Partition { name, period_ns, duration_ns, core, chains, tasks, line })
    }

    fn no_base(&self, period_ns: u64) -> String {
        format!(
            "period {} is not a whole multiple of the base {}; the periods need a common base: round the period, or state a finer one with base = \"...\"",
            time(period_ns),
            time(self.base_ns)
        )
    }

    fn chain(&self, entry: Spanned<ChainEntry>, limit: Limit, age_ns: u64) -> Result<Chain, Refusal> {
        let start = entry.span().start;
        let entry = entry.into_inner();
        if entry.input.is_none() && entry.output.is_none() {
            return Err((start, "a chain has neither input nor output; add one, or remove the chain".to_owned()));
        }
        let age_ns = entry.age.as_ref().map_or(Ok(age_ns), |age| positive("age", age))?;
        let input = entry.input.map(|t| self.transfer(&t, limit)).transpose()?;
        let output = entry.output.map(|t| self.transfer(&t, limit)).transpose()?;
        Ok(Chain { input, output, age_ns, line: self.line(start) })
    }

    fn transfer(&self, entry: &Spanned<TransferEntry>, limit: Limit) -> Result<Transfer, Refusal> {
        let entry = entry.get_ref();
        let name = entry.device.get_ref();
        let Some(device) = self.devices.iter().position(|d| d.name == *name) else {
            return Err((
                entry.device.span().start,
                format!("no device is called `{name}`; add a [[device]] of that name"),
            ));
        };
        let physical_ns = positive("physical", &entry.physical)?;
        limit.check("physical", physical_ns, self.margin.physical_ns, entry.physical.span().start)?;
        let at = entry.transfer.span().start;
        let (transfer_ns, bytes) = self.transfer_ns(entry.transfer.get_ref(), device).map_err(|m| (at, m))?;
        limit.check("transfer", transfer_ns, self.margin.device_ns, at)?;
        Ok(Transfer { device, physical_ns, transfer_ns, bytes })
    }

    /// A time, or a number of bytes at the pace of the device's DMA.
    fn transfer_ns(&self, text: &str, device: usize) -> Result<(u64, Option<u64>), String> {
        let Ok(bytes) = text.parse::<Bytes>() else {
            let time: Time = text.parse().map_err(|m| format!("transfer: {m}; or give a size, like \"64 KiB\""))?;
            return Ok((whole_ns("transfer", time)?, None));
        };
        if bytes.0 == 0 {
            return Err("transfer of no bytes; leave the input or output out".to_owned());
        }
        let device = &self.devices[device];
        let Some(dma) = &device.dma else {
            return Err(format!(
                "transfer = \"{text}\" is a size, and device `{}` has no dma; add [dma] bus = \"1 GB/s\", block = \"256 B\", or give a time",
                device.name
            ));
        };
        let ns = dma.transfer_ns(bytes.0).ok_or_else(|| format!("transfer of {text} takes above 24 hours"))?;
        Ok((ns, Some(bytes.0)))
    }
}

/// No activity may be longer than its period.
#[derive(Clone, Copy)]
struct Limit {
    period_ns: u64,
}

impl Limit {
    fn check(self, what: &str, ns: u64, margin_ns: u64, at: usize) -> Result<(), Refusal> {
        if ns + margin_ns <= self.period_ns {
            return Ok(());
        }
        let margin = if margin_ns > 0 { format!(" with its margin {}", time(margin_ns)) } else { String::new() };
        let message = format!(
            "{what} {}{margin} is longer than the period {}; shorten it or lengthen the period",
            time(ns),
            time(self.period_ns)
        );
        Err((at, message))
    }
}

fn task(entry: Spanned<TaskEntry>) -> Result<Task, Refusal> {
    let start = entry.span().start;
    let entry = entry.into_inner();
    let refuse = |m: String| (start, m);
    check_name("task", &entry.name).map_err(refuse)?;
    let period_ns = whole_ns("period", entry.period).map_err(refuse)?;
    let wcet_ns = whole_ns("wcet", entry.wcet).map_err(refuse)?;
    if wcet_ns == 0 || wcet_ns > period_ns {
        let message = format!(
            "task `{}`: wcet {} must be above zero and at most the period {}",
            entry.name,
            time(wcet_ns),
            time(period_ns)
        );
        return Err(refuse(message));
    }
    Ok(Task { name: entry.name, period_ns, wcet_ns })
}

fn margins(entry: &Spanned<MarginEntry>) -> Result<Margin, Refusal> {
    let at = entry.span().start;
    let of = |what, value| whole_ns(what, value).map_err(|m| (at, format!("[margin] {m}")));
    let m = entry.get_ref();
    Ok(Margin {
        physical_ns: of("physical", m.physical)?,
        device_ns: of("device", m.device)?,
        processing_ns: of("processing", m.processing)?,
    })
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("a {what} needs a name without control characters; give it one"));
    }
    Ok(())
}

fn positive(what: &str, value: &Spanned<Time>) -> Result<u64, Refusal> {
    let at = value.span().start;
    match whole_ns(what, *value.get_ref()) {
        Ok(0) => Err((at, format!("{what} is zero; give a time above zero, like \"10 ms\""))),
        other => other.map_err(|m| (at, m)),
    }
}

fn whole_ns(what: &str, value: Time) -> Result<u64, String> {
    if !value.ps().is_multiple_of(Time::PS_PER_NS) {
        return Err(format!("{what} = {value} is finer than one nanosecond; round it up"));
    }
    let ns = value.ps() / Time::PS_PER_NS;
    if ns > LONGEST_NS {
        return Err(format!(
            "{what} = {value} is above 24 hours, surely a slip of the unit; write it with the right one"
        ));
    }
    Ok(ns)
}

/// Nanoseconds for people.
pub fn time(ns: u64) -> Time {
    Time::from_ns(ns)
}
