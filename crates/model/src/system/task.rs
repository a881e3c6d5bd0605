//! `[[task]]`: rate, urgency and demand of each task.

use super::core_entry::or_more_cores;
use super::program::{LockKey, TaskProgram, wanted_slowdown};
use super::regulation::{Policy, Regulation};
use crate::levels::TaskShape;
use crate::platform::Platform;
use crate::units::{Time, positive_time, positive_time_option};
use crate::windows::WindowsInput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Criticality level, A to C hard to soft, D best effort. All but D are analysed and get a verdict.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Criticality {
    /// Hardest: the deadline is promised. With `[levels]` by a time table on its core.
    A,
    /// Hard: the deadline is promised. With `[levels]` rate monotonic below level A.
    #[default]
    B,
    /// Analysed like A and B. With `[levels]` by global EDF, with a bound on tardiness.
    C,
    /// Best effort: it has no promise of a deadline.
    D,
}

/// `soft_budget` of a task under the policy `dynamic`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SoftBudget {
    /// Accesses of all soft cores together during one job.
    Accesses(u64),
    /// `"max"`.
    Named(String),
}

/// `[[task]]`: a task, and the source of its demand.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskEntry {
    /// Unique name.
    pub(super) name: String,
    /// The core of the task, from 0. If it is left out, the planner places the task.
    pub(super) core: Option<u32>,
    /// Time between two releases, or the least time between two. Only best effort (D) may lack it;
    /// its jobs then run back to back.
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) period: Option<Time>,
    /// Relative deadline, from the release of a job. The default is the period.
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) deadline: Option<Time>,
    /// Level. Tasks of A, B and C are analysed and get a verdict; D is best effort.
    #[serde(default)]
    pub(super) criticality: Criticality,
    /// Program and arguments, started in the directory of this file. One run is one job. The
    /// planner profiles it, unless `wcet` and `misses` or a `profile` are given.
    pub(super) command: Option<Vec<String>>,
    /// Lists of arguments, one list for each input. Each list is added to `command`, and the
    /// command is profiled with it. The worst of each quantity counts.
    pub(super) inputs: Option<Vec<Vec<String>>>,
    /// Path of a profile that `solocore profile` has written, relative to this file, in place of
    /// profiling.
    pub(super) profile: Option<PathBuf>,
    /// `C`: longest time of a job alone on its core, with the cache that the plan gives it, with
    /// each miss counted as `L_max`. It needs `misses`.
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) wcet: Option<Time>,
    /// `mu`: DRAM accesses of one job with that cache. It needs `wcet`.
    pub(super) misses: Option<u64>,
    /// Priority on its core, 1 is the highest. The default is rate monotonic.
    pub(super) priority: Option<u32>,
    /// With `policy = "dynamic"`: accesses of all soft cores together during one job of this task,
    /// or `"max"` for the largest safe number.
    pub(super) soft_budget: Option<SoftBudget>,
    /// With partitions: the name of the task's partition. The task runs in the windows of the
    /// partition.
    pub(super) partition: Option<String>,
    /// In place of `wcet` and `misses`: a list of both for 0, 1, 2... locked pages.
    pub(super) curve: Option<Vec<CurvePoint>>,
    /// With `[levels]`, in place of `wcet`: times alone with 1, 2, 3... ways of the shared cache.
    /// It needs `misses_by_ways`.
    #[serde(default)]
    pub(super) wcet_by_ways: Vec<Time>,
    /// With `[levels]`, in place of `misses`: DRAM accesses of a job with 1, 2, 3... ways. It needs
    /// `wcet_by_ways`.
    #[serde(default)]
    pub(super) misses_by_ways: Vec<u64>,
    /// With `[levels]`: mean execution time over the longest, above 0 and at most 1. It is the
    /// level-C PET over the level-B PET. The default is 1.
    pub(super) average: Option<f64>,
    /// With `[levels]`: time that one preemption costs the task. The default is none for stated
    /// tasks, and the profile's value for others.
    pub(super) reload: Option<Time>,
    /// On Linux: kind of a job. `"process"` (the default) is one run of the command, `"wakeup"` is
    /// the time from waking to going to sleep, and `"function:NAME"` is a call of a function.
    pub(super) job: Option<String>,
    /// With `policy = "bwlock"`: functions as `"function:NAME"`. Their calls hold the bandwidth
    /// lock. `"auto"`: the planner chooses the functions and `lock_bandwidth` for `slowdown`.
    pub(super) lock: Option<LockKey>,
    /// With `lock = "auto"`: the execution time of a job beside the other cores is at most this
    /// multiple of its time alone (`C` of the plan), as 1.5.
    #[serde(default, rename = "slowdown", deserialize_with = "super::thousandths::deserialize")]
    #[schemars(with = "Option<f64>", range(min = 1, max = 1000))]
    pub(super) slowdown_permille: Option<u64>,
    /// Name of the user that runs the command under `solocore run`. The default is the user that
    /// started solocore.
    pub(super) user: Option<String>,
}

