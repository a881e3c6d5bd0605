//! The reason for each number, and the assumptions of the verdict, in words.

use crate::budgets::dynamic::Dynamic;
use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::{DETAILED, Work};
use solocore_model::plan::{BRIEF, Plan, PlanCore, PlanTask};
use solocore_model::platform::Partition;
use solocore_model::system::Model;
use solocore_model::{Bandwidth, Time};

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// A number of ways.
pub fn ways(count: usize) -> String {
    if count == 1 { "1 way".to_owned() } else { format!("{count} ways") }
}

/// One line per rule that gave numbers, then the verdict's cause.
pub fn reasons(
    plan: &Plan,
    work: &[Work],
    r: &Resources,
    dynamic: Option<&Dynamic>,
) -> Vec<String> {
    let mut out = shares(plan, r, dynamic);
    for (t, w) in plan.tasks.iter().zip(work) {
        if !plan.is_brief() {
            out.push(task_reason(t, w, r));
        }
        out.extend(warnings(t, w, plan));
    }
    out.extend(plan.cores.iter().filter_map(margin_reason));
    out.extend(dynamic.and_then(|d| slow(plan, d)));
    out.push(dynamic.map_or_else(|| verdict(plan), |d| dynamic_verdict(plan, d)));
    out
}

/// Message about the parts that the plan leaves out for its number of tasks.
pub fn without_details(tasks: usize) -> String {
    let more = if tasks > BRIEF {
        format!(
            "; above {BRIEF}, it has no reasons for the numbers of single tasks and no terms of \
                their bounds, and the first analysed task has the assumptions of all bounds"
        )
    } else {
        String::new()
    };
    format!(
        "details: the system has {tasks} tasks; above {DETAILED}, a plan has no margins and \
            derivations, and each promise names cores in place of tasks{more}"
    )
}

/// Source of budgets that differ.
fn stated_rule(r: &Resources) -> String {
    match r.stated {
        None => "chosen together with cores and cache".to_owned(),
        Some(all) if all == r.cores => "as stated per core".to_owned(),
        Some(some) => {
            format!("as stated for {some} of {} cores; the others share the rest evenly", r.cores)
        }
    }
}

/// Bandwidth and stall under the interference model.
fn sound_shares(r: &Resources, out: &mut Vec<String>) {
    let ns = |ps: u64| format!("{:.1} ns", ps as f64 / 1000.0);
    let Some(stall) = r.stalls.first() else {
        let why = r.memory.as_ref().err().map_or("its timing is impossible", String::as_str);
        out.push(format!(
            "bandwidth: no bound can be given without the memory's timing ({why}); name \
                dram.memory in the platform file, or set [regulation] model = \"sce\""
        ));
        return;
    };
    let c = &stall.costs;
    let p = &r.platform;
    if r.other_programs {
        out.push(
            "other programs run on all cores, within the budgets and below the analysed tasks \
                (other_programs = true)"
                .to_owned(),
        );
    }
    if let Some(budgets) = &r.budgets {
        let rule = if r.explicit {
            stated_rule(r)
        } else {
            "even budgets; no larger even budget keeps the mean of the bounds within 2 % of its \
                least value"
                .to_owned()
        };
        let of = |(core, &q): (usize, &u64)| {
            format!("core {core} has Q = {q} ({:.2})", Bandwidth(r.bandwidth(q)))
        };
        let shown = if r.explicit { budgets.len() } else { 1 };
        let each: Vec<String> = budgets.iter().enumerate().take(shown).map(of).collect();
        out.push(format!(
            "bandwidth: {rule}; by accesses of {} in P = {}, {}",
            p.llc.line,
            Time::from_ps(r.regulation.period_ps),
            each.join(", ")
        ));
        for (core, writes) in r.write_budgets.iter().enumerate() {
            if let Some(writes) = writes {
                out.push(format!(
                    "core {core}: of its {} accesses a period {writes} are for writes and {} for \
                        reads",
                    budgets[core],
                    budgets[core] - writes
                ));
            }
        }
        if r.write_budgets.iter().all(Option::is_none) {
            out.push(format!(
                "writes: {}; so each access of another core is charged as the costlier kind, {} (a \
                    read alone would be {})",
                if p.dram.counts_writes {
                    "one budget for both kinds gives the lower bounds here"
                } else {
                    "this board counts no write-backs by core, and no budget of writes can be kept"
                },
                ns(c.any_ps),
                ns(c.read_ps)
            ));
        }
        out.push(format!(
            "stall: on core 0, a period in which the core is throttled costs at most P - Q*L_max. \
                Any other period costs at most {}, for the budgets of the other cores, refreshes \
                and accesses under way. Each busy window adds {} once, as an earlier task may \
                have drained the budget",
            ms(stall.in_period().div_ceil(1000)),
            ms(stall.once().div_ceil(1000))
        ));
        if stall.jobs.is_some() {
            out.push(format!(
                "jobs: there is no best effort, so a core with tasks makes only the accesses of \
                    its jobs, each charged {}, if these are fewer than its budget",
                ns(c.any_ps)
            ));
        }
        return;
    }
    out.push(match (&stall.jobs, c.request_ps) {
        (Some(_), _) if r.reaction_ps.is_some() => format!(
            "bandwidth: each access of another core is charged {}: those of its analysed tasks' \
                jobs, and those that the bandwidth lock leaves its other programs in each period",
            ns(c.any_ps)
        ),
        (Some(_), _) => format!(
            "bandwidth: not regulated; each other core makes only the accesses of its tasks' \
                jobs, each charged {}",
            ns(c.any_ps)
        ),
        (_, Some(each)) => format!(
            "bandwidth: not regulated; others can hold up each access by {}: reads that are older, \
                and two drains of the write queue",
            ns(each)
        ),
        (_, None) => {
            "bandwidth: not regulated, and the controller gives no turns. The delay of an access \
            by posted writes and row hits of other cores has no bound; set [regulation] \
            policy = \"memguard\", or a row_hit_cap in the platform file if the controller has \
            one"
            .to_owned()
        }
    });
}

