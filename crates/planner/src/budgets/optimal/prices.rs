//! The price of each choice of optimal shares: what the next best would cost.
//!
//! Problem: "core 2, three ways, 4,000 accesses" does not convince a reader. Rule: each choice is
//! changed alone, and the rest is solved again. A task moves to the other core where that looks
//! best by a first solution, and a way goes to the core for which it looks best. A budget is made a
//! twentieth smaller, or larger, beside the others' as they are. A twentieth of a task's locked
//! pages go to the task of its core that saves most with them; the budgets stay. One active core
//! less is a search of its own. The price is the value of the objective, or the first task that
//! misses a limit. A change may be better than the plan, because the search solves few candidates
//! to the end; the price says so. Does not cover: two choices changed at once.

use super::candidate::Candidate;
use super::outcome::{Outcome, Value};
use super::problem::Problem;
use super::search::PROMPT;
use super::solver::Solver;
use crate::core_plan::{CorePlan, TaskPlan};
use crate::explain;
use solocore_model::plan::Choice;
use solocore_model::system::Objective;
use std::collections::HashMap;

/// Part of a budget or of a task's locked pages, in hundredths, by which it is changed.
const STEP: u64 = 5;
/// A smaller improvement of the objective is not seen in its words.
const SEEN: f64 = 0.0005;

/// The reason why a system with many tasks has no prices.
pub fn left_out(tasks: usize) -> Option<String> {
    (tasks > PROMPT).then(|| {
        format!("prices: the system has {tasks} tasks; above {PROMPT}, single choices have none")
    })
}

/// All choices of the best candidate with their prices; `None`: ended by `stop`.
pub fn of(solver: &Solver, best: &Outcome, stop: &dyn Fn() -> bool) -> Option<Vec<Choice>> {
    let prices = Prices { solver, best, stop };
    let mut out = Vec::new();
    for task in 0..solver.problem.work.len() {
        out.extend(prices.core(task)?);
    }
    for core in 0..best.resources.cores {
        out.extend(prices.ways(core)?);
    }
    for core in &best.cores {
        for task in core.tasks().iter().filter(|task| task.locked > 0) {
            out.push(prices.pages(core, task)?);
        }
    }
    for core in 0..best.resources.cores {
        out.extend(prices.budget(core)?);
    }
    Some(out)
}

/// The number of active cores, beside another one and its value.
pub fn active_cores(
    problem: &Problem,
    cores: u32,
    why: &str,
    (other, value): (u32, Value),
) -> Choice {
    // A core that is not active counts with no access, and an idle one with a few.
    let condition = if other < cores { "; the core beside them must make no accesses" } else { "" };
    Choice {
        of: "active cores".to_owned(),
        chosen: cores.to_string(),
        why: why.to_owned(),
        next_best: format!("{other}: {}{condition}", problem.words(&value)),
    }
}

struct Prices<'a> {
    solver: &'a Solver<'a>,
    best: &'a Outcome,
    stop: &'a dyn Fn() -> bool,
}

