//! `system.toml`: the board, how it is regulated, and the tasks.

use crate::dma::DmaEntry;
use crate::error::ModelError;
use crate::files;
use crate::instance::{DeviceEntry, Instance, MarginEntry, PartitionEntry, Sections};
use crate::levels::{Io, Ipc, Isolation, Mc2, TaskShape};
use crate::platform::Platform;
use crate::units::{Bandwidth, Time, positive_time, positive_time_option};
use crate::vcpus::{Settings, VcpuEntry, Vcpus};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// How DRAM accesses are regulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Not at all.
    None,
    /// A budget per core and period (MemGuard; SCE section 2.2).
    #[default]
    Memguard,
    /// Best-effort cores are held down while a memory lock is held (BWLOCK).
    Bwlock,
    /// Budgets of the co-running cores follow the hard task that runs (dynamic budgeting).
    Dynamic,
    /// VCPUs; background time is throttled by memory latency (MARACAS).
    Maracas,
}

/// How the guaranteed bandwidth is shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Every core gets the same.
    #[default]
    Even,
    /// Each core states its bandwidth.
    Explicit,
}

/// What the largest safe budgets of the policy `dynamic` are chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The smallest budget is as large as possible.
    #[default]
    MaxMin,
    /// Many accesses per second in all.
    TotalBandwidth,
}

/// What the bounds take the memory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// A controller with several reads of each core under way, posted writes and refreshes
    /// (`solocore_analysis::interference`).
    #[default]
    Sound,
    /// That of the papers: one request of each core, served in turn (single-core-equivalence, eq. (1)).
    Sce,
}

impl Model {
    /// As files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Sce => "sce",
        }
    }
}

/// `[regulation]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Regulation {
    /// Which policy.
    pub policy: Policy,
    /// The regulation period `P`.
    #[serde(deserialize_with = "positive_time")]
    pub period: Time,
    /// Even or explicit budgets.
    pub share: Share,
    /// What the bounds take the memory for; default: sound, or `sce` where `carry_in = false`.
    pub model: Option<Model>,
    /// Charge the budget that an earlier task may have drained. `false` is eq. (1) alone; `true` beside `model = "sce"` adds what
    /// eq. (1) leaves out of its own memory model.
    pub carry_in: Option<bool>,
    /// Cores that may access memory (`m`); default: all cores of the platform.
    pub active_cores: Option<u32>,
    /// What budgets of the policy `dynamic` are chosen for.
    pub objective: Objective,
    /// Under the policy `bwlock`: what a core may transfer for tasks that are not real-time while somebody holds the lock.
    pub lock_bandwidth: Option<Bandwidth>,
}

impl Regulation {
    /// The model in force.
    pub fn model(&self) -> Model {
        let of_carry_in = if self.carry_in == Some(false) { Model::Sce } else { Model::Sound };
        self.model.unwrap_or(of_carry_in)
    }

    /// Is a drained budget charged?
    pub fn carries_in(&self) -> bool {
        self.carry_in.unwrap_or(self.model() == Model::Sound)
    }
}

impl Default for Regulation {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            period: Time::from_ns(1_000_000),
            share: Share::default(),
            model: None,
            carry_in: None,
            active_cores: None,
            objective: Objective::default(),
            lock_bandwidth: None,
        }
    }
}

/// Criticality levels of MC2, hard to best effort. All but `D` are analysed and get a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "levels are named by letter")]
pub enum Criticality {
    A,
    #[default]
    B,
    C,
    /// Best effort: no deadline is promised.
    D,
}

/// `[[core]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreEntry {
    /// Which core, from 0.
    pub id: u32,
    /// Its share of the guaranteed bandwidth, with `share = "explicit"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Of it, so much is for writes only, and the others are for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
}

/// `soft_budget` of a task under the policy `dynamic`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SoftBudget {
    /// Accesses of all soft cores together during one job.
    Accesses(u64),
    /// `"max"`.
    Named(String),
}

