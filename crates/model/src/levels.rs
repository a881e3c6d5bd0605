//! `[mc2]`, `[[ipc]]` and `[[io]]` of `system.toml`: criticality levels with their isolation.
//!
//! Problem: an MC2 plan (which core, which ways, which bank for which buffer) needs more of a system than its tasks: who
//! sends messages to whom, which devices write where, and what it costs when they do. Rule: a system with an `[mc2]` table
//! is planned so (mc2-os-isolation, sections 2 to 4 and 6.1); without it nothing here is read. Levels: A by a time table on
//! its core, B rate monotonic on its core, C by global EDF with bounded tardiness, D best effort.
//!
//! Not covered: messages between level C and levels A and B, deadlines other than periods, periods of A and B that do
//! not divide each other: the analyses rest on these (`solocore_analysis::mc2`).

use crate::platform::{Partition, Platform};
use crate::system::{Criticality, Task};
use crate::units::{Bandwidth, Bytes, Time};
use serde::{Deserialize, Serialize};

/// Most ways of the shared cache that are shared out.
pub const MOST_WAYS: u32 = 16;
/// Most cores.
pub const MOST_CORES: u32 = 16;
/// Longest period.
const LONGEST: Time = Time::from_ns(3_600_000_000_000);

/// Where buffers go: `x|y`, `x` message buffers, `y` I/O buffers (section 6.1). R|R, which manages nothing, is for studies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the paper's")]
pub enum BufferScheme {
    #[serde(rename = "C|C")]
    CC,
    #[serde(rename = "O|C")]
    OC,
    #[serde(rename = "C|C+A/B-All")]
    CAll,
    #[serde(rename = "C|C+A/B-LP")]
    CLong,
    #[serde(rename = "C|C+A/B-SP")]
    CShort,
    #[serde(rename = "O|C+A/B-All")]
    OAll,
    #[serde(rename = "O|C+A/B-LP")]
    OLong,
    #[serde(rename = "O|C+A/B-SP")]
    OShort,
    /// Each I/O buffer where it is best.
    #[default]
    #[serde(rename = "O|opt")]
    OOpt,
}

impl BufferScheme {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::OOpt, Self::OAll, Self::OLong, Self::OShort, Self::OC, Self::CAll, Self::CLong, Self::CShort, Self::CC];

    /// Its name in the file.
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

/// How contention for the memory is accounted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    /// Each DRAM access of a job waits for one of each other core and of each device.
    #[default]
    Bounded,
    /// The stated times were measured under contention, as in the paper; what buffers and DMA cost is in `[mc2.costs]`.
    Measured,
}

/// `[mc2]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mc2 {
    /// Where buffers go.
    pub scheme: BufferScheme,
    /// Ways to share out; default: those of the shared cache, at most [`MOST_WAYS`].
    pub ways: Option<u32>,
    /// Ways that level C and the OS have at least.
    pub least_ways_of_c: u32,
    /// Level-A PET over level-B PET.
    pub pet_scale: f64,
    /// How contention is accounted for.
    pub contention: Contention,
    /// Handler of a timer tick, on core 0.
    pub tick: Time,
    /// Time between ticks.
    pub tick_period: Time,
    /// Handler of a device's interrupt, on core 0.
    pub device_interrupt: Time,
    /// Bytes moved by DMA per interrupt.
    pub device_block: Bytes,
    /// How long the memory serves nobody while it refreshes, with `contention = "bounded"`.
    pub refresh: Time,
    /// Time between refreshes.
    pub refresh_period: Time,
    /// What isolation costs, with `contention = "measured"`.
    pub costs: Option<Costs>,
}

impl Default for Mc2 {
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
            // The longest of DDR3 (8 Gbit, JESD79-3), below 85 degrees; L_max of the presets has no refresh in it.
            refresh: Time::from_ns(350),
            refresh_period: Time::from_ns(7800),
            costs: None,
        }
    }
}