/// A point of a stated lockdown curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// `C` with this number of locked pages.
    #[serde(deserialize_with = "positive_time")]
    pub wcet: Time,
    /// `mu` with this number of locked pages.
    pub misses: u64,
}

/// Source of a task's execution time and misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Stated in the file: time alone with the cache the plan gives it, and residual misses of one
    /// job.
    Given {
        /// `C`.
        wcet: Time,
        /// `mu`, DRAM accesses of one job.
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
pub struct SystemTask {
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
    /// Priority; 1 is the highest; default: rate monotonic.
    pub priority: Option<u32>,
    /// Under the policy `dynamic`: accesses of all soft cores together during one job; `None` for
    /// the largest safe number.
    pub soft_budget: Option<u64>,
    /// Index of its partition, in a system with partitions.
    pub partition: Option<usize>,
    /// Its keys for `[levels]`.
    pub shape: TaskShape,
    /// The signals of its program, and the user that runs it.
    pub program: TaskProgram,
    /// With `lock = "auto"`: the wanted slowdown, in thousandths.
    pub slowdown_permille: Option<u64>,
    /// Program and arguments, where the file has them.
    pub command: Option<Vec<String>>,
    /// Arguments that each input adds to the profiled command; empty: the command runs unchanged.
    pub inputs: Vec<Vec<String>>,
    /// Line of its table in the file.
    pub line: usize,
}

impl SystemTask {
    /// Is its deadline after the end of its period?
    pub fn is_due_after_period(&self) -> bool {
        self.deadline.zip(self.period).is_some_and(|(deadline, period)| deadline > period)
    }
}

/// The keys of a task that only `[levels]` reads. Fills in `wcet` and `misses`: those with all
/// ways.
fn check_shape(t: &mut TaskEntry, levels: bool) -> Result<TaskShape, String> {
    let name = &t.name;
    let given = !t.wcet_by_ways.is_empty()
        || !t.misses_by_ways.is_empty()
        || t.average.is_some()
        || t.reload.is_some();
    if given && !levels {
        return Err(format!(
            "task `{name}`: wcet_by_ways, misses_by_ways, average and reload are read only under \
            [levels]; add a [levels] table, or remove them"
        ));
    }
    if levels && t.curve.is_some() {
        return Err(format!(
            "task `{name}`: curve is by locked pages, and [levels] does not lock pages; give wcet_by_ways with \
                misses_by_ways"
        ));
    }
    let (times, misses) =
        (std::mem::take(&mut t.wcet_by_ways), std::mem::take(&mut t.misses_by_ways));
    if !times.is_empty() || !misses.is_empty() {
        if t.wcet.is_some() || t.misses.is_some() {
            return Err(format!(
                "task `{name}`: give wcet with misses, or wcet_by_ways with misses_by_ways; remove \
                    one pair"
            ));
        }
        if times.len() != misses.len() {
            return Err(format!(
                "task `{name}`: wcet_by_ways has {} entries, misses_by_ways {}; give both for the \
                same number of ways",
                times.len(),
                misses.len()
            ));
        }
        if times.windows(2).any(|w| w[1] > w[0])
            || misses.windows(2).any(|w| w[1] > w[0])
            || times.contains(&Time::default())
        {
            return Err(format!(
                "task `{name}`: wcet_by_ways and misses_by_ways must not grow with the ways, nor a \
                    time be 0; correct the numbers"
            ));
        }
        (t.wcet, t.misses) = (times.last().copied(), misses.last().copied());
    }
    let average = t.average.unwrap_or(1.0);
    if !(average > 0.0 && average <= 1.0) {
        return Err(format!(
            "task `{name}`: average = {average}; give the mean over the longest execution time, \
                above 0 and at most 1"
        ));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    let average_millionths = (average * f64::from(TaskShape::WHOLE)).ceil() as u32;
    Ok(TaskShape {
        wcet_by_ways: times,
        misses_by_ways: misses,
        average_millionths,
        reload: t.reload,
    })
}

/// The partition that a task names.
pub(super) fn partition_of(
    t: &TaskEntry,
    windows: Option<&WindowsInput>,
) -> Result<Option<usize>, String> {
    let name = &t.name;
    let (known, wanted) = match (windows, &t.partition) {
        (None, None) => return Ok(None),
        (None, Some(p)) => {
            return Err(format!(
                "task `{name}` is of partition `{p}`, but there is no [[partition]]; add it, or \
                    remove the key"
            ));
        }
        (Some(_), None) => {
            return Err(format!(
                "task `{name}` names no partition; add partition = \"...\" (in a system with \
                    partitions every task has one)"
            ));
        }
        (Some(windows), Some(p)) => (&windows.partitions, p),
    };
    let found = known.iter().position(|p| &p.name == wanted);
    let found = found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        format!("task `{name}`: no partition is called `{wanted}`; there are {}", names.join(", "))
    })?;
    if t.core.is_some() {
        return Err(format!(
            "task `{name}` states a core, but runs on the core of its partition; state the core of \
                `{wanted}`"
        ));
    }
    Ok(Some(found))
}

