//! The plan: tasks, cores and shares of the machine, and the proof that the shares suffice.
//!
//! Rule: one of four schemes ([`Scheme`]) decides when each task runs; tasks, cores and regulation
//! are the same in all of them. A plan's file ([`file`]) has the scheme's part under a name of its
//! own.

pub mod advice;
pub mod choice;
pub mod core;
pub mod file;
pub mod levels;
pub mod lock;
pub mod locked;
pub mod promise;
pub mod task;
pub mod vcpus;
pub mod waterfall;
pub mod windows;

pub use self::choice::Choice;
pub use self::core::{CoreMargin, PlanCore, PlanRegulation};
pub use levels::LevelsPlan;
pub use lock::{LockedTask, NextLock, PlanLock};
pub use locked::{LockColours, LockFrame};
pub use promise::{Answer, Promise, Subject};
pub use task::{PlanTask, Profiled, TaskMargin, Unlocked, Verdict};
pub use vcpus::{PlanVcpu, VcpuScheduling, VcpusPlan};
pub use windows::WindowsPlan;

use crate::error::ModelError;
use crate::files;
use crate::kind::Kind;
use crate::platform::Platform;
use crate::profile::PageName;
use crate::provenance::PlanInput;
use crate::system::{Model, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Written at the head of every plan file.
pub const FORMAT: &str = "solocore-plan/1";
/// Most tasks of a plan that repeats for each task what follows from its numbers: the reason of its
/// numbers, the terms of its bound and the assumptions of all bounds. Its file has a line for each
/// value. With more tasks, the first analysed one has the assumptions of all, and the file is one
/// line.
pub const BRIEF: usize = 100_000;

/// The scheme, which decides when each task runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "file::SchemeFile", into = "file::SchemeFile")]
pub enum Scheme {
    /// Fixed priorities on each core; budgets, where there are any, separate the cores.
    #[default]
    Budgets,
    /// Each partition runs in its window of a time table (single-core-equivalence).
    Windows(Box<WindowsPlan>),
    /// Levels A to D, each on hardware of its own (mc2-os-isolation).
    Levels(Box<LevelsPlan>),
    /// Sporadic servers for the tasks (maracas).
    Vcpus(Box<VcpusPlan>),
}

/// Quality of the choice of shares, where the planner chose them together (`share = "optimal"`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// No other choice is better, up to the tolerance of the proof where there is one.
    pub optimal: bool,
    /// Largest improvement by another choice, as a part of the possible value, 0 to 1.
    pub gap: f64,
    /// The search for a proof, where a time limit was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// A search over all cores of the tasks and all ways of the cores, with pages locked where they
/// save most. It ends with a certificate, which an independent function checks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// What is proved.
    pub result: ProofResult,
    /// Part of the objective up to which another choice may be better.
    pub tolerance: f64,
    /// Placements of the tasks on equal cores that the check found closed; 0 where it closed none.
    pub placements: u64,
    /// Facts of the certificate about the tasks of one core.
    pub facts: u64,
    /// Placements with their ways that the certificate closes one by one.
    pub leaves: u64,
}

/// Result of the search for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProofResult {
    /// No other choice is better.
    Best,
    /// No choice meets the requirement that the plan misses: a deadline, or else the wanted
    /// slowdown.
    Impossible,
    /// Nothing: the time was too short, or a choice could not be excluded.
    Open,
}

/// A plan file, also the output of `solocore plan --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name and version of the format: `solocore-plan/1`.
    pub format: String,
    /// Every analysed task meets its deadline.
    pub schedulable: bool,
    /// The model of the memory that bounds rest on. Plans without this key have `sce`.
    #[serde(default = "papers_model")]
    pub model: Model,
    /// Tasks, in the order of the system file.
    pub tasks: Vec<PlanTask>,
    /// Cores, by id.
    pub cores: Vec<PlanCore>,
    /// The rule that gave each number, and the reasons of the verdict.
    pub reasons: Vec<String>,
    /// Assumptions of the verdict.
    pub assumptions: Vec<String>,
    /// Promises: conditions of the bounds, which a part of the run must keep. Older plans have
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<Promise>,
    /// The regulation of memory traffic.
    pub regulation: PlanRegulation,
    /// Locked functions and bandwidth that the planner chose for wanted slowdowns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<PlanLock>,
    /// The whole board, so that the plan needs no other file.
    pub platform: Platform,
    /// Mean speed of the best-effort programs, estimated; 1 is the speed alone on the machine. Only
    /// where every deadline is met, with optimal shares, `lock = "jobs"` or dynamic budgets, and up
    /// to 512 tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_effort_speed: Option<f64>,
    /// Quality of the choice of shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// The choices of optimal shares with their prices, where these were asked for (`--explain`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// For a plan that is not schedulable: changes of one key; each change makes it schedulable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repair: Vec<advice::Repair>,
    /// Changes with which the plan was made, and their effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what_if: Option<advice::WhatIf>,
    /// Files that the plan was made from: the system file, its platform file, and profiles that it
    /// names. Older plans have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PlanInput>,
    /// Profiles and traces of the tasks by name, as zstd in base64. A plan that was written to a
    /// file has them and needs no other file. The `profile` of a task is then such a name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carried: BTreeMap<String, String>,
    /// The scheme, which decides when each task runs.
    #[serde(flatten)]
    pub scheme: Scheme,
}

