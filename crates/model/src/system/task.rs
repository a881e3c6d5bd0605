//! `[[task]]`: who runs how often, how urgently, and what one job asks for.

use super::program::TaskProgram;
use super::regulation::{Policy, Regulation};
use crate::instance::Instance;
use crate::levels::TaskShape;
use crate::platform::Platform;
use crate::units::{Time, positive_time, positive_time_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Criticality levels of MC2, hard to best effort. All but `D` are analysed and get a verdict.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[allow(missing_docs, reason = "levels are named by letter")]
pub enum Criticality {
    A,
    #[default]
    B,
    C,
    /// Best effort: no deadline is promised.
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

/// `[[task]]`, as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskEntry {
    pub(super) name: String,
    pub(super) core: Option<u32>,
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) period: Option<Time>,
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) deadline: Option<Time>,
    #[serde(default)]
    pub(super) criticality: Criticality,
    pub(super) command: Option<Vec<String>>,
    pub(super) inputs: Option<Vec<Vec<String>>>,
    pub(super) profile: Option<PathBuf>,
    #[serde(default, deserialize_with = "positive_time_option")]
    pub(super) wcet: Option<Time>,
    pub(super) misses: Option<u64>,
    pub(super) priority: Option<u32>,
    pub(super) soft_budget: Option<SoftBudget>,
    pub(super) partition: Option<String>,
    pub(super) curve: Option<Vec<CurvePoint>>,
    #[serde(default)]
    pub(super) wcet_by_ways: Vec<Time>,
    #[serde(default)]
    pub(super) misses_by_ways: Vec<u64>,
    pub(super) average: Option<f64>,
    pub(super) reload: Option<Time>,
    pub(super) job: Option<String>,
    pub(super) lock: Option<Vec<String>>,
    pub(super) user: Option<String>,
}

/// A point of a stated lockdown curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// `C` with so many pages locked.
    #[serde(deserialize_with = "positive_time")]
    pub wcet: Time,
    /// `mu` with so many pages locked.
    pub misses: u64,
}

/// Where a task's execution time and misses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Stated in the file: time alone with the cache the plan gives it, and residual misses of one
    /// job.
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
    /// Under the policy `dynamic`: accesses of all soft cores together during one job; `None` for
    /// the largest safe number.
    pub soft_budget: Option<u64>,
    /// Index of its partition, in a system with partitions.
    pub partition: Option<usize>,
    /// What `[mc2]` knows of it.
    pub shape: TaskShape,
    /// How its program says what it does, and as whom it runs.
    pub program: TaskProgram,
    /// Program and arguments, where the file has them.
    pub command: Option<Vec<String>>,
    /// Arguments that each input adds to the command that is profiled; empty: it runs as it stands.
    pub inputs: Vec<Vec<String>>,
    /// Line of its table in the file.
    pub line: usize,
}

/// The keys of a task that only `[mc2]` reads. Fills in `wcet` and `misses`: those with all ways.
fn check_shape(t: &mut TaskEntry, mc2: bool) -> Result<TaskShape, String> {
    let name = &t.name;
    let given = !t.wcet_by_ways.is_empty()
        || !t.misses_by_ways.is_empty()
        || t.average.is_some()
        || t.reload.is_some();
    if given && !mc2 {
        return Err(format!(
            "task `{name}`: wcet_by_ways, misses_by_ways, average and reload are read under [mc2] \
                only; add an [mc2] table, or remove them"
        ));
    }
    if mc2 && t.curve.is_some() {
        return Err(format!(
            "task `{name}`: curve is by locked pages, and [mc2] locks none; give wcet_by_ways with \
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
                "task `{name}`: wcet_by_ways has {} entries, misses_by_ways {}; give both for as \
                    many ways",
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
pub(super) fn partition_of(t: &TaskEntry, ima: Option<&Instance>) -> Result<Option<usize>, String> {
    let name = &t.name;
    let (known, wanted) = match (ima, &t.partition) {
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
        (Some(ima), Some(p)) => (&ima.partitions, p),
    };
    let found = known.iter().position(|p| &p.name == wanted);
    let found = found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        format!("task `{name}`: no partition is called `{wanted}`; there are {}", names.join(", "))
    })?;
    if t.core.is_some() {
        return Err(format!(
            "task `{name}` states a core, but runs where its partition does; state the core of \
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
    mc2: bool,
) -> Result<Task, String> {
    let shape = check_shape(&mut t, mc2)?;
    let name = &t.name;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("a task needs a name without control characters".to_owned());
    }
    let scheduled = mc2 || t.partition.is_some() || regulation.policy == Policy::Maracas;
    let keys = (t.job.as_deref(), t.lock.as_deref(), t.user.clone());
    let program = TaskProgram::checked(keys, regulation.policy, scheduled)
        .map_err(|what| format!("task `{name}`: {what}"))?;
    let active = regulation.active_cores.unwrap_or(platform.cores);
    if let Some(core) = t.core.filter(|&c| c >= active) {
        return Err(format!(
            "task `{name}`: core {core} is out of range; {} has cores 0 to {}",
            platform.name,
            active - 1
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
                "task `{name}` is best effort, which limits nobody; remove its soft_budget"
            ));
        }
        Some(SoftBudget::Accesses(n)) if (1..1 << 32).contains(n) => Some(*n),
        Some(SoftBudget::Accesses(n)) => {
            return Err(format!(
                "task `{name}`: soft_budget = {n} is not 1 to 4294967295; give so many accesses, \
                    or \"max\""
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
            "task `{name}`: a period, deadline or wcet above 24 hours is surely a slip of the unit"
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
    // Of one whose numbers are stated, too: `solocore run` starts it.
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
    Ok(Task {
        deadline: t.deadline.or(t.period),
        core: t.core,
        period: t.period,
        criticality: t.criticality,
        priority: t.priority,
        soft_budget,
        partition: None,
        shape,
        program,
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
            "task `{name}`: a wcet above 24 hours is surely a slip of the unit; correct it"
        ));
    }
    Ok(())
}
