//! The tables of a scenario file.
//!
//! Problem: a mistyped key would silently give a default. Rule: every table is a type that refuses
//! unknown keys.

use super::ranges::Ranges;
use crate::machine::Translation;
use crate::program::PageKind;
use crate::workload::WorkloadSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use solocore_cache::prefetch::PrefetcherKind;
use solocore_model::platform::{Replacement, RowHitCap};
use solocore_model::system::Criticality;
use solocore_model::vcpus::{Background, Throttle};
use solocore_model::{Bandwidth, Bytes, Cycles, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Requests, or intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Every request: seconds of simulated time.
    #[default]
    Requests,
    /// Whole intervals at constant rates: minutes.
    Fluid,
}

/// `[simulation]`: the board, the length of the simulation, and numbers in place of the board's.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// A preset's name, or a platform file.
    pub platform: String,
    /// Requests, or intervals.
    #[serde(default)]
    pub resolution: Resolution,
    /// Simulated time.
    #[serde(default = "one_second")]
    pub duration: Time,
    /// Everything random follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Row hits that may pass an older request: a number, or "off".
    #[schemars(with = "Option<RowHitCap>")]
    pub row_hit_cap: Option<HitCap>,
    /// In place of the platform's miss registers.
    pub mshrs: Option<u32>,
    /// In place of the platform's window.
    pub window: Option<Cycles>,
    /// In place of the platform's replacement.
    pub replacement: Option<Replacement>,
    /// Lines that each core fetches unasked.
    #[serde(default)]
    pub prefetcher: PrefetcherKind,
    /// Translation buffer of each core, whose misses read page tables; none if left out.
    pub translation: Option<Translation>,
    /// Accesses of each core are counted in periods of this length, where the regulator has
    /// none.
    pub count_period: Option<Time>,
}

fn one_second() -> Time {
    Time::from_ns(1_000_000_000)
}

const fn one() -> u64 {
    1
}

/// `row_hit_cap`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum HitCap {
    /// A number of row hits.
    Number(u32),
    /// `"off"`.
    Off(String),
}

/// `[scheduler]`: the rule that chooses the tasks to run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SchedulerEntry {
    /// Each task on its core, by priority.
    #[default]
    FixedPriority,
    /// One queue by absolute deadline.
    GlobalEdf,
    /// Criticality levels; `[[table]]` for level A.
    Levels,
    /// Partitions in windows; `[[table]]`.
    #[serde(alias = "time_table")]
    Windows,
    /// `[[vcpu]]`: a budget of time on a core.
    Vcpu(VcpuScheduler),
}

/// `[scheduler]` of kind `vcpu`: each task runs in a VCPU.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VcpuScheduler {
    /// The VCPU that gets background time.
    pub background: Background,
    /// Servers keep to their capacity in every window of a period.
    pub strict: bool,
    /// Take only VCPUs that a core can schedule.
    pub admission: bool,
    /// Moves of a run of the migration thread; 0 keeps VCPUs where they are.
    pub migrations: u32,
    /// Page colours of each core.
    pub colours: Option<Vec<u64>>,
    /// Throttling of background time.
    pub throttle: Option<Throttle>,
}

fn one_millisecond() -> Time {
    Time::from_ns(1_000_000)
}

/// `[regulation]`: limits on the accesses of cores.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
pub enum RegulationEntry {
    /// No core is stopped.
    #[default]
    None,
    /// A budget per core and period.
    Memguard {
        /// Regulation period.
        #[serde(default = "one_millisecond")]
        period: Time,
        /// Bandwidth of each core, by number, or "unlimited"; the cores that are left out are not
        /// limited.
        bandwidth: Vec<Limit>,
        /// Do cores give away the budget that they are not expected to use, and may they take from
        /// it?
        #[serde(default)]
        reclaim: bool,
        /// Rule for the time after all budgets are used.
        #[serde(default)]
        sharing: SharingEntry,
    },
    /// Best-effort cores are limited while a real-time task holds the lock.
    Bwlock {
        /// Regulation period.
        #[serde(default = "one_millisecond")]
        period: Time,
        /// Bandwidth of a core while no task holds the lock; left out: no limit.
        max_bandwidth: Option<Bandwidth>,
        /// Bandwidth of a core while a task holds the lock.
        min_bandwidth: Bandwidth,
        /// Effect at once, by IPI.
        #[serde(default)]
        immediate: bool,
    },
    /// Budgets per job of the tasks with a `budget`.
    Dynamic {
        /// Their cores.
        hard: Ranges,
        /// The cores that are limited.
        soft: Ranges,
    },
}

/// A bandwidth, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A rate.
    Rate(Bandwidth),
    /// `"unlimited"`.
    Unlimited,
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rate = generator.subschema_for::<Bandwidth>();
        json_schema!({"anyOf": [rate, {"const": "unlimited"}]})
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        text.parse()
            .map(Self::Rate)
            .map_err(|e| serde::de::Error::custom(format!("{e}; or \"unlimited\"")))
    }
}

/// `sharing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharingEntry {
    /// All cores wait.
    #[default]
    None,
    /// No limit until the period ends.
    Spare,
    /// Each core gets its reservation again.
    Proportional,
}

