//! Differences of two plans beside their budgets, and the ways of their cores.
//!
//! Problem: a run can go over to a plan with other budgets, and to little else; a key that a later
//! version adds to plans must not slip through. Rule: the new plan gets the budgets of the old one,
//! and all that follows from budgets (bounds, promises, reasons). It also gets the keys that no
//! bound and no part of a run rests on: names of the platform, and the history of profiles. Where
//! the run divides the cache, it gets the ways, and the demands of tasks on cores with other ways.
//! Best effort that the run neither starts nor binds is left out: bounds count on the budgets of
//! its cores only. With policy `memguard`, analysed tasks of that kind are left out as well, and
//! the demands of tasks without a profile; `covered` says which bounds hold meanwhile. Tasks that
//! the run starts or binds keep their order on their core. Then both must be equal. The first key
//! that is not is named. Does not cover: profiles that the plans carry; the caller takes those of
//! the old plan.

use serde_json::{Map, Number, Value};
use solocore_model::plan::{PlanCore, PlanRegulation, PlanTask};
use solocore_model::system::Policy;
use solocore_model::{Plan, Platform};
use std::collections::BTreeSet;

/// Longest value that is shown.
const SHOWN: usize = 40;

/// The first difference between two plans beside budgets, and bounds that follow from them; where
/// the run `divides` the cache, also beside ways. `runs`: whether the run starts or binds a task.
pub(super) fn difference(
    old: &Plan,
    new: &Plan,
    divides: bool,
    runs: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let frees = frees(old) && frees(new);
    let (old, new) = (&without_others(old, frees, runs), &without_others(new, frees, runs));
    let names =
        |plan: &Plan| -> BTreeSet<String> { plan.tasks.iter().map(|t| t.name.clone()).collect() };
    let (before, after) = (names(old), names(new));
    if let Some(name) = after.symmetric_difference(&before).next() {
        return Some(format!("its tasks (`{name}`)"));
    }
    if old.cores.len() != new.cores.len() || old.tasks.len() != new.tasks.len() {
        return Some("the number of its cores or tasks".to_owned());
    }
    let mut new = with_budgets_of(old, new);
    if frees {
        new = with_demands_of(old, new);
    }
    if divides && old.regulation.policy == Policy::Memguard {
        new = with_ways_of(old, new);
    }
    // Long plans are seldom compared key by key.
    if new == *old {
        return None;
    }
    let value = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
    first_difference(&value(old), &value(&new), "")
}

/// Whether no part of a run knows the analysed tasks of the plan that it neither starts nor binds.
/// Clients signal jobs of hard tasks by their number, and time tables name tasks.
fn frees(plan: &Plan) -> bool {
    plan.regulation.policy == Policy::Memguard
        && plan.windows().is_none()
        && plan.levels().is_none()
}

/// A plan without the tasks that no part of the run knows; with `analysed`, also without such
/// analysed ones. The result of a run has the profiles of its first plan, so tasks with a profile
/// stay.
fn without_others(plan: &Plan, analysed: bool, runs: &dyn Fn(&str) -> bool) -> Plan {
    let mut plan = plan.clone();
    plan.tasks.retain(|task| {
        let known = task.profile.is_some() || !task.locked_pages.is_empty() || runs(&task.name);
        known || !(analysed || task.best_effort())
    });
    plan
}

/// A plan with the demands of another one's tasks that have no profile. Priorities are those of the
/// other one where the order on each core is the same: tasks in between may have come or gone.
fn with_demands_of(old: &Plan, mut new: Plan) -> Plan {
    let order = |plan: &Plan| -> Vec<(u32, String)> {
        let mut tasks: Vec<&PlanTask> = plan.tasks.iter().collect();
        tasks.sort_by_key(|task| (task.core, task.priority));
        tasks.into_iter().map(|task| (task.core, task.name.clone())).collect()
    };
    let in_order = order(old) == order(&new);
    for (old, new) in old.tasks.iter().zip(&mut new.tasks) {
        if old.profile.is_none() {
            (new.wcet_ns, new.misses, new.crpd_ns) = (old.wcet_ns, old.misses, old.crpd_ns);
        }
        if in_order {
            new.priority = old.priority;
        }
    }
    new
}

