//! One evaluation: plan a system, run its attack under the plan, compare.
//!
//! Rule: what the plan promises is compared as in `bounds`, `sce_bounds`, `vcpus` and `levels`: responses with `wcrt_ns`; execution times, which
//! the simulator tells apart from what preemptions cost, with `c_sce_ns` where that covers all the rest; and no deadline is missed where the plan says so.
//! A job that has not ended counts with the time that it has been there.

use super::system::{Attack, Policy};
use solocore_model::Platform;
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::results::{Mode, TaskResult};
use solocore_sim::{Options, simulate_with};
use std::path::Path;

/// Longest simulated time, with budgets and without.
const LONGEST_NS: u64 = 8_000_000;
const LONGEST_UNREGULATED_NS: u64 = 2_000_000;

/// What came of an evaluation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The system cannot be planned: its reason.
    Refused(String),
    /// No analysed task has a bound.
    Unbounded,
    /// The largest seen over bound, of which task and promise, and both numbers in ns.
    Bounded {
        /// Seen over bound.
        ratio: f64,
        /// A sentence with both numbers.
        what: String,
        /// The victim's longest response over its `wcet`.
        slowdown: f64,
    },
}

/// Runs one attack. `dir` is where files of the system would be.
pub fn evaluate(attack: &Attack, dir: &Path) -> Outcome {
    let platform = match Platform::find(&attack.board, dir) {
        Ok(platform) => platform,
        Err(e) => return Outcome::Refused(e.to_string()),
    };
    let (system, demands) = match attack.system(&platform, dir) {
        Ok(found) => found,
        Err(e) => return Outcome::Refused(e),
    };
    let plan = match solocore_planner::plan(&system, &demands) {
        Ok(plan) => plan,
        Err(e) => return Outcome::Refused(e.to_string()),
    };
    if plan.sce.as_ref().is_some_and(|s| s.table.is_empty()) || plan.tasks.iter().all(|t| t.wcrt_ns.is_none()) {
        return Outcome::Unbounded;
    }
    let layout = solocore_sim::plan::layout(&plan).unwrap();
    let stand_ins = attack.stand_ins(&plan, &layout);
    let last = attack.victim.phase_ns + 2 * attack.victim.period_ns + attack.victim.period_ns / 2;
    let longest = match attack.policy {
        Policy::Even | Policy::Uneven | Policy::Windows | Policy::Dynamic => LONGEST_NS,
        _ => LONGEST_UNREGULATED_NS,
    };
    let options = Options { mode: Mode::Managed, duration_ns: last.min(longest), seed: attack.seed, timeline_ns: 0 };
    let result = match simulate_with(&plan, &options, &stand_ins, &|_| true) {
        Ok(result) => result,
        Err(e) => return Outcome::Refused(e.to_string()),
    };
    let mut worst = (0.0f64, String::from("nothing ran"));
    for (planned, seen) in plan.tasks.iter().zip(&result.tasks) {
        for (ratio, what) in compare(attack, &plan, planned, seen, options.duration_ns) {
            if ratio > worst.0 {
                worst = (ratio, what);
            }
        }
    }
    let slowdown = result.tasks[0].max_response_ns as f64 / plan.tasks[0].wcet_ns.max(1) as f64;
    Outcome::Bounded { ratio: worst.0, what: worst.1, slowdown }
}

fn compare(
    attack: &Attack,
    plan: &Plan,
    planned: &PlanTask,
    seen: &TaskResult,
    duration_ns: u64,
) -> Vec<(f64, String)> {
    let Some(bound) = planned.wcrt_ns.filter(|_| !planned.best_effort()) else { return Vec::new() };
    let ratio = |what: &str, seen: u64, bound: u64| {
        let sentence = format!("{what} of {}: bound {bound} ns, seen {seen} ns", planned.name);
        (seen as f64 / bound.max(1) as f64, sentence)
    };
    let scheduled = matches!(attack.policy, Policy::Windows | Policy::Levels);
    if seen.jobs == 0 && !scheduled {
        // The first job is there still.
        let phase = if planned.name == "victim" { attack.victim.phase_ns } else { 0 };
        let so_far = duration_ns.saturating_sub(phase);
        return Vec::from_iter((so_far > bound).then(|| ratio("unfinished response", so_far, bound)));
    }
    let mut out = vec![ratio("response", seen.max_response_ns, bound)];
    let alone = plan.tasks.iter().filter(|t| t.core == planned.core).count() == 1;
    let execution = match attack.policy {
        // A window, or a VCPU that is let in, begins with what another left under way.
        Policy::Maracas => None,
        Policy::Windows => {
            let home =
                plan.sce.as_ref().unwrap().partitions.iter().find(|p| planned.partition.as_ref() == Some(&p.name));
            home.map(|home| planned.c_sce_ns + (bound / home.period_ns + 1) * home.switch_ns)
        }
        Policy::Dynamic => (alone && planned.schedulable).then_some(planned.c_sce_ns),
        _ => Some(planned.c_sce_ns),
    };
    if let Some(execution) = execution {
        out.push(ratio("execution", seen.moet_ns, execution));
    }
    if planned.schedulable && planned.broken_by(seen) {
        let deadline = planned.deadline_ns.unwrap_or(0);
        out.push(ratio("deadline of a schedulable task", seen.max_response_ns.max(deadline + 1), deadline));
    }
    out
}
