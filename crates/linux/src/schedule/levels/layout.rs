//! A plan's tasks, levels, budgets and tables, in the form for the scheduler.
//!
//! Problem: a scheduler keeps every table that it gets, so a table that does not fit must be
//! refused before anything changes. Rules:
//! * level A (mc2-os-isolation, section 2). The periods of a core divide each other and the table's
//!   frame. The first slot starts at 0, slots do not overlap, and each job of a task has slots of
//!   its PET at least within its period;
//! * levels A and B of a core, with their PETs, take at most the core, and with level C all cores
//!   at most;
//! * windows and transfers of a table (single-core-equivalence, section 2.4) do not overlap on a
//!   core; each core's major frame is the least common multiple of its periods.
//! * A thread that waits for its release looks to the kernel like one that its scheduler has
//!   forgotten, after 30 s: longer periods are refused.
//!
//! Does not cover: deadlines. The plan's `schedulable` says whether they are met.

use super::shared::{MOST_PARTITIONS, MOST_TASKS, WINDOW};
use crate::error::LinuxError;
use solocore_analysis::uniprocessor::edf::gcd;
use solocore_model::Plan;
use solocore_model::plan::PlanTask;
use solocore_model::plan::levels::LevelsTable;
use solocore_model::system::Criticality;
use solocore_model::windows::table::Row;
use std::collections::BTreeMap;

/// Longest time between two releases: less than the kernel's patience with a scheduler.
const LONGEST_PERIOD_NS: u64 = 20_000_000_000;

/// The way in which a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By the table of its core.
    A,
    /// Rate monotonic on its core.
    B,
    /// Earliest deadline first on all cores.
    C,
    /// Best effort on its core.
    D,
    /// In the windows of a partition, or in the slots of a transfer.
    Window {
        /// Index of the partition or transfer in [`Layout::partitions`].
        partition: u32,
    },
}

impl Level {
    /// Name for people and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::Window { .. } => "window",
        }
    }

    /// Number of the level in programs and traces.
    pub fn number(self) -> u64 {
        match self {
            Self::A => 0,
            Self::B => 1,
            Self::C => 2,
            Self::D => 3,
            Self::Window { .. } => WINDOW,
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutTask {
    /// Name in the plan, or in the table.
    pub name: String,
    /// Level or window of the task.
    pub level: Level,
    /// Core of the task; at level C the core with the timer of its releases.
    pub core: u32,
    /// Time between releases; 0: no releases, it may run at any time.
    pub period_ns: u64,
    /// Execution time of a job at its level; 0: no limit.
    pub pet_ns: u64,
    /// First release, after the origin.
    pub first_ns: u64,
    /// Order within a partition; the lowest rank runs first.
    pub rank: u32,
}

/// The table of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Number of the core.
    pub core: u32,
    /// Length of the table, after which it repeats.
    pub frame_ns: u64,
    /// Start and end of each slot, and its task or partition; in order.
    pub slots: Vec<(u64, u64, u32)>,
}

/// The layout of a plan's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Cores of the plan.
    pub cores: u32,
    /// The plan's tasks in its order, then transfers of the I/O core.
    pub tasks: Vec<LayoutTask>,
    /// Tables of the cores that have one.
    pub tables: Vec<Table>,
    /// Names of partitions, then of transfers; empty under levels.
    pub partitions: Vec<String>,
}

fn wrong<T>(what: String) -> Result<T, LinuxError> {
    Err(LinuxError::Input(what))
}

fn ms(ns: u64) -> String {
    format!("{} ms", ns as f64 / 1e6)
}