/// `[[task]]`, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskEntry {
    name: String,
    core: Option<u32>,
    #[serde(default, deserialize_with = "positive_time_option")]
    period: Option<Time>,
    #[serde(default, deserialize_with = "positive_time_option")]
    deadline: Option<Time>,
    #[serde(default)]
    criticality: Criticality,
    command: Option<Vec<String>>,
    profile: Option<PathBuf>,
    #[serde(default, deserialize_with = "positive_time_option")]
    wcet: Option<Time>,
    misses: Option<u64>,
    priority: Option<u32>,
    soft_budget: Option<SoftBudget>,
    partition: Option<String>,
    curve: Option<Vec<CurvePoint>>,
    #[serde(default)]
    wcet_by_ways: Vec<Time>,
    #[serde(default)]
    misses_by_ways: Vec<u64>,
    average: Option<f64>,
    reload: Option<Time>,
}

/// A point of a stated lockdown curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// `C` with so many pages locked.
    #[serde(deserialize_with = "positive_time")]
    pub wcet: Time,
    /// `mu` with so many pages locked.
    pub misses: u64,
}

/// `[sce]`: how the single-core-equivalence method proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sce {
    /// Slack on top of a partition's least duration, in percent, where the file leaves the duration out.
    pub slack: u32,
}

impl Default for Sce {
    /// What section 3.1, step 3, of the paper names.
    fn default() -> Self {
        Self { slack: 30 }
    }
}

/// Where a task's execution time and misses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Stated in the file: time alone with the cache the plan gives it, and residual misses of one job.
    Given {
        /// `C`.
        wcet: Time,
        /// `mu`, DRAM transactions of one job.
        misses: u64,
    },
    /// Stated for 0, 1, 2... locked pages: a progressive lockdown curve.
    Curve(Vec<CurvePoint>),
    /// A profile file, relative to the system file.
    Profile(PathBuf),
    /// A command to profile, run in the system file's directory.
    Command(Vec<String>),
}

/// One task, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Unique name.
    pub name: String,
    /// Core, where the file states one.
    pub core: Option<u32>,
    /// Period; `None` only for best effort that runs back to back.
    pub period: Option<Time>,
    /// Relative deadline; default: the period.
    pub deadline: Option<Time>,
    /// Level.
    pub criticality: Criticality,
    /// Its demand.
    pub demand: Demand,
    /// 1 is highest; default: rate monotonic.
    pub priority: Option<u32>,
    /// Under the policy `dynamic`: accesses of all soft cores together during one job; `None` for the largest safe number.
    pub soft_budget: Option<u64>,
    /// Index of its partition, in a system with partitions.
    pub partition: Option<usize>,
    /// What `[mc2]` knows of it.
    pub shape: TaskShape,
    /// Line of its table in the file.
    pub line: usize,
}

/// A checked `system.toml`.
#[derive(Clone, Debug)]
pub struct System {
    /// Where it was read.
    pub path: PathBuf,
    /// The board.
    pub platform: Platform,
    /// `[regulation]`.
    pub regulation: Regulation,
    /// `[[core]]` tables.
    pub cores: Vec<CoreEntry>,
    /// `[[task]]` tables in file order.
    pub tasks: Vec<Task>,
    /// `[[partition]]`, `[[device]]`, `[dma]` and `[margin]`; none without partitions.
    pub ima: Option<Instance>,
    /// `[sce]`.
    pub sce: Sce,
    /// `[mc2]` with its buffers: criticality levels on isolated hardware.
    pub mc2: Option<Isolation>,
    /// `[maracas]` and `[[vcpu]]`.
    pub vcpus: Option<Vcpus>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemFile {
    platform: String,
    regulation: Option<Spanned<Regulation>>,
    #[serde(default)]
    core: Vec<Spanned<CoreEntry>>,
    #[serde(default, deserialize_with = "some_tasks")]
    task: Vec<Spanned<TaskEntry>>,
    sce: Option<Spanned<Sce>>,
    base: Option<Spanned<Time>>,
    dma: Option<Spanned<DmaEntry>>,
    margin: Option<Spanned<MarginEntry>>,
    #[serde(default)]
    device: Vec<Spanned<DeviceEntry>>,
    #[serde(default)]
    partition: Vec<Spanned<PartitionEntry>>,
    mc2: Option<Spanned<Mc2>>,
    #[serde(default)]
    ipc: Vec<Spanned<Ipc>>,
    #[serde(default)]
    io: Vec<Spanned<Io>>,
    maracas: Option<Spanned<Settings>>,
    #[serde(default)]
    vcpu: Vec<Spanned<VcpuEntry>>,
}

fn some_tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<TaskEntry>>, D::Error> {
    Vec::deserialize(deserializer)
}

impl System {
    /// Reads and checks a system file.
    ///
    /// # Errors
    /// One line with file, line, what is wrong and what to do.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::parse(path, &files::read_text(path)?)
    }