/// `[mc2.costs]`: what was measured on the board. The defaults are the upper ends of the ranges of the study
/// (`crates/study/parameters.toml`), where each has its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// A job is longer by this share of its time when DMA keeps the bus busy.
    pub dma_bus: f64,
    /// The same when DMA goes to the bank that its task lies in, and the task has few ways.
    pub dma_bank: f64,
    /// Traffic at which both have reached 63 %.
    pub dma_saturation: Bandwidth,
    /// A job of level C is longer by this share when others access its banks.
    pub bank_sharing_c: f64,
    /// Cores' worth of accesses at which that has reached 63 %.
    pub sharing_saturation: f64,
    /// Copying from an I/O buffer in a bank that others access takes longer by this share.
    pub io_copy: f64,
    /// Time to send a message under CE over that under SBP.
    pub send_ce: f64,
    /// The same to receive.
    pub receive_ce: f64,
    /// Time to send under CL over that under SBP.
    pub send_cl: f64,
    /// The same to receive.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ipc {
    /// Name of the task that sends.
    pub from: String,
    /// Name of the task that receives.
    pub to: String,
    /// Size of the buffer.
    pub size: Bytes,
    /// Time to write it uncached (SBP), alone; default: a DRAM access for each line.
    pub send: Option<Time>,
    /// Time to read it uncached, alone; default: the same.
    pub receive: Option<Time>,
}

/// `[[io]]`: a device that writes into a buffer which a task reads, or the other way round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Name of the task.
    pub task: String,
    /// Name of the device.
    pub device: String,
    /// Data moved by DMA.
    pub bandwidth: Bandwidth,
    /// Size of the buffer.
    pub size: Bytes,
    /// Into memory (`"in"`), or out of it (`"out"`).
    #[serde(default)]
    pub direction: Direction,
    /// DMA goes to the buffer itself; else the kernel copies from its own, which stay in the banks of level C.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Share of a job's time that works on the buffer, with `contention = "measured"`.
    #[serde(default)]
    pub copy: f64,
}

const fn yes() -> bool {
    true
}

/// `direction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Into memory.
    #[default]
    In,
    /// Out of memory.
    Out,
}

/// What a `[[task]]` says for `[mc2]` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskShape {
    /// Execution time alone with 1, 2, ... ways; the last holds for more.
    pub wcet_by_ways: Vec<Time>,
    /// DRAM transactions of a job with 1, 2, ... ways.
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

