//! `[levels]`, `[[ipc]]` and `[[io]]` of `system.toml`: criticality levels with their isolation.
//!
//! Problem: an MC2 plan (cores, ways, and banks of buffers) needs more of a system than its tasks:
//! the messages between tasks, the buffers of devices, and the costs of both. Rule: a system with
//! a `[levels]` table is planned that way (mc2-os-isolation, sections 2 to 4 and 6.1); without it
//! nothing here is read. Levels: A by a time table on its core, B rate monotonic on its core, C by
//! global EDF with bounded tardiness, D best effort.
//!
//! Not covered: messages between level C and levels A and B, deadlines other than periods, periods
//! of A and B that do not divide each other: the analyses rest on these (`solocore_analysis::levels`).

mod check;

use crate::platform::Platform;
use crate::units::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most ways of the shared cache that can be shared out.
pub const MOST_WAYS: u32 = 16;
/// Most cores.
pub const MOST_CORES: u32 = 16;
/// Longest period.
const LONGEST: Time = Time::from_ns(3_600_000_000_000);

/// Places of the buffers of levels A and B: `x|y`, with `x` for message buffers and `y` for I/O
/// buffers (section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BufferScheme {
    /// All buffers in the banks of level C.
    #[serde(rename = "C|C")]
    CC,
    /// Messages locked in the cache, in the core's own bank, or uncached, depending on the system;
    /// I/O buffers in the banks of level C.
    #[serde(rename = "O|C")]
    OC,
    /// Messages in the banks of level C; I/O buffers in the banks of their tasks' cores.
    #[serde(rename = "C|C+A/B-All")]
    CAll,
    /// As `C|C+A/B-All` for the half of the I/O tasks of each level with the longest periods; the
    /// other I/O buffers in the banks of level C.
    #[serde(rename = "C|C+A/B-LP")]
    CLong,
    /// As `C|C+A/B-LP`, for the shortest periods.
    #[serde(rename = "C|C+A/B-SP")]
    CShort,
    /// Messages as under `O|C`; I/O buffers in the banks of their tasks' cores.
    #[serde(rename = "O|C+A/B-All")]
    OAll,
    /// Messages as under `O|C`; I/O buffers as under `C|C+A/B-LP`.
    #[serde(rename = "O|C+A/B-LP")]
    OLong,
    /// Messages as under `O|C`; I/O buffers as under `C|C+A/B-SP`.
    #[serde(rename = "O|C+A/B-SP")]
    OShort,
    /// Messages as under `O|C`; each I/O buffer where it is best.
    #[default]
    #[serde(rename = "O|opt")]
    OOpt,
}

impl BufferScheme {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::OOpt,
        Self::OAll,
        Self::OLong,
        Self::OShort,
        Self::OC,
        Self::CAll,
        Self::CLong,
        Self::CShort,
        Self::CC,
    ];

    /// Its name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CC => "C|C",
            Self::OC => "O|C",
            Self::CAll => "C|C+A/B-All",
            Self::CLong => "C|C+A/B-LP",
            Self::CShort => "C|C+A/B-SP",
            Self::OAll => "O|C+A/B-All",
            Self::OLong => "O|C+A/B-LP",
            Self::OShort => "O|C+A/B-SP",
            Self::OOpt => "O|opt",
        }
    }
}

/// Way in which contention for the memory is accounted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    /// Each DRAM access of a job waits for one of each other core and of each device.
    #[default]
    Bounded,
    /// The stated times were measured under contention, as in the paper; `[levels.costs]` has the
    /// costs of buffers and DMA.
    Measured,
}

/// `[levels]`: criticality levels on isolated hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LevelsSettings {
    /// Places of message and I/O buffers.
    pub scheme: BufferScheme,
    /// Number of ways to share out. The default is the ways of the shared cache, at most 16.
    pub ways: Option<u32>,
    /// Least number of ways for level C and the OS.
    pub least_ways_of_c: u32,
    /// Level-A PET over level-B PET.
    pub pet_scale: f64,
    /// Way in which contention is accounted for.
    pub contention: Contention,
    /// Time of the handler of a timer tick, on core 0.
    pub tick: Time,
    /// Time between two ticks.
    pub tick_period: Time,
    /// Time of the handler of a device's interrupt, on core 0.
    pub device_interrupt: Time,
    /// Bytes that DMA moves for each interrupt.
    pub device_block: Bytes,
    /// Time for which the memory serves no access while it refreshes, with `contention =
    /// "bounded"`.
    pub refresh: Time,
    /// Time between two refreshes.
    pub refresh_period: Time,
    /// Costs of isolation, with `contention = "measured"`.
    pub costs: Option<Costs>,
}