    /// Parses and checks the text of a system file; `path` names it and anchors relative paths.
    ///
    /// # Errors
    /// As [`System::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let file: SystemFile = toml::from_str(text).map_err(|e| ModelError::from_toml(path, text, &e))?;
        let mut platform = Platform::find(&file.platform, files::parent_dir(path)).map_err(|e| match e {
            ModelError::Invalid { message, line: None, path: p } if p == Path::new("platform") => {
                ModelError::Invalid { path: path.to_owned(), line: None, message }
            }
            other => other,
        })?;
        let at = |offset: usize, message: String| ModelError::invalid_at(path, text, offset, message);
        let whole = |message: String| ModelError::Invalid { path: path.to_owned(), line: None, message };
        let on =
            |line: usize, message: String| ModelError::Invalid { path: path.to_owned(), line: Some(line), message };
        let line_of =
            |start: usize| text.as_bytes()[..start.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
        let (regulation, isolation) =
            isolation(file.regulation, file.mc2, file.ipc, file.io, line_of).map_err(|(line, m)| on(line, m))?;

        if regulation.model() == Model::Sce {
            // The papers' figures, where the platform has them beside the sound ones.
            platform.dram.latency_max = platform.latency_of_paper();
        }
        check_regulation(&regulation, &platform).map_err(whole)?;
        let mut cores: Vec<CoreEntry> = Vec::new();
        for entry in &file.core {
            let core = entry.get_ref();
            check_core(core, &cores, &regulation, &platform).map_err(|m| at(entry.span().start, m))?;
            cores.push(core.clone());
        }
        if file.task.is_empty() {
            return Err(whole(
                "there is no [[task]]; add at least one with name, period and command (or wcet and misses)".to_owned(),
            ));
        }
        let sce = file.sce.as_ref().map_or_else(Sce::default, |s| *s.get_ref());
        let stated = file.sce.map(|s| s.span().start);
        let sections = Sections {
            base: file.base,
            dma: file.dma,
            margin: file.margin,
            device: file.device,
            partition: file.partition,
        };
        let shares = Shares { regulation: &regulation, platform: &platform, cores: &cores };
        let ima = partitions(path, text, sections, (sce, stated), shares).map_err(|(start, m)| at(start, m))?;
        let mut tasks: Vec<Task> = Vec::new();
        for entry in file.task {
            let start = entry.span().start;
            let entry = entry.into_inner();
            let partition = partition_of(&entry, ima.as_ref()).map_err(|m| at(start, m))?;
            let task = check_task(entry, line_of(start), &regulation, &platform, isolation.is_some())
                .map_err(|m| at(start, m))?;
            let task = Task { partition, ..task };
            if let Some(twin) = tasks.iter().find(|t| t.name == task.name) {
                return Err(at(
                    start,
                    format!("task `{}` is defined twice (first on line {}); rename one", task.name, twin.line),
                ));
            }
            tasks.push(task);
        }
        let with_priority = |t: &&Task| t.criticality != Criticality::D && t.priority.is_some();
        let without = tasks.iter().find(|t| t.criticality != Criticality::D && t.priority.is_none());
        if let (Some(a), Some(b)) = (tasks.iter().find(with_priority), without) {
            return Err(whole(format!(
                "task `{}` (line {}) has a priority and `{}` (line {}) has none; give one to every task of level A to C, or to none",
                a.name, a.line, b.name, b.line
            )));
        }
        if let Some(ima) = &ima {
            check_windows(ima, &tasks).map_err(whole)?;
        }
        if let Some(isolation) = &isolation {
            if ima.is_some() {
                return Err(on(
                    isolation.line,
                    "[mc2] and [[partition]] are two ways to plan, of which one system has one; remove either"
                        .to_owned(),
                ));
            }
            let cores = regulation.active_cores.unwrap_or(platform.cores);
            isolation.check(&platform, cores, &tasks).map_err(|(line, m)| on(line, m))?;
        }
        if let Some(p) =
            ima.as_ref().filter(|_| regulation.policy == Policy::Maracas).and_then(|i| i.partitions.first())
        {
            return Err(on(
                p.line,
                "[[partition]] and policy = \"maracas\" are two ways to plan, of which one system has one; remove either"
                    .to_owned(),
            ));
        }
        let settings = file.maracas.map(|m| (line_of(m.span().start), m)).map(|(line, m)| (m.into_inner(), line));
        let entries =
            file.vcpu.into_iter().map(|e| (line_of(e.span().start), e)).map(|(line, e)| (e.into_inner(), line));
        let active = regulation.active_cores.unwrap_or(platform.cores);
        let vcpus = Vcpus::of(regulation.policy, settings, entries.collect(), &tasks, active)
            .map_err(|(line, m)| if line == 0 { whole(m) } else { on(line, m) })?;
        Ok(Self { path: path.to_owned(), platform, regulation, cores, tasks, ima, sce, mc2: isolation, vcpus })
    }

