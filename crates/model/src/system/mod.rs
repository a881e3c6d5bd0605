//! `system.toml`: the board, the regulation of memory traffic, and the tasks.

mod core_entry;
mod file;
mod program;
pub(crate) mod regulation;
mod spare;
pub(crate) mod task;
pub mod text;
mod thousandths;
mod windows_settings;

pub use core_entry::{CoreEntry, stated_ways};
pub(crate) use file::schema;
pub use program::{Job, TaskProgram};
pub use regulation::{Holders, Model, Objective, Pages, Policy, Regulation, Share, Sharing};
pub use task::{Criticality, CurvePoint, Demand, SoftBudget, SystemTask};
pub use windows_settings::WindowsSettings;

use crate::error::ModelError;
use crate::files;
use crate::kind::Kind;
use crate::levels::{Io, Ipc, Isolation, LevelsSettings};
use crate::missing;
use crate::platform::Platform;
use crate::provenance::{InputRole, PlanInput};
use crate::units::Bandwidth;
use crate::vcpus::Vcpus;
use crate::windows::{Sections, WindowsInput};
use core_entry::{check_core, check_stated};
use file::SystemFile;
use regulation::{check_placing, check_regulation};
use spare::{check_spare, check_spare_used};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use task::{check_task, partition_of};
use toml::Spanned;

/// A checked `system.toml`.
#[derive(Clone, Debug)]
pub struct System {
    /// Path of the file.
    pub path: PathBuf,
    /// The file, if its path was read, and the platform file that it names.
    pub inputs: Vec<PlanInput>,
    /// The board.
    pub platform: Platform,
    /// `[regulation]`.
    pub regulation: Regulation,
    /// `[[core]]` tables.
    pub cores: Vec<CoreEntry>,
    /// `[[task]]` tables in file order.
    pub tasks: Vec<SystemTask>,
    /// `[sce]`.
    pub windows_settings: WindowsSettings,
    /// The scheme of the system.
    pub scheme: Scheme,
}

/// The scheme that the file asks for; a plan's is [`crate::plan::Scheme`].
#[derive(Clone, Debug)]
pub enum Scheme {
    /// Fixed priorities on each core.
    Budgets,
    /// `[[partition]]`, `[[device]]`, `[dma]` and `[margin]`.
    Windows(Box<WindowsInput>),
    /// `[levels]` with its buffers: criticality levels on isolated hardware.
    Levels(Box<Isolation>),
    /// `[maracas]` and `[[vcpu]]`.
    Vcpus(Box<Vcpus>),
}

impl System {
    /// The core that a task never leaves, where the file states it. Under the other schemes a
    /// partition, a level or a VCPU decides where a task runs.
    pub fn pinned(&self, task: &SystemTask) -> Option<u32> {
        task.core.filter(|_| matches!(self.scheme, Scheme::Budgets))
    }

