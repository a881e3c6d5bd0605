//! Actions and observations of solocore on a real machine, for every scheme, at the end of a run
//! and during it.
//!
//! Rule: each part of a run writes its observations into a section of its own, which is absent
//! where it took no part. They are regulation, a scheduler of levels or of VCPUs, tasks, clients,
//! shares by hardware. `solocore run`, `exec` and `vcpu serve` write it; `report`, `top` and
//! `--metrics` read it. Times of jobs count from the begin.

mod clients;
mod levels;
mod regulation;
mod tasks;
mod vcpus;

pub use clients::{RunClient, RunClientTransfer, RunLock, RunLockCore};
pub use levels::{RunIntruder, RunLevelCpu, RunLevelIntruder, RunLevelTask, RunLevels, RunLost};
pub use regulation::{
    RunCore, RunHandover, RunOtherBudget, RunOtherJobBudget, RunRegulation, RunSpan, RunSplit,
    RunWrites,
};
pub use tasks::{
    RunColoured, RunConfined, RunFunctions, RunGroup, RunInterrupts, RunJob, RunLocked, RunTask,
    RunTransfer, RunWindow,
};
pub use vcpus::{RunMigration, RunThrottling, RunVcpu, RunVcpuCpu, RunVcpuIntruder, RunVcpus};

use crate::plan::{Answer, Plan, Scheme};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Written at the head of the file.
pub const FORMAT: &str = "solocore-run/2";
/// Formats of the time before there was one format for all schemes.
const OLDER: &[&str] =
    &["solocore-run/1", "solocore-levels/1", "solocore-vcpus/1", "solocore-run-vcpus/1"];

/// Is this the format of a run's file of an older solocore, which this version does not read?
#[must_use]
pub fn is_older(format: &str) -> bool {
    OLDER.contains(&format)
}

/// The scheme that decided when each task ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunScheme {
    /// Fixed priorities on each core.
    #[default]
    Budgets,
    /// Windows of a time table.
    Windows,
    /// Levels A to D.
    Levels,
    /// VCPUs.
    Vcpus,
}

impl RunScheme {
    /// The scheme of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        match plan.scheme {
            Scheme::Budgets => Self::Budgets,
            Scheme::Windows(_) => Self::Windows,
            Scheme::Levels(_) => Self::Levels,
            Scheme::Vcpus(_) => Self::Vcpus,
        }
    }

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Budgets => "budgets",
            Self::Windows => "windows",
            Self::Levels => "levels",
            Self::Vcpus => "vcpus",
        }
    }
}

/// A run, at its end or so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Name and version of the format: `solocore-run/2`.
    pub format: String,
    /// The scheme of the plan.
    pub scheme: RunScheme,
    /// Length of the run.
    pub duration_ns: u64,
    /// `duration`, `signal` or `not yet`, or the reason why the run could not go on.
    pub ended: String,
    /// Notes to the user, in words.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The plan's promises, each with the part that keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<Answer>,
    /// Ids of promises that were kept when the run began, but not later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// The run began although no part kept some promises.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The regulation of accesses to memory.
    #[serde(flatten)]
    pub regulation: Option<RunRegulation>,
    /// Handovers to other plans (`solocore run --replace`), in their order: the last 200. The plan
    /// of the last one is in force, and `plan` is that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<RunHandover>,
    /// Number of handovers before those of `handovers`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_handovers: u64,
    /// The scheduler of levels and windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<RunLevels>,
    /// The scheduler of VCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<RunVcpus>,
    /// The plan's tasks, in its order.
    #[serde(default)]
    pub tasks: Vec<RunTask>,
    /// Drivers that solocore started; a job is a run of a driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<RunTask>,
    /// Observations by probes of programs that do not signal their jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<RunFunctions>,
    /// Windows of partitions, kept without a scheduler of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<RunWindow>,
    /// The time table's input and output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<RunTransfer>,
    /// Other programs that were kept off the cores of analysed tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<RunConfined>,
    /// Interrupts that were moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<RunInterrupts>,
    /// Groups with ways and bandwidth by the hardware, and their occupancy and traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<RunGroup>,
    /// Tasks on frames of their cores' colours and banks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coloured: Vec<RunColoured>,
    /// Locked pages that were read into ways of their own, or put into colours of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked_pages: Vec<RunLocked>,
    /// The bandwidth lock, and programs that signal jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<RunLock>,
    /// The plan, so that the file can be drawn by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl RunResult {
    /// Checks that it can be drawn. Files get edited.
    ///
    /// # Errors
    /// A value in it that is impossible.
    pub fn check(&self) -> Result<(), String> {
        match &self.regulation {
            Some(regulation) => regulation.check(),
            None if self.levels.is_some() || self.vcpus.is_some() => Ok(()),
            None => {
                Err("it has no period or no cores, and no scheduler of levels or VCPUs".to_owned())
            }
        }
    }

    /// Message about transfers without a client; `None` if there are none.
    #[must_use]
    pub fn unattended(&self) -> Option<String> {
        let alone: Vec<&str> =
            self.transfers.iter().filter(|t| t.clients == 0).map(|t| t.name.as_str()).collect();
        (!alone.is_empty()).then(|| format!("transfers without a driver: {}", alone.join(", ")))
    }

    /// Converts times of jobs, which are those of a clock, to times from the begin of the run.
    pub fn since(&mut self, begun_ns: u64) {
        let tasks = self.tasks.iter_mut().chain(&mut self.drivers).flat_map(|t| &mut t.latest);
        for job in tasks.chain(self.transfers.iter_mut().flat_map(|t| &mut t.latest)) {
            for time in [&mut job.release_ns, &mut job.start_ns, &mut job.end_ns] {
                *time = time.saturating_sub(begun_ns);
            }
        }
    }
}