    /// The directory commands run in and relative paths start from.
    pub fn dir(&self) -> &Path {
        files::parent_dir(&self.path)
    }

    /// Number of cores that may access memory (`m` of the bounds).
    pub fn active_cores(&self) -> u32 {
        self.regulation.active_cores.unwrap_or(self.platform.cores)
    }
}

type Entries<T> = Vec<Spanned<T>>;

/// `[regulation]`, and `[mc2]` with its buffers. MC2 isolates by cache and banks; it regulates nothing.
fn isolation(
    regulation: Option<Spanned<Regulation>>,
    mc2: Option<Spanned<Mc2>>,
    ipc: Entries<Ipc>,
    io: Entries<Io>,
    line_of: impl Fn(usize) -> usize,
) -> Result<(Regulation, Option<Isolation>), (usize, String)> {
    let Some(mc2) = mc2 else {
        let buffers = ipc.iter().map(|e| ("ipc", e.span().start)).chain(io.iter().map(|e| ("io", e.span().start)));
        if let Some((what, start)) = buffers.min_by_key(|b| b.1) {
            return Err((
                line_of(start),
                format!("[[{what}]] is read under [mc2] only; add an [mc2] table, or remove it"),
            ));
        }
        return Ok((regulation.map_or_else(Regulation::default, Spanned::into_inner), None));
    };
    let line = line_of(mc2.span().start);
    let regulation = match regulation {
        None => Regulation { policy: Policy::None, ..Regulation::default() },
        Some(r) if r.get_ref().policy == Policy::None => r.into_inner(),
        Some(r) => {
            let message = "[regulation] has a policy, but [mc2] isolates by cache and banks and regulates nothing; set policy = \"none\", or remove one of the two";
            return Err((line_of(r.span().start), message.to_owned()));
        }
    };
    let lines = |start: usize| line_of(start);
    let isolation = Isolation {
        settings: mc2.into_inner(),
        line,
        ipc: ipc.into_iter().map(|e| (lines(e.span().start), e)).map(|(line, e)| (e.into_inner(), line)).collect(),
        io: io.into_iter().map(|e| (lines(e.span().start), e)).map(|(line, e)| (e.into_inner(), line)).collect(),
    };
    Ok((regulation, Some(isolation)))
}