impl Layout {
    /// The layout of a plan with levels or partitions.
    ///
    /// # Errors
    /// [`LinuxError::Input`]: a part of the plan does not fit; the message has the numbers.
    pub fn of(plan: &Plan) -> Result<Self, LinuxError> {
        let layout = if plan.levels().is_some() {
            levels(plan)?
        } else if let Some(windows) = plan.windows().filter(|s| !s.table.is_empty()) {
            partitions(plan, &windows.table)?
        } else {
            return wrong(
                "the plan has neither criticality levels ([levels]) nor a time table of partitions; \
                    run it with --scheduler none"
                    .to_owned(),
            );
        };
        if let Some(t) = layout.tasks.iter().find(|t| t.period_ns > LONGEST_PERIOD_NS) {
            let instead = if plan.levels().is_some() {
                "shorten the period in the system file and plan again"
            } else {
                "run the plan with --scheduler none"
            };
            return wrong(format!(
                "task `{}` has a period of {}, and the kernel lets a scheduler hold a thread back \
                    for at most {}; {instead}",
                t.name,
                ms(t.period_ns),
                ms(LONGEST_PERIOD_NS)
            ));
        }
        let slots = layout.tables.iter().map(|t| t.slots.len()).max().unwrap_or(0);
        if layout.tasks.len() > MOST_TASKS
            || slots > MOST_TASKS
            || layout.partitions.len() > MOST_PARTITIONS
        {
            return wrong(format!(
                "the plan has {} tasks, {slots} slots in a table and {} partitions and transfers; \
                    there is room for {MOST_TASKS}, {MOST_TASKS} and {MOST_PARTITIONS}: make \
                    frames shorter or split it",
                layout.tasks.len(),
                layout.partitions.len()
            ));
        }
        Ok(layout)
    }

    /// Whether the tasks run in windows of partitions.
    pub fn windows(&self) -> bool {
        !self.partitions.is_empty()
    }
}

fn levels(plan: &Plan) -> Result<Layout, LinuxError> {
    let Some(levels) = plan.levels() else {
        return wrong("the plan has no levels; plan a system with [levels]".to_owned());
    };
    let mut tasks = Vec::new();
    for t in &plan.tasks {
        let pets = levels.pets_of(&t.name);
        let (level, pet) = match (t.criticality, pets) {
            (Criticality::A, Some(p)) => (Level::A, p.a_ns),
            (Criticality::B, Some(p)) => (Level::B, p.b_ns),
            (Criticality::C, Some(p)) => (Level::C, p.c_ns),
            _ => (Level::D, 0),
        };
        let period_ns = if level == Level::D { 0 } else { t.period_ns.unwrap_or(0) };
        if level != Level::D && (pet == 0 || pet > period_ns) {
            return wrong(format!(
                "task `{}` has a provisioned execution time of {} in a period of {}; it must be \
                above 0 and at most the period",
                t.name,
                ms(pet),
                ms(period_ns)
            ));
        }
        let task = LayoutTask {
            name: t.name.clone(),
            level,
            core: t.core,
            period_ns,
            pet_ns: pet,
            first_ns: 0,
            rank: 0,
        };
        tasks.push(task);
    }
    let cores = u32::try_from(plan.cores.len()).unwrap_or(u32::MAX);
    fits(&tasks, cores)?;
    let mut tables = Vec::new();
    for core in 0..cores {
        let table = levels.tables.iter().find(|t| t.core == core);
        tables.extend(level_a(&tasks, core, table)?);
    }
    Ok(Layout { cores, tasks, tables, partitions: Vec::new() })
}

/// Checks the utilization of levels A and B on each core, and of level C on all.
fn fits(tasks: &[LayoutTask], cores: u32) -> Result<(), LinuxError> {
    let used = |of: &dyn Fn(&LayoutTask) -> bool| {
        tasks
            .iter()
            .filter(|t| t.period_ns > 0 && of(t))
            .map(|t| t.pet_ns as f64 / t.period_ns as f64)
            .sum::<f64>()
    };
    // The largest error of a rounded sum.
    let most = 1.0 + 1e-9;
    for core in 0..cores {
        let hard = used(&|t| t.core == core && matches!(t.level, Level::A | Level::B));
        if hard > most {
            return wrong(format!(
                "levels A and B take {:.1} % of core {core}; move tasks to other cores and plan \
                    again",
                100.0 * hard
            ));
        }
    }
    let all = used(&|_| true);
    if all > f64::from(cores) * most {
        return wrong(format!(
            "levels A to C take {:.1} % of {cores} cores; leave tasks out and plan again",
            100.0 * all
        ));
    }
    Ok(())
}