/// Each core's share of the cache.
fn own_cache(r: &Resources) -> String {
    let p = &r.platform;
    let rule = match p.llc.partition {
        Partition::Lock => "ways x colours, lines locked in place",
        Partition::Way => "ways x colours, one way kept for pages that are not locked",
        Partition::Colour => "colours x ways, one colour kept for pages that are not locked",
    };
    let (all, size) = (p.llc.ways, p.llc.size);
    if (0..r.cores).all(|core| r.ways_of(core) == r.ways) {
        return format!(
            "cache: {all} ways of {size} over {} cores give each {}; {} pages can be locked in \
                them ({rule})",
            r.cores,
            ways(r.ways as usize),
            r.lock_capacity
        );
    }
    let by_core = |of: &dyn Fn(u32) -> u64| {
        (0..r.cores).map(|core| of(core).to_string()).collect::<Vec<_>>().join(", ")
    };
    format!(
        "cache: of {all} ways of {size} the cores have {}; in them {} pages can be locked ({rule})",
        by_core(&|core| u64::from(r.ways_of(core))),
        by_core(&|core| r.lock_capacity_of(core))
    )
}

/// Shares of each core: cache, bandwidth, banks.
pub fn shares(plan: &Plan, r: &Resources, dynamic: Option<&Dynamic>) -> Vec<String> {
    let p = &plan.platform;
    let m = r.cores;
    let mut out = vec![if r.pages.is_own() {
        own_cache(r)
    } else {
        format!(
            "cache: {} shared by {m} cores (pages = \"anywhere\"); no page is locked, no access \
            counts as a hit, and each may evict a dirty line",
            p.llc.size
        )
    }];
    match &r.budgets {
        None if dynamic.is_some() => out.extend(dynamic.map(|d| budget_reason(plan, d, r))),
        _ if r.model == Model::Sound => sound_shares(r, &mut out),
        None => out.push(format!(
            "bandwidth: not regulated; each access waits for one access of each of the {} other \
                cores: stall = (m-1)*mu*L_max",
            m - 1
        )),
        Some(budgets) => {
            let rule = if r.explicit {
                stated_rule(r)
            } else {
                "even: Q = floor(P / (m*L_max))".to_owned()
            };
            out.push(format!(
                "bandwidth: {rule}; core 0 has Q = {} accesses of {} in P = {}, L_max = {} \
                    (guaranteed {:.2})",
                budgets[0],
                p.llc.line,
                Time::from_ps(r.regulation.period_ps),
                p.dram.latency_max,
                p.guaranteed_bandwidth()
            ));
            out.push(match (r.carry_in, r.explicit) {
                (true, false) => format!(
                    "stall: contention and throttling, at most (m-1)*mu*L_max up to rounding of Q, \
                        plus P - Q*l = {} once per busy window, because an earlier task may have \
                        drained the budget with row hits (l = {})",
                    ms(r.regulation
                        .period_ps
                        .saturating_sub(budgets[0] * p.row_hit().ps())
                        .div_ceil(1000)),
                    p.row_hit()
                ),
                (true, true) => {
                    "stall: worst distribution of the accesses over periods, given all \
                    cores' budgets, plus P - Q*l once per busy window, l the time of a row \
                    hit"
                    .to_owned()
                }
                (false, true) => "stall: worst distribution of the accesses over periods, given \
                    all cores' budgets; carry_in = false leaves out a drained budget, so the \
                    bounds may be exceeded"
                    .to_owned(),
                (false, false) => "stall: m*mu*L_max, single-core-equivalence eq. (1); carry_in = \
                    false leaves out a drained budget, which is optimistic for few \
                    misses"
                    .to_owned(),
            });
        }
    }
    out.push(match r.banks(0) {
        Some((_, n)) => {
            format!("banks: {} DRAM banks over {m} cores give each {n} of its own", p.total_banks())
        }
        None if !r.pages.is_own() => {
            format!("banks: all {} DRAM banks are shared (pages = \"anywhere\")", p.total_banks())
        }
        None => format!(
            "banks: {} DRAM banks are fewer than {m} cores; they are shared",
            p.total_banks()
        ),
    });
    out
}