/// The keys of a task that only `[mc2]` reads. Fills in `wcet` and `misses`: those with all ways.
fn check_shape(t: &mut TaskEntry, mc2: bool) -> Result<TaskShape, String> {
    let name = &t.name;
    let given = !t.wcet_by_ways.is_empty() || !t.misses_by_ways.is_empty() || t.average.is_some() || t.reload.is_some();
    if given && !mc2 {
        return Err(format!(
            "task `{name}`: wcet_by_ways, misses_by_ways, average and reload are read under [mc2] only; add an [mc2] table, or remove them"
        ));
    }
    if mc2 && t.curve.is_some() {
        return Err(format!(
            "task `{name}`: curve is by locked pages, and [mc2] locks none; give wcet_by_ways with misses_by_ways"
        ));
    }
    let (times, misses) = (std::mem::take(&mut t.wcet_by_ways), std::mem::take(&mut t.misses_by_ways));
    if !times.is_empty() || !misses.is_empty() {
        if t.wcet.is_some() || t.misses.is_some() {
            return Err(format!(
                "task `{name}`: give wcet with misses, or wcet_by_ways with misses_by_ways; remove one pair"
            ));
        }
        if times.len() != misses.len() {
            return Err(format!(
                "task `{name}`: wcet_by_ways has {} entries, misses_by_ways {}; give both for as many ways",
                times.len(),
                misses.len()
            ));
        }
        if times.windows(2).any(|w| w[1] > w[0])
            || misses.windows(2).any(|w| w[1] > w[0])
            || times.contains(&Time::default())
        {
            return Err(format!(
                "task `{name}`: wcet_by_ways and misses_by_ways must not grow with the ways, nor a time be 0; correct the numbers"
            ));
        }
        (t.wcet, t.misses) = (times.last().copied(), misses.last().copied());
    }
    let average = t.average.unwrap_or(1.0);
    if !(average > 0.0 && average <= 1.0) {
        return Err(format!(
            "task `{name}`: average = {average}; give the mean over the longest execution time, above 0 and at most 1"
        ));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    let average_millionths = (average * f64::from(TaskShape::WHOLE)).ceil() as u32;
    Ok(TaskShape { wcet_by_ways: times, misses_by_ways: misses, average_millionths, reload: t.reload })
}

/// What the I/O core's share follows from.
#[derive(Clone, Copy)]
struct Shares<'a> {
    regulation: &'a Regulation,
    platform: &'a Platform,
    cores: &'a [CoreEntry],
}

impl Shares<'_> {
    /// Cores for partitions, and the bandwidth of the I/O core: the last active core, where there are devices.
    fn of(&self, devices: bool) -> Result<(u32, Bandwidth), String> {
        let active = self.regulation.active_cores.unwrap_or(self.platform.cores);
        let even = Bandwidth(self.platform.guaranteed_bandwidth().0 / u64::from(active));
        if !devices {
            return Ok((active, even));
        }
        if active < 2 {
            return Err("there are [[device]]s, but only one core is active: the last one is the I/O core, which runs no partition; raise active_cores".to_owned());
        }
        let io = active - 1;
        let stated = self.cores.iter().find(|c| c.id == io).and_then(|c| c.bandwidth);
        match (self.regulation.share, stated) {
            (Share::Explicit, None) => Err(format!(
                "[regulation] share = \"explicit\", but core {io}, the I/O core, states no bandwidth; add [[core]] id = {io} with one"
            )),
            (Share::Explicit, Some(share)) => Ok((io, share)),
            (Share::Even, _) => Ok((io, even)),
        }
    }
}

/// The sections of partitions and devices, where there are any.
fn partitions(
    path: &Path,
    text: &str,
    sections: Sections,
    (sce, stated): (Sce, Option<usize>),
    shares: Shares<'_>,
) -> Result<Option<Instance>, (usize, String)> {
    if sections.partition.is_empty() {
        let first = sections.device.first().map(|d| (d.span().start, "[[device]]"));
        let others = [
            first,
            sections.dma.as_ref().map(|d| (d.span().start, "[dma]")),
            sections.margin.as_ref().map(|m| (m.span().start, "[margin]")),
            sections.base.as_ref().map(|b| (b.span().start, "base")),
            stated.map(|start| (start, "[sce]")),
        ];
        return match others.into_iter().flatten().next() {
            None => Ok(None),
            Some((start, what)) => {
                Err((start, format!("{what} is for systems with partitions; add a [[partition]], or remove it")))
            }
        };
    }
    let start = sections.partition[0].span().start;
    if sce.slack > 1000 {
        return Err((stated.unwrap_or(0), format!("[sce] slack = {} percent; give 0 to 1000", sce.slack)));
    }
    if shares.regulation.policy == Policy::Dynamic {
        return Err((
            start,
            "partitions cannot be planned for with [regulation] policy = \"dynamic\"; use \"memguard\"".to_owned(),
        ));
    }
    let (cores, share) = shares.of(!sections.device.is_empty()).map_err(|m| (start, m))?;
    Instance::of_system(path, text, sections, cores, share).map(Some)
}

