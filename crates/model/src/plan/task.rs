//! A task in a plan: its numbers, its bound, and its promise.

use super::waterfall;
use crate::derivation::Derivation;
use crate::profile::{InputFile, InputRun, PageName, Worst};
use crate::results::TaskResult;
use crate::system::{Criticality, TaskProgram};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A task in the plan. Times in nanoseconds, rounded up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Unique name.
    pub name: String,
    /// Core that the task is placed on.
    pub core: u32,
    /// Criticality level.
    pub criticality: Criticality,
    /// `C`: execution time alone, with the locked pages in place.
    pub wcet_ns: u64,
    /// `mu`: residual DRAM accesses of one job.
    pub misses: u64,
    /// Worst regulation and contention stall of one job.
    pub stall_ns: u64,
    /// `C_sce = C + stall`.
    pub c_sce_ns: u64,
    /// Worst-case response time; `null` where it is unbounded or nothing is promised.
    pub wcrt_ns: Option<u64>,
    /// Relative deadline; `null` for best effort without a period.
    pub deadline_ns: Option<u64>,
    /// The task meets its deadline. Always true where it has no promise of a deadline.
    pub schedulable: bool,
    /// The verdict in words; `null` where nothing is promised.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Assumptions of the task's bound, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumes: Vec<String>,
    /// Period; `null` for best effort that runs back to back.
    pub period_ns: Option<u64>,
    /// Priority on its core, 1 highest; best effort comes after all.
    pub priority: u32,
    /// Worst reload of private caches charged per preemption by this task.
    pub crpd_ns: u64,
    /// Cycles of a job if every shared-cache access were free, for profiled tasks.
    pub private_cycles: Option<u64>,
    /// Pages locked in the shared cache, hottest first.
    pub locked_pages: Vec<PageName>,
    /// Profile that the numbers come from; `null` where the system file states them.
    pub profile: Option<PathBuf>,
    /// Origin of that profile, where `solocore plan` made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<Profiled>,
    /// Program and libraries that the profile rests on, by content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program_files: Vec<InputFile>,
    /// Pages that a job touches, where it was profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched_pages: Option<u64>,
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// The signals of its program, and the user that runs it.
    #[serde(default, skip_serializing_if = "TaskProgram::is_default")]
    pub program: TaskProgram,
    /// Policy `dynamic`: accesses that all soft cores together may make during one of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_budget: Option<u64>,
    /// With policy `dynamic`: longest time from the start of a job during which that budget is in
    /// force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_budget_length_ns: Option<u64>,
    /// Name of its partition, in a plan with partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `C` and `mu` without locked pages, where the system file states a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlocked: Option<Unlocked>,
    /// At level C: longest time from a job's deadline to its end. A job may miss its deadline by as
    /// much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tardiness_ns: Option<u64>,
    /// Largest growth of the task before a task of its core misses a deadline; `null` where one
    /// does, or nothing is promised.
    #[serde(default)]
    pub margin: Option<TaskMargin>,
    /// Derivation of its response time; `null` where nothing is promised.
    #[serde(default)]
    pub derivation: Option<Derivation>,
    /// From the time alone to `wcrt_ns`, or to `c_sce_ns` where `wcrt_ns` is `null`. Empty for best
    /// effort, and where neither is bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waterfall: Vec<waterfall::Term>,
}

/// A profile that was made for a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profiled {
    /// Date of the profile (UTC), if it was kept from an earlier command; of several inputs the
    /// oldest.
    #[serde(default)]
    pub from_cache: Option<String>,
    /// Results of each of several inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRun>,
    /// The input that gave the worst of each quantity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<Worst>,
}

/// Statement of the plan on a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Its bound is within its deadline.
    #[serde(rename = "meets")]
    Meets,
    /// Its bound is beyond its deadline.
    #[serde(rename = "may miss")]
    MayMiss,
    /// Its response time has no bound.
    #[serde(rename = "no bound")]
    NoBound,
}

impl Verdict {
    /// The verdict on a task of a plan; `None` where nothing is promised.
    pub fn of(task: &PlanTask) -> Option<Self> {
        match (task.best_effort(), task.schedulable, task.wcrt_ns) {
            (true, ..) => None,
            (_, true, _) => Some(Self::Meets),
            (_, false, Some(_)) => Some(Self::MayMiss),
            _ => Some(Self::NoBound),
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Meets => "meets",
            Self::MayMiss => "may miss",
            Self::NoBound => "no bound",
        })
    }
}

/// A job without locked pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unlocked {
    /// `C` without locked pages.
    pub wcet_ns: u64,
    /// `mu` without locked pages.
    pub misses: u64,
}

/// The largest values of one task with which every task of its core meets its deadline, all else
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskMargin {
    /// Largest possible `C`, rounded down; `null` if no deadline bounds it.
    pub wcet_ns: Option<u64>,
    /// Largest possible `mu`, with `C` kept. More misses also lengthen the execution time: see
    /// `wcet_ns`. `null` if nothing bounds it.
    pub misses: Option<u64>,
}

impl PlanTask {
    /// Is it best effort, with nothing promised?
    pub fn best_effort(&self) -> bool {
        self.criticality == Criticality::D
    }

    /// Did a run break the task's promise: its deadline, or the bound on its tardiness?
    pub fn broken_by(&self, seen: &TaskResult) -> bool {
        match (self.best_effort(), self.tardiness_ns, self.deadline_ns) {
            (true, _, _) => false,
            (_, Some(late), Some(deadline)) => {
                seen.max_response_ns > deadline.saturating_add(late)
                    || seen.jobs == 0 && seen.misses_deadline > 0
            }
            _ => seen.misses_deadline > 0,
        }
    }
}