/// `[costs]`: time of the kernel's own work, in place of none. Each cost lengthens the task that
/// runs on the core.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CostsEntry {
    /// A timer interrupt: a regulation period, an end of a budget, a window's edge.
    pub timer: Time,
    /// A counter's overflow interrupt.
    pub overflow: Time,
    /// A switch to another task.
    pub switch: Time,
    /// An interrupt by another core.
    pub ipi: Time,
    /// Time from an interrupt by another core to its effect.
    pub ipi_delay: Time,
    /// A release, on the task's core; global schedulers release on core 0.
    pub release: Time,
    /// Moving a VCPU, on the core that it leaves.
    pub migration: Time,
    /// Time from a counter's overflow to its interrupt.
    pub interrupt_delay: Time,
    /// Accesses between the overflow and the time at which it is seen.
    pub skid_transactions: u64,
}

/// Banks, colours and caching of pages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceEntry {
    /// DRAM banks, counted over channels and ranks; left out: any.
    pub banks: Option<Ranges>,
    /// Page colours of the shared cache; left out: any.
    pub colours: Option<Ranges>,
    /// Caching of the pages.
    pub cache: PageKind,
}

/// `[[task]]`: a program, and the time of its jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// Unique name.
    pub name: String,
    /// The program that it runs.
    pub workload: WorkloadSpec,
    /// Its core; schedulers that place tasks need none.
    pub core: Option<usize>,
    /// Time between arrivals of jobs; without it and `sporadic`, the program runs whenever it may.
    pub period: Option<Time>,
    /// Least time between arrivals of jobs; `sporadic_max` is the most.
    pub sporadic: Option<Time>,
    /// Default: `sporadic`.
    pub sporadic_max: Option<Time>,
    /// First arrival.
    #[serde(default)]
    pub phase: Time,
    /// Largest delay of a release.
    #[serde(default)]
    pub jitter: Time,
    /// Default: the period.
    pub deadline: Option<Time>,
    /// Lower is more urgent; default: rate monotonic, then the order of the file.
    pub priority: Option<u32>,
    /// For `levels`.
    pub criticality: Option<Criticality>,
    /// Provisioned execution time, for `levels`.
    pub pet: Option<Time>,
    /// Name of its VCPU.
    pub vcpu: Option<String>,
    /// Number of its partition, for `windows`.
    pub partition: Option<usize>,
    /// Real-time by BWLOCK's rule.
    #[serde(default)]
    pub realtime: bool,
    /// Budget of each soft core while its jobs run: accesses, and the longest time.
    pub budget: Option<BudgetEntry>,
    /// Time before which no job of it arrives.
    #[serde(default)]
    pub start: Time,
    /// Time from which on no job arrives.
    pub stop: Option<Time>,
    /// Ways of the shared cache it may fill; left out: all.
    pub ways: Option<Ranges>,
    /// Place of its pages.
    #[serde(default)]
    pub place: PlaceEntry,
    /// Places of single regions, by name.
    #[serde(default)]
    pub regions: BTreeMap<String, PlaceEntry>,
}

/// `budget` of a task.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetEntry {
    /// `B_i`.
    pub accesses: u64,
    /// `A_i`.
    pub length: Time,
}

/// `[[vcpu]]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VcpuEntry {
    /// Unique name.
    pub name: String,
    /// Budget per period.
    pub capacity: Time,
    /// Period.
    pub period: Time,
    /// Its core; left out: the one with the most slack.
    pub core: Option<usize>,
    /// Page colours it needs.
    #[serde(default)]
    pub colours: u64,
}

/// `[[table]]`: the time table of a core.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// Number of the core.
    pub core: usize,
    /// Major frame.
    pub frame: Time,
    /// In order.
    pub window: Vec<WindowEntry>,
}

/// `[[table.window]]`: a window of a task or of a partition.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowEntry {
    /// Start of the window, from the start of the frame.
    pub start: Time,
    /// First instant after it.
    pub end: Time,
    /// Name of the task, for `levels`.
    pub task: Option<String>,
    /// Number of the partition, for `windows`.
    pub partition: Option<usize>,
}

/// `[[device]]`: a DMA engine that moves a stream.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceEntry {
    /// Unique name.
    pub name: String,
    /// Its buffer.
    pub buffer: Bytes,
    /// Place of the buffer.
    #[serde(default)]
    pub place: PlaceEntry,
    /// Bytes between wait states.
    #[serde(default = "one_kib")]
    pub block: Bytes,
    /// Wait after each block.
    #[serde(default)]
    pub wait: Time,
    /// Lines on their way at once.
    #[serde(default = "eight")]
    pub outstanding: u32,
    /// Into memory, or out of it.
    #[serde(default = "yes")]
    pub into_memory: bool,
    /// Rate of the stream; left out: as fast as the waits allow.
    pub rate: Option<Bandwidth>,
    /// Start of the stream.
    #[serde(default)]
    pub start: Time,
    /// End of the stream.
    pub stop: Option<Time>,
}

const fn one_kib() -> Bytes {
    Bytes(1024)
}

const fn eight() -> u32 {
    8
}

const fn yes() -> bool {
    true
}
