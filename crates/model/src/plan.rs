//! The plan: what runs where with which share of the machine, and the proof that it suffices.

use crate::derivation::Derivation;
use crate::mc2_plan::Mc2Plan;
use crate::platform::Platform;
use crate::profile::PageName;
use crate::results::TaskResult;
use crate::sce::SceMethod;
use crate::system::{Criticality, Model, Policy, Share};
use crate::vcpu_plan::{self, PlanMaracas, PlanVcpu};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Written at the head of every plan file.
pub const FORMAT: &str = "solocore-plan/1";

/// A task in the plan. Times in nanoseconds, rounded up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Name.
    pub name: String,
    /// Core it is placed on.
    pub core: u32,
    /// Level.
    pub criticality: Criticality,
    /// `C`: execution time alone, with the locked pages in place.
    pub wcet_ns: u64,
    /// `mu`: residual DRAM transactions of one job.
    pub misses: u64,
    /// Worst regulation and contention stall of one job.
    pub stall_ns: u64,
    /// `C_sce = C + stall`.
    pub c_sce_ns: u64,
    /// Worst-case response time; `null` where it is unbounded or nothing is promised.
    pub wcrt_ns: Option<u64>,
    /// Relative deadline; `null` for best effort without a period.
    pub deadline_ns: Option<u64>,
    /// Does it meet its deadline (always true where none is promised).
    pub schedulable: bool,
    /// The same in words; `null` where nothing is promised.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// What its bound rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumes: Vec<String>,
    /// Period; `null` for best effort that runs back to back.
    pub period_ns: Option<u64>,
    /// Priority on its core, 1 highest; best effort comes after all.
    pub priority: u32,
    /// Worst reload of private caches charged per preemption by this task.
    pub crpd_ns: u64,
    /// Cycles of a job with every shared-cache access free (profiled tasks).
    pub private_cycles: Option<u64>,
    /// Pages locked in the shared cache, hottest first.
    pub locked_pages: Vec<PageName>,
    /// Profile the numbers come from; `null` where the system file states them.
    pub profile: Option<PathBuf>,
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// Policy `dynamic`: accesses that all soft cores together may make during one of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_budget: Option<u64>,
    /// Policy `dynamic`: how long that budget is in force at most, from the start of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_budget_length_ns: Option<u64>,
    /// Name of its partition, in a plan with partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `C` and `mu` without locked pages, where the system file states a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlocked: Option<Unlocked>,
    /// Under MC2, level C: a job ends so much after its deadline at most, and may miss it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tardiness_ns: Option<u64>,
    /// How far it may grow before a task of its core misses a deadline; `null` where one does, or nothing is promised.
    #[serde(default)]
    pub margin: Option<TaskMargin>,
    /// How its response time came about; `null` where nothing is promised.
    #[serde(default)]
    pub derivation: Option<Derivation>,
}

/// What a plan says of an analysed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Its bound is within its deadline.
    #[serde(rename = "meets")]
    Meets,
    /// Its bound is beyond its deadline.
    #[serde(rename = "may miss")]
    MayMiss,
    /// Nothing bounds its response time.
    #[serde(rename = "no bound")]
    NoBound,
}

impl Verdict {
    /// Of a task of a plan; `None` where nothing is promised.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unlocked {
    /// `C`.
    pub wcet_ns: u64,
    /// `mu`.
    pub misses: u64,
}

/// The largest values of one task with which every task of its core meets its deadline, all else kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskMargin {
    /// `C`, nanoseconds, rounded down; `null` if no deadline bounds it.
    pub wcet_ns: Option<u64>,
    /// `mu`, with `C` kept (more misses are also more execution time: see `wcet_ns`); `null` if nothing bounds it.
    pub misses: Option<u64>,
}

/// By which factor may all analysed tasks of a core grow together, in thousandths, rounded down?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreMargin {
    /// All execution times, misses kept.
    pub wcets_permille: u64,
    /// All miss counts, execution times kept; `null` if there are none or nothing bounds them.
    pub misses_permille: Option<u64>,
    /// Least budget with which every deadline is still met, the other cores' budgets kept; `null` without regulation.
    pub least_budget_accesses: Option<u64>,
    /// The task whose execution time may grow least, relative to what it is.
    pub critical_task: String,
}

impl PlanTask {
    /// Best effort: nothing is promised.
    pub fn best_effort(&self) -> bool {
        self.criticality == Criticality::D
    }

    /// Did a run break what is promised of the task: its deadline, or the bound on its tardiness?
    pub fn broken_by(&self, seen: &TaskResult) -> bool {
        match (self.best_effort(), self.tardiness_ns, self.deadline_ns) {
            (true, _, _) => false,
            (_, Some(late), Some(deadline)) => {
                seen.max_response_ns > deadline.saturating_add(late) || seen.jobs == 0 && seen.misses_deadline > 0
            }
            _ => seen.misses_deadline > 0,
        }
    }
}

