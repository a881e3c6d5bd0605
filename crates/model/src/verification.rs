//! Results of `solocore verify`: each task's promise beside its measured times under attack.
//!
//! Rule: a task is measured by itself on its core: alone, beside enemies on all other CPUs, and
//! beside enemies while the plan is enforced. Its limit then is `C_sce` of its plan. Times are from
//! a job's release to its end. Then all tasks run at once, released as planned: their response
//! times contain the effects of tasks of one core, one window or one scheduler on each other.
//! Source: single-core-equivalence, section 4: an execution time that is measured while all other
//! cores use up their budgets is valid for every load on them.

use crate::plan::Answer;
use crate::times::Times;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Written at the head of the file.
pub const FORMAT: &str = "solocore-verify/1";

/// The check of a plan on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Name and version of the format: `solocore-verify/1`.
    pub format: String,
    /// Jobs in each of the three cases.
    pub jobs: u64,
    /// Jobs beside each kind of enemy, to find the worst.
    pub search_jobs: u64,
    /// Memory of each enemy.
    pub enemy_bytes: u64,
    /// Tasks that were measured by themselves, in the order of the plan.
    pub tasks: Vec<Verified>,
    /// Trials with all tasks at once. Absent where no core has several tasks, in a plan of budgets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Cases that no trial covered, in words.
    pub untested: Vec<String>,
    /// Promises of the plan that no part kept during the trials.
    pub open: Vec<Answer>,
    /// Ids of promises that were kept when a trial began, but not at its end.
    pub broken: Vec<String>,
    /// A task exceeded a promise of the plan.
    pub exceeded: bool,
}

/// A task, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// Name of the task.
    pub name: String,
    /// Core of the task.
    pub core: u32,
    /// `C` of the plan: longest time of a job alone.
    pub wcet_ns: u64,
    /// The longest job alone.
    pub alone_ns: u64,
    /// The longest job beside enemies while the plan is enforced, with those of the search.
    pub attacked_ns: u64,
    /// The longest job beside enemies while nothing is enforced.
    pub unmanaged_ns: u64,
    /// `C_sce` of the plan: longest time of a job that has its core to itself; `null` where the
    /// plan gives no bound.
    pub promise_ns: Option<u64>,
    /// The bound on the same by the plan's bandwidth lock, for the wanted slowdown; absent: the task
    /// wants none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_bound_ns: Option<u64>,
    /// Unused part of the lesser of both promises: `1 - attacked_ns / promise_ns`. Below 0, the
    /// promise was exceeded.
    pub margin: Option<f64>,
    /// The enemy that hurts most while the plan is enforced; `null` without enemies.
    pub worst_channel: Option<String>,
    /// The enemy that hurts most while nothing is enforced.
    pub worst_unmanaged_channel: Option<String>,
    /// CPUs with enemies while the plan was enforced.
    pub enemies: Vec<u32>,
    /// Tasks of other cores that ran as planned at the same time.
    pub beside: Vec<String>,
    /// Times of the jobs alone.
    pub alone: Times,
    /// Times of the jobs beside enemies, with nothing enforced.
    pub unmanaged: Times,
    /// Times of the jobs beside enemies, with the plan enforced.
    pub attacked: Times,
    /// The search for the worst enemy: the longest job beside each kind.
    pub channels: Vec<Channel>,
    /// Numbers of the plan that were exceeded: `demand` (`C` alone), or `c_sce` or `slowdown` (under
    /// attack).
    pub exceeded: Vec<String>,
}

/// All tasks of a plan at once, beside enemies, while the plan is enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Kinds of enemies, one after the other; empty: none ran.
    pub channels: Vec<String>,
    /// CPUs with enemies.
    pub enemies: Vec<u32>,
    /// Time beside each kind of enemy.
    pub duration_ns: u64,
    /// Analysed tasks that ran, in the order of the plan.
    pub tasks: Vec<Responded>,
}

/// A task among the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Responded {
    /// Name of the task.
    pub name: String,
    /// Core of the task; a task of level C runs on every core.
    pub core: u32,
    /// Jobs that count. The first beside each kind of enemy does not count, except where the kernel
    /// schedules levels.
    pub jobs: u64,
    /// The longest response of these jobs, from release to end.
    pub max_response_ns: u64,
    /// Bound on the response: `wcrt_ns` of the plan, or deadline and tardiness; `null` without one.
    pub promise_ns: Option<u64>,
    /// Unused part of the promise: `1 - max_response_ns / promise_ns`.
    pub margin: Option<f64>,
    /// The enemy beside which a response was longest.
    pub worst_channel: Option<String>,
    /// Jobs that ended after their deadlines.
    pub misses_deadline: u64,
    /// The plan promises that no job misses its deadline.
    pub schedulable: bool,
    /// Jobs that used up all their time before they were done, where levels have such times.
    pub overruns: u64,
    /// Responses of the jobs; of the last ones, where a run has more jobs than it keeps one by one.
    /// Empty where the kernel schedules levels and keeps only their longest.
    pub responses: Times,
    /// Promises that were exceeded: `response` (the bound), `deadline` (of a schedulable task) or
    /// `demand` (the time that a level gives its jobs).
    pub exceeded: Vec<String>,
}