impl Default for LevelsSettings {
    fn default() -> Self {
        Self {
            scheme: BufferScheme::default(),
            ways: None,
            least_ways_of_c: 1,
            // Section 2: "Level-A PETs are obtained by inflating Level-B PETs by 50%".
            pet_scale: 1.5,
            contention: Contention::default(),
            tick: Time::default(),
            tick_period: Time::from_ns(1_000_000),
            device_interrupt: Time::default(),
            device_block: Bytes(128 << 10),
            // The longest of DDR3 (8 Gbit, JESD79-3), below 85 degrees; L_max of the presets has no
            // refresh in it.
            refresh: Time::from_ns(350),
            refresh_period: Time::from_ns(7800),
            costs: None,
        }
    }
}

/// `[levels.costs]`: costs measured on the board, as `solocore bench costs` does. The defaults are the
/// upper ends of the ranges of the study (`crates/study/parameters.toml`), where each has its
/// source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// A job is longer by this share of its time when DMA keeps the bus busy.
    pub dma_bus: f64,
    /// A job is longer by this share of its time when DMA goes to the bank of its task, and the
    /// task has few ways.
    pub dma_bank: f64,
    /// Traffic at which `dma_bus` and `dma_bank` have reached 63 %.
    pub dma_saturation: Bandwidth,
    /// A job of level C is longer by this share when others access its banks.
    pub bank_sharing_c: f64,
    /// Cores' worth of accesses at which `bank_sharing_c` has reached 63 %.
    pub sharing_saturation: f64,
    /// Copying from an I/O buffer in a bank that others access takes longer by this share.
    pub io_copy: f64,
    /// Time to send a message under CE over that under SBP.
    pub send_ce: f64,
    /// Time to receive a message under CE over that under SBP.
    pub receive_ce: f64,
    /// Time to send a message under CL over that under SBP.
    pub send_cl: f64,
    /// Time to receive a message under CL over that under SBP.
    pub receive_cl: f64,
    /// A cacheable buffer in a bank of level C costs this share more than an uncacheable one.
    pub eviction: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            dma_bus: 0.15,
            dma_bank: 0.5,
            dma_saturation: Bandwidth(60_000_000),
            bank_sharing_c: 0.1,
            sharing_saturation: 0.05,
            io_copy: 0.81,
            send_ce: 0.129,
            receive_ce: 0.405,
            send_cl: 0.054,
            receive_cl: 0.159,
            eviction: 0.3,
        }
    }
}

/// `[[ipc]]`: one message per job from one task to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipc {
    /// Name of the task that sends.
    pub from: String,
    /// Name of the task that receives.
    pub to: String,
    /// Size of the buffer.
    pub size: Bytes,
    /// Time to write the message uncached (SBP), alone. The default is `L_max` for each line.
    pub send: Option<Time>,
    /// Time to read the message uncached, alone. The default is the time of `send`.
    pub receive: Option<Time>,
}

/// `[[io]]`: a device that writes into a buffer which a task reads, or the other way round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Name of the task.
    pub task: String,
    /// Name of the device. On Linux, a disk of this name is limited to its bandwidth.
    pub device: String,
    /// Traffic of the device by DMA.
    pub bandwidth: Bandwidth,
    /// Size of the buffer.
    pub size: Bytes,
    /// Into memory (`"in"`), or out of it (`"out"`).
    #[serde(default)]
    pub direction: Direction,
    /// `true`: DMA goes to the buffer itself. `false`: the kernel copies from its own buffers,
    /// which stay in the banks of level C.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Share of a job's time that works on the buffer, with `contention = "measured"`.
    #[serde(default)]
    pub copy: f64,
}

const fn yes() -> bool {
    true
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Into memory.
    #[default]
    In,
    /// Out of memory.
    Out,
}

/// Keys of a `[[task]]` for `[levels]` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskShape {
    /// Execution time alone with 1, 2, ... ways; the last holds for more.
    pub wcet_by_ways: Vec<Time>,
    /// DRAM accesses of a job with 1, 2, ... ways.
    pub misses_by_ways: Vec<u64>,
    /// Level-C PET over level-B PET, in millionths, rounded up.
    pub average_millionths: u32,
    /// Longest time to load again what one preemption evicts, alone.
    pub reload: Option<Time>,
}

impl TaskShape {
    /// One: the level-C PET is the level-B PET.
    pub const WHOLE: u32 = 1_000_000;
}

/// A checked `[levels]` with its buffers; lines are those of their tables.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// `[levels]`.
    pub settings: LevelsSettings,
    /// Line of `[levels]`.
    pub line: usize,
    /// `[[ipc]]`.
    pub ipc: Vec<(Ipc, usize)>,
    /// `[[io]]`.
    pub io: Vec<(Io, usize)>,
}

/// A fault and the line it is on.
pub(crate) type Fault = (usize, String);

impl Isolation {
    /// Ways to share out.
    #[must_use]
    pub fn ways(&self, platform: &Platform) -> u32 {
        self.settings.ways.unwrap_or(platform.llc.ways.min(MOST_WAYS))
    }
}

/// Content of one DRAM bank: the memory partition of a core's levels A and B.
#[must_use]
pub fn bank_bytes(platform: &Platform) -> Bytes {
    Bytes(platform.dram.capacity.0 / u64::from(platform.total_banks().max(1)))
}
