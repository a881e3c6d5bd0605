//! What `solocore run --replace` asks for, the daemon's answer, and the handovers of a run.
//!
//! Problem: a run may have had several plans, but its result has one bound for each task. Rule: the
//! result lists the last handovers, and a task's bound is the weakest one of all plans. A plan
//! counts from the beginning of its handover, also if that is given up. Promises that were broken
//! under an earlier plan stay broken. The tasks are those of the plan in force. Does not cover: the
//! decision on another plan (`replace`).

use super::promises::{bounds, slowdowns};
use crate::error::LinuxError;
use crate::host::status;
use crate::schedule::placed::How;
use serde::{Deserialize, Serialize};
use solocore_model::Plan;
use solocore_model::files::to_json;
use solocore_model::plan::{Answer, PlanTask};
use solocore_model::run::{RunHandover, RunResult, RunTask};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// Maximum number of handovers that a run lists: the latest ones. A controller may make one each
/// second.
const LISTED: usize = 200;

/// The daemon's answer to another plan.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    /// It is in force.
    Taken(RunHandover),
    /// It is not a plan, or no machine can regulate it.
    BadInput(String),
    /// The run cannot go over to it.
    Refused(String),
}

impl From<LinuxError> for Decision {
    fn from(error: LinuxError) -> Self {
        match error {
            LinuxError::Input(why) => Self::BadInput(why),
            LinuxError::Machine(why) => Self::Refused(why),
        }
    }
}

/// Has the running solocore go over to another plan, which was read from `path`.
///
/// # Errors
/// None runs, this process may not ask, or the run goes on under its old plan.
pub fn replace(path: &Path, plan: &Plan) -> Result<RunHandover, LinuxError> {
    // The run has the profiles of the same tasks already.
    let plan = Plan { carried: BTreeMap::new(), ..plan.clone() };
    let name = path.display().to_string().replace(char::is_control, "?");
    let answer = status::send_plan(&format!("{name}\n{}", to_json(&plan)))?;
    match serde_json::from_str(&answer) {
        Ok(Decision::Taken(handover)) => Ok(handover),
        Ok(Decision::BadInput(why)) => Err(LinuxError::Input(why)),
        Ok(Decision::Refused(why)) => Err(LinuxError::Machine(why)),
        Err(e) => Err(LinuxError::Machine(format!(
            "this solocore cannot read the answer of the running one: {e}; use the same version"
        ))),
    }
}

/// The handovers of a run.
#[derive(Default)]
pub(super) struct Replacing {
    pub pending: Option<Pending>,
    /// The latest that are done, in their order.
    pub done: VecDeque<RunHandover>,
    /// Number of those that were done before.
    dropped: u64,
    /// The weakest bound of each task under other plans; `None`: one of them had none.
    pub earlier: BTreeMap<String, Option<u64>>,
    /// The same for the bounds on slowdowns by the lock.
    earlier_slowdowns: BTreeMap<String, Option<u64>>,
    /// Promises of earlier plans that were broken while these were in force.
    pub broken: BTreeSet<String>,
}

/// A plan that comes into force.
pub(super) struct Pending {
    /// Its number at the socket.
    pub number: u64,
    /// Its file.
    pub name: String,
    pub plan: Plan,
    /// The part that hands over.
    pub part: usize,
    /// Answers to the plan's promises.
    pub answers: Vec<Answer>,
    /// Cores on which neither plan bounds a job that is active during the handover.
    pub uncovered: Vec<u32>,
    pub begun_ns: u64,
}

impl Replacing {
    /// Adds a handover that is done.
    pub fn add(&mut self, handover: RunHandover) {
        if self.done.len() == LISTED {
            self.done.pop_front();
            self.dropped += 1;
        }
        self.done.push_back(handover);
    }

    /// Adds the handovers to a result. The longest responses of a run may be from earlier plans, so
    /// a task's bound is the weakest one of all.
    pub fn seen(&self, run: &mut RunResult) {
        run.handovers = self.done.iter().cloned().collect();
        run.earlier_handovers = self.dropped;
        for task in &mut run.tasks {
            if let Some(&earlier) = self.earlier.get(&task.name) {
                task.bound_ns = weaker(task.bound_ns, earlier);
            }
            if let Some(&earlier) = self.earlier_slowdowns.get(&task.name) {
                task.slowdown_bound_ns = weaker(task.slowdown_bound_ns, earlier);
            }
        }
    }