/// The table of a core's level A, checked.
fn level_a(
    tasks: &[LayoutTask],
    core: u32,
    table: Option<&LevelsTable>,
) -> Result<Option<Table>, LinuxError> {
    let hard: Vec<(u32, &LayoutTask)> =
        (0..).zip(tasks).filter(|(_, t)| t.core == core && t.level == Level::A).collect();
    let place = format!("level A of core {core}");
    let Some(table) = table.filter(|t| !t.slots.is_empty()) else {
        return match hard.first() {
            Some((_, t)) => wrong(format!("{place}: task `{}` has no slots; plan again", t.name)),
            None => Ok(None),
        };
    };
    let mut periods: Vec<u64> =
        hard.iter().map(|(_, t)| t.period_ns).chain([table.frame_ns]).collect();
    periods.sort_unstable();
    if let Some(two) = periods.windows(2).find(|w| w[0] == 0 || w[1] % w[0] != 0) {
        return wrong(format!(
            "{place}: periods and frame are not harmonic: {} does not divide {}; make each divide \
                the next",
            ms(two[0]),
            ms(two[1])
        ));
    }
    if table.slots[0].start_ns != 0 {
        return wrong(format!(
            "{place}: the table starts at {}, not at 0, when all jobs are released; plan again",
            ms(table.slots[0].start_ns)
        ));
    }
    if let Some(two) = table.slots.windows(2).find(|w| w[0].end_ns > w[1].start_ns) {
        return wrong(format!(
            "{place}: slots overlap: one ends at {}, the next starts at {}; plan again",
            ms(two[0].end_ns),
            ms(two[1].start_ns)
        ));
    }
    let last = table.slots.last().map_or(0, |s| s.end_ns);
    if last > table.frame_ns {
        return wrong(format!(
            "{place}: a slot ends at {}, after the frame of {}; plan again",
            ms(last),
            ms(table.frame_ns)
        ));
    }
    for (id, task) in hard {
        for job in 0..table.frame_ns / task.period_ns {
            let (from, to) = (job * task.period_ns, (job + 1) * task.period_ns);
            let within = |s: &solocore_model::plan::levels::Slot| {
                s.end_ns.min(to).saturating_sub(s.start_ns.max(from))
            };
            let has: u64 = table.slots.iter().filter(|s| s.task == id).map(within).sum();
            if has < task.pet_ns {
                return wrong(format!(
                    "{place}: task `{}` has {} of slots from {} to {}, and needs {}; plan again",
                    task.name,
                    ms(has),
                    ms(from),
                    ms(to),
                    ms(task.pet_ns)
                ));
            }
        }
    }
    let slots = table.slots.iter().map(|s| (s.start_ns, s.end_ns, s.task)).collect();
    Ok(Some(Table { core, frame_ns: table.frame_ns, slots }))
}