fn budget_reason(plan: &Plan, d: &Dynamic, r: &Resources) -> String {
    let soft: Vec<String> = (0..)
        .zip(&d.soft)
        .filter(|(_, soft)| **soft)
        .map(|(c, _): (u32, _)| c.to_string())
        .collect();
    let budgets: Vec<String> = plan
        .tasks
        .iter()
        .filter_map(|t| t.soft_budget.map(|b| format!("{} {b}", t.name)))
        .collect();
    format!(
        "bandwidth: soft cores {} share a budget while a job of an analysed task runs ({}), none \
            otherwise. R_i = E_i + sum of ceil(R_i/P_j)*E_j, E_i = C_i + (B_i + {} under \
            way)*L_max + accesses of other hard cores, L_max = {}",
        if soft.is_empty() { "(none)".to_owned() } else { soft.join(", ") },
        if budgets.is_empty() { "none".to_owned() } else { budgets.join(", ") },
        d.switch_accesses,
        Time::from_ps(r.regulation.latency_ps),
    )
}

/// The tasks with bounds beyond the wanted slowdown.
fn slow(plan: &Plan, d: &Dynamic) -> Option<String> {
    let names: Vec<&str> =
        d.slow.iter().filter_map(|&t| plan.tasks.get(t)).map(|t| t.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "slowdown: the bounds of {} are above the wanted multiple of the time alone, also with the \
                least budget of their own; raise [regulation] slowdown",
            names.join(", ")
        )
    })
}

fn dynamic_verdict(plan: &Plan, d: &Dynamic) -> String {
    let name = |index: usize| plan.tasks.get(index).map_or("?", |t| t.name.as_str());
    match (d.fails, d.too_small()) {
        (Some(index), _) => format!(
            "verdict: not schedulable: {} may miss its deadline, and the bounds of others assume \
            that it ends in time; lower its soft_budget or that of tasks above it, \
            move \
                it to another core, or lengthen its period",
            name(index)
        ),
        (None, Some(index)) => format!(
            "verdict: not schedulable: the budget of {} is below one access for each of {} soft \
                cores; use fewer soft cores (active_cores), or lengthen its deadline",
            name(index),
            d.soft_cores()
        ),
        (None, None) => "verdict: every analysed task meets its deadline".to_owned(),
    }
}

/// Largest growth of the tasks of a core, in words.
fn margin_reason(core: &PlanCore) -> Option<String> {
    let m = core.margin.as_ref()?;
    let percent = |permille: u64| format!("{:.1} %", permille as f64 / 10.0 - 100.0);
    let misses = match m.misses_permille {
        Some(k) => format!("all miss counts by {}", percent(k)),
        None => "miss counts without limit".to_owned(),
    };
    let budget = m
        .least_budget_accesses
        .map_or(String::new(), |q| format!("; a budget of {q} would suffice"));
    Some(format!(
        "margin: core {}: all execution times may grow by {}, {misses}; {} is critical{budget}",
        core.id,
        percent(m.wcets_permille),
        m.critical_task
    ))
}

