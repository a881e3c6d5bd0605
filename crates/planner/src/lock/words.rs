//! The choice of a lock in words: its reasons, and the reason why there is none.
//!
//! Rule: each number of a choice is named with its alternative. A refusal names the nearest
//! slowdown that could be kept. Does not cover: errors of profiles and of other tasks, which are
//! worded where they are found.

use super::bounds::Asker;
use crate::error::PlanError;
use solocore_model::plan::{LockedTask, PlanLock};
use solocore_model::{Bandwidth, Time};

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Functions in words.
fn list(functions: &[String]) -> String {
    if functions.is_empty() { "no function".to_owned() } else { functions.join(", ") }
}

/// Thousandths as a factor.
fn factor(permille: u64) -> String {
    format!("{}", permille as f64 / 1000.0)
}

/// The reasons of a choice.
pub fn reasons(lock: &PlanLock, budget: u64, period: Time) -> Vec<String> {
    let mut out: Vec<String> = lock.tasks.iter().map(of_task).collect();
    if lock.tasks.iter().all(|t| t.functions.is_empty()) {
        return out;
    }
    let bandwidth = |bytes: u64| format!("{:.2}", Bandwidth(bytes));
    let rule = if lock.stated {
        "as stated"
    } else {
        "the least price of all sets of functions and bandwidths that keep the wanted slowdowns"
    };
    out.push(format!(
        "lock_bandwidth: {} ({budget} accesses in {period}) beside a held lock, {rule}; another \
            core loses {} on average at most",
        bandwidth(lock.bandwidth_bytes_per_s),
        bandwidth(lock.price_bytes_per_s),
    ));
    out.push(match &lock.next {
        Some(next) => format!(
            "next best lock: {} for {}, with lock_bandwidth {}; another core would lose {}",
            list(&next.functions),
            next.task,
            bandwidth(next.bandwidth_bytes_per_s),
            bandwidth(next.price_bytes_per_s)
        ),
        None => "next best lock: no other set of functions keeps the wanted slowdowns".to_owned(),
    });
    out
}

/// The reason of a task's functions.
fn of_task(t: &LockedTask) -> String {
    let unlocked = t.unlocked_ns.map_or("without a bound".to_owned(), ms);
    if t.functions.is_empty() {
        return format!(
            "lock of {}: none is needed; its execution takes at most {} beside the other cores, of \
                {} wanted",
            t.name,
            ms(t.bound_ns),
            ms(t.limit_ns)
        );
    }
    format!(
        "lock of {}: {} ({} call(s) a job, {} alone) cover {} of {} accesses; execution beside \
            the other cores {}, of {} wanted; without the lock {unlocked}",
        t.name,
        list(&t.functions),
        t.sections,
        ms(t.held_ns),
        t.covered,
        t.accesses,
        ms(t.bound_ns),
        ms(t.limit_ns),
    )
}

/// The error that no set of a task's functions keeps the wanted slowdown beside `budget` accesses
/// of each other core in a period. `stated`: the bandwidth that the system file states.
pub fn refused(asker: &Asker, budget: u64, stated: Option<Bandwidth>) -> PlanError {
    let name = asker.name;
    let wanted = factor(asker.permille);
    let with = match stated {
        Some(bandwidth) => format!("with lock_bandwidth = \"{bandwidth}\""),
        None => "even with one access of each other core in a period".to_owned(),
    };
    let bound = |set: Vec<usize>| Some((asker.bound(&set, budget)?, set));
    let Some((least_ps, set)) = asker.sets().filter_map(bound).min() else {
        return PlanError(format!(
            "task `{name}`: {with}, no set of its functions bounds the execution time within a \
                thousand times its C; name functions in lock, or set row_hit_cap in the platform \
                file if its controller has one"
        ));
    };
    let needed = (u128::from(least_ps) * 1000).div_ceil(u128::from(asker.alone_ps.max(1)));
    let needed = factor(u64::try_from(needed).unwrap_or(u64::MAX));
    let job = asker.job(&set);
    let or_leave = if stated.is_some() { ", or leave lock_bandwidth out" } else { "" };
    PlanError(format!(
        "task `{name}`: {with}, no set of its functions keeps slowdown = {wanted}; the least bound \
            is {} ({needed} times its C), with {} locked and {} of {} accesses outside; set \
            slowdown = {needed}{or_leave}",
        ms(least_ps.div_ceil(1000)),
        list(&asker.sections.symbols(&set)),
        job.accesses.saturating_sub(job.covered),
        job.accesses
    ))
}
