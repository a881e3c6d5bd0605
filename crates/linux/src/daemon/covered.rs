//! Which cores have jobs that neither of two plans bounds while a run goes over to the other one.
//!
//! Problem: a job that is active meanwhile runs under both plans. Rule: budgets as in
//! regulate/handover.rs. A core with analysed tasks that gets other ways must keep its old ones, so
//! that its jobs have at least these at each moment; and the old plan must bound them. A job that
//! loses ways in its midst may have more misses than in either plan. Without best effort, bounds
//! count on the jobs of other cores: on their misses, which are fewer in more ways, and on their
//! deadlines. During the handover either plan may bound these jobs. So such bounds of the old plan
//! hold only if all cores with jobs keep their ways, and if the new plan meets all deadlines. Those
//! of the new plan hold only if no such core gets other ways, and if the old plan meets all
//! deadlines. Analysed tasks may begin, end and differ: then jobs of both plans share a core. A
//! bound of a plan counts the jobs of its core, and each has there at most the demand that the plan
//! states. So it holds if the other plan has no further task there, and none that needs more: a
//! longer time, more misses, a shorter period, another place in the order of priorities, or another
//! deadline. Where bounds count on the jobs of other cores, this must be true on all cores. Does
//! not cover: other orders of tasks that the run starts; such plans are refused before
//! (`difference`).

use crate::regulate::dynamic::{self, SoftBudget};
use crate::regulate::handover::{Budgets, Change, covers_by_new, covers_by_old};
use crate::regulate::shared::UNLIMITED;
use solocore_model::Plan;
use solocore_model::plan::{PlanCore, PlanTask, Subject};
use std::collections::BTreeSet;
use std::ops::Range;

/// The remedy for plans that a run cannot take.
pub(super) const AGAIN: &str = "end the run and start it with the new plan";

/// The cores on which neither plan bounds a job that is active during the handover.
pub(super) fn uncovered_cores(old: &Plan, new: &Plan) -> Vec<u32> {
    let analysed = bounded_cores(old, new);
    let pairs = old.cores.iter().zip(&new.cores);
    let change = |(old, new): (&PlanCore, &PlanCore)| Change {
        cpu: old.id,
        old: budgets(old),
        new: budgets(new),
        samples: 0,
        dips: false,
    };
    let changes: Vec<Change> = pairs.map(change).collect();
    let keeps = |core: &u32| {
        let (before, after) = (ways_of(old, *core), ways_of(new, *core));
        after.start <= before.start && before.end <= after.end
    };
    let divided = divided_cores(old, new);
    let needs_no_more = |than: &Plan, plan: &Plan, core: u32| {
        let all = counts_on_jobs(than);
        let mut cores = plan.cores.iter().map(|c| c.id).filter(|&c| all || c == core);
        cores.all(|core| fits_into(than, plan, core))
    };
    let old_holds = !counts_on_jobs(old) || (new.schedulable && analysed.iter().all(keeps));
    let new_holds = !counts_on_jobs(new) || (old.schedulable && !divides_bounded(old, new));
    let (jobs_by_old, jobs_by_new) = dynamic::covers(&soft_budgets(old, new));
    let covered = |core: &u32| {
        let by_old = old_holds && keeps(core) && covers_by_old(&changes, *core) && jobs_by_old;
        let by_new =
            new_holds && !divided.contains(core) && covers_by_new(&changes, *core) && jobs_by_new;
        by_old && needs_no_more(old, new, *core) || by_new && needs_no_more(new, old, *core)
    };
    analysed.iter().copied().filter(|core| !covered(core)).collect()
}

/// The reason and the remedy, for a core of these.
pub(super) fn uncovered(old: &Plan, new: &Plan, core: u32) -> String {
    if divides_bounded(old, new) {
        return format!(
            "neither plan bounds a job on core {core} while ways of analysed tasks change: their \
                cores must keep their old ways and budgets, and no other budget may rise; {AGAIN}"
        );
    }
    if (counts_on_jobs(old) || counts_on_jobs(new)) && !(old.schedulable && new.schedulable) {
        return format!(
            "neither plan bounds a job on core {core} while budgets change: its bound counts on jobs of \
                other cores, which miss deadlines in one of the plans; {AGAIN}"
        );
    }
    if !fits_into(old, new, core) && !fits_into(new, old, core) {
        return format!(
            "neither plan bounds a job on core {core} while its tasks change: some need more and \
                others less, or come and go; change them by two plans, first those that end or \
                need less"
        );
    }
    let (by_old, by_new) = dynamic::covers(&soft_budgets(old, new));
    if !by_old && !by_new {
        return format!(
            "neither plan bounds a job on core {core} while soft budgets change, because some of \
                these or of their lengths grow and others shrink; change them by two plans, first \
                the ones that shrink"
        );
    }
    format!(
        "neither plan bounds a job on core {core} while all these budgets change; change the budget of \
            one core at a time, and no demands with it, by several plans"
    )
}