    /// Reads and checks a system file.
    ///
    /// # Errors
    /// One line with file, line, fault and remedy.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let text = files::read_text(path)?;
        let mut system = Self::parse(path, &text)?;
        let own = PlanInput::of(InputRole::System, path.to_string_lossy(), &text);
        system.inputs.insert(0, own);
        Ok(system)
    }

    /// Parses and checks the text of a system file; `path` names it and anchors relative paths.
    ///
    /// # Errors
    /// As [`System::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        Self::read(path, text, |name| {
            Platform::find_with_text(name, files::parent_dir(path)).map_err(|e| match e {
                ModelError::Invalid { message, line: None, path: p }
                    if p == Path::new("platform") =>
                {
                    ModelError::Invalid { path: path.to_owned(), line: None, message }
                }
                other => other,
            })
        })
    }

    /// The same for a file that names `platform`, which need not exist as a file yet.
    ///
    /// # Errors
    /// As [`System::load`].
    pub fn parse_for(path: &Path, text: &str, platform: &Platform) -> Result<Self, ModelError> {
        Self::read(path, text, |_| Ok((platform.clone(), None)))
    }

    fn read(
        path: &Path,
        text: &str,
        find: impl FnOnce(&str) -> Result<(Platform, Option<String>), ModelError>,
    ) -> Result<Self, ModelError> {
        let whole =
            |message: String| ModelError::Invalid { path: path.to_owned(), line: None, message };
        // Before the file is parsed, as parsing alone takes a while then.
        let heads = text.lines().filter(|line| line.trim_start().starts_with("[[task]]")).count();
        check_number(heads, LARGEST).map_err(whole)?;
        let file: SystemFile = missing::parsed(path, text, Kind::System)?;
        let (mut platform, of_platform) = find(&file.platform)?;
        let of_platform =
            of_platform.map(|text| PlanInput::of(InputRole::Platform, &file.platform, &text));
        let at =
            |offset: usize, message: String| ModelError::invalid_at(path, text, offset, message);
        check_number(file.task.len(), largest_of(&file)).map_err(whole)?;
        let on = |line: usize, message: String| ModelError::Invalid {
            path: path.to_owned(),
            line: Some(line),
            message,
        };
        // Counted once: a file may have as many tasks as lines.
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let line_of = |start: usize| ends.partition_point(|&end| end < start) + 1;
        let (mut regulation, isolation) =
            isolation(file.regulation, file.levels, file.ipc, file.io, line_of)
                .map_err(|(line, m)| on(line, m))?;
        regulation.settle_share(
            !file.core.is_empty() || !file.partition.is_empty() || file.task.len() > MOST_TASKS,
        );

        if regulation.model() == Model::Sce {
            // The papers' figures, where the platform has them beside the sound ones.
            platform.dram.latency_max = platform.latency_of_paper();
        }
        check_regulation(&regulation, &platform).map_err(whole)?;
        check_spare(&regulation).map_err(whole)?;
        let mut cores: Vec<CoreEntry> = Vec::new();
        for entry in &file.core {
            let core = entry.get_ref();
            check_core(core, &cores, &regulation, &platform)
                .map_err(|m| at(entry.span().start, m))?;
            cores.push(core.clone());
        }
        check_stated(&regulation, &cores).map_err(whole)?;
        if file.task.is_empty() {
            return Err(whole(
                "there is no [[task]]; add at least one with name, period and command (or wcet and \
                    misses)".to_owned(),
            ));
        }
        let windows_settings =
            file.sce.as_ref().map_or_else(WindowsSettings::default, |s| *s.get_ref());
        let stated = file.sce.map(|s| s.span().start);
        let sections = Sections {
            base: file.base,
            dma: file.dma,
            margin: file.margin,
            device: file.device,
            partition: file.partition,
        };
        let shares = Shares { regulation: &regulation, platform: &platform, cores: &cores };
        let windows = partitions(path, text, sections, (windows_settings, stated), shares)
            .map_err(|(start, m)| at(start, m))?;
        let mut tasks: Vec<SystemTask> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        for entry in file.task {
            let start = entry.span().start;
            let entry = entry.into_inner();
            let partition = partition_of(&entry, windows.as_ref()).map_err(|m| at(start, m))?;
            let task =
                check_task(entry, line_of(start), &regulation, &platform, isolation.is_some())
                    .map_err(|m| at(start, m))?;
            let task = SystemTask { partition, ..task };
            if let Some(first) = lines.insert(task.name.clone(), task.line) {
                return Err(at(
                    start,
                    format!(
                        "task `{}` is defined twice (first on line {first}); rename one",
                        task.name
                    ),
                ));
            }
            tasks.push(task);
        }
        let with_priority =
            |t: &&SystemTask| t.criticality != Criticality::D && t.priority.is_some();
        let without =
            tasks.iter().find(|t| t.criticality != Criticality::D && t.priority.is_none());
        if let (Some(a), Some(b)) = (tasks.iter().find(with_priority), without) {
            return Err(whole(format!(
                "task `{}` (line {}) has a priority and `{}` (line {}) has none; give one to every \
                    task of level A to C, or to none",
                a.name, a.line, b.name, b.line
            )));
        }
        if let Some(windows) = &windows {
            windows_settings::check_windows(windows, &tasks).map_err(whole)?;
            if regulation.share() == Share::Optimal {
                return Err(whole(
                    "[[partition]]s have even or stated shares; remove share = \"optimal\" of \
                        [regulation]"
                        .to_owned(),
                ));
            }
        }
        if let Some(isolation) = &isolation {
            if windows.is_some() {
                return Err(on(
                    isolation.line,
                    "a system has either [levels] or [[partition]] tables, not both; remove one of \
                        the two"
                        .to_owned(),
                ));
            }
            let cores = regulation.active_cores.unwrap_or(platform.cores);
            isolation.check(&platform, cores, &tasks).map_err(|(line, m)| on(line, m))?;
        }
        if let Some(p) = windows
            .as_ref()
            .filter(|_| regulation.policy == Policy::Maracas)
            .and_then(|i| i.partitions.first())
        {
            return Err(on(
                p.line,
                "a system has either [[partition]] tables or policy = \"maracas\", not both; \
                    remove one of the two"
                    .to_owned(),
            ));
        }
        let settings = file
            .maracas
            .map(|m| (line_of(m.span().start), m))
            .map(|(line, m)| (m.into_inner(), line));
        let entries = file
            .vcpu
            .into_iter()
            .map(|e| (line_of(e.span().start), e))
            .map(|(line, e)| (e.into_inner(), line));
        let active = regulation.active_cores.unwrap_or(platform.cores);
        let by_colour = platform.llc.partition == crate::platform::Partition::Colour
            && regulation.pages.is_own();
        let colours = if by_colour { platform.colours() } else { 1 };
        let board = (active, colours);
        let vcpus = Vcpus::of(regulation.policy, settings, entries.collect(), &tasks, board)
            .map_err(|(line, m)| if line == 0 { whole(m) } else { on(line, m) })?;
        check_placing(&regulation, windows.is_some() || isolation.is_some()).map_err(whole)?;
        let schemes = windows.is_some() || isolation.is_some() || vcpus.is_some();
        if let Some(core) = cores.iter().find(|c| c.ways.is_some() && schemes) {
            return Err(whole(format!(
                "core {} states ways, which is for plans without [[partition]]s, [levels] and \
                    [[vcpu]]s; remove it",
                core.id
            )));
        }
        let best_effort = tasks.iter().any(|task| task.criticality == Criticality::D);
        check_spare_used(&regulation, best_effort).map_err(whole)?;
        let scheme = match (windows, isolation, vcpus) {
            (Some(windows), _, _) => Scheme::Windows(Box::new(windows)),
            (_, Some(isolation), _) => Scheme::Levels(Box::new(isolation)),
            (_, _, Some(vcpus)) => Scheme::Vcpus(Box::new(vcpus)),
            (None, None, None) => Scheme::Budgets,
        };
        let inputs = of_platform.into_iter().collect();
        Ok(Self {
            path: path.to_owned(),
            inputs,
            platform,
            regulation,
            cores,
            tasks,
            windows_settings,
            scheme,
        })
    }

    /// The directory in which commands run, and from which relative paths start.
    pub fn dir(&self) -> &Path {
        files::parent_dir(&self.path)
    }

    /// Partitions with their windows and I/O, in a system of windows.
    #[must_use]
    pub fn windows(&self) -> Option<&WindowsInput> {
        if let Scheme::Windows(instance) = &self.scheme { Some(instance) } else { None }
    }

    /// Levels on isolated hardware, in a system of levels.
    #[must_use]
    pub fn levels(&self) -> Option<&Isolation> {
        if let Scheme::Levels(isolation) = &self.scheme { Some(isolation) } else { None }
    }

    /// VCPUs, in a system of VCPUs.
    #[must_use]
    pub fn vcpus(&self) -> Option<&Vcpus> {
        if let Scheme::Vcpus(vcpus) = &self.scheme { Some(vcpus) } else { None }
    }

    /// Number of cores that may access memory (`m` of the bounds).
    pub fn active_cores(&self) -> u32 {
        self.regulation.active_cores.unwrap_or(self.platform.cores)
    }
}