/// The partition that a task names.
fn partition_of(t: &TaskEntry, ima: Option<&Instance>) -> Result<Option<usize>, String> {
    let name = &t.name;
    let (known, wanted) = match (ima, &t.partition) {
        (None, None) => return Ok(None),
        (None, Some(p)) => {
            return Err(format!(
                "task `{name}` is of partition `{p}`, but there is no [[partition]]; add it, or remove the key"
            ));
        }
        (Some(_), None) => {
            return Err(format!(
                "task `{name}` names no partition; add partition = \"...\" (in a system with partitions every task has one)"
            ));
        }
        (Some(ima), Some(p)) => (&ima.partitions, p),
    };
    let found = known.iter().position(|p| &p.name == wanted);
    let found = found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        format!("task `{name}`: no partition is called `{wanted}`; there are {}", names.join(", "))
    })?;
    if t.core.is_some() {
        return Err(format!(
            "task `{name}` states a core, but runs where its partition does; state the core of `{wanted}`"
        ));
    }
    Ok(Some(found))
}

/// Where the planner is to choose a duration, there must be something to choose it for.
fn check_windows(ima: &Instance, tasks: &[Task]) -> Result<(), String> {
    for (at, p) in ima.partitions.iter().enumerate() {
        let analysed = tasks.iter().any(|t| t.partition == Some(at) && t.criticality != Criticality::D);
        if p.duration_ns == 0 && !analysed {
            return Err(format!(
                "partition `{}` (line {}) has no duration, and no task of level A to C to find one for; add duration",
                p.name, p.line
            ));
        }
    }
    Ok(())
}

fn check_regulation(regulation: &Regulation, platform: &Platform) -> Result<(), String> {
    if regulation.policy == Policy::Maracas && regulation.share == Share::Explicit {
        return Err("[regulation] share = \"explicit\" is for budgets per core, which policy = \"maracas\" has none of; remove it, and give [[vcpu]]s".to_owned());
    }
    if regulation.policy == Policy::Bwlock && regulation.share == Share::Explicit {
        return Err("[regulation] share = \"explicit\" is for budgets per core, which policy = \"bwlock\" has none of; remove it, and give lock_bandwidth".to_owned());
    }
    if regulation.lock_bandwidth.is_some() && regulation.policy != Policy::Bwlock {
        return Err("[regulation] lock_bandwidth needs policy = \"bwlock\"; set that, or remove it".to_owned());
    }
    if regulation.policy == Policy::Dynamic && regulation.share == Share::Explicit {
        return Err("[regulation] share = \"explicit\" is for budgets per core, which policy = \"dynamic\" has none of; remove it".to_owned());
    }
    if regulation.objective != Objective::default() && regulation.policy != Policy::Dynamic {
        return Err("[regulation] objective needs policy = \"dynamic\"; remove it".to_owned());
    }
    if regulation.model == Some(Model::Sound) && regulation.carry_in == Some(false) {
        return Err(
            "[regulation] carry_in = false is eq. (1) alone, which model = \"sound\" is not; remove one of the two"
                .to_owned(),
        );
    }
    if !regulation.period.ps().is_multiple_of(1000) {
        return Err(format!(
            "[regulation] period = {} is not a whole number of nanoseconds; 1 ms is usual",
            regulation.period
        ));
    }
    if regulation.period.ps() < platform.dram.latency_max.ps() {
        return Err(format!(
            "[regulation] period = {} is shorter than one memory access ({}); 1 ms is usual",
            regulation.period, platform.dram.latency_max
        ));
    }
    if regulation.period.ps() > 1_000_000_000_000 {
        return Err(format!("[regulation] period = {} is above one second; 1 ms is usual", regulation.period));
    }
    match regulation.active_cores {
        Some(n) if n == 0 || n > platform.cores => {
            Err(format!("[regulation] active_cores = {n}, but {} has {} cores", platform.name, platform.cores))
        }
        _ => Ok(()),
    }
}