/// The cores on which jobs have no bound where ways come and go again: those with other ways, and
/// all cores if bounds count on the jobs there.
pub(super) fn unbounded_cores(old: &Plan, new: &Plan) -> Vec<u32> {
    if divides_bounded(old, new) && (counts_on_jobs(old) || counts_on_jobs(new)) {
        return old.cores.iter().map(|core| core.id).collect();
    }
    divided_cores(old, new)
}

/// Whether bounds of a plan count on the jobs of other cores.
fn counts_on_jobs(plan: &Plan) -> bool {
    let of_jobs = |subject| matches!(subject, Subject::Others | Subject::BesideJobs);
    plan.promises.iter().any(|promise| of_jobs(promise.subject))
}

/// Whether a core with tasks that have a bound gets other ways.
fn divides_bounded(old: &Plan, new: &Plan) -> bool {
    let bounded = bounded_cores(old, new);
    divided_cores(old, new).iter().any(|core| bounded.contains(core))
}

/// The cores of tasks that have a bound in one of the plans.
fn bounded_cores(old: &Plan, new: &Plan) -> BTreeSet<u32> {
    let tasks = old.tasks.iter().chain(&new.tasks);
    tasks.filter(|t| !t.best_effort() && t.wcrt_ns.is_some()).map(|t| t.core).collect()
}

/// The cores with other ways in the new plan.
fn divided_cores(old: &Plan, new: &Plan) -> Vec<u32> {
    let cores = old.cores.iter().map(|core| core.id);
    cores.filter(|&core| ways_of(old, core) != ways_of(new, core)).collect()
}

/// Whether each analysed task of a plan on a core is one of the other plan's there, and needs no
/// more. It also comes no more often, and has its deadline and its place in the order of priorities.
fn fits_into(other: &Plan, plan: &Plan, core: u32) -> bool {
    let mut place = 0;
    let analysed = |plan: &Plan| -> Vec<PlanTask> {
        let of_core = plan.tasks.iter().filter(|t| t.core == core && !t.best_effort());
        let mut tasks: Vec<PlanTask> = of_core.cloned().collect();
        tasks.sort_by_key(|task| task.priority);
        tasks
    };
    let room = analysed(other);
    analysed(plan).iter().all(|task| {
        let found = room.iter().skip(place).position(|other| other.name == task.name);
        let Some(other) = found.and_then(|at| room.get(place + at)) else { return false };
        place += found.unwrap_or(0) + 1;
        let fewer = task.wcet_ns <= other.wcet_ns
            && task.misses <= other.misses
            && task.crpd_ns <= other.crpd_ns;
        fewer && task.period_ns >= other.period_ns && task.deadline_ns == other.deadline_ns
    })
}

/// The dynamic budgets of all tasks and their lengths, in both plans. A length counts on the jobs
/// of other hard cores, and how far these can be delayed depends on their budgets.
fn soft_budgets(old: &Plan, new: &Plan) -> Vec<(SoftBudget, SoftBudget)> {
    let of = |task: &PlanTask| task.soft_budget.zip(task.soft_budget_length_ns);
    let pair = |before: &PlanTask| {
        let after = new.tasks.iter().find(|t| t.name == before.name)?;
        of(before).zip(of(after))
    };
    old.tasks.iter().filter_map(pair).collect()
}

fn ways_of(plan: &Plan, core: u32) -> Range<u32> {
    plan.ways_of(core).map_or(0..0, |(first, count)| first..first.saturating_add(count))
}