/// A plan with the ways of another one, and the colours that stand for them. The tasks of a core
/// with other ways have its demands.
fn with_ways_of(old: &Plan, mut new: Plan) -> Plan {
    let mut divided = BTreeSet::new();
    for (old, new) in old.cores.iter().zip(&mut new.cores) {
        new.colours = old.colours;
        if new.ways != old.ways {
            divided.insert(old.id);
            (new.ways, new.lock_capacity_pages) = (old.ways, old.lock_capacity_pages);
        }
    }
    for (old, new) in old.tasks.iter().zip(&mut new.tasks) {
        if divided.contains(&old.core) {
            (new.wcet_ns, new.misses, new.crpd_ns) = (old.wcet_ns, old.misses, old.crpd_ns);
        }
    }
    new
}

/// A plan with the budgets of another one, and all that may differ with them.
fn with_budgets_of(old: &Plan, new: &Plan) -> Plan {
    let core = |(old, new): (&PlanCore, &PlanCore)| PlanCore {
        budget_accesses: old.budget_accesses,
        write_budget_accesses: old.write_budget_accesses,
        bandwidth_bytes_per_s: old.bandwidth_bytes_per_s,
        utilization: old.utilization,
        margin: old.margin.clone(),
        ..new.clone()
    };
    let task = |(old, new): (&PlanTask, &PlanTask)| PlanTask {
        stall_ns: old.stall_ns,
        c_sce_ns: old.c_sce_ns,
        wcrt_ns: old.wcrt_ns,
        schedulable: old.schedulable,
        verdict: old.verdict,
        assumes: old.assumes.clone(),
        margin: old.margin,
        derivation: old.derivation.clone(),
        waterfall: old.waterfall.clone(),
        profiled: old.profiled.clone(),
        soft_budget: old.soft_budget,
        soft_budget_length_ns: old.soft_budget_length_ns,
        ..new.clone()
    };
    Plan {
        schedulable: old.schedulable,
        model: old.model,
        reasons: old.reasons.clone(),
        assumptions: old.assumptions.clone(),
        promises: old.promises.clone(),
        certificate: old.certificate,
        repair: old.repair.clone(),
        what_if: old.what_if.clone(),
        inputs: old.inputs.clone(),
        lock: old.lock.clone(),
        platform: Platform {
            name: old.platform.name.clone(),
            title: old.platform.title.clone(),
            ..new.platform.clone()
        },
        regulation: PlanRegulation {
            share: old.regulation.share,
            lock_budget_accesses: old.regulation.lock_budget_accesses,
            lock_reaction_ns: old.regulation.lock_reaction_ns,
            carry_in: old.regulation.carry_in,
            ..new.regulation.clone()
        },
        cores: old.cores.iter().zip(&new.cores).map(core).collect(),
        tasks: old.tasks.iter().zip(&new.tasks).map(task).collect(),
        ..new.clone()
    }
}

/// The place of the first difference between two values, with both.
fn first_difference(old: &Value, new: &Value, place: &str) -> Option<String> {
    let below =
        |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let of =
                |map: &Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            keys.into_iter()
                .find_map(|key| first_difference(&of(before, key), &of(after, key), &below(key)))
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let name = |at: usize, item: &Value| {
                item["name"].as_str().map_or_else(|| at.to_string(), str::to_owned)
            };
            let mut pairs = before.iter().zip(after).enumerate();
            pairs.find_map(|(at, (b, a))| first_difference(b, a, &below(&name(at, b))))
        }
        (Value::Number(before), Value::Number(after)) if are_close(before, after) => None,
        _ if old == new => None,
        _ => Some(format!("{place} ({}, now {})", shown(old), shown(new))),
    }
}

/// Whether two numbers with a fraction are equal but for the last digits, which can change when a
/// number is written and read again.
fn are_close(a: &Number, b: &Number) -> bool {
    let (true, Some(x), Some(y)) = (a.is_f64() && b.is_f64(), a.as_f64(), b.as_f64()) else {
        return false;
    };
    (x - y).abs() <= 1e-12 * x.abs().max(y.abs())
}

