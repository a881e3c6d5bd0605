//! What `solocore verify` found: each task's promise beside what was measured under attack.
//!
//! Rule: a task is measured by itself on its core: alone, beside enemies on all other CPUs, and
//! beside enemies while the plan is enforced. What it may take then is `C_sce` of its plan. Times are
//! from a job's release to its end.
//! Source: single-core-equivalence, section 4: an execution time that is measured while all other
//! cores use their budgets up stands for every load of theirs.

use crate::plan::Answer;
use crate::times::Times;
use serde::{Deserialize, Serialize};

/// Written at the head of the file.
pub const FORMAT: &str = "solocore-verify/1";

/// A plan held against this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// [`FORMAT`].
    pub format: String,
    /// Jobs in each of the three cases.
    pub jobs: u64,
    /// Jobs beside each kind of enemy, to find the worst.
    pub search_jobs: u64,
    /// Memory of each enemy, bytes.
    pub enemy_bytes: u64,
    /// Tasks that were measured, in the order of the plan.
    pub tasks: Vec<Verified>,
    /// What nobody tried, in words.
    pub untested: Vec<String>,
    /// Promises of the plan that nobody kept meanwhile.
    pub open: Vec<Answer>,
    /// Ids of promises that were kept as a trial began and were not at its end.
    pub broken: Vec<String>,
    /// Did a task exceed what is promised of it?
    pub exceeded: bool,
}

/// A task, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// `C` of its plan: what a job may take alone.
    pub wcet_ns: u64,
    /// The longest job alone.
    pub alone_ns: u64,
    /// The longest job beside enemies while the plan is enforced, those of the search as well.
    pub attacked_ns: u64,
    /// The longest job beside enemies while nothing is enforced.
    pub unmanaged_ns: u64,
    /// `C_sce` of its plan: what a job may take that has its core to itself; `null` where the plan
    /// bounds nothing.
    pub promise_ns: Option<u64>,
    /// The part of the promise that was not needed: `1 - attacked_ns / promise_ns`; below 0: it was
    /// exceeded.
    pub margin: Option<f64>,
    /// The enemy that hurts most while the plan is enforced; `null` without enemies.
    pub worst_channel: Option<String>,
    /// The enemy that hurts most while nothing is enforced.
    pub worst_unmanaged_channel: Option<String>,
    /// CPUs with enemies while the plan was enforced.
    pub enemies: Vec<u32>,
    /// Tasks of other cores that ran as planned meanwhile.
    pub beside: Vec<String>,
    /// Alone.
    pub alone: Times,
    /// Beside enemies, nothing enforced.
    pub unmanaged: Times,
    /// Beside enemies, the plan enforced.
    pub attacked: Times,
    /// The search.
    pub channels: Vec<Channel>,
    /// What was exceeded: "demand" (`C` alone), "c_sce" (under attack).
    pub exceeded: Vec<String>,
}

/// A kind of enemy in the search, and the longest of a few jobs beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// What the enemy does.
    pub channel: String,
    /// Nothing enforced.
    pub unmanaged_ns: u64,
    /// The plan enforced.
    pub attacked_ns: u64,
}

impl Verified {
    /// Judges what was measured: sets margin and what was exceeded.
    pub fn judge(&mut self) {
        let searched = |of: fn(&Channel) -> u64| self.channels.iter().map(of).max().unwrap_or(0);
        self.alone_ns = self.alone.max_ns;
        self.unmanaged_ns = self.unmanaged.max_ns.max(searched(|c| c.unmanaged_ns));
        self.attacked_ns = self.attacked.max_ns.max(searched(|c| c.attacked_ns));
        self.margin = self
            .promise_ns
            .filter(|&promise| promise > 0)
            .map(|promise| 1.0 - self.attacked_ns as f64 / promise as f64);
        self.exceeded.clear();
        if self.alone_ns > self.wcet_ns {
            self.exceeded.push("demand".to_owned());
        }
        if self.promise_ns.is_some_and(|promise| self.attacked_ns > promise) {
            self.exceeded.push("c_sce".to_owned());
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
    fn the_longest_job_is_held_against_the_promise() {
        let kept = judged(10, Some(20), 10, 20);
        assert_eq!((kept.exceeded.len(), kept.margin), (0, Some(0.0)));
        assert_eq!(judged(10, Some(20), 10, 15).margin, Some(0.25));
        let both = judged(10, Some(20), 11, 21);
        assert_eq!(both.exceeded, ["demand", "c_sce"]);
        assert!(both.margin.unwrap() < 0.0);
        let unbound = judged(10, None, 5, 1000);
        assert_eq!((unbound.exceeded.len(), unbound.margin), (0, None));
    }
}