fn budgets(core: &PlanCore) -> Budgets {
    match (core.budget_accesses, core.write_budget_accesses) {
        (None, _) => Budgets::NONE,
        (Some(all), None) => Budgets { accesses: all, writes: UNLIMITED },
        (Some(all), Some(writes)) => Budgets { accesses: all.saturating_sub(writes), writes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::Promise;

    /// A plan with these ways and budgets; core 1 has an analysed task.
    fn plan(ways: [u32; 2], budgets: [u64; 2]) -> Plan {
        let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        for (core, (ways, budget)) in plan.cores.iter_mut().zip(ways.into_iter().zip(budgets)) {
            (core.ways, core.budget_accesses) = (ways, Some(budget));
        }
        plan
    }

    #[test]
    fn an_analysed_core_keeps_its_ways_and_its_budget_or_has_no_bound() {
        let old = plan([6, 6], [100, 100]);
        let cases: [([u32; 2], [u64; 2], &[u32]); 6] = [
            ([5, 7], [100, 100], &[]),
            ([5, 7], [80, 120], &[]),
            ([5, 7], [120, 100], &[1]),
            ([7, 5], [100, 100], &[1]),
            ([6, 6], [120, 80], &[]),
            ([6, 6], [120, 120], &[1]),
        ];
        for (ways, budgets, uncovered) in cases {
            let new = plan(ways, budgets);
            assert_eq!(uncovered_cores(&old, &new), uncovered, "{ways:?} {budgets:?}");
            assert_eq!(divided_cores(&old, &new).is_empty(), ways == [6, 6]);
        }
    }

    /// The same with an analysed task on each of both cores, and no other programs.
    fn known(ways: [u32; 2], budgets: [u64; 2]) -> Plan {
        let mut plan = plan(ways, budgets);
        let audio = PlanTask { name: "audio".to_owned(), core: 0, ..plan.tasks[0].clone() };
        plan.tasks = vec![plan.tasks[0].clone(), audio];
        plan.promises = vec![Promise::new(Subject::Others, "core 0", Vec::new(), String::new())];
        plan.schedulable = true;
        plan
    }

    #[test]
    fn bounds_that_count_on_the_misses_of_other_jobs_need_the_ways_of_these() {
        let (old, none) = (known([6, 6], [100, 100]), Vec::<u32>::new());
        assert_eq!(uncovered_cores(&old, &known([6, 6], [80, 100])), none);
        // Only the new plan bounds core 0, with the misses of core 1 in seven ways.
        let mut new = known([6, 7], [80, 100]);
        assert_eq!(uncovered_cores(&old, &new), [0]);
        assert!(uncovered(&old, &new, 0).contains("keep their old ways"));
        assert_eq!(unbounded_cores(&old, &new), [0, 1]);
        assert_eq!(uncovered_cores(&old, &known([6, 7], [100, 100])), none);
        // Core 1 loses ways.
        assert_eq!(uncovered_cores(&old, &known([6, 5], [100, 100])), [0, 1]);
        // Bounds that count on budgets alone.
        new.promises.clear();
        assert_eq!(uncovered_cores(&old, &new), none);
        assert_eq!(unbounded_cores(&new, &new), none);
    }

    /// A plan with these tasks on core 1: name, milliseconds of a job, period in milliseconds.
    fn with_tasks(tasks: &[(&str, u64, u64)]) -> Plan {
        let mut plan = plan([6, 6], [100, 100]);
        let video = plan.tasks[0].clone();
        let task = |(priority, &(name, wcet, period)): (u32, &(&str, u64, u64))| PlanTask {
            name: name.to_owned(),
            wcet_ns: wcet * 1_000_000,
            period_ns: Some(period * 1_000_000),
            priority,
            ..video.clone()
        };
        plan.tasks = (1..).zip(tasks).map(task).collect();
        plan
    }

    #[test]
    fn tasks_need_more_or_less_but_not_both_at_once() {
        let old = with_tasks(&[("video", 5, 50), ("audio", 2, 20)]);
        let of = |tasks| uncovered_cores(&old, &with_tasks(tasks)).is_empty();
        assert!(of(&[("video", 4, 50), ("audio", 2, 30)]), "they need less");
        assert!(of(&[("audio", 2, 20)]) && of(&[]), "tasks end");
        assert!(of(&[("video", 6, 50), ("audio", 2, 10)]), "they need more");
        assert!(of(&[("video", 5, 50), ("gps", 1, 10), ("audio", 2, 20)]), "one begins");
        assert!(!of(&[("video", 4, 50), ("audio", 3, 20)]));
        assert!(!of(&[("video", 4, 50), ("audio", 2, 10)]), "it comes more often");
        assert!(!of(&[("audio", 2, 20), ("video", 5, 50)]), "another order");
        let mixed = with_tasks(&[("video", 5, 50), ("gps", 1, 10)]);
        assert_eq!(uncovered_cores(&old, &mixed), [1]);
        assert!(uncovered(&old, &mixed, 1).contains("come and go; change them by two plans"));
        // Less from the new plan and less budget: each alone is covered by the old and by the new
        // plan, and both together by neither.
        let mut new = with_tasks(&[("video", 4, 50), ("audio", 2, 20)]);
        new.cores[1].budget_accesses = Some(80);
        assert_eq!(uncovered_cores(&old, &new), [1]);
    }

    #[test]
    fn the_soft_budgets_of_a_core_grow_or_shrink() {
        let with = |video: (u64, u64), audio: (u64, u64)| {
            let mut plan = with_tasks(&[("video", 5, 50), ("audio", 2, 20)]);
            for (task, (budget, length)) in plan.tasks.iter_mut().zip([video, audio]) {
                (task.soft_budget, task.soft_budget_length_ns) = (Some(budget), Some(length));
            }
            plan
        };
        let old = with((300, 9), (60, 3));
        assert!(uncovered_cores(&old, &with((200, 8), (60, 3))).is_empty());
        assert!(uncovered_cores(&old, &with((300, 9), (90, 4))).is_empty());
        for new in [with((200, 8), (90, 4)), with((200, 10), (60, 3))] {
            assert_eq!(uncovered_cores(&old, &new), [1]);
            assert!(uncovered(&old, &new, 1).contains("while soft budgets change"));
        }
    }

    #[test]
    fn bounds_that_count_on_the_deadlines_of_other_jobs_need_these_in_both_plans() {
        let old = known([6, 6], [100, 100]);
        let mut new = known([6, 6], [80, 100]);
        assert!(uncovered_cores(&old, &new).is_empty());
        // The old plan bounds core 1 if jobs of core 0 end by their deadlines.
        (new.schedulable, new.promises) = (false, Vec::new());
        assert_eq!(uncovered_cores(&old, &new), [1]);
        assert!(uncovered(&old, &new, 1).contains("miss deadlines in one of the plans"));
    }
}
