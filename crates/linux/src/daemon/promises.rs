//! The part of a run that keeps each promise of a plan.
//!
//! Problem: no single part keeps all promises that a plan's bounds rest on. Rule: each promise is
//! put to all parts; the first that keeps it answers, else the first that gives a reason against
//! it. Promises that concern no part are answered here: a file vouches for them (the platform, a
//! profile), or they are open, with a remedy. The user can vouch for promises that solocore cannot
//! keep (`--vouch`). A run with an open promise is refused, or is partial: it then repeats no
//! verdict that rests on that promise.
//! Does not cover: the truth of a file; `solocore latency` measures this machine's memory.

use super::part::Part;
use crate::host::prefetch;
use solocore_model::Plan;
use solocore_model::plan::{Answer, PlanTask, Promise, Subject, Verdict};
use solocore_model::run::RunResult;
use solocore_model::system::Model;
use std::collections::{BTreeMap, BTreeSet};

/// Answers to all promises of a plan. Answers that concern no part do not change during a run: they
/// are taken from `before`, if it has them.
pub(super) fn answers(
    plan: &Plan,
    parts: &[Box<dyn Part>],
    vouched: &[String],
    before: &[Answer],
) -> Vec<Answer> {
    let known: BTreeMap<&str, &Answer> =
        before.iter().map(|a| (a.promise.id.as_str(), a)).collect();
    let profiled: BTreeSet<&str> =
        plan.tasks.iter().filter(|t| t.profile.is_some()).map(|t| t.name.as_str()).collect();
    let one = |promise: &Promise| match of_parts(promise, parts) {
        None => match known.get(promise.id.as_str()) {
            Some(&answer) => answer.clone(),
            None => or_of_user(of_nobody(plan, &profiled, promise), promise, vouched),
        },
        Some(answer) => or_of_user(answer, promise, vouched),
    };
    plan.promises.iter().map(one).collect()
}

/// The answer of the part that keeps it, else of the first part that gives a reason against it.
fn of_parts(promise: &Promise, parts: &[Box<dyn Part>]) -> Option<Answer> {
    let said: Vec<Answer> = parts.iter().filter_map(|part| part.keeps(promise)).collect();
    said.iter().find(|a| a.kept_by.is_some()).or(said.first()).cloned()
}

/// The user vouches for an open promise.
fn or_of_user(answer: Answer, promise: &Promise, vouched: &[String]) -> Answer {
    if answer.kept_by.is_none() && vouched.iter().any(|v| names(v, promise)) {
        return Answer::kept(promise, "user", false, format!("--vouch; else {}", answer.why));
    }
    answer
}

/// Whether the user means this promise, by its id or its subject.
pub(super) fn names(vouched: &str, promise: &Promise) -> bool {
    vouched == promise.id || vouched == promise.subject.name()
}

/// Answer to a promise that concerns no part of this run.
fn of_nobody(plan: &Plan, profiled: &BTreeSet<&str>, promise: &Promise) -> Answer {
    let open = |why: &str| Answer::open(promise, false, why);
    match promise.subject {
        Subject::Demand => of_demand(profiled.contains(promise.name()), promise),
        Subject::Memory => of_memory(plan, promise),
        Subject::Prefetchers => prefetch::answer(promise),
        Subject::Place | Subject::Releases => {
            open("solocore neither starts nor attaches it; give --start, --command or --attach")
        }
        Subject::Budget | Subject::WriteBudget | Subject::SoftBudget => {
            open("this run regulates no accesses")
        }
        Subject::Jobs => open("no program signals its jobs; start it with --start"),
        Subject::Sections => {
            open("no probe sees the calls of its functions; give --start, --command or --attach")
        }
        Subject::Holds => open(
            "this run holds no lock for it; give --start, --command or --attach when it begins",
        ),
        Subject::LockBudget | Subject::BesideJobs => {
            open("this run limits no program beside the lock")
        }
        Subject::Others => open(
            "other programs may run there; leave a core without analysed tasks and drop \
                --no-confine, or plan with [regulation] policy = \"memguard\" and other_programs \
                = true, so that bounds count on budgets alone",
        ),
        Subject::Ways => of_ways(plan, promise),
        Subject::Banks => open(&format!(
            "no part of this run places pages in banks; give --colors with a --map that has the \
                banks{}",
            or_anywhere(plan)
        )),
        Subject::LockedPages => open(&format!(
            "no part of this run locks pages; {} (docs/ways.md){}",
            if coloured(plan) {
                "--colors gives them colours of their own"
            } else {
                "--resctrl reads them into ways of their own"
            },
            or_anywhere(plan)
        )),
        Subject::PageColours => open(
            "no part of a run chooses the colour of each page; place the pages yourself and give \
                --vouch page-colours, or state measured wcet_by_ways and misses_by_ways",
        ),
        Subject::Window | Subject::Slots | Subject::Levels => {
            open("no part of this run keeps it; give --start, or --scheduler levels")
        }
        Subject::Prefetch => open(
            "no part of this run brings pages into the cache when a window begins; --colors and \
                --resctrl do (docs/windows.md), or let the programs do it and give --vouch prefetch",
        ),
        Subject::Transfer => open("no driver is attached for it; give --command NAME=DRIVER"),
        Subject::Buffer if promise.resource.starts_with("message ") => open(
            "no part of this run places messages; give --colors with the queue in --queues, or let \
                the programs place it and give --vouch buffer",
        ),
        Subject::Buffer => open(
            "no part of a run places buffers of devices; let the programs place them and give \
                --vouch buffer",
        ),
        Subject::Vcpu => open("this run schedules no VCPUs"),
        Subject::Interrupts => open("interrupts are left where they are; drop --no-move-irqs"),
        Subject::IdleCores => {
            open("the other CPUs go on without a limit; plan for all CPUs of the machine")
        }
        Subject::Devices => open(
            "no part of a run limits the transfers of devices; keep devices quiet and give --vouch devices",
        ),
    }
}

