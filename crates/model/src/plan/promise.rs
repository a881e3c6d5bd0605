//! The conditions of a plan's bounds, as data: promises that must be kept while it runs.
//!
//! Problem: a bound holds only while its assumptions are kept. Rule: the planner writes each
//! assumption once, with the tasks whose bounds rest on it ([`Promise`]); a run answers each with
//! the part that keeps it, if that was checked, and the reason ([`Answer`]). If no part keeps a
//! promise, the tasks with bounds on it lose their verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of promise.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A task runs on its core, in its place among the others there.
    Place,
    /// Jobs are released at their period, not more often.
    Releases,
    /// Alone, a job takes no longer and misses no more often than stated or profiled.
    Demand,
    /// A core makes at most its budget of accesses in a period, for any programs there.
    Budget,
    /// A core makes at most its budget of writes in a period.
    WriteBudget,
    /// Cores without analysed tasks make at most the soft budget of accesses while a job runs.
    SoftBudget,
    /// Begin and end of each job are signalled.
    Jobs,
    /// Calls of a task's functions hold the bandwidth lock.
    Sections,
    /// While a task holds the bandwidth lock, programs other than analysed tasks make at most the
    /// budget beside it on a core.
    LockBudget,
    /// A task holds the bandwidth lock while it runs.
    Holds,
    /// While an analysed task runs, programs other than analysed tasks make at most the budget
    /// beside the lock on a core.
    BesideJobs,
    /// Only the plan's tasks make accesses on a core.
    Others,
    /// No other core uses these ways of the shared cache.
    Ways,
    /// No other core uses these DRAM banks.
    Banks,
    /// Pages stay in the shared cache.
    LockedPages,
    /// Pages of a task have the colours that its misses by ways were counted with, and its ways
    /// replace the least recently used line.
    PageColours,
    /// A partition runs in its window, and no other does.
    Window,
    /// Locked pages are there when a window begins.
    Prefetch,
    /// A device's transfer keeps to its slots.
    Transfer,
    /// Slots of a level's time table are kept.
    Slots,
    /// Levels come in their order.
    Levels,
    /// A message or input buffer lies where the plan has it.
    Buffer,
    /// A VCPU has its capacity in each period.
    Vcpu,
    /// Interrupts go to other cores.
    Interrupts,
    /// Cores that the plan leaves out make no accesses.
    IdleCores,
    /// No prefetcher adds traffic.
    Prefetchers,
    /// No device adds traffic.
    Devices,
    /// The memory is as the platform file has it.
    Memory,
}

/// An assumption that bounds rest on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// Subject and resource, as in `budget:core-2`; no two of a plan are equal.
    pub id: String,
    /// Kind of promise.
    pub subject: Subject,
    /// Tasks with bounds that rest on it.
    pub bound_of: Vec<String>,
    /// In a plan with too many tasks to name them each time: cores on which the bounds of all tasks
    /// rest on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound_of_cores: Vec<u32>,
    /// The promise in words.
    pub what: String,
    /// Subject of the promise: a core, a task, a partition, or the whole machine.
    pub resource: String,
}

impl Promise {
    /// A promise about one resource; its id follows from subject and resource.
    #[must_use]
    pub fn new(subject: Subject, resource: &str, bound_of: Vec<String>, what: String) -> Self {
        let id = format!("{}:{}", subject.name(), resource.replace(' ', "-"));
        let resource = resource.to_owned();
        Self { id, subject, bound_of, bound_of_cores: Vec::new(), what, resource }
    }

    /// The same for all tasks of these cores.
    #[must_use]
    pub fn of_cores(self, cores: Vec<u32>) -> Self {
        Self { bound_of_cores: cores, ..self }
    }

    /// The core of its resource, if that is a core.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.resource.strip_prefix("core ")?.parse().ok()
    }

    /// The name of its resource without the kind: `task video` is `video`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.resource.split_once(' ').map_or(&self.resource, |(_, name)| name)
    }
}

impl Subject {
    /// Whether bounds of wanted slowdowns rest on it (`lock.tasks` of the plan), and no response
    /// time does.
    #[must_use]
    pub fn of_slowdown(self) -> bool {
        matches!(self, Self::Sections | Self::LockBudget)
    }

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Releases => "releases",
            Self::Demand => "demand",
            Self::Budget => "budget",
            Self::WriteBudget => "write-budget",
            Self::SoftBudget => "soft-budget",
            Self::Jobs => "jobs",
            Self::Sections => "sections",
            Self::LockBudget => "lock-budget",
            Self::Holds => "holds",
            Self::BesideJobs => "beside-jobs",
            Self::Others => "others",
            Self::Ways => "ways",
            Self::Banks => "banks",
            Self::LockedPages => "locked-pages",
            Self::PageColours => "page-colours",
            Self::Window => "window",
            Self::Prefetch => "prefetch",
            Self::Transfer => "transfer",
            Self::Slots => "slots",
            Self::Levels => "levels",
            Self::Buffer => "buffer",
            Self::Vcpu => "vcpu",
            Self::Interrupts => "interrupts",
            Self::IdleCores => "idle-cores",
            Self::Prefetchers => "prefetchers",
            Self::Devices => "devices",
            Self::Memory => "memory",
        }
    }
}

/// A promise, and the part of a run that keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The promise.
    #[serde(flatten)]
    pub promise: Promise,
    /// The part of the run that keeps the promise, or `platform` or `profile` where a file vouches
    /// for it; `null`: no part.
    pub kept_by: Option<String>,
    /// The run sees whether the promise is kept.
    pub checked: bool,
    /// Means by which the promise is kept, or the reason why it is open, and the remedy.
    pub why: String,
}

impl Answer {
    /// The answer that a part keeps the promise.
    #[must_use]
    pub fn kept(promise: &Promise, by: &str, checked: bool, why: impl Into<String>) -> Self {
        Self { promise: promise.clone(), kept_by: Some(by.to_owned()), checked, why: why.into() }
    }

    /// The answer that no part keeps the promise.
    #[must_use]
    pub fn open(promise: &Promise, checked: bool, why: impl Into<String>) -> Self {
        Self { promise: promise.clone(), kept_by: None, checked, why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_subject_and_resource() {
        let promise = Promise::new(Subject::WriteBudget, "core 2", Vec::new(), String::new());
        assert_eq!(promise.id, "write-budget:core-2");
        assert_eq!((promise.core(), promise.name()), (Some(2), "2"));
        let words = serde_json::to_value(Subject::WriteBudget).unwrap();
        assert_eq!(words, Subject::WriteBudget.name());
    }
}
