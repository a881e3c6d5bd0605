//! From the tables of a file to an instance: every value is checked, and refused by its line.

use super::parts::{
    BASE_NS, Chain, Device, LONGEST_NS, Margin, Partition, PartitionTask, Transfer, WindowsInput,
    time,
};
use crate::dma::{Dma, DmaEntry};
use crate::{Bandwidth, Bytes, Time};
use schemars::{JsonSchema, Schema, schema_for};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// An instance: partitions, and the devices that they read and write.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowsFile {
    /// Cores for windows of partitions; the I/O core is one more.
    #[schemars(with = "u32")]
    pub cores: Spanned<u32>,
    /// Every period is a whole multiple of it. The default is 1 us.
    #[schemars(with = "Option<Time>")]
    pub base: Option<Spanned<Time>>,
    /// Transfers between devices and memory, for sizes in bytes.
    #[schemars(with = "Option<DmaEntry>")]
    pub dma: Option<Spanned<DmaEntry>>,
    /// Time that is reserved beyond each duration. The default is none.
    #[serde(default)]
    #[schemars(with = "Option<MarginEntry>")]
    pub margin: Option<Spanned<MarginEntry>>,
    /// Devices.
    #[serde(default)]
    #[schemars(with = "Vec<DeviceEntry>")]
    pub device: Vec<Spanned<DeviceEntry>>,
    /// Partitions; there is at least one.
    #[serde(default)]
    #[schemars(with = "Vec<PartitionEntry>", length(min = 1))]
    pub partition: Vec<Spanned<PartitionEntry>>,
}

/// The schema of an instance file, in which each partition states its duration.
pub(crate) fn schema() -> Schema {
    schema_for!(WindowsFile)
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

/// `[margin]`: an activity may start late, or take longer, by as much.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MarginEntry {
    /// For physical input and output at devices.
    physical: Time,
    /// For transfers on the I/O core.
    device: Time,
    /// For windows of partitions.
    processing: Time,
}

/// `[[device]]`: a device that partitions read or write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceEntry {
    /// Unique name. The physical inputs and outputs of one device never overlap.
    name: String,
    /// Pace of this device's transfers, in place of `[dma]`.
    dma: Option<DmaEntry>,
}

/// `[[partition]]`: a window on a core in each period.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionEntry {
    /// Unique name.
    name: String,
    /// Period of the window and of all transfers of the partition.
    #[schemars(with = "Time")]
    period: Spanned<Time>,
    /// Length of the window, without margin. If it is left out in a system file, the planner
    /// chooses it.
    #[schemars(with = "Option<Time>")]
    duration: Option<Spanned<Time>>,
    /// The core of the window, from 0. If it is left out, the solver chooses.
    #[schemars(with = "Option<u32>")]
    core: Option<Spanned<u32>>,
    /// Age limit of chains that state none. The default is two periods.
    #[schemars(with = "Option<Time>")]
    age: Option<Spanned<Time>>,
    /// Tasks inside the window in an instance file. In a system file, `[[task]]` tables name their
    /// `partition` instead.
    #[serde(default)]
    #[schemars(with = "Vec<TaskEntry>")]
    task: Vec<Spanned<TaskEntry>>,
    /// Inputs and outputs, one `[[partition.chain]]` for each way of data through the partition.
    #[serde(default)]
    #[schemars(with = "Vec<ChainEntry>")]
    chain: Vec<Spanned<ChainEntry>>,
}

/// A task inside a partition of an instance file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PartitionTask")]
struct TaskEntry {
    /// Name.
    name: String,
    /// Period. Where it is a multiple of the partition's period, jobs are released when a window
    /// begins.
    period: Time,
    /// Worst-case execution time.
    wcet: Time,
}

/// `[[partition.chain]]`: an input, an output, or both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChainEntry {
    /// Age limit: the longest time from the start of the chain's first activity to the end of its
    /// last. The default is the partition's.
    #[schemars(with = "Option<Time>")]
    age: Option<Spanned<Time>>,
    /// The transfer before the window.
    #[schemars(with = "Option<TransferEntry>")]
    input: Option<Spanned<TransferEntry>>,
    /// The transfer after the window.
    #[schemars(with = "Option<TransferEntry>")]
    output: Option<Spanned<TransferEntry>>,
}

/// An input or output of a chain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TransferEntry {
    /// Name of the device.
    #[schemars(with = "String")]
    device: Spanned<String>,
    /// Time of the physical input or output at the device.
    #[schemars(with = "Time")]
    physical: Spanned<Time>,
    /// Time between device and memory on the I/O core, as `"100 us"`, or a size, as `"64 KiB"`, at
    /// the pace of `[dma]`.
    #[schemars(with = "String")]
    transfer: Spanned<String>,
}

/// The fault and its byte in the text.
pub(crate) type Refusal = (usize, String);

