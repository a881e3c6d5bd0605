//! The bandwidth lock as the planner chose it for wanted slowdowns.
//!
//! Problem: a reader of a plan must see why these functions hold the lock, and what another choice
//! would have cost. Rule: a choice has its bandwidth, its price, the next best choice, and each
//! task's bounds with the time that they rest on. Source: bwlock, sections 3 and 5. Does not cover:
//! functions that the system file names; these are in `program` of a task.

use crate::derivation::Derivation;
use crate::plan::{PlanTask, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Looks of a CPU at the lock in a regulation period.
const LOOKS_PER_PERIOD: u64 = 10;
/// Shortest time between two looks, ns.
const SHORTEST_LOOK_NS: u64 = 50_000;

/// The locked functions and the bandwidth beside a held lock, as they were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanLock {
    /// Bandwidth that each core has for tasks that are not real-time while the lock is held.
    pub bandwidth_bytes_per_s: u64,
    /// The system file states that bandwidth; the planner chose the functions only.
    pub stated: bool,
    /// Longest time from the beginning of a section until the other cores keep to it.
    pub reaction_ns: u64,
    /// Price: bandwidth that another core loses by the lock on average, if it would use all of the
    /// memory's.
    pub price_bytes_per_s: u64,
    /// The choice with the next higher price; `null`: there is no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextLock>,
    /// The tasks for which functions were chosen.
    pub tasks: Vec<LockedTask>,
}

/// Another choice that also keeps the wanted slowdowns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextLock {
    /// Its bandwidth of each core beside a held lock.
    pub bandwidth_bytes_per_s: u64,
    /// Its price, as `price_bytes_per_s` of the choice.
    pub price_bytes_per_s: u64,
    /// Name of the task whose functions differ.
    pub task: String,
    /// The functions of that task.
    pub functions: Vec<String>,
}

/// A task with its chosen functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockedTask {
    /// Name of the task.
    pub name: String,
    /// Functions whose calls hold the lock; empty: the wanted slowdown is kept without.
    pub functions: Vec<String>,
    /// Least DRAM accesses of a job during their calls.
    pub covered: u64,
    /// DRAM accesses of a job.
    pub accesses: u64,
    /// Calls in a job.
    pub sections: u64,
    /// Time of these calls alone on the board.
    pub held_ns: u64,
    /// `C`: execution time of a job alone.
    pub alone_ns: u64,
    /// Longest execution time that the wanted slowdown allows.
    pub limit_ns: u64,
    /// Bound on the execution time beside the other cores, with these functions and this bandwidth.
    pub bound_ns: u64,
    /// Statement on the wanted slowdown: `meets`, or `no bound` in a run where nobody keeps a
    /// promise that the bound rests on; `null` in a plan of an older solocore, which lists no such
    /// promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// That bound if no function held the lock; `null`: there is no bound, or it is more than a
    /// thousand times the time alone.
    #[serde(default)]
    pub unlocked_ns: Option<u64>,
    /// That bound with one access more in each period beside the lock; `null` as there.
    #[serde(default)]
    pub one_more_ns: Option<u64>,
    /// Derivation of the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derivation: Option<Derivation>,
}

impl PlanLock {
    /// Bound on the execution time of a task with a wanted slowdown, ns; `None`: it wants none.
    #[must_use]
    pub fn bound_of(&self, task: &str) -> Option<u64> {
        self.tasks.iter().find(|t| t.name == task).map(|t| t.bound_ns)
    }

    /// Checks that the program of each task holds the lock in all chosen functions.
    ///
    /// # Errors
    /// The task and the function that it lacks.
    pub fn check(&self, tasks: &[PlanTask]) -> Result<(), String> {
        for locked in &self.tasks {
            let task = tasks.iter().find(|t| t.name == locked.name);
            let held = |f: &&String| task.is_some_and(|t| t.program.lock.contains(f));
            if let Some(lacks) = locked.functions.iter().find(|f| !held(f)) {
                return Err(format!(
                    "lock: the program of task `{}` does not hold the lock in `{lacks}`, which the \
                        plan chose; plan again",
                    locked.name
                ));
            }
        }
        Ok(())
    }

    /// Longest time from the beginning of a section to the next look of another CPU at the lock,
    /// ns. While there are clients, a CPU looks every tenth of a regulation period, at the shortest
    /// every 50 us (docs/lock.md).
    #[must_use]
    pub fn reaction_of(period_ns: u64) -> u64 {
        period_ns.div_ceil(LOOKS_PER_PERIOD).max(SHORTEST_LOOK_NS)
    }

    /// Longest time from the beginning of a job that holds the lock until every other CPU has seen
    /// it, ns. The job's own CPU knows its thread from a change of threads on, but at the latest
    /// from its next look on: a kernel may refuse the program at such changes.
    #[must_use]
    pub fn reaction_to_jobs(period_ns: u64) -> u64 {
        Self::reaction_of(period_ns).saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a run looks less often than the bounds assume: `docs/lock.md` has the figures.
    #[test]
    fn a_look_comes_every_tenth_of_a_period_or_every_50_us() {
        assert_eq!(PlanLock::reaction_of(1_000_000), 100_000);
        assert_eq!(PlanLock::reaction_of(100_000), 50_000);
        assert_eq!(PlanLock::reaction_of(1_000_001), 100_001);
        assert_eq!(PlanLock::reaction_to_jobs(1_000_000), 200_000);
    }
}