fn papers_model() -> Model {
    Model::Sce
}

impl Plan {
    /// Has it more tasks than [`BRIEF`]?
    #[must_use]
    pub fn is_brief(&self) -> bool {
        self.tasks.len() > BRIEF
    }

    /// Reads and checks a plan.
    ///
    /// # Errors
    /// The file cannot be read, is not a plan of this version, or cannot be run as it stands.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::parse(path, &files::read_text(path)?)
    }

    /// As [`Plan::load`], of the text of a plan; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Plan::load`], except those of reading.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let wrong =
            |message: String| ModelError::Invalid { path: path.to_owned(), line: None, message };
        let other = |format: &str| {
            wrong(format!("its format is `{format}`, not a plan of this version; plan again"))
        };
        let plan: Self = serde_json::from_str(text).map_err(|e| {
            // Its keys may be others as well.
            match Kind::Plan.other_version(text, FORMAT) {
                Some(format) => other(&format),
                None => Kind::Plan.explains(path, text, ModelError::from_json(path, &e)),
            }
        })?;
        if plan.format != FORMAT {
            return Err(other(&plan.format));
        }
        plan.check()
            .map_err(|what| wrong(format!("{what}; make the plan again with `solocore plan`")))?;
        Ok(plan)
    }

    /// The first way of a core's share of the shared cache, and their number.
    #[must_use]
    pub fn ways_of(&self, core: u32) -> Option<(u32, u32)> {
        if let Some(levels) = self.levels() {
            let core = levels.cores.iter().find(|c| c.id == core)?;
            return Some((core.ways.first, core.ways.count));
        }
        let at = self.cores.iter().position(|c| c.id == core)?;
        let before = self.cores[..at].iter().map(|c| c.ways).fold(0, u32::saturating_add);
        Some((before, self.cores[at].ways))
    }

    /// The colours of a core, of a cache with `colours` colours in all: those that VCPUs take with
    /// them, or those that stand for the core's ways.
    #[must_use]
    pub fn colours_of(&self, core: u32, colours: u32) -> Option<(u32, u32)> {
        let (first, ways) = self.ways_of(core)?;
        let moving = self.vcpus().map(|v| &v.scheduling).filter(|s| s.migration.is_some());
        if let Some(have) = moving.and_then(|s| s.core_colours.as_ref()) {
            let (first, count) = have.range(core);
            return u32::try_from(first).ok().zip(u32::try_from(count).ok());
        }
        Some(PlanCore::colours_for(first, ways, self.platform.llc.ways, colours))
    }

    /// The colours of a core for its locked pages alone; `None`: it has no locked pages, or no
    /// colours.
    ///
    /// # Errors
    /// Its colours do not hold its pages.
    pub fn lock_colours(&self, core: u32) -> Result<Option<LockColours>, String> {
        locked::of_core(&self.platform, &self.cores, &self.tasks, core)
    }

    /// The locked pages of a task, each with its frame; empty where it has none.
    ///
    /// # Errors
    /// The colours of its core do not hold the core's pages.
    pub fn locked_in_colours(&self, task: &str) -> Result<Vec<(PageName, LockFrame)>, String> {
        let Some(task) = self.tasks.iter().find(|t| t.name == task) else { return Ok(Vec::new()) };
        let colours = self.lock_colours(task.core)?;
        Ok(colours.map_or_else(Vec::new, |colours| locked::of_task(colours, &self.tasks, task)))
    }

    /// Checks that the plan can be run as it stands. Plans are files, and files get edited.
    ///
    /// # Errors
    /// A value in it that is impossible.
    pub fn check(&self) -> Result<(), String> {
        /// Times are held in picoseconds.
        const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
        /// Of 4 KiB, with addresses of 57 bits.
        const MOST_PAGES: u64 = 1 << 45;
        self.platform.check().map_err(|what| format!("platform: {what}"))?;
        let period = self.regulation.period_ns;
        if period == 0 || period > LONGEST_NS {
            return Err(format!("regulation.period_ns = {period} is impossible"));
        }
        if self.regulation.policy == Policy::Any {
            return Err("regulation.policy is any, and a plan has one".to_owned());
        }
        if self.regulation.lock_budget_accesses == Some(0) {
            return Err(
                "regulation.lock_budget_accesses is zero, so no other task could run beside a lock"
                    .to_owned(),
            );
        }
        if self.cores.is_empty() || self.cores.len() > self.platform.cores as usize {
            return Err(format!(
                "it has {} cores, the platform {}",
                self.cores.len(),
                self.platform.cores
            ));
        }
        for (at, core) in self.cores.iter().enumerate() {
            if core.id as usize != at {
                return Err(format!("core {} stands in the place of core {at}", core.id));
            }
            if core.budget_accesses == Some(0) {
                return Err(format!("core {at} has a budget of zero"));
            }
            if core.lock_capacity_pages.max(core.locked_pages) > MOST_PAGES {
                return Err(format!("core {at} locks more pages than fit in an address space"));
            }
            if let Some(writes) = core.write_budget_accesses
                && (writes == 0 || core.budget_accesses.is_none_or(|all| writes >= all))
            {
                return Err(format!(
                    "core {at} has a write budget that is not a part of its budget"
                ));
            }
            let banks = self.platform.total_banks();
            if core
                .banks
                .is_some_and(|(first, count)| count == 0 || first.saturating_add(count) > banks)
            {
                return Err(format!(
                    "core {at} has banks that the platform lacks ({banks} in all)"
                ));
            }
            // So no two cores share one.
            if core.colours.is_some()
                && core.colours != self.colours_of(core.id, self.platform.colours())
            {
                return Err(format!("core {at} has colours that do not stand for its ways"));
            }
        }
        if self.tasks.is_empty() {
            return Err("it has no tasks".to_owned());
        }
        let placed = self.cores.iter().any(|c| c.ways > 0 || c.banks.is_some())
            || self.tasks.iter().any(|t| !t.locked_pages.is_empty());
        if placed && !self.regulation.pages.is_own() {
            return Err("regulation.pages is \"anywhere\", but there are ways, banks or locked \
                pages of cores"
                .to_owned());
        }
        let giving = |t: &PlanTask| self.cores.get(t.core as usize).is_some_and(|c| c.gives);
        if let Some(task) = self.tasks.iter().find(|t| !t.best_effort() && giving(t)) {
            return Err(format!(
                "core {} gives away a part of its budget, and the bound of the analysed task `{}` \
                    there counts on all of it; make the plan again",
                task.core, task.name
            ));
        }
        if let Some(windows) = self.windows() {
            windows.check(&self.tasks, u32::try_from(self.cores.len()).unwrap_or(u32::MAX))?;
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
                return Err(format!(
                    "task `{name}` has a time or a count that does not fit in 24 hours"
                ));
            }
        }
        if let Some(vcpus) = self.vcpus() {
            vcpus.check(&self.tasks, self.cores.len())?;
        }
        if let Some(lock) = &self.lock {
            lock.check(&self.tasks)?;
        }
        let r = &self.regulation;
        if r.lock_reaction_ns.is_some() && r.lock_budget_accesses.is_none() {
            return Err("regulation.lock_reaction_ns lacks its lock_budget_accesses".to_owned());
        }
        match self.levels() {
            Some(levels) => levels
                .check(&self.tasks, self.cores.len(), &self.platform)
                .map_err(|what| format!("mc2: {what}")),
            None => Ok(()),
        }
    }

    /// Partitions and their windows, in a plan of windows.
    #[must_use]
    pub fn windows(&self) -> Option<&WindowsPlan> {
        if let Scheme::Windows(windows) = &self.scheme { Some(windows) } else { None }
    }

    /// Levels on isolated hardware, in a plan of levels.
    #[must_use]
    pub fn levels(&self) -> Option<&LevelsPlan> {
        if let Scheme::Levels(levels) = &self.scheme { Some(levels) } else { None }
    }

    /// VCPUs, in a plan of VCPUs.
    #[must_use]
    pub fn vcpus(&self) -> Option<&VcpusPlan> {
        if let Scheme::Vcpus(vcpus) = &self.scheme { Some(vcpus) } else { None }
    }
}