/// A checked `[mc2]` with its buffers; lines are those of their tables.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// `[mc2]`.
    pub settings: Mc2,
    /// Line of `[mc2]`.
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

    pub(crate) fn check(&self, platform: &Platform, cores: u32, tasks: &[Task]) -> Result<(), Fault> {
        self.check_settings().map_err(|m| (self.line, m))?;
        self.check_board(platform, cores).map_err(|m| (self.line, m))?;
        for task in tasks {
            self.check_task(task, platform).map_err(|m| (task.line, format!("task `{}`: {m}", task.name)))?;
        }
        check_periods(tasks)?;
        for (at, (ipc, line)) in self.ipc.iter().enumerate() {
            let twin = self.ipc[..at].iter().find(|(i, _)| i.from == ipc.from && i.to == ipc.to);
            check_ipc(ipc, twin.map(|t| t.1), platform, tasks).map_err(|m| (*line, format!("[[ipc]] {m}")))?;
        }
        for (at, (io, line)) in self.io.iter().enumerate() {
            let twin = self.io[..at].iter().find(|(i, _)| i.task == io.task || i.device == io.device);
            self.check_io(io, twin, platform, tasks).map_err(|m| (*line, format!("[[io]] {m}")))?;
        }
        Ok(())
    }

    fn check_settings(&self) -> Result<(), String> {
        let s = &self.settings;
        if !(s.pet_scale.is_finite() && (1.0..=100.0).contains(&s.pet_scale)) {
            return Err(format!("[mc2] pet_scale = {}; give 1 to 100 (the paper: 1.5)", s.pet_scale));
        }
        if s.tick_period.ps() == 0 || s.tick >= s.tick_period {
            return Err(format!(
                "[mc2] tick = {} every {} leaves no time; shorten the one or lengthen the other",
                s.tick, s.tick_period
            ));
        }
        if s.refresh_period.ps() == 0 || s.refresh.ps() > s.refresh_period.ps() / 2 {
            return Err(format!(
                "[mc2] refresh = {} every {} takes more than half of the time; shorten the one or lengthen the other",
                s.refresh, s.refresh_period
            ));
        }
        if s.device_block.0 == 0 {
            return Err("[mc2] device_block is 0; give the bytes that a device moves per interrupt".to_owned());
        }
        if s.costs.is_some() && s.contention == Contention::Bounded {
            return Err(
                "[mc2.costs] is for contention = \"measured\": bounds follow from L_max alone; remove one of the two"
                    .to_owned(),
            );
        }
        s.costs.as_ref().map_or(Ok(()), check_costs)
    }

    fn check_board(&self, platform: &Platform, cores: u32) -> Result<(), String> {
        let (name, ways) = (&platform.name, self.ways(platform));
        if platform.llc.partition == Partition::Colour {
            return Err(format!(
                "[mc2] assigns ways of the shared cache, but that of {name} can only be coloured; choose a board with ways or lockdown"
            ));
        }
        if ways == 0 || ways > platform.llc.ways || ways > MOST_WAYS {
            return Err(format!(
                "[mc2] ways = {ways}, but the shared cache of {name} has {}, and at most {MOST_WAYS} are shared out; give 1 to {}",
                platform.llc.ways,
                platform.llc.ways.min(MOST_WAYS)
            ));
        }
        if self.settings.least_ways_of_c == 0 || self.settings.least_ways_of_c > ways {
            return Err(format!(
                "[mc2] least_ways_of_c = {} of {ways} ways; give 1 to {ways} (the OS shares these ways)",
                self.settings.least_ways_of_c
            ));
        }
        if cores > MOST_CORES {
            return Err(format!("[mc2] covers up to {MOST_CORES} cores, not {cores}; set [regulation] active_cores"));
        }
        if platform.total_banks() <= cores {
            return Err(format!(
                "[mc2] needs a DRAM bank for each core and one for level C, but {name} has {} for {cores} cores; set [regulation] active_cores",
                platform.total_banks()
            ));
        }
        Ok(())
    }

    fn check_task(&self, task: &Task, platform: &Platform) -> Result<(), String> {
        if task.criticality == Criticality::D {
            return Ok(());
        }
        if task.deadline != task.period {
            return Err("its deadline is not its period, which [mc2] does not cover; remove the deadline".to_owned());
        }
        if task.period.is_none_or(|p| p > LONGEST || !p.ps().is_multiple_of(Time::PS_PER_NS)) {
            return Err("[mc2] takes periods of whole nanoseconds up to an hour; correct it".to_owned());
        }
        if task.priority.is_some() {
            return Err("has a priority, but levels and periods decide under [mc2]; remove it".to_owned());
        }
        let shape = &task.shape;
        let ways = self.ways(platform) as usize;
        if shape.wcet_by_ways.len() > ways {
            let given = shape.wcet_by_ways.len();
            return Err(format!(
                "gives wcet_by_ways for {given} ways, but {ways} are shared out; leave the last ones out"
            ));
        }
        if task.criticality == Criticality::C {
            if task.core.is_some() {
                return Err("level C runs on every core; remove its core".to_owned());
            }
            if !shape.wcet_by_ways.is_empty() && self.settings.contention == Contention::Bounded {
                return Err("the ways of level C are shared by its tasks, so that no bound follows from wcet_by_ways; give wcet and misses without the shared cache, or set contention = \"measured\"".to_owned());
            }
        }
        Ok(())
    }

    fn check_io(&self, io: &Io, twin: Option<&(Io, usize)>, platform: &Platform, tasks: &[Task]) -> Result<(), String> {
        named(&io.task, tasks)?;
        if io.device.is_empty() || io.device.chars().any(char::is_control) {
            return Err("a device needs a name without control characters; give it one".to_owned());
        }
        if let Some((other, line)) = twin {
            let what = if other.task == io.task { "task" } else { "device" };
            let name = if other.task == io.task { &io.task } else { &io.device };
            return Err(format!("the {what} `{name}` has a buffer already (line {line}); merge the two"));
        }
        if io.bandwidth.0 == 0 || io.bandwidth.0 > platform.guaranteed_bandwidth().0 {
            return Err(format!(
                "`{}` moves {}, which is not above zero and at most the guaranteed {}; correct the bandwidth",
                io.device,
                io.bandwidth,
                platform.guaranteed_bandwidth()
            ));
        }
        if !(0.0..=1.0).contains(&io.copy) {
            return Err(format!("copy = {}; give the share of a job's time, 0 to 1", io.copy));
        }
        if io.copy > 0.0 && self.settings.contention == Contention::Bounded {
            return Err("copy is for contention = \"measured\": bounds follow from L_max alone; remove it".to_owned());
        }
        check_size(io.size, &format!("buffer of `{}`", io.device), platform)
    }
}