impl Responded {
    /// Judges the measurements: sets the margin and the exceeded numbers.
    pub fn judge(&mut self) {
        let seen = self.max_response_ns;
        let bound = self.promise_ns.filter(|&promise| promise > 0 && self.jobs > 0);
        self.margin = bound.map(|promise| 1.0 - seen as f64 / promise as f64);
        self.exceeded.clear();
        if self.promise_ns.is_some_and(|promise| seen > promise) {
            self.exceeded.push("response".to_owned());
        }
        if self.schedulable && self.misses_deadline > 0 {
            self.exceeded.push("deadline".to_owned());
        }
        if self.overruns > 0 {
            self.exceeded.push("demand".to_owned());
        }
    }
}

/// A kind of enemy in the search, and the longest of a few jobs beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// Kind of the enemy.
    pub channel: String,
    /// The longest job, with nothing enforced.
    pub unmanaged_ns: u64,
    /// The longest job, with the plan enforced.
    pub attacked_ns: u64,
}

impl Verified {
    /// The lesser of both promises, ns; `None`: the plan has neither.
    #[must_use]
    pub fn promised_ns(&self) -> Option<u64> {
        self.promise_ns.into_iter().chain(self.slowdown_bound_ns).min()
    }

    /// Judges the measurements: sets margins and the exceeded numbers.
    pub fn judge(&mut self) {
        let searched = |of: fn(&Channel) -> u64| self.channels.iter().map(of).max().unwrap_or(0);
        self.alone_ns = self.alone.max_ns;
        self.unmanaged_ns = self.unmanaged.max_ns.max(searched(|c| c.unmanaged_ns));
        self.attacked_ns = self.attacked.max_ns.max(searched(|c| c.attacked_ns));
        self.margin = self
            .promised_ns()
            .filter(|&promise| promise > 0)
            .map(|promise| 1.0 - self.attacked_ns as f64 / promise as f64);
        self.exceeded.clear();
        if self.alone_ns > self.wcet_ns {
            self.exceeded.push("demand".to_owned());
        }
        if self.promise_ns.is_some_and(|promise| self.attacked_ns > promise) {
            self.exceeded.push("c_sce".to_owned());
        }
        if self.slowdown_bound_ns.is_some_and(|bound| self.attacked_ns > bound) {
            self.exceeded.push("slowdown".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(wcet_ns: u64, promise_ns: Option<u64>, alone: u64, attacked: u64) -> Verified {
        let mut task = Verified {
            wcet_ns,
            promise_ns,
            alone: Times::of(vec![1, alone]),
            attacked: Times::of(vec![attacked, 1]),
            ..Verified::default()
        };
        task.judge();
        task
    }

    #[test]
    fn responses_are_held_against_bounds_and_deadlines() {
        let judged = |promise_ns, max_response_ns, misses_deadline, schedulable| {
            let mut task = Responded {
                promise_ns,
                max_response_ns,
                misses_deadline,
                schedulable,
                jobs: 1,
                ..Responded::default()
            };
            task.judge();
            task
        };
        assert_eq!(judged(Some(10), 10, 0, true).exceeded.len(), 0);
        assert_eq!(judged(Some(10), 11, 0, true).exceeded, ["response"]);
        assert_eq!(judged(Some(10), 9, 1, true).exceeded, ["deadline"]);
        assert_eq!(judged(None, 9, 1, false).exceeded.len(), 0);
        assert_eq!(judged(Some(10), 5, 0, true).margin, Some(0.5));
    }

    #[test]
    fn the_longest_job_is_held_against_the_promise() {
        let kept = judged(10, Some(20), 10, 20);
        assert_eq!((kept.exceeded.len(), kept.margin), (0, Some(0.0)));
        assert_eq!(judged(10, Some(20), 10, 15).margin, Some(0.25));
        let mut slowed = Verified { slowdown_bound_ns: Some(18), ..judged(10, Some(20), 10, 19) };
        slowed.judge();
        assert_eq!((slowed.exceeded, slowed.promise_ns), (vec!["slowdown".to_owned()], Some(20)));
        assert!(slowed.margin.unwrap() < 0.0);
        let both = judged(10, Some(20), 11, 21);
        assert_eq!(both.exceeded, ["demand", "c_sce"]);
        assert!(both.margin.unwrap() < 0.0);
        let unbound = judged(10, None, 5, 1000);
        assert_eq!((unbound.exceeded.len(), unbound.margin), (0, None));
    }
}