/// Most tasks of a system: a plan takes some 3 kB of memory for each.
pub const LARGEST: usize = 1_000_000;
/// The same with partitions, levels, VCPUs, optimal shares, or budgets that follow the running
/// task: the cost of their plans grows faster.
const LARGEST_OF_OTHERS: usize = 100_000;

fn largest_of(file: &SystemFile) -> usize {
    let faster = |r: &Regulation| {
        matches!(r.policy, Policy::Dynamic | Policy::Maracas | Policy::Any)
            || r.share == Some(Share::Optimal)
    };
    let regulation = file.regulation.as_ref().map(Spanned::get_ref);
    if !file.partition.is_empty() || file.levels.is_some() || regulation.is_some_and(faster) {
        LARGEST_OF_OTHERS
    } else {
        LARGEST
    }
}

fn check_number(tasks: usize, largest: usize) -> Result<(), String> {
    if tasks <= largest {
        return Ok(());
    }
    Err(format!(
        "{tasks} [[task]]s are more than the {largest} that one plan holds; join tasks with equal \
        periods, or plan parts of the machine separately"
    ))
}

/// Most tasks for which shares are chosen where the file does not state the rule.
const MOST_TASKS: usize = 64;

type Entries<T> = Vec<Spanned<T>>;

/// `[regulation]`, and `[levels]` with its buffers. MC2 isolates by cache and banks; it regulates
/// nothing.
fn isolation(
    regulation: Option<Spanned<Regulation>>,
    levels: Option<Spanned<LevelsSettings>>,
    ipc: Entries<Ipc>,
    io: Entries<Io>,
    line_of: impl Fn(usize) -> usize,
) -> Result<(Regulation, Option<Isolation>), (usize, String)> {
    let Some(levels) = levels else {
        let buffers = ipc
            .iter()
            .map(|e| ("ipc", e.span().start))
            .chain(io.iter().map(|e| ("io", e.span().start)));
        if let Some((what, start)) = buffers.min_by_key(|b| b.1) {
            return Err((
                line_of(start),
                format!(
                    "[[{what}]] is read only under [levels]; add a [levels] table, or remove it"
                ),
            ));
        }
        return Ok((regulation.map_or_else(Regulation::default, Spanned::into_inner), None));
    };
    let line = line_of(levels.span().start);
    let regulation = match regulation {
        None => Regulation { policy: Policy::None, ..Regulation::default() },
        Some(r) if r.get_ref().policy == Policy::None => r.into_inner(),
        Some(r) => {
            let message = "[regulation] has a policy, but [levels] isolates by cache and banks and \
                regulates nothing; set policy = \"none\", or remove one of the two";
            return Err((line_of(r.span().start), message.to_owned()));
        }
    };
    let lines = |start: usize| line_of(start);
    let isolation = Isolation {
        settings: levels.into_inner(),
        line,
        ipc: ipc
            .into_iter()
            .map(|e| (lines(e.span().start), e))
            .map(|(line, e)| (e.into_inner(), line))
            .collect(),
        io: io
            .into_iter()
            .map(|e| (lines(e.span().start), e))
            .map(|(line, e)| (e.into_inner(), line))
            .collect(),
    };
    Ok((regulation, Some(isolation)))
}