fn partitions(plan: &Plan, rows: &[Row]) -> Result<Layout, LinuxError> {
    let Some(windows) = plan.windows() else {
        return wrong("the plan has no partitions; plan a system with some".to_owned());
    };
    let mut names: Vec<String> = windows.partitions.iter().map(|p| p.name.clone()).collect();
    let mut by_core: BTreeMap<u32, Vec<(&Row, u32)>> = BTreeMap::new();
    let mut transfers = Vec::new();
    for row in rows {
        let place = if row.is_transfer() { windows.io_core } else { core_of(row) };
        let Some(core) = place else { continue };
        let whose = if row.is_transfer() {
            let name = format!("{}/{}/{}", row.partition, row.chain.unwrap_or(1), row.stage.name());
            names.push(name.clone());
            transfers.push((name, core, names.len() - 1));
            names.len() - 1
        } else {
            names.iter().position(|n| *n == row.partition).unwrap_or(usize::MAX)
        };
        let whose = u32::try_from(whose).unwrap_or(u32::MAX);
        by_core.entry(core).or_default().push((row, whose));
    }
    let tables = by_core
        .iter()
        .map(|(&core, rows)| major_frame(core, rows, &names))
        .collect::<Result<_, _>>()?;
    let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
    order.sort_by_key(|&t| (plan.tasks[t].best_effort(), plan.tasks[t].priority, t));
    let mut tasks = Vec::new();
    for (at, t) in plan.tasks.iter().enumerate() {
        let rank = order.iter().position(|&o| o == at).unwrap_or(at);
        tasks.push(of_partition(plan, t, rank, &names)?);
    }
    for (name, core, partition) in transfers {
        let level = Level::Window { partition: u32::try_from(partition).unwrap_or(u32::MAX) };
        let rank = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        tasks.push(LayoutTask { name, level, core, period_ns: 0, pet_ns: 0, first_ns: 0, rank });
    }
    let cores = u32::try_from(plan.cores.len()).unwrap_or(u32::MAX);
    Ok(Layout { cores, tasks, tables, partitions: names })
}

fn core_of(row: &Row) -> Option<u32> {
    row.resource.strip_prefix("core ")?.parse().ok()
}

fn of_partition(
    plan: &Plan,
    t: &PlanTask,
    rank: usize,
    names: &[String],
) -> Result<LayoutTask, LinuxError> {
    let partition = names.iter().position(|n| Some(n) == t.partition.as_ref());
    let window = plan.windows().and_then(|windows| windows.window(t.partition.as_ref()?));
    let (Some(partition), Some(window)) = (partition, window) else {
        return wrong(format!("task `{}` has no partition with a window; plan again", t.name));
    };
    Ok(LayoutTask {
        name: t.name.clone(),
        level: Level::Window { partition: u32::try_from(partition).unwrap_or(u32::MAX) },
        core: t.core,
        period_ns: t.period_ns.unwrap_or(0),
        pet_ns: 0,
        first_ns: window.offset_ns,
        rank: u32::try_from(rank).unwrap_or(u32::MAX),
    })
}

/// The major frame of a core: its rows, unrolled over the least common multiple of their periods.
fn major_frame(core: u32, rows: &[(&Row, u32)], names: &[String]) -> Result<Table, LinuxError> {
    let frame = rows.iter().try_fold(1u64, |frame, (row, _)| {
        let period = row.period_ns.max(1);
        (frame / gcd(frame, period)).checked_mul(period)
    });
    let entries =
        |frame: u64| rows.iter().map(|(row, _)| frame / row.period_ns.max(1)).sum::<u64>();
    let Some(frame_ns) = frame.filter(|&f| f < 1 << 42 && entries(f) <= MOST_TASKS as u64) else {
        let periods: Vec<String> = rows.iter().map(|(row, _)| ms(row.period_ns)).collect();
        return wrong(format!(
            "core {core}: periods of {} have no common frame with {MOST_TASKS} windows or less; \
                choose periods that divide each other",
            periods.join(", ")
        ));
    };
    let mut slots = Vec::new();
    for (row, whose) in rows {
        for n in 0..frame_ns / row.period_ns.max(1) {
            let start = (row.offset_ns + n * row.period_ns) % frame_ns;
            let end = start + row.duration_ns;
            slots.push((start, end.min(frame_ns), *whose));
            if end > frame_ns {
                slots.push((0, end - frame_ns, *whose));
            }
        }
    }
    slots.sort_unstable();
    if let Some(two) = slots.windows(2).find(|w| w[0].1 > w[1].0) {
        let name = |whose: u32| names.get(whose as usize).map_or("?", String::as_str);
        return wrong(format!(
            "core {core}: `{}` has its window until {}, and `{}` from {}; plan again",
            name(two[0].2),
            ms(two[0].1),
            name(two[1].2),
            ms(two[1].0)
        ));
    }
    Ok(Table { core, frame_ns, slots })
}