fn check_core(
    core: &CoreEntry,
    seen: &[CoreEntry],
    regulation: &Regulation,
    platform: &Platform,
) -> Result<(), String> {
    let active = regulation.active_cores.unwrap_or(platform.cores);
    if core.id >= active {
        return Err(format!("core {} is out of range: {} has cores 0 to {}", core.id, platform.name, active - 1));
    }
    if seen.iter().any(|c| c.id == core.id) {
        return Err(format!("core {} is described twice; merge the two tables", core.id));
    }
    if core.bandwidth.is_some() && regulation.share != Share::Explicit {
        return Err(format!("core {} states a bandwidth, which needs [regulation] share = \"explicit\"", core.id));
    }
    if core.bandwidth.is_some_and(|b| b.0 == 0) {
        return Err(format!("core {} has bandwidth zero, so nothing could run there; give it some", core.id));
    }
    Ok(())
}

fn check_task(
    mut t: TaskEntry,
    line: usize,
    regulation: &Regulation,
    platform: &Platform,
    mc2: bool,
) -> Result<Task, String> {
    let shape = check_shape(&mut t, mc2)?;
    let name = &t.name;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("a task needs a name without control characters".to_owned());
    }
    let active = regulation.active_cores.unwrap_or(platform.cores);
    if let Some(core) = t.core.filter(|&c| c >= active) {
        return Err(format!(
            "task `{name}`: core {core} is out of range; {} has cores 0 to {}",
            platform.name,
            active - 1
        ));
    }
    if t.period.is_none() && t.criticality != Criticality::D {
        return Err(format!("task `{name}` has no period; add period = \"100 ms\" (only level D may go without)"));
    }
    if t.period.is_none() && t.deadline.is_some() {
        return Err(format!("task `{name}` has a deadline but no period; add the period"));
    }
    if t.priority == Some(0) {
        return Err(format!("task `{name}`: priority 0 does not exist; 1 is the highest"));
    }
    if t.soft_budget.is_some() && regulation.policy != Policy::Dynamic {
        return Err(format!(
            "task `{name}`: soft_budget needs [regulation] policy = \"dynamic\"; set that, or remove it"
        ));
    }
    let soft_budget = match &t.soft_budget {
        Some(_) if t.criticality == Criticality::D => {
            return Err(format!("task `{name}` is best effort, which limits nobody; remove its soft_budget"));
        }
        Some(SoftBudget::Accesses(n)) if (1..1 << 32).contains(n) => Some(*n),
        Some(SoftBudget::Accesses(n)) => {
            return Err(format!(
                "task `{name}`: soft_budget = {n} is not 1 to 4294967295; give so many accesses, or \"max\""
            ));
        }
        Some(SoftBudget::Named(word)) if word != "max" => {
            return Err(format!("task `{name}`: soft_budget = \"{word}\"; give a number of accesses, or \"max\""));
        }
        Some(SoftBudget::Named(_)) | None => None,
    };
    let beyond = t.criticality != Criticality::D && t.deadline.zip(t.period).is_some_and(|(d, p)| d > p);
    if regulation.policy == Policy::Dynamic && beyond {
        return Err(format!(
            "task `{name}` has a deadline beyond its period, which policy = \"dynamic\" does not cover; lower it"
        ));
    }
    let limit = Time::from_ns(24 * 3600 * 1_000_000_000);
    if [t.period, t.deadline, t.wcet].into_iter().flatten().any(|v| v > limit) {
        return Err(format!("task `{name}`: a period, deadline or wcet above 24 hours is surely a slip of the unit"));
    }
    if let Some(points) = &t.curve {
        check_curve(name, points, &t)?;
    }
    let demand = match (t.wcet, t.misses, t.command, t.profile) {
        (None, None, None, None) if t.curve.is_some() => Demand::Curve(t.curve.unwrap_or_default()),
        (Some(wcet), Some(misses), _, None) => Demand::Given { wcet, misses },
        (Some(_), None, _, _) => {
            return Err(format!(
                "task `{name}` gives wcet without misses; add misses = N, the DRAM accesses of one job"
            ));
        }
        (None, Some(_), _, _) => return Err(format!("task `{name}` gives misses without wcet; add wcet = \"10 ms\"")),
        (Some(_), Some(_), _, Some(_)) | (None, None, Some(_), Some(_)) => {
            return Err(format!("task `{name}`: give one of profile, command, or wcet with misses"));
        }
        (None, None, None, Some(path)) => Demand::Profile(path),
        (None, None, Some(command), None) => {
            if command.first().is_none_or(String::is_empty) {
                return Err(format!("task `{name}`: command is empty; write command = [\"./program\", \"argument\"]"));
            }
            Demand::Command(command)
        }
        (None, None, None, None) => {
            return Err(format!("task `{name}` has neither command nor wcet and misses; add one of them"));
        }
    };
    let widest = match &demand {
        Demand::Given { wcet, .. } => Some(*wcet),
        Demand::Curve(points) => points.last().map(|p| p.wcet),
        _ => None,
    };
    if let (Some(wcet), Some(period)) = (widest, t.period)
        && wcet > period
    {
        return Err(format!("task `{name}` is wider than its period: wcet {wcet} > period {period}"));
    }
    Ok(Task {
        deadline: t.deadline.or(t.period),
        core: t.core,
        period: t.period,
        criticality: t.criticality,
        priority: t.priority,
        soft_budget,
        partition: None,
        shape,
        name: t.name,
        demand,
        line,
    })
}

