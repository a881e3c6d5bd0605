//! Changes that make a plan schedulable, and the differences between a plan with changed keys and
//! the file's own.
//!
//! Rule: a change is a key of the system file and its new value, as
//! `solocore plan --what-if KEY=VALUE` reads them ([`crate::system::text::SystemText`]).

use super::task::{PlanTask, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// A change of one key with which every analysed task meets its deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repair {
    /// The key that changes, as `task.canny.period`.
    pub change: String,
    /// The new value, as `92.3 ms`.
    pub value: String,
    /// The changed system was planned, and is schedulable.
    pub verified: bool,
    /// Distance to the next smaller change, which does not make the plan schedulable. Absent where
    /// values have no distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The change in words.
    pub meaning: String,
}

impl Repair {
    /// The change as an option of `solocore plan`, quoted for a shell: `--what-if
    /// 'task.canny.period=92.3 ms'`.
    #[must_use]
    pub fn option(&self) -> String {
        let change = format!("{}={}", self.change, self.value);
        // No argument has a NUL.
        let word = shlex::try_quote(&change).unwrap_or(Cow::Borrowed(change.as_str()));
        format!("--what-if {word}")
    }
}

/// The changes with which a plan was made, and their effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// Each as `KEY=VALUE`.
    pub changes: Vec<String>,
    /// Why the file has no plan of its own; left out where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Tasks whose core, verdict or bound differs from the file's own plan.
    pub tasks: Vec<Compared>,
}

/// One task in both plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// Name of the task.
    pub task: String,
    /// In the file's own plan; `null` where it has no such task.
    pub before: Option<Outcome>,
    /// In this plan; `null` where it has no such task.
    pub after: Option<Outcome>,
}

/// Statement of a plan on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Core it is placed on.
    pub core: u32,
    /// `null` where nothing is promised.
    pub verdict: Option<Verdict>,
    /// Bound on its response time, nanoseconds; `null` where there is none.
    pub wcrt_ns: Option<u64>,
}

impl Outcome {
    fn of(task: &PlanTask) -> Self {
        Self { core: task.core, verdict: task.verdict, wcrt_ns: task.wcrt_ns }
    }
}

/// The outcomes by name of the task; a search for each name would be quadratic.
fn by_name(tasks: &[PlanTask]) -> HashMap<&str, Outcome> {
    tasks.iter().map(|t| (t.name.as_str(), Outcome::of(t))).collect()
}

impl WhatIf {
    /// Compares the tasks of the plan with `changes` to those of the file's own plan: `before`, or
    /// the reason why there is none.
    #[must_use]
    pub fn of(
        changes: Vec<String>,
        before: Result<&[PlanTask], String>,
        after: &[PlanTask],
    ) -> Self {
        let (own, refused) = match before {
            Ok(tasks) => (tasks, None),
            Err(why) => return Self { changes, refused: Some(why), tasks: Vec::new() },
        };
        let (first, then) = (by_name(own), by_name(after));
        let gone = own.iter().filter(|t| !then.contains_key(t.name.as_str()));
        let tasks = after.iter().chain(gone).map(|t| Compared {
            task: t.name.clone(),
            before: first.get(t.name.as_str()).cloned(),
            after: then.get(t.name.as_str()).cloned(),
        });
        Self { changes, refused, tasks: tasks.filter(|c| c.before != c.after).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let option = |change: &str, value: &str| {
            let repair = Repair {
                change: change.to_owned(),
                value: value.to_owned(),
                verified: true,
                step: None,
                meaning: String::new(),
            };
            repair.option()
        };
        assert_eq!(option("task.a.period", "92.3 ms"), "--what-if 'task.a.period=92.3 ms'");
        assert_eq!(option("task.it's.core", "1"), "--what-if \"task.it's.core=1\"");
        assert_eq!(option("task.$a'.core", "1"), "--what-if 'task.$a'\"'.core=1\"");
    }
}
