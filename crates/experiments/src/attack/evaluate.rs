//! One evaluation: plan a system, run its attack under the plan, compare.
//!
//! Rule: the plan's promises are compared as in `bounds`, `windows`, `vcpus` and `levels`.
//! Responses are compared with `wcrt_ns`. Execution times, which the simulator separates from the
//! cost of preemptions, are compared with `c_sce_ns` where that covers all other delays. No
//! deadline is missed where the plan says so. A job that has not ended counts with the time since
//! its release.

use super::system::{Attack, Policy};
use solocore_model::Platform;
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::results::{Mode, SimResult, TaskResult};
use solocore_sim::{Options, simulate_with};
use std::path::Path;

/// Shortest simulated time: some tens of refreshes.
const SHORTEST_NS: u64 = 300_000;
/// Longest simulated time, with budgets and without.
const LONGEST_NS: u64 = 8_000_000;
const LONGEST_UNREGULATED_NS: u64 = 2_000_000;

/// Result of an evaluation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The system cannot be planned: its reason.
    Refused(String),
    /// No analysed task has a bound.
    Unbounded,
    /// The largest ratio of seen to bound, its task and promise, and both numbers in ns.
    Bounded {
        /// Seen over bound.
        ratio: f64,
        /// The same without the victim's own computation: the search climbs this value. It is above
        /// 1 where `ratio` is.
        pressure: f64,
        /// A sentence with both numbers.
        what: String,
        /// Most accesses of a core in one period beyond its budget: those that were under way
        /// when it was stopped.
        beyond_budget: u64,
    },
}

/// Simulated time of an attack: a few jobs, and the one that follows.
pub fn duration_ns(attack: &Attack) -> u64 {
    // Windows come at other times of the regulation's period each time, and short jobs at other
    // times of a refresh.
    let jobs = if attack.policy == Policy::Windows { 24 } else { 2 };
    let jobs_ns = jobs * attack.victim.period_ns + attack.victim.period_ns / 2;
    let last = attack.victim.phase_ns + jobs_ns.max(SHORTEST_NS);
    let longest = match attack.policy {
        Policy::Windows => 2 * LONGEST_NS,
        Policy::Even | Policy::Uneven | Policy::Optimal | Policy::Anywhere => LONGEST_NS,
        Policy::Dynamic | Policy::Maracas | Policy::HeldJobs => LONGEST_NS / 3,
        _ => LONGEST_UNREGULATED_NS,
    };
    last.min(longest)
}

/// The plan of an attack's system. `dir` stands for the directory of the system's file.
///
/// # Errors
/// The reason why there is none.
pub fn planned(attack: &Attack, dir: &Path) -> Result<Plan, String> {
    let platform = Platform::find(&attack.board, dir).map_err(|e| e.to_string())?;
    let (system, demands) = attack.system(&platform, dir)?;
    solocore_planner::plan(&system, &demands).map_err(|e| e.to_string())
}

/// Runs an attack under its plan for `duration_ns`.
///
/// # Errors
/// The reason why it cannot be simulated.
pub fn simulated(attack: &Attack, plan: &Plan, duration_ns: u64) -> Result<SimResult, String> {
    let layout = solocore_sim::plan::layout(plan).map_err(|e| e.to_string())?;
    let options = Options { mode: Mode::Managed, duration_ns, seed: attack.seed, timeline_ns: 0 };
    simulate_with(plan, &options, &attack.stand_ins(plan, &layout), &|_| true)
        .map_err(|e| e.to_string())
}

/// The largest ratio of seen to bound over all promises to the analysed tasks, with a sentence.
pub fn worst(attack: &Attack, plan: &Plan, result: &SimResult) -> (f64, String) {
    let mut worst = (0.0f64, "nothing ran".to_owned());
    for (planned, seen) in plan.tasks.iter().zip(&result.tasks) {
        // It computes only, so that its bound is almost equal to the seen time: its ratio says
        // little.
        let computes = planned.name.starts_with("hold");
        for (ratio, what) in compare(attack, plan, planned, seen, result.simulated_ns) {
            if ratio > worst.0 && (ratio > 1.0 || !computes) {
                worst = (ratio, what);
            }
        }
    }
    worst
}

/// The parts of the victim's bound and of its longest response that exceed its own computation, as
/// a ratio.
fn pressure(attack: &Attack, plan: &Plan, result: &SimResult) -> f64 {
    let own = attack.victim.compute_ns;
    let ratio = |(planned, seen): (&PlanTask, &TaskResult)| {
        let bound = planned.wcrt_ns.filter(|_| planned.name == "victim")?;
        Some(
            seen.max_response_ns.saturating_sub(own) as f64
                / bound.saturating_sub(own).max(1) as f64,
        )
    };
    plan.tasks.iter().zip(&result.tasks).filter_map(ratio).fold(f64::MIN_POSITIVE, f64::max)
}

fn beyond_budget(plan: &Plan, result: &SimResult) -> u64 {
    let cores = plan.cores.iter().zip(&result.cores);
    let beyond = cores.filter_map(|(planned, seen)| {
        seen.max_accesses_per_period.checked_sub(planned.budget_accesses?)
    });
    beyond.max().unwrap_or(0)
}

/// Plans and runs one attack.
pub fn evaluate(attack: &Attack, dir: &Path) -> Outcome {
    let plan = match planned(attack, dir) {
        Ok(plan) => plan,
        Err(why) => return Outcome::Refused(why),
    };
    if plan.windows().is_some_and(|s| s.table.is_empty())
        || plan.tasks.iter().all(|t| t.wcrt_ns.is_none())
    {
        return Outcome::Unbounded;
    }
    match simulated(attack, &plan, duration_ns(attack)) {
        Ok(result) => {
            let (ratio, what) = worst(attack, &plan, &result);
            let pressure = if ratio > 1.0 { ratio } else { pressure(attack, &plan, &result) };
            Outcome::Bounded { ratio, pressure, what, beyond_budget: beyond_budget(&plan, &result) }
        }
        Err(why) => Outcome::Refused(why),
    }
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
    if seen.jobs == 0 {
        // The first job has not ended.
        let window = plan.windows().and_then(|s| s.window(planned.partition.as_ref()?));
        let phase = match attack.policy {
            Policy::Windows => window.map_or(duration_ns, |w| w.offset_ns),
            Policy::Levels => 0,
            _ => attack.analysed_task(&planned.name).map_or(0, |a| a.phase_ns),
        };
        let so_far = duration_ns.saturating_sub(phase);
        return Vec::from_iter(
            (so_far > bound).then(|| ratio("unfinished response", so_far, bound)),
        );
    }
    let mut out = vec![ratio("response", seen.max_response_ns, bound)];
    let alone = plan.tasks.iter().filter(|t| t.core == planned.core).count() == 1;
    let execution = match attack.policy {
        // A window, or a VCPU that is let in, begins with accesses under way of the one before.
        Policy::Maracas => None,
        Policy::Windows => {
            let home = plan
                .windows()
                .unwrap()
                .partitions
                .iter()
                .find(|p| planned.partition.as_ref() == Some(&p.name));
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
        out.push(ratio(
            "deadline of a schedulable task",
            seen.max_response_ns.max(deadline + 1),
            deadline,
        ));
    }
    out
}