/// A curve never rises.
fn check_curve(name: &str, points: &[CurvePoint], t: &TaskEntry) -> Result<(), String> {
    if t.wcet.is_some() || t.misses.is_some() || t.command.is_some() || t.profile.is_some() {
        return Err(format!("task `{name}`: give curve alone; it states wcet and misses for 0, 1, 2... locked pages"));
    }
    if points.is_empty() || points.len() > 1 << 20 {
        return Err(format!(
            "task `{name}`: curve has {} points; give one for each number of locked pages, from 0 on",
            points.len()
        ));
    }
    let rises = points.windows(2).position(|p| p[1].wcet > p[0].wcet || p[1].misses > p[0].misses);
    if let Some(at) = rises {
        return Err(format!(
            "task `{name}`: curve rises from {at} to {} locked pages; a page more never costs; correct the point",
            at + 1
        ));
    }
    if points[0].wcet > Time::from_ns(24 * 3600 * 1_000_000_000) {
        return Err(format!("task `{name}`: a wcet above 24 hours is surely a slip of the unit; correct it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
platform = "p4080"
[[task]]
name = "a"
core = 0
period = "100 ms"
wcet = "10 ms"
misses = 100
"#;

    fn error_of(text: &str) -> String {
        System::parse(Path::new("s.toml"), text).expect_err("was accepted").to_string()
    }

    #[test]
    fn defaults_are_the_interfaces() {
        let s = System::parse(Path::new("s.toml"), GOOD).unwrap();
        assert!(s.regulation.carries_in());
        assert_eq!(s.regulation.period, Time::from_ns(1_000_000));
        assert_eq!(s.tasks[0].deadline, s.tasks[0].period);
        assert_eq!(s.active_cores(), 8);
    }

    #[test]
    fn bad_input_names_line_and_remedy() {
        for (from, to, expect) in [
            ("\"100 ms\"", "100", "s.toml:6:10: invalid type: integer `100`, expected a time with its unit"),
            ("\"100 ms\"", "\"0 ms\"", "s.toml:6:10: a period"),
            ("\"100 ms\"", "\"-5 ms\"", "negative"),
            ("\"100 ms\"", "\"5 ms\"", "s.toml:3: task `a` is wider than its period: wcet 10 ms > period 5 ms"),
            ("core = 0", "core = 8", "cores 0 to 7"),
            ("core = 0", "core = -1", "s.toml:5:8"),
            ("core = 0", "cor = 0", "unknown field `cor`"),
            ("\"p4080\"", "\"p4081\"", "no preset is called `p4081`"),
            ("misses = 100", "", "wcet without misses"),
            (
                "misses = 100",
                "misses = 100\n[[task]]\nname = \"a\"\nperiod=\"1 s\"\nwcet=\"1 ms\"\nmisses=1",
                "defined twice",
            ),
            ("misses = 100", "misses = 100\n[[core]]\nid = 9", "core 9 is out of range"),
            ("misses = 100", "misses = 100\n[[core]]\nid = 0\nbandwidth=\"1 MB/s\"", "share = \"explicit\""),
            ("name = \"a\"", "name = \"a", "s.toml:4"),
        ] {
            let error = error_of(&GOOD.replacen(from, to, 1));
            assert!(error.contains(expect), "{error}\nlacks {expect}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
