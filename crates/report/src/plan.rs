//! The plan: each number, and the reason for it.

use crate::elements::{caption, choices, core_of, data_table, folded, task_name, wide_table};
use crate::format;
use maud::{Markup, html};
use solocore_model::derivation::Value;
use solocore_model::plan::{PlanCore, PlanLock, PlanTask, TaskMargin, Verdict};
use solocore_model::system::{Model, Policy, Share};
use solocore_model::{Derivation, Plan};

pub fn section(plan: &Plan) -> Markup {
    html! {
        section #plan aria-labelledby="plan-h" {
            h2 #plan-h { "The plan and its reasons" }
            p { (regulation(plan)) }
            h3 { "Reasons" }
            @if plan.reasons.is_empty() {
                p.muted { "The plan gives no reasons; make it again with " code { "solocore plan" } "." }
            } @else {
                (wide_table("Reasons of the plan", &reasons(plan)))
            }
            @if !plan.choices.is_empty() {
                h3 { "Choices, and the price of the next best" }
                (choices(&plan.choices))
            }
            @if let Some(levels) = plan.levels() { (crate::levels::part(levels)) }
            @if let Some(lock) = &plan.lock {
                h3 { "Chosen bandwidth lock" }
                (wide_table("Functions that hold the bandwidth lock", &chosen_lock(lock)))
            }
            h3 { "Cores" }
            (wide_table("Cores in the plan", &cores(plan)))
            h3 { "Tasks" }
            (wide_table("Tasks in the plan", &tasks(plan, plan.tasks.iter().filter(|t| !t.best_effort()))))
            @if plan.tasks.iter().any(PlanTask::best_effort) {
                (folded("Best effort", &wide_table(
                    "Best-effort tasks in the plan",
                    &tasks(plan, plan.tasks.iter().filter(|t| t.best_effort())),
                )))
            }
            @if plan.tasks.iter().any(|t| t.derivation.is_some()) {
                h3 #derivations-h { "How the response times came about" }
                div.derivations {
                    @for task in &plan.tasks {
                        @if let Some(derivation) = &task.derivation {
                            details {
                                summary { (task_name(&task.name)) ": " (format::time_or(task.wcrt_ns, "no bound")) }
                                (self::derivation(derivation))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The reasons. The text before the first colon is the subject of a reason: a task, a core, a
/// resource.
fn reasons(plan: &Plan) -> Markup {
    data_table(
        &html! {},
        &["Of", "Why"],
        &html! {
            @for reason in plan.reasons.iter().filter(|r| !of_choice(plan, r)) {
                @let (of, why) = subject(reason);
                tr data-reason=(of) {
                    th scope="row" { (task_name(of)) }
                    td.words { (why) }
                }
            }
        },
    )
}

fn subject(reason: &str) -> (&str, &str) {
    match reason.split_once(": ") {
        Some((of, why)) if of.chars().count() <= 60 => (of, why),
        _ => ("plan", reason),
    }
}

/// Choices have a list of their own.
fn of_choice(plan: &Plan, reason: &str) -> bool {
    let of_levels = plan.levels().map_or(&[][..], |levels| &levels.choices);
    let mut all = plan.choices.iter().chain(of_levels);
    all.any(|c| reason == c.line())
}

fn derivation(d: &Derivation) -> Markup {
    html! {
        div.derivation {
            p { code { (d.rule) } " " span.muted { "(" (d.source) ")" } }
            ul {
                @for term in &d.inputs { li { "given " (term.name) " = " (value(&term.value)) } }
                @for term in &d.steps { li { (term.name) " = " (value(&term.value)) } }
            }
            @for reason in &d.because { (derivation(reason)) }
            p { "Result: " (value(&d.result)) }
        }
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Int(n) => format::count(*n),
        other => other.to_string(),
    }
}

fn regulation(plan: &Plan) -> String {
    let r = &plan.regulation;
    if r.policy == Policy::Dynamic {
        return format!(
            "Regulation: dynamic budgets: while a job of an analysed task runs, all soft cores \
                together may make as many accesses as its soft budget; m = {}.",
            format::plural(u64::from(r.active_cores), "core"),
        );
    }
    if let (Policy::Bwlock, Some(budget)) = (r.policy, r.lock_budget_accesses) {
        let (holder, bounds) = match r.lock_reaction_ns {
            Some(_) => ("an analysed task runs, which holds it", "response times count on it"),
            None => ("a program holds it", "no response time counts on it"),
        };
        return format!(
            "Regulation: a bandwidth lock (BWLOCK): while {holder}, a core may make {budget} \
                accesses per {} for tasks that are not real-time; {bounds}; m = {}.",
            format::time(r.period_ns),
            format::plural(u64::from(r.active_cores), "core"),
        );
    }
    let policy = match r.policy {
        Policy::None => return "DRAM accesses are not regulated.".to_owned(),
        Policy::Any => return "The policy is not chosen yet.".to_owned(),
        Policy::Memguard => "a budget per core and period (MemGuard)",
        Policy::Bwlock => {
            "best-effort cores limited while a task holds the bandwidth lock (BWLOCK)"
        }
        Policy::Dynamic => "dynamic budgets",
        Policy::Maracas => "latency-based throttling (MARACAS)",
    };
    let share = match r.share {
        Share::Even => "shared evenly",
        Share::Explicit => "shared as the system file states",
        Share::Optimal => "shared as suits the tasks best",
    };
    let cores = format::plural(u64::from(r.active_cores), "core");
    let period = format::time(r.period_ns);
    if plan.model == Model::Sound {
        return format!(
            "Regulation: {policy}, {share} between m = {cores}; period P = {period}; bounds by the \
                interference model: \
             several reads of each core under way, posted writes, refreshes."
        );
    }
    let bound = if r.carry_in { "with carry-in" } else { "without carry-in: the paper's eq. (1)" };
    format!(
        "Regulation: {policy}; period P = {period}; the guaranteed {} {share} between m = {cores}; \
            bound {bound}, under the \
         paper's assumptions (one access of each core under way, served in turn).",
        format::bandwidth(plan.platform.guaranteed_bandwidth().0),
    )
}

/// The functions that the planner chose, with the bounds that made the choice.
fn chosen_lock(lock: &PlanLock) -> Markup {
    let next = lock.next.as_ref().map(|next| {
        format!(
            " The next best choice: {} for {}, beside {} of each core, which costs another core {}.",
            next.functions.join(", "),
            next.task,
            format::bandwidth(next.bandwidth_bytes_per_s),
            format::bandwidth(next.price_bytes_per_s)
        )
    });
    html! {
        (data_table(&caption(&html! {
                "Beside a held lock each core has " (format::bandwidth(lock.bandwidth_bytes_per_s))
                ". On average this costs another core " (format::bandwidth(lock.price_bytes_per_s)) " at most."
                (next.unwrap_or_default())
            }), &["Task", "Functions", "#Calls", "#Held alone", "#Covered accesses", "#Accesses", "#C", "#Wanted", "#Bound", "#Without the lock", "#One access more"], &html! {
                @for task in &lock.tasks {
                    tr {
                        th scope="row" { (task_name(&task.name)) }
                        td { (if task.functions.is_empty() { "none is needed".to_owned() } else { task.functions.join(", ") }) }
                        td.num { (format::count(task.sections)) }
                        td.num { (format::time_cell(task.held_ns)) }
                        td.num { (format::count(task.covered)) }
                        td.num { (format::count(task.accesses)) }
                        td.num { (format::time_cell(task.alone_ns)) }
                        td.num { (format::time_cell(task.limit_ns)) }
                        td.num {
                            @if task.verdict == Some(Verdict::NoBound) { "not in force" } @else { (format::time_cell(task.bound_ns)) }
                        }
                        td.num { (format::time_or(task.unlocked_ns, "no bound")) }
                        td.num { (format::time_or(task.one_more_ns, "no bound")) }
                    }
                }
            }))
    }
}

/// May an analysed task of the core miss its deadline?
fn may_miss(plan: &Plan, core: &PlanCore) -> bool {
    plan.tasks.iter().any(|t| t.core == core.id && !t.best_effort() && !t.schedulable)
}

fn cores(plan: &Plan) -> Markup {
    html! {
        (data_table(&caption(&html! {
                "Utilisation: the sum of C" sub { "sce" } " / period of the analysed tasks. It may be above 100 % in a plan that \
                    meets its deadlines: each C" sub { "sce" } " contains costs that occur once in a busy window."
            }), &["#Core", "#Cache ways", "#Budget Q (accesses per P)", "#Bandwidth", "#Locked pages", "#Room for", "#Utilisation", "#DRAM banks"], &html! {
                @for core in &plan.cores {
                    tr {
                        th.num scope="row" { (core.id) }
                        td.num { (core.ways) }
                        td.num { (core.budget_accesses.map_or("none".to_owned(), format::count)) }
                        td.num { (core.bandwidth_bytes_per_s.map_or("none".to_owned(), format::bandwidth)) }
                        td.num { (format::count(core.locked_pages)) }
                        td.num { (format::count(core.lock_capacity_pages)) }
                        td.num.bad[core.utilization > 1.0 && may_miss(plan, core)] { (format::percent(core.utilization)) }
                        td.num { (banks(core.banks)) }
                    }
                }
            }))
    }
}

fn banks(banks: Option<(u32, u32)>) -> String {
    match banks {
        None => "shared".to_owned(),
        Some((_, 0)) => "0".to_owned(),
        Some((first, 1)) => first.to_string(),
        Some((first, count)) => format!("{first}–{}", first.saturating_add(count - 1)),
    }
}

fn margin(task: &PlanTask, of: impl Fn(TaskMargin) -> Option<String>) -> String {
    task.margin.map_or("–".to_owned(), |m| of(m).unwrap_or_else(|| "any".to_owned()))
}

fn tasks<'a>(plan: &Plan, tasks: impl Iterator<Item = &'a PlanTask>) -> Markup {
    html! {
        (data_table(&caption(&html! {
                "C: execution time alone with the locked pages; μ: DRAM accesses left to a \
                    job; stall: worst regulation and "
                "contention stall of a job; CRPD: reload of private caches that it costs the task \
                    it preempts; may be: the largest value "
                "with which every task of the core still meets its deadline, all else kept."
            }), &["Task", "#Core", "#Priority", "#Period", "#C", "#μ", "#Stall", "#C_sce", "#CRPD", "#Locked pages", "#C may be", "#μ may be", "Numbers from"], &html! {
                @for task in tasks {
                    tr {
                        th scope="row" { (task_name(&task.name)) }
                        td.num { (core_of(plan, task)) }
                        td.num { (task.priority) }
                        td.num { (format::time_or(task.period_ns, "back to back")) }
                        td.num { (format::time_cell(task.wcet_ns)) }
                        td.num { (format::count(task.misses)) }
                        td.num { (format::time_cell(task.stall_ns)) }
                        td.num { (format::time_or(Some(task.c_sce_ns).filter(|&c| c != u64::MAX), "no bound")) }
                        td.num { (format::time_cell(task.crpd_ns)) }
                        td.num { (format::count(format::len(&task.locked_pages))) }
                        td.num { (margin(task, |m| m.wcet_ns.map(format::time))) }
                        td.num { (margin(task, |m| m.misses.map(format::count))) }
                        td { (if task.profile.is_some() { "profile" } else { "stated" }) }
                    }
                }
            }))
    }
}