    /// Gives a result the tasks of the plan in force, in its order. Best effort that the run does
    /// not start can be other than in its first plan.
    pub fn order(&self, plan: &Plan, run: &mut RunResult) {
        if self.done.is_empty() || run.tasks.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut run.tasks).into_iter();
        let mut rows: BTreeMap<String, RunTask> = rows.map(|t| (t.name.clone(), t)).collect();
        let row = |task: &PlanTask| {
            let not_run = || RunTask {
                name: task.name.clone(),
                how: How::NotRun.word().to_owned(),
                ..RunTask::default()
            };
            RunTask { core: task.core, ..rows.remove(&task.name).unwrap_or_else(not_run) }
        };
        run.tasks = plan.tasks.iter().map(row).collect();
    }

    /// Keeps the bounds of a plan under which jobs may have run; tasks of `uncovered` cores have
    /// none.
    pub fn keep_bounds(&mut self, plan: &Plan, answers: &[Answer], uncovered: &[u32]) {
        for (task, bound) in bounds(plan, answers) {
            let bound = bound.filter(|_| !uncovered.contains(&task.core));
            weaken(&mut self.earlier, &task.name, bound);
        }
        let slowdowns = slowdowns(plan, answers);
        for PlanTask { name, core, .. } in &plan.tasks {
            let bound = slowdowns.get(name).copied().filter(|_| !uncovered.contains(core));
            weaken(&mut self.earlier_slowdowns, name, bound);
        }
    }

    /// Tasks of these cores have no bound in this run.
    pub fn lose_bounds(&mut self, plan: &Plan, cores: &[u32]) {
        for task in plan.tasks.iter().filter(|task| cores.contains(&task.core)) {
            self.earlier.insert(task.name.clone(), None);
            self.earlier_slowdowns.insert(task.name.clone(), None);
        }
    }
}

/// Keeps the weaker one of a task's bound under earlier plans and of one more.
fn weaken(earlier: &mut BTreeMap<String, Option<u64>>, task: &str, bound: Option<u64>) {
    let weakest = earlier.get(task).map_or(bound, |&known| weaker(known, bound));
    earlier.insert(task.to_owned(), weakest);
}

/// The weaker one of two bounds; `None`: there is none.
fn weaker(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::{Promise, Subject};

    #[test]
    fn the_tasks_of_a_result_are_those_of_the_last_plan() {
        let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        let row = |task: &PlanTask| RunTask { name: task.name.clone(), ..RunTask::default() };
        let tasks: Vec<RunTask> = plan.tasks.iter().map(row).collect();
        let mut run = RunResult { tasks, ..RunResult::default() };
        run.tasks[0].jobs = 7;
        plan.tasks[1].name = "logger".to_owned();
        let mut replacing = Replacing::default();
        replacing.order(&plan, &mut run);
        assert_eq!(run.tasks[1].name, "batch", "it is the first plan");
        replacing.add(RunHandover::default());
        replacing.order(&plan, &mut run);
        let found: Vec<(&str, u64)> = run.tasks.iter().map(|t| (t.name.as_str(), t.jobs)).collect();
        assert_eq!(found, [("video", 7), ("logger", 0)]);
        assert_eq!((run.tasks[1].how.as_str(), run.tasks[1].core), ("not run", plan.tasks[1].core));
    }

    #[test]
    fn the_slowdown_by_the_lock_has_the_weakest_bound_of_all_plans() {
        let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        let names = vec!["video".to_owned()];
        plan.promises = vec![Promise::new(Subject::Demand, "task video", names, String::new())];
        let mut of = |bound_ns: Option<u64>| {
            let locked = |bound_ns: u64| {
                serde_json::json!({
                    "bandwidth_bytes_per_s": 1, "stated": true, "reaction_ns": 1,
                    "price_bytes_per_s": 1,
                    "tasks": [{"name": "video", "functions": [], "covered": 1, "accesses": 1,
                        "sections": 1, "held_ns": 1, "alone_ns": 1, "limit_ns": 9,
                        "bound_ns": bound_ns, "verdict": "meets"}]
                })
            };
            plan.lock = bound_ns.map(|b| serde_json::from_value(locked(b)).unwrap());
            plan.clone()
        };
        let seen = |replacing: &Replacing, now| {
            let task =
                RunTask { name: "video".to_owned(), slowdown_bound_ns: now, ..RunTask::default() };
            let mut run = RunResult { tasks: vec![task], ..RunResult::default() };
            replacing.seen(&mut run);
            run.tasks[0].slowdown_bound_ns
        };
        let mut replacing = Replacing::default();
        assert_eq!(seen(&replacing, Some(5)), Some(5));
        replacing.keep_bounds(&of(Some(7)), &[], &[]);
        replacing.keep_bounds(&of(Some(6)), &[], &[]);
        assert_eq!((seen(&replacing, Some(5)), seen(&replacing, Some(8))), (Some(7), Some(8)));
        replacing.keep_bounds(&of(None), &[], &[]);
        assert_eq!(seen(&replacing, Some(5)), None, "it had no bound under one of the plans");
    }

    /// Fails where the list grows with the handovers of a run, or its number is not that of all.
    #[test]
    fn a_run_lists_its_last_handovers() {
        let mut replacing = Replacing::default();
        let handover = |ended_ns| RunHandover { ended_ns, ..RunHandover::default() };
        (0..100_000).for_each(|ended_ns| replacing.add(handover(ended_ns)));
        assert!(replacing.done.capacity() <= 2 * LISTED, "{}", replacing.done.capacity());
        let mut run = RunResult::default();
        replacing.seen(&mut run);
        let last = run.handovers.last().map(|handover| handover.ended_ns);
        assert_eq!((run.handovers.len(), last), (LISTED, Some(99_999)));
        assert_eq!(run.earlier_handovers + LISTED as u64, 100_000);
    }
}