fn of_demand(profiled: bool, promise: &Promise) -> Answer {
    let (by, why) = if profiled {
        ("profile", "as profiled; the run did not compare the program with the profile")
    } else {
        ("system file", "as stated there")
    };
    Answer::kept(promise, by, false, why)
}

/// The change that needs no share of cache and banks. Systems with partitions or levels refuse it.
fn or_anywhere(plan: &Plan) -> &'static str {
    if plan.windows().is_some() || plan.levels().is_some() {
        ""
    } else {
        "; or plan with [regulation] pages = \"anywhere\""
    }
}

/// Does the plan give cores colours?
fn coloured(plan: &Plan) -> bool {
    plan.cores.iter().any(|c| c.colours.is_some())
}

fn of_ways(plan: &Plan, promise: &Promise) -> Answer {
    let option = if coloured(plan) {
        "give --colors, which starts programs in the colours of their cores"
    } else {
        "give --resctrl, where the CPU has it"
    };
    let why =
        format!("no part of this run divides the shared cache; {option}{}", or_anywhere(plan));
    Answer::open(promise, false, why)
}

fn of_memory(plan: &Plan, promise: &Promise) -> Answer {
    let contradicted = plan.model == Model::Sce
        && (plan.platform.most_mshrs() > 1 || plan.platform.dram.memory.is_some());
    if contradicted {
        return Answer::open(
            promise,
            false,
            "the platform file contradicts this: cores have several accesses under way, or the \
                memory reorders them; plan with [regulation] model = \"sound\" and without \
                carry_in",
        );
    }
    let why = "as the platform file says; `solocore latency --calibrate` measures this machine";
    Answer::kept(promise, "platform", false, why)
}

/// Promises that were kept at the start of the run and are no longer.
pub(super) fn broken(before: &[Answer], now: &[Answer]) -> Vec<Answer> {
    let kept = |a: &&Answer| a.kept_by.is_some();
    let was: BTreeSet<&str> = before.iter().filter(kept).map(|b| b.promise.id.as_str()).collect();
    now.iter().filter(|a| !kept(a) && was.contains(a.promise.id.as_str())).cloned().collect()
}

/// Takes the verdict from tasks with bounds that rest on an open or broken promise.
pub(super) fn in_force(plan: &mut Plan, answers: &[Answer]) {
    let open = Open::of(plan, answers);
    for task in &mut plan.tasks {
        if task.verdict.is_some() && open.holds(task) {
            task.verdict = Some(Verdict::NoBound);
        }
    }
    let locked = plan.lock.iter_mut().flat_map(|lock| &mut lock.tasks);
    for task in locked.filter(|t| open.takes_back(&t.name, &plan.tasks)) {
        task.verdict = Some(Verdict::NoBound);
    }
}

/// The chosen bounds on slowdowns that are in force, ns, by task.
pub(super) fn slowdowns(plan: &Plan, answers: &[Answer]) -> BTreeMap<String, u64> {
    let open = Open::of(plan, answers);
    let locked = plan.lock.iter().flat_map(|lock| &lock.tasks);
    let in_force = locked.filter(|t| t.verdict.is_some() && !open.takes_back(&t.name, &plan.tasks));
    in_force.map(|t| (t.name.clone(), t.bound_ns)).collect()
}