fn check_costs(c: &Costs) -> Result<(), String> {
    let shares = [
        ("dma_bus", c.dma_bus),
        ("dma_bank", c.dma_bank),
        ("bank_sharing_c", c.bank_sharing_c),
        ("io_copy", c.io_copy),
        ("eviction", c.eviction),
    ];
    if let Some((name, value)) = shares.into_iter().find(|(_, v)| !(v.is_finite() && (0.0..=1000.0).contains(v))) {
        return Err(format!("[mc2.costs] {name} = {value}; give a share of the time, 0 to 1000"));
    }
    for (name, cl, ce) in [("send", c.send_cl, c.send_ce), ("receive", c.receive_cl, c.receive_ce)] {
        if !(cl > 0.0 && cl <= ce && ce <= 1.0) {
            return Err(format!(
                "[mc2.costs] {name}_cl = {cl}, {name}_ce = {ce}; give shares of the time under SBP, CL at most CE, CE at most 1"
            ));
        }
    }
    if !(c.sharing_saturation.is_finite() && c.sharing_saturation > 0.0) || c.dma_saturation.0 == 0 {
        return Err("[mc2.costs] a saturation is not above zero; correct it".to_owned());
    }
    Ok(())
}

/// A bank holds what is placed in it: a single buffer must fit at least.
fn check_size(size: Bytes, what: &str, platform: &Platform) -> Result<(), String> {
    let bank = bank_bytes(platform);
    if size.0 == 0 || size.0 > bank.0 {
        return Err(format!(
            "the {what} has {size}, but a bank of {} holds {bank}; give a size above zero that fits",
            platform.name
        ));
    }
    Ok(())
}

/// What one DRAM bank holds: the memory partition of a core's levels A and B.
#[must_use]
pub fn bank_bytes(platform: &Platform) -> Bytes {
    Bytes(platform.dram.capacity.0 / u64::from(platform.total_banks().max(1)))
}

fn named<'a>(name: &str, tasks: &'a [Task]) -> Result<&'a Task, String> {
    let Some(task) = tasks.iter().find(|t| t.name == name) else {
        return Err(format!("names the task `{name}`, which is not there; correct the name or add the task"));
    };
    if task.criticality == Criticality::D {
        return Err(format!("names `{name}`, which is best effort and not analysed; remove it"));
    }
    Ok(task)
}

fn check_ipc(ipc: &Ipc, twin: Option<usize>, platform: &Platform, tasks: &[Task]) -> Result<(), String> {
    let (from, to) = (named(&ipc.from, tasks)?, named(&ipc.to, tasks)?);
    if ipc.from == ipc.to {
        return Err(format!("`{}` sends to itself; name two tasks", ipc.from));
    }
    if let Some(line) = twin {
        return Err(format!("from `{}` to `{}` is there already (line {line}); merge the two", ipc.from, ipc.to));
    }
    if (from.criticality == Criticality::C) != (to.criticality == Criticality::C) {
        return Err(format!(
            "`{}` is of level {:?} and `{}` of level {:?}: messages between level C and levels A and B are not covered; change a level or remove it",
            ipc.from, from.criticality, ipc.to, to.criticality
        ));
    }
    check_size(ipc.size, "buffer", platform)
}

/// Periods of A and B must divide each other, those of A being the shorter (section 2: harmonic).
fn check_periods(tasks: &[Task]) -> Result<(), Fault> {
    let mut bound: Vec<(&Task, u64)> = tasks
        .iter()
        .filter(|t| matches!(t.criticality, Criticality::A | Criticality::B))
        .filter_map(|t| Some((t, t.period?.ps())))
        .collect();
    bound.sort_by_key(|(t, period)| (t.criticality, *period));
    for pair in bound.windows(2) {
        let [(one, short), (other, long)] = pair else { continue };
        if !long.is_multiple_of(*short) {
            return Err((
                other.line,
                format!(
                    "task `{}`: its period {} is no multiple of the {} of `{}`; under [mc2] the periods of levels A and B must divide each other, A's first: change one, or make it level C",
                    other.name,
                    Time::from_ps(*long),
                    Time::from_ps(*short),
                    one.name
                ),
            ));
        }
    }
    Ok(())
}