/// Input for the I/O core's share.
#[derive(Clone, Copy)]
struct Shares<'a> {
    regulation: &'a Regulation,
    platform: &'a Platform,
    cores: &'a [CoreEntry],
}

impl Shares<'_> {
    /// Cores for partitions, and the bandwidth of the I/O core: the last active core, where there
    /// are devices.
    fn of(&self, devices: bool) -> Result<(u32, Bandwidth), String> {
        let active = self.regulation.active_cores.unwrap_or(self.platform.cores);
        let even = Bandwidth(self.platform.guaranteed_bandwidth().0 / u64::from(active));
        if !devices {
            return Ok((active, even));
        }
        if active < 2 {
            let remedy = match self.platform.cores {
                0 | 1 => "remove them, or name a platform with more cores",
                _ => "raise active_cores",
            };
            return Err(format!(
                "there are [[device]]s, but only one core is active: the last one is the I/O \
                    core, which runs no partition; {remedy}"
            ));
        }
        let io = active - 1;
        let stated = self.cores.iter().find(|c| c.id == io).and_then(|c| c.bandwidth);
        match (self.regulation.share(), stated) {
            (Share::Explicit, None) => Err(format!(
                "[regulation] share = \"explicit\", but core {io}, the I/O core, states no \
                    bandwidth; add [[core]] id = {io} with one"
            )),
            (Share::Explicit, Some(share)) if share.0 > even.0 => Err(format!(
                "core {io}, the I/O core, states {share}, but each line of a device may wait for \
                    one of every other core, so that at most {even} can be promised; state that or \
                    less"
            )),
            (Share::Explicit, Some(share)) => Ok((io, share)),
            (Share::Even | Share::Optimal, _) => Ok((io, even)),
        }
    }
}

/// The sections of partitions and devices, where there are any.
fn partitions(
    path: &Path,
    text: &str,
    sections: Sections,
    (windows_settings, stated): (WindowsSettings, Option<usize>),
    shares: Shares<'_>,
) -> Result<Option<WindowsInput>, (usize, String)> {
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
            Some((start, what)) => Err((
                start,
                format!("{what} is for systems with partitions; add a [[partition]], or remove it"),
            )),
        };
    }
    let start = sections.partition[0].span().start;
    if windows_settings.slack > 1000 {
        return Err((
            stated.unwrap_or(0),
            format!("[sce] slack = {} percent; give 0 to 1000", windows_settings.slack),
        ));
    }
    if shares.regulation.policy == Policy::Dynamic {
        return Err((
            start,
            "partitions cannot be planned for with [regulation] policy = \"dynamic\"; use \
                \"memguard\""
                .to_owned(),
        ));
    }
    let (cores, share) = shares.of(!sections.device.is_empty()).map_err(|m| (start, m))?;
    WindowsInput::of_system(path, text, sections, cores, share).map(Some)
}

#[cfg(test)]
mod tests;