pub(super) fn check_task(
    mut t: TaskEntry,
    line: usize,
    regulation: &Regulation,
    platform: &Platform,
    levels: bool,
) -> Result<SystemTask, String> {
    let shape = check_shape(&mut t, levels)?;
    let name = &t.name;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("a task needs a name without control characters".to_owned());
    }
    let named = |what: String| format!("task `{name}`: {what}");
    let best_effort = t.criticality == Criticality::D;
    if t.lock.is_some() && !regulation.lock.is_sections() {
        return Err(named(
            "its lock holds sections, and [regulation] lock = \"jobs\" holds whole jobs; remove one \
                of the two"
                .to_owned(),
        ));
    }
    let slowdown_permille =
        wanted_slowdown(t.lock.as_ref(), t.slowdown_permille, regulation.policy, best_effort)
            .map_err(named)?;
    let functions = t.lock.as_ref().and_then(LockKey::functions);
    let keys = (t.job.as_deref(), functions, t.user.clone());
    let program =
        TaskProgram::checked(keys, regulation.policy, t.partition.is_some()).map_err(named)?;
    let active = regulation.active_cores.unwrap_or(platform.cores);
    if let Some(core) = t.core.filter(|&c| c >= active) {
        return Err(format!(
            "task `{name}`: core {core} is out of range; the active cores of {} are 0 to {}: name \
                one of these{}",
            platform.name,
            active - 1,
            or_more_cores(core, platform)
        ));
    }
    if t.period.is_none() && t.criticality != Criticality::D {
        return Err(format!(
            "task `{name}` has no period; add period = \"100 ms\" (only level D may go without)"
        ));
    }
    if t.period.is_none() && t.deadline.is_some() {
        return Err(format!("task `{name}` has a deadline but no period; add the period"));
    }
    if t.priority == Some(0) {
        return Err(format!("task `{name}`: priority 0 does not exist; 1 is the highest"));
    }
    if t.soft_budget.is_some() && regulation.policy != Policy::Dynamic {
        return Err(format!(
            "task `{name}`: soft_budget needs [regulation] policy = \"dynamic\"; set that, or \
                remove it"
        ));
    }
    let soft_budget = match &t.soft_budget {
        Some(_) if t.criticality == Criticality::D => {
            return Err(format!(
                "task `{name}` is best effort, and best effort limits no core; remove its soft_budget"
            ));
        }
        Some(SoftBudget::Accesses(n)) if (1..1 << 32).contains(n) => Some(*n),
        Some(SoftBudget::Accesses(n)) => {
            return Err(format!(
                "task `{name}`: soft_budget = {n} is not 1 to 4294967295; give a number in this \
                    range, or \"max\""
            ));
        }
        Some(SoftBudget::Named(word)) if word != "max" => {
            return Err(format!(
                "task `{name}`: soft_budget = \"{word}\"; give a number of accesses, or \"max\""
            ));
        }
        Some(SoftBudget::Named(_)) | None => None,
    };
    let beyond =
        t.criticality != Criticality::D && t.deadline.zip(t.period).is_some_and(|(d, p)| d > p);
    if regulation.policy == Policy::Dynamic && beyond {
        return Err(format!(
            "task `{name}` has a deadline beyond its period, which policy = \"dynamic\" does not \
                cover; lower it"
        ));
    }
    let limit = Time::from_ns(24 * 3600 * 1_000_000_000);
    if [t.period, t.deadline, t.wcet].into_iter().flatten().any(|v| v > limit) {
        return Err(format!(
            "task `{name}`: a period, deadline or wcet above 24 hours probably has a wrong unit"
        ));
    }
    if let Some(points) = &t.curve {
        check_curve(name, points, &t)?;
    }
    if t.command.as_ref().is_some_and(|c| c.first().is_none_or(String::is_empty)) {
        return Err(format!(
            "task `{name}`: command is empty; write command = [\"./program\", \"argument\"]"
        ));
    }
    check_inputs(&t)?;
    // Of a task with stated numbers, too: `solocore run` starts it.
    let command = t.command.clone();
    let demand = match (t.wcet, t.misses, t.command, t.profile) {
        (None, None, None, None) if t.curve.is_some() => Demand::Curve(t.curve.unwrap_or_default()),
        (Some(wcet), Some(misses), _, None) => Demand::Given { wcet, misses },
        (Some(_), None, _, _) => {
            return Err(format!(
                "task `{name}` gives wcet without misses; add misses = N, the DRAM accesses of one \
                    job"
            ));
        }
        (None, Some(_), _, _) => {
            return Err(format!("task `{name}` gives misses without wcet; add wcet = \"10 ms\""));
        }
        (Some(_), Some(_), _, Some(_)) | (None, None, Some(_), Some(_)) => {
            return Err(format!(
                "task `{name}`: give one of profile, command, or wcet with misses"
            ));
        }
        (None, None, None, Some(path)) => Demand::Profile(path),
        (None, None, Some(_), None) if !program.job.is_process() => {
            return Err(format!(
                "task `{name}`: profiling measures whole runs of its command, and its jobs are \
                    parts of one (job = \"{}\"); add wcet and misses of one job",
                program.job
            ));
        }
        (None, None, Some(command), None) => Demand::Command(command),
        (None, None, None, None) => {
            return Err(format!(
                "task `{name}` has neither command nor wcet and misses; add one of them"
            ));
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
        return Err(format!(
            "task `{name}` is wider than its period: wcet {wcet} > period {period}"
        ));
    }
    Ok(SystemTask {
        deadline: t.deadline.or(t.period),
        core: t.core,
        period: t.period,
        criticality: t.criticality,
        priority: t.priority,
        soft_budget,
        partition: None,
        shape,
        program,
        slowdown_permille,
        command,
        inputs: t.inputs.unwrap_or_default(),
        name: t.name,
        demand,
        line,
    })
}