/// The tasks of a plan, each with its bound that is in force: it rests on no open promise.
pub(super) fn bounds<'p>(plan: &'p Plan, answers: &[Answer]) -> Vec<(&'p PlanTask, Option<u64>)> {
    let open = Open::of(plan, answers);
    plan.tasks.iter().map(|t| (t, t.wcrt_ns.filter(|_| !open.holds(t)))).collect()
}

/// Gives the tasks of a run their deadlines, and the bounds that are in force.
pub(super) fn limits(plan: &Plan, run: &mut RunResult) {
    let planned: BTreeMap<&str, (Option<u64>, Option<u64>)> = bounds(plan, &run.promises)
        .into_iter()
        .map(|(t, bound)| (t.name.as_str(), (t.deadline_ns, bound)))
        .collect();
    let of = |name: &str| planned.get(name).copied().unwrap_or_default();
    let slowdowns = slowdowns(plan, &run.promises);
    for task in &mut run.tasks {
        (task.deadline_ns, task.bound_ns) = of(&task.name);
        task.slowdown_bound_ns = slowdowns.get(&task.name).copied();
    }
    for task in run.levels.iter_mut().flat_map(|levels| &mut levels.tasks) {
        (task.deadline_ns, task.bound_ns) = of(&task.name);
    }
}

/// The tasks and cores with a bound that rests on a promise that nobody keeps.
struct Open<'a> {
    tasks: BTreeSet<&'a str>,
    /// Those with a bound on their slowdown that rests on it.
    slowdowns: BTreeSet<&'a str>,
    cores: BTreeSet<u32>,
    /// The plan does not say what its bounds rest on.
    unknown: bool,
}

impl<'a> Open<'a> {
    fn of(plan: &Plan, answers: &'a [Answer]) -> Self {
        let open = || answers.iter().filter(|a| a.kept_by.is_none()).map(|a| &a.promise);
        let names = |of_slowdown: bool| {
            let which = open().filter(move |p| p.subject.of_slowdown() == of_slowdown);
            which.flat_map(|p| &p.bound_of).map(String::as_str).collect()
        };
        Self {
            tasks: names(false),
            slowdowns: names(true),
            cores: open().flat_map(|p| &p.bound_of_cores).copied().collect(),
            unknown: plan.promises.is_empty(),
        }
    }

    fn holds(&self, task: &PlanTask) -> bool {
        self.unknown || self.tasks.contains(task.name.as_str()) || self.cores.contains(&task.core)
    }

    /// Whether an open promise takes the bound on this task's slowdown back.
    fn takes_back(&self, task: &str, tasks: &[PlanTask]) -> bool {
        self.slowdowns.contains(task) || tasks.iter().any(|t| t.name == task && self.holds(t))
    }
}

/// Whether the plan is not schedulable and makes no promises, because no analysed task has a bound.
pub(super) fn is_unbounded(plan: &Plan) -> bool {
    let analysed = || plan.tasks.iter().filter(|t| t.verdict.is_some());
    plan.promises.is_empty()
        && !plan.schedulable
        && analysed().next().is_some()
        && analysed().all(|t| t.wcrt_ns.is_none() && t.tardiness_ns.is_none())
}

/// Reason why a run with these answers is not begun; `None` if all promises are kept.
pub(super) fn refusal(plan: &Plan, answers: &[Answer]) -> Option<String> {
    if is_unbounded(plan) {
        return Some(
            "the plan is not schedulable and has no bounds, so there are no promises to keep; \
                change the system (`solocore plan` names changes that help), or give --partial to \
                run the plan as it is"
                .to_owned(),
        );
    }
    if plan.promises.is_empty() && plan.tasks.iter().any(|t| t.verdict.is_some()) {
        return Some(
            "the plan does not list the promises that its bounds rest on, because an older \
            solocore made it; plan again, or give --partial to run without its bounds"
                .to_owned(),
        );
    }
    let open: Vec<&Answer> = answers.iter().filter(|a| a.kept_by.is_none()).collect();
    if open.is_empty() {
        return None;
    }
    let mut lines = String::new();
    for (text, ids) in by_reason(&open) {
        lines += &format!("\n  {ids}: {text}");
    }
    Some(format!(
        "nobody keeps {} of {} promises that the plan's bounds rest on; follow the lines below, \
            or give --partial to run without these bounds:{lines}",
        open.len(),
        answers.len()
    ))
}

/// Reasons in order, with their promises.
fn by_reason(open: &[&Answer]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for answer in open {
        let (why, id) = (&answer.why, &answer.promise.id);
        match out.iter_mut().find(|(text, _)| text == why) {
            Some((_, ids)) => *ids += &format!(", {id}"),
            None => out.push((why.clone(), id.clone())),
        }
    }
    out
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