/// A value, cut to a length.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::Profiled;

    fn plan() -> Plan {
        serde_json::from_str(include_str!("../../tests/plan.json")).unwrap()
    }

    #[test]
    fn budgets_and_their_bounds_are_no_difference() {
        let mut new = plan();
        for core in &mut new.cores {
            core.budget_accesses = Some(77);
            core.bandwidth_bytes_per_s = None;
        }
        (new.tasks[0].wcrt_ns, new.tasks[0].stall_ns) = (None, 5);
        (new.schedulable, new.reasons) = (false, Vec::new());
        assert_eq!(difference(&plan(), &new, false, &|_| true), None);
        let again = serde_json::from_str(&serde_json::to_string(&new).unwrap()).unwrap();
        assert_eq!(difference(&plan(), &again, false, &|_| true), None);
    }

    #[test]
    fn names_and_the_history_of_profiles_are_no_difference() {
        let mut new = plan();
        (new.platform.name, new.platform.title) = ("lab".to_owned(), "Board of the lab".to_owned());
        let from_cache = Some("2026-11-20".to_owned());
        new.tasks[0].profiled = Some(Profiled { from_cache, ..Profiled::default() });
        assert_eq!(difference(&plan(), &new, false, &|_| true), None);
    }

    #[test]
    fn best_effort_that_the_run_does_not_start_may_differ() {
        let mut new = plan();
        new.tasks.push(PlanTask { name: "logger".to_owned(), ..new.tasks[1].clone() });
        new.tasks[1].wcet_ns += 1;
        assert_eq!(difference(&plan(), &new, false, &|_| false), None);
        new.tasks.remove(1);
        assert_eq!(difference(&plan(), &new, false, &|_| false), None);
        let found = difference(&plan(), &new, false, &|task| task == "batch").unwrap();
        assert_eq!(found, "its tasks (`batch`)");
    }

    #[test]
    fn analysed_tasks_that_the_run_does_not_start_may_come_and_go_with_memguard_only() {
        let mut new = plan();
        let (video, period_ns) = (new.tasks[0].clone(), Some(10_000_000));
        new.tasks[0].period_ns = period_ns;
        new.tasks.push(PlanTask { name: "audio".to_owned(), priority: 2, ..video });
        assert_eq!(difference(&plan(), &new, false, &|_| false), None);
        let found = difference(&plan(), &new, false, &|task| task == "video").unwrap();
        assert!(found.starts_with("tasks.video.period_ns ("), "{found}");
        let (mut old, mut soft) = (plan(), new);
        old.regulation.policy = Policy::Dynamic;
        soft.regulation.policy = Policy::Dynamic;
        let found = difference(&old, &soft, false, &|_| false).unwrap();
        assert_eq!(found, "its tasks (`audio`)");
    }

    #[test]
    fn tasks_that_the_run_starts_keep_their_order_and_not_their_demand() {
        let mut old = plan();
        let video = old.tasks[0].clone();
        old.tasks.push(PlanTask { name: "audio".to_owned(), priority: 2, ..video });
        let mut new = old.clone();
        (new.tasks[0].wcet_ns, new.tasks[0].misses) = (6_000_000, 70);
        // Another task has come in between.
        (new.tasks[0].priority, new.tasks[2].priority) = (1, 3);
        assert_eq!(difference(&old, &new, false, &|_| true), None);
        (new.tasks[0].priority, new.tasks[2].priority) = (2, 1);
        let found = difference(&old, &new, false, &|_| true).unwrap();
        assert!(found.starts_with("tasks.video.priority (1, now 2)"), "{found}");
    }

    #[test]
    fn ways_and_demands_in_them_differ_only_where_the_run_divides_the_cache() {
        let mut new = plan();
        let core = new.tasks[0].core;
        new.cores[core as usize].ways += 1;
        new.tasks[0].misses += 1;
        assert_eq!(difference(&plan(), &new, true, &|_| true), None);
        let found = difference(&plan(), &new, false, &|_| true).unwrap();
        assert!(found.starts_with("cores.1.ways ("), "{found}");
    }

    #[test]
    fn other_differences_are_refused_by_their_names() {
        type Change = fn(&mut Plan);
        let changes: [(Change, &str); 6] = [
            (|p| p.tasks[0].name = "camera".to_owned(), "its tasks (`camera`)"),
            (|p| p.tasks[1].deadline_ns = Some(7), "tasks.batch.deadline_ns ("),
            (|p| p.tasks[0].core = 0, "tasks.video.core (1, now 0)"),
            (|p| p.cores[1].ways += 1, "cores.1.ways ("),
            (|p| p.regulation.period_ns = 2_000_000, "regulation.period_ns (1000000, now 2000000)"),
            (|p| p.regulation.reclaim = true, "regulation.reclaim (null, now true)"),
        ];
        for (change, named) in changes {
            let mut new = plan();
            change(&mut new);
            let found = difference(&plan(), &new, false, &|_| true).unwrap();
            assert!(found.starts_with(named), "{found}");
        }
    }
}