/// Inputs are for a command that is profiled.
fn check_inputs(t: &TaskEntry) -> Result<(), String> {
    let (name, Some(inputs)) = (&t.name, &t.inputs) else { return Ok(()) };
    if t.command.is_none() || t.wcet.is_some() || t.misses.is_some() {
        return Err(format!(
            "task `{name}`: inputs are for a command that is profiled; give command without wcet \
                and misses, or remove them"
        ));
    }
    if inputs.is_empty() || inputs.len() > 1000 {
        return Err(format!(
            "task `{name}`: inputs has {} entries; give 1 to 1000, like inputs = [[\"a.pgm\"], \
                [\"b.pgm\"]]",
            inputs.len()
        ));
    }
    Ok(())
}

/// A curve never rises.
fn check_curve(name: &str, points: &[CurvePoint], t: &TaskEntry) -> Result<(), String> {
    if t.wcet.is_some() || t.misses.is_some() || t.command.is_some() || t.profile.is_some() {
        return Err(format!(
            "task `{name}`: give curve alone; it states wcet and misses for 0, 1, 2... locked pages"
        ));
    }
    if points.is_empty() || points.len() > 1 << 20 {
        return Err(format!(
            "task `{name}`: curve has {} points; give one for each number of locked pages, from 0 \
                on",
            points.len()
        ));
    }
    let rises = points.windows(2).position(|p| p[1].wcet > p[0].wcet || p[1].misses > p[0].misses);
    if let Some(at) = rises {
        return Err(format!(
            "task `{name}`: curve rises from {at} to {} locked pages; a page more never costs; \
                correct the point",
            at + 1
        ));
    }
    if points[0].wcet > Time::from_ns(24 * 3600 * 1_000_000_000) {
        return Err(format!(
            "task `{name}`: a wcet above 24 hours probably has a wrong unit; correct it"
        ));
    }
    Ok(())
}