/// Context of the reading.
pub(super) struct Reader<'a> {
    text: &'a str,
    /// The I/O core's bandwidth in a system file; none in an instance file.
    share: Option<Bandwidth>,
    base_ns: u64,
    cores: u32,
    margin: Margin,
    devices: Vec<Device>,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, cores: u32, share: Option<Bandwidth>) -> Self {
        Self {
            text,
            share,
            base_ns: BASE_NS,
            cores,
            margin: Margin::default(),
            devices: Vec::new(),
        }
    }

    pub fn instance(mut self, path: &Path, file: Sections) -> Result<WindowsInput, Refusal> {
        let cores = self.cores;
        if let Some(base) = &file.base {
            self.base_ns = positive("base", base)?;
        }
        if let Some(margin) = file.margin {
            self.margin = margins(&margin)?;
        }
        let dma =
            file.dma.map(|d| self.dma(d.get_ref()).map_err(|m| (d.span().start, m))).transpose()?;
        for entry in file.device {
            let device = self.device(entry, dma)?;
            self.devices.push(device);
        }
        if file.partition.is_empty() {
            return Err((
                0,
                "there is no [[partition]]; add one with name, period and duration".to_owned(),
            ));
        }
        let mut partitions: Vec<Partition> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for entry in file.partition {
            let start = entry.span().start;
            let partition = self.partition(entry)?;
            if let Some(line) = known.insert(partition.name.clone(), partition.line) {
                let message = format!(
                    "partition `{}` is defined twice (first on line {line}); rename one",
                    partition.name
                );
                return Err((start, message));
            }
            partitions.push(partition);
        }
        Ok(WindowsInput {
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
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|b| **b == b'\n').count()
            + 1
    }

    fn device(&self, entry: Spanned<DeviceEntry>, common: Option<Dma>) -> Result<Device, Refusal> {
        let start = entry.span().start;
        let entry = entry.into_inner();
        check_name("device", &entry.name).map_err(|m| (start, m))?;
        if let Some(twin) = self.devices.iter().find(|d| d.name == entry.name) {
            let message = format!(
                "device `{}` is defined twice (first on line {}); rename one",
                entry.name, twin.line
            );
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
                limit
                    .check("duration", ns, self.margin.processing_ns, duration.span().start)
                    .map_err(named)?;
                ns
            }
            (None, Some(_)) => 0,
            (None, None) => {
                let what = if entry.chain.is_empty() { "it has" } else { "its chains have" };
                return Err(named((
                    start,
                    format!(
                        "{what} no processing; add duration, the window's length in each period"
                    ),
                )));
            }
        };
        if let Some(task) = entry.task.first().filter(|_| self.share.is_some()) {
            let at = task.span().start;
            let message = format!(
                "in a system file tasks are [[task]]s; write one with partition = \"{name}\" in \
                    place of task `{}`",
                task.get_ref().name
            );
            return Err(named((at, message)));
        }
        if let Some(core) = entry.core.as_ref().filter(|c| *c.get_ref() >= self.cores) {
            let message = format!(
                "core {} is out of range; there are cores 0 to {}",
                core.get_ref(),
                self.cores - 1
            );
            return Err(named((core.span().start, message)));
        }
        let age_ns = match &entry.age {
            Some(age) => positive("age", age).map_err(named)?,
            // Two periods: one for waiting on the way in, one on the way out.
            None => 2 * period_ns,
        };
        let chains: Result<_, Refusal> = entry
            .chain
            .into_iter()
            .map(|chain| self.chain(chain, limit, age_ns).map_err(named))
            .collect();
        let tasks: Result<_, Refusal> =
            entry.task.into_iter().map(|t| task(t).map_err(named)).collect();
        let (chains, tasks) = (chains?, tasks?);
        let core = entry.core.map(Spanned::into_inner);
        let line = self.line(start);
        Ok(Partition { name, period_ns, duration_ns, core, chains, tasks, line })
    }

    fn no_base(&self, period_ns: u64) -> String {
        format!(
            "period {} is not a whole multiple of the base {}; the periods need a common base: \
                round the period, or state a finer one with base = \"...\"",
            time(period_ns),
            time(self.base_ns)
        )
    }

    fn chain(
        &self,
        entry: Spanned<ChainEntry>,
        limit: Limit,
        age_ns: u64,
    ) -> Result<Chain, Refusal> {
        let start = entry.span().start;
        let entry = entry.into_inner();
        if entry.input.is_none() && entry.output.is_none() {
            return Err((
                start,
                "a chain has neither input nor output; add one, or remove the chain".to_owned(),
            ));
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
        limit.check(
            "physical",
            physical_ns,
            self.margin.physical_ns,
            entry.physical.span().start,
        )?;
        let at = entry.transfer.span().start;
        let (transfer_ns, bytes) =
            self.transfer_ns(entry.transfer.get_ref(), device).map_err(|m| (at, m))?;
        limit.check("transfer", transfer_ns, self.margin.device_ns, at)?;
        Ok(Transfer { device, physical_ns, transfer_ns, bytes })
    }

    /// A time, or a number of bytes at the pace of the device's DMA.
    fn transfer_ns(&self, text: &str, device: usize) -> Result<(u64, Option<u64>), String> {
        let Ok(bytes) = text.parse::<Bytes>() else {
            let time: Time = text
                .parse()
                .map_err(|m| format!("transfer: {m}; or give a size, like \"64 KiB\""))?;
            return Ok((whole_ns("transfer", time)?, None));
        };
        if bytes.0 == 0 {
            return Err("transfer of no bytes; leave the input or output out".to_owned());
        }
        let device = &self.devices[device];
        let Some(dma) = &device.dma else {
            return Err(format!(
                "transfer = \"{text}\" is a size, and device `{}` has no dma; add [dma] bus = \"1 \
                    GB/s\", block = \"256 B\", or give a time",
                device.name
            ));
        };
        let ns = dma
            .transfer_ns(bytes.0)
            .ok_or_else(|| format!("transfer of {text} takes above 24 hours"))?;
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
        let margin = if margin_ns > 0 {
            format!(" with its margin {}", time(margin_ns))
        } else {
            String::new()
        };
        let message = format!(
            "{what} {}{margin} is longer than the period {}; shorten it or lengthen the period",
            time(ns),
            time(self.period_ns)
        );
        Err((at, message))
    }
}

fn task(entry: Spanned<TaskEntry>) -> Result<PartitionTask, Refusal> {
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
    Ok(PartitionTask { name: entry.name, period_ns, wcet_ns })
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
            "{what} = {value} is above 24 hours, probably with a wrong unit; correct the unit"
        ));
    }
    Ok(ns)
}