impl Prices<'_> {
    /// Names of tasks.
    fn names(&self, tasks: impl Iterator<Item = usize>) -> String {
        let names: Vec<&str> =
            tasks.map(|task| self.solver.problem.work[task].task.name.as_str()).collect();
        names.join(", ")
    }

    /// The core of a task; nothing where it is stated, or where there is no other core.
    fn core(&self, task: usize) -> Option<Option<Choice>> {
        let (problem, own) = (&self.solver.problem, &self.best.candidate);
        let (work, core) = (problem.work, own.placement[task]);
        if work[task].task.core.is_some() {
            return Some(None);
        }
        let with = self.names(own.on(core).into_iter().filter(|&other| other != task));
        let why = if with.is_empty() { "alone".to_owned() } else { format!("with {with}") };
        let moved = |to: u32| {
            let mut next = own.clone();
            next.placement[task] = to;
            (to, next)
        };
        let others = (0..self.best.resources.cores).filter(|&to| to != core).map(moved);
        let next_best = self.cheapest(others)?.map(|(to, value)| {
            let beside = self.names(own.on(to).into_iter());
            let beside = if beside.is_empty() { "empty now".to_owned() } else { beside };
            format!("core {to} ({beside}): {}", self.price(&value))
        });
        Some(next_best.map(|next_best| Choice {
            of: work[task].task.name.clone(),
            chosen: format!("core {core}"),
            why,
            next_best,
        }))
    }

    /// The ways of a core; nothing where cores have no ways of their own.
    fn ways(&self, core: u32) -> Option<Option<Choice>> {
        let own = &self.best.candidate;
        let ways = own.ways[core as usize];
        if !self.best.resources.pages.is_own() || own.ways.len() < 2 {
            return Some(None);
        }
        let locked: usize =
            self.best.cores[core as usize].tasks().iter().map(|task| task.locked).sum();
        let why = match (locked, own.on(core).is_empty()) {
            (_, true) => "no task is on it".to_owned(),
            (0, false) => "no page is locked there; its programs have them".to_owned(),
            (pages, false) => format!("they hold {pages} locked pages"),
        };
        let given = |to: u32| {
            let mut next = own.clone();
            next.ways[core as usize] -= 1;
            next.ways[to as usize] += 1;
            (to, next)
        };
        let others = (0..self.best.resources.cores).filter(|&to| to != core).map(given);
        let next_best = match ways {
            1 => "none: each core has one".to_owned(),
            _ => match self.cheapest(others)? {
                None => return Some(None),
                Some((to, value)) => format!(
                    "{}, one more for core {to}: {}",
                    explain::ways(ways as usize - 1),
                    self.price(&value)
                ),
            },
        };
        let (of, chosen) = (format!("ways of core {core}"), ways.to_string());
        Some(Some(Choice { of, chosen, why, next_best }))
    }

    /// The locked pages of a task.
    fn pages(&self, core: &CorePlan, task: &TaskPlan) -> Option<Choice> {
        if (self.stop)() {
            return None;
        }
        let work = self.solver.problem.work;
        let step = (task.locked * STEP as usize / 100).max(1);
        // Accesses per second that this many more pages of a task would save.
        let gain = |other: &&TaskPlan| {
            let w = &work[other.index];
            let period = w.task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
            let more = w.demand.page_accesses().skip(other.locked).take(step);
            more.map(|n| n as f64).sum::<f64>() / period
        };
        let others = core.tasks().iter().filter(|t| t.index != task.index && work[t.index].hard());
        let other = others.max_by(|a, b| gain(a).total_cmp(&gain(b))).filter(|t| gain(t) > 0.0);
        let mut locked: HashMap<usize, usize> =
            core.tasks().iter().map(|t| (t.index, t.locked)).collect();
        locked.insert(task.index, task.locked - step);
        let to = match other {
            Some(other) => {
                let most = work[other.index].demand.page_accesses().count();
                locked.insert(other.index, (other.locked + step).min(most));
                format!("{step} fewer, for `{}`", work[other.index].task.name)
            }
            None => format!("{step} fewer"),
        };
        let outcome = self.solver.with_locked(self.best, core.core, &locked);
        let pages = work[task.index].demand.page_accesses().count();
        Some(Choice {
            of: format!("locked pages of {}", work[task.index].task.name),
            chosen: task.locked.to_string(),
            why: format!("of {pages} that it uses, those with the most accesses"),
            next_best: format!("{to}: {}", self.missed(&outcome)),
        })
    }

    /// The budget of a core.
    fn budget(&self, core: u32) -> Option<Option<Choice>> {
        let problem = &self.solver.problem;
        let Some(budgets) = &self.best.resources.budgets else { return Some(None) };
        let budget = budgets[core as usize];
        let candidate = &self.best.candidate;
        let programs = candidate.best_effort(core, problem.work);
        let why = match (candidate.analysed(core, problem.work), programs) {
            _ if budget >= problem.bus => "all that the memory carries: no limit",
            (true, _) => "its bounds are met with it beside the others' budgets",
            (false, 0) if problem.base.other_programs => "for programs that the plan does not name",
            (false, 0) => "no task is on it",
            (false, _) if problem.objective != Objective::BestEffort => {
                "a part of an even budget for each of its programs"
            }
            (false, n) if budget >= n * problem.usable(core, &candidate.on(core)) => {
                "as much as its programs can use"
            }
            (false, _) => "what the others' bounds bear",
        };
        let changed = |less: bool| {
            let step = (budget * STEP / 100).max(1);
            let to = if less { budget.saturating_sub(step) } else { budget.saturating_add(step) };
            (to > 0 && to <= problem.bus).then_some(to)
        };
        let mut words = Vec::new();
        for (name, less) in [("less", true), ("more", false)] {
            if (self.stop)() {
                return None;
            }
            if let Some(to) = changed(less) {
                let mut budgets = budgets.clone();
                budgets[core as usize] = to;
                let outcome = self.solver.with_budgets(self.best, budgets);
                words.push(format!("{STEP} % {name}: {}", self.missed(&outcome)));
            }
        }
        Some(Some(Choice {
            of: format!("budget of core {core}"),
            chosen: format!("{budget} accesses a period"),
            why: why.to_owned(),
            next_best: words.join("; "),
        }))
    }

    /// The best of these candidates, with its value.
    fn cheapest<T>(
        &self,
        others: impl Iterator<Item = (T, Candidate)>,
    ) -> Option<Option<(T, Value)>> {
        let mut best: Option<(T, Outcome)> = None;
        for (what, candidate) in others {
            if (self.stop)() {
                return None;
            }
            let outcome = self.solver.solve(&candidate, u64::MAX);
            if best.as_ref().is_none_or(|(_, best)| outcome.value.better(&best.value)) {
                best = Some((what, outcome));
            }
        }
        Some(best.map(|(what, outcome)| (what, self.solver.finished(outcome, false).value)))
    }

    fn price(&self, value: &Value) -> String {
        let (words, best) = (self.solver.problem.words(value), &self.best.value);
        let better = value.class.floor() > best.class.floor()
            || (value.class >= best.class && value.objective > best.objective + SEEN);
        if better {
            format!("{words}, better than this plan; --time-limit may find such a choice")
        } else {
            words
        }
    }

    /// The value of an outcome, or the task that misses a limit in it.
    fn missed(&self, outcome: &Outcome) -> String {
        let problem = &self.solver.problem;
        let hard = || {
            let tasks = outcome.cores.iter().flat_map(CorePlan::tasks);
            tasks.filter(|task| problem.work[task.index].hard())
        };
        let name = |index: usize| &problem.work[index].task.name;
        if let Some(late) = hard().find(|task| !task.meets) {
            return format!("`{}` would miss its deadline", name(late.index));
        }
        let wished = |task: &&TaskPlan| {
            let wish = problem.wish.filter(|_| self.best.value.keeps_wish());
            wish.is_some_and(|wish| problem.slowdown(task) * 1000.0 > wish as f64)
        };
        match hard().find(wished) {
            Some(slow) => format!("`{}` would miss the wanted slowdown", name(slow.index)),
            None => problem.words(&outcome.value),
        }
    }
}