/// Sources of one task's numbers.
pub fn task_reason(t: &PlanTask, w: &Work, r: &Resources) -> String {
    let source = match w.demand {
        Demand::Given { misses, .. } if *misses < t.misses => {
            format!("as stated ({misses} accesses), with the lines that these may evict")
        }
        Demand::Given { .. } => "as stated".to_owned(),
        Demand::Curve(points) => format!(
            "of the stated curve with {} of {} pages locked (C and mu without locking: {} and {})",
            t.locked_pages.len(),
            points.len().saturating_sub(1),
            ms(points.first().map_or(0, |p| p.0.div_ceil(1000))),
            points.first().map_or(0, |p| p.1)
        ),
        Demand::Profiled { profile, .. } => format!(
            "from the profile with {} of {} pages locked (mu without locking: {})",
            t.locked_pages.len(),
            profile.working_set.pages,
            profile.llc_accesses()
        ),
    };
    let placed = match (&t.partition, w.task.core) {
        (Some(_), _) => "its partition's",
        (None, Some(_)) => "stated",
        (None, None) if r.explicit && r.stated.is_none() => "chosen",
        (None, None) => "worst fit",
    };
    if t.best_effort() {
        return format!(
            "{}: best effort on core {} ({placed}); nothing is promised",
            t.name, t.core
        );
    }
    format!(
        "{}: core {} ({placed}), priority {}; C = {} and mu = {} {source}; C_sce = {} + {} = {}; \
            response {} against deadline {}",
        t.name,
        t.core,
        t.priority,
        ms(t.wcet_ns),
        t.misses,
        ms(t.wcet_ns),
        ms(t.stall_ns),
        ms(t.c_sce_ns),
        t.wcrt_ns.map_or("unbounded".to_owned(), ms),
        t.deadline_ns.map_or("none".to_owned(), ms)
    )
}

/// Parts of a profile that do not fit the plan.
pub fn warnings(t: &PlanTask, w: &Work, plan: &Plan) -> Vec<String> {
    let Demand::Profiled { profile, .. } = w.demand else { return Vec::new() };
    let mut out = Vec::new();
    let mut warn = |text: String| out.push(format!("warning: {}: {text}", t.name));
    if profile.isa != plan.platform.isa {
        warn(format!(
            "profiled as a {} program, but {} has {} cores; build it for the board to get valid \
            numbers",
            profile.isa, plan.platform.name, plan.platform.isa
        ));
    }
    let raised = &profile.origin.raised;
    if !raised.is_nothing() {
        warn(format!(
            "measured jobs raised the emulator's profile by {} cycles, {} reads and {} writes",
            raised.private_cycles, raised.reads, raised.writes
        ));
    }
    if profile.threads > 1 {
        warn(format!(
            "its {} threads are planned as if they shared core {}",
            profile.threads, t.core
        ));
    }
    match profile.children {
        0 => {}
        1 => warn(format!(
            "1 child process, which is assumed to share core {} and to run after its parent",
            t.core
        )),
        children => warn(format!(
            "{children} child processes, which are assumed to share core {} and to run one after \
                the other",
            t.core
        )),
    }
    if profile.trace.as_ref().is_some_and(|trace| trace.truncated) {
        warn(
            "the trace was cut at its limit; the simulator replays the first part only".to_owned(),
        );
    }
    out
}

fn verdict(plan: &Plan) -> String {
    /// Most late tasks that a brief plan names.
    const NAMED: usize = 10;
    let number = plan.tasks.iter().filter(|t| !t.schedulable).count();
    let named = if plan.is_brief() { number.min(NAMED) } else { number };
    let late: Vec<String> = plan
        .tasks
        .iter()
        .filter(|t| !t.schedulable)
        .take(named)
        .map(|t| {
            let by = match (t.wcrt_ns, t.deadline_ns) {
                (Some(r), Some(d)) => format!("{} beyond its deadline", ms(r.saturating_sub(d))),
                _ => "no bound: its core is overloaded, or the delay by other cores has no limit"
                    .to_owned(),
            };
            format!("{} on core {} ({by})", t.name, t.core)
        })
        .collect();
    if late.is_empty() {
        return "verdict: every analysed task meets its deadline".to_owned();
    }
    let others = match number - named {
        0 => String::new(),
        others => format!(", and {others} others"),
    };
    format!(
        "verdict: not schedulable: {}{others}; spread the tasks over more cores, lengthen periods, \
            or lower mu (smaller inputs, more locked pages)",
        late.join(", ")
    )
}