/// A core in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCore {
    /// Which core.
    pub id: u32,
    /// Its share of the shared cache, in ways (or the equivalent of so many ways in colours).
    pub ways: u32,
    /// `Q`: DRAM transactions per regulation period; `null` without regulation.
    pub budget_accesses: Option<u64>,
    /// Of these, so many are for writes, and reads have the others; `null`: one budget for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget_accesses: Option<u64>,
    /// The same as bandwidth.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Pages that its share can hold locked.
    pub lock_capacity_pages: u64,
    /// Pages the plan locks.
    pub locked_pages: u64,
    /// Sum of `C_sce / T` over its analysed tasks.
    pub utilization: f64,
    /// DRAM banks of its own, first and count; `null` where there are fewer banks than cores.
    pub banks: Option<(u32, u32)>,
    /// Policy `dynamic`: has no analysed task, and is limited while those of other cores run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// How far its tasks may grow; `null` where a deadline is missed or none is promised.
    #[serde(default)]
    pub margin: Option<CoreMargin>,
}

/// Regulation as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRegulation {
    /// Policy.
    pub policy: Policy,
    /// `P`.
    pub period_ns: u64,
    /// Even or explicit.
    pub share: Share,
    /// Which bound was used.
    pub carry_in: bool,
    /// `m`.
    pub active_cores: u32,
    /// Policy `bwlock`: accesses per period that each core may make for tasks that are not real-time while somebody holds the
    /// lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_budget_accesses: Option<u64>,
}

fn papers_model() -> Model {
    Model::Sce
}

/// A plan file, also the output of `solocore plan --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: String,
    /// Every analysed task meets its deadline.
    pub schedulable: bool,
    /// What the bounds take the memory for. Plans of before have the papers' model.
    #[serde(default = "papers_model")]
    pub model: Model,
    /// Tasks, in the order of the system file.
    pub tasks: Vec<PlanTask>,
    /// Cores, by id.
    pub cores: Vec<PlanCore>,
    /// Which rule gave which number, and why the verdict is what it is.
    pub reasons: Vec<String>,
    /// What the verdict rests on.
    pub assumptions: Vec<String>,
    /// Regulation.
    pub regulation: PlanRegulation,
    /// The board, whole, so that a plan stands alone.
    pub platform: Platform,
    /// Partitions and their time table, in a plan of the single-core-equivalence method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sce: Option<Box<SceMethod>>,
    /// Levels, ways, banks and buffers of a system with `[mc2]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mc2: Option<Mc2Plan>,
    /// How VCPUs are scheduled, in a plan with the policy `maracas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maracas: Option<PlanMaracas>,
    /// Its VCPUs, in the order of the system file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vcpus: Vec<PlanVcpu>,
}

impl Plan {
    /// Can it be run as it stands? Plans are files, and files get edited.
    ///
    /// # Errors
    /// What is impossible in it.
    pub fn check(&self) -> Result<(), String> {
        /// Times are held in picoseconds.
        const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
        self.platform.check().map_err(|what| format!("platform: {what}"))?;
        let period = self.regulation.period_ns;
        if period == 0 || period > LONGEST_NS {
            return Err(format!("regulation.period_ns = {period} is impossible"));
        }
        if self.regulation.lock_budget_accesses == Some(0) {
            return Err("regulation.lock_budget_accesses is zero, so nothing could run beside a lock".to_owned());
        }
        if self.cores.is_empty() || self.cores.len() > self.platform.cores as usize {
            return Err(format!("it has {} cores, the platform {}", self.cores.len(), self.platform.cores));
        }
        for (at, core) in self.cores.iter().enumerate() {
            if core.id as usize != at {
                return Err(format!("core {} stands in the place of core {at}", core.id));
            }
            if core.budget_accesses == Some(0) {
                return Err(format!("core {at} has a budget of zero"));
            }
            if let Some(writes) = core.write_budget_accesses
                && (writes == 0 || core.budget_accesses.is_none_or(|all| writes >= all))
            {
                return Err(format!("core {at} has a write budget that is no part of its budget"));
            }
            let banks = self.platform.total_banks();
            if core.banks.is_some_and(|(first, count)| count == 0 || first.saturating_add(count) > banks) {
                return Err(format!("core {at} has banks that the platform lacks ({banks} in all)"));
            }
        }
        if self.tasks.is_empty() {
            return Err("it has no tasks".to_owned());
        }
        if let Some(sce) = &self.sce {
            sce.check(u32::try_from(self.cores.len()).unwrap_or(u32::MAX))?;
            let known = |t: &PlanTask| {
                t.partition.as_ref().is_some_and(|name| {
                    sce.partitions.iter().any(|p| &p.name == name && p.core.is_none_or(|c| c == t.core))
                })
            };
            if let Some(t) = self.tasks.iter().find(|t| !known(t)) {
                return Err(format!("task `{}` is not in its partition, or not on that one's core", t.name));
            }
        }
        for task in &self.tasks {
            let name = &task.name;
            if task.core as usize >= self.cores.len() {
                return Err(format!(
                    "task `{name}` is on core {}, but there are cores 0 to {}",
                    task.core,
                    self.cores.len() - 1
                ));
            }
            if task.period_ns == Some(0) || task.priority == 0 {
                return Err(format!("task `{name}` has a period or a priority of zero"));
            }
            let times = [Some(task.wcet_ns), task.period_ns, task.deadline_ns];
            if times.into_iter().flatten().any(|ns| ns > LONGEST_NS) || task.misses > LONGEST_NS {
                return Err(format!("task `{name}` has a time or a count beyond what fits in 24 hours"));
            }
        }
        vcpu_plan::check(self)?;
        self.mc2.as_ref().map_or(Ok(()), |mc2| mc2.check(self).map_err(|what| format!("mc2: {what}")))
    }
}
