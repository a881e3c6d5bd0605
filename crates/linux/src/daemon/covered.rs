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
//! deadlines. Does not cover: other tasks, and other demands of tasks on cores with the same ways;
//! such plans are refused before (`difference`).

use crate::regulate::handover::{Budgets, Change, covers_by_new, covers_by_old};
use crate::regulate::shared::UNLIMITED;
use solocore_model::Plan;
use solocore_model::plan::{PlanCore, Subject};
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
    };
    let changes: Vec<Change> = pairs.map(change).collect();
    let keeps = |core: &u32| {
        let (before, after) = (ways_of(old, *core), ways_of(new, *core));
        after.start <= before.start && before.end <= after.end
    };
    let divided = divided_cores(old, new);
    let old_holds = !counts_on_jobs(old) || (new.schedulable && analysed.iter().all(keeps));
    let new_holds = !counts_on_jobs(new) || (old.schedulable && !divides_bounded(old, new));
    let covered = |core: &u32| {
        let by_old = old_holds && keeps(core) && covers_by_old(&changes, *core);
        let by_new = new_holds && !divided.contains(core) && covers_by_new(&changes, *core);
        by_old || by_new
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
    format!(
        "neither plan bounds a job on core {core} while all these budgets change; change the budget of \
            one core at a time, by several plans"
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
    plan.promises.iter().any(|promise| promise.subject == Subject::Others)
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
    use solocore_model::plan::{PlanTask, Promise};

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
