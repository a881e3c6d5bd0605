//! `solocore diff`: effects of a change on a plan's promises.
//!
//! Problem: merges that make a task slower keep every deadline for a while. Once a deadline is
//! missed, nobody knows the merge that caused it. Rule: tasks are compared by name. A task is worse
//! where its verdict is, where its margin (deadline minus bound) is smaller, or where it has no
//! promise any more. A plan is worse with one of its tasks, or where its bounds come from the
//! papers' model and did not before.
//! Does not cover: changed programs; a longer deadline counts as a larger margin, and is shown.

use crate::args::{DiffArgs, Format};
use crate::fail::Failure;
use crate::print::print;
use crate::table;
use schemars::JsonSchema;
use serde::Serialize;
use solocore_model::plan::{PlanTask, Verdict};
use solocore_model::system::Model;
use solocore_model::{Plan, files};
use std::collections::{BTreeSet, HashMap};
use std::process::ExitCode;

/// Two plans side by side. Times in nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Difference {
    /// `solocore-diff/1`.
    format: &'static str,
    /// Whether anything is worse.
    worse: bool,
    /// Tasks of the old plan, then those that only the new one has.
    tasks: Vec<TaskDifference>,
    /// Cores of the plans.
    cores: Vec<CoreDifference>,
    /// Promises that only the new plan rests on, by id.
    new_promises: Vec<String>,
    /// Whether only the new plan's bounds rest on the papers' model of memory.
    weaker_model: bool,
}

/// A task in both plans, or in one.
#[derive(Debug, Serialize, JsonSchema)]
struct TaskDifference {
    /// Name of the task.
    name: String,
    /// The old plan's statement; `null`: it has no such task.
    old: Option<Side>,
    /// The new plan's statement; `null`: it has no such task.
    new: Option<Side>,
    /// Ways in which it is worse; empty: none.
    worse: Vec<String>,
}

/// Statement of one plan on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Side {
    /// The task's core.
    core: u32,
    /// Verdict; `null`: the plan promises nothing.
    verdict: Option<Verdict>,
    /// Execution time alone.
    wcet_ns: u64,
    /// Misses of a job.
    misses: u64,
    /// Bound on the response time; `null`: there is none.
    wcrt_ns: Option<u64>,
    /// Deadline; `null`: there is none.
    deadline_ns: Option<u64>,
    /// Deadline minus bound; negative where it may miss, `null` where there is no bound.
    #[schemars(with = "Option<i64>")]
    margin_ns: Option<i128>,
}

/// Budgets of a core, in accesses a period; `null` where it has none.
#[derive(Debug, Serialize, JsonSchema)]
struct CoreDifference {
    /// Number of the core.
    id: u32,
    /// Budget of the old plan.
    old_budget_accesses: Option<u64>,
    /// Budget of the new plan.
    new_budget_accesses: Option<u64>,
    /// Ways of the old plan.
    old_ways: Option<u32>,
    /// Ways of the new plan.
    new_ways: Option<u32>,
}

/// Compares; exit code 1 if something is worse.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let (old, new) = (Plan::load(&args.old)?, Plan::load(&args.new)?);
    let difference = Difference::of(&old, &new, args.allow);
    print(&match args.format {
        Format::Json => files::to_json(&difference),
        Format::Text => difference.text(),
    })?;
    Ok(ExitCode::from(u8::from(difference.worse)))
}

impl Side {
    fn of(task: &PlanTask) -> Self {
        let verdict = Verdict::of(task);
        let margin_ns = task
            .deadline_ns
            .zip(task.wcrt_ns)
            .filter(|_| verdict.is_some())
            .map(|(deadline, bound)| i128::from(deadline) - i128::from(bound));
        Self {
            core: task.core,
            verdict,
            wcet_ns: task.wcet_ns,
            misses: task.misses,
            wcrt_ns: task.wcrt_ns,
            deadline_ns: task.deadline_ns,
            margin_ns,
        }
    }

    /// Rank from best to worst; a task without a promise has none.
    fn rank(self) -> Option<u8> {
        self.verdict.map(|verdict| match verdict {
            Verdict::Meets => 0,
            Verdict::MayMiss => 1,
            Verdict::NoBound => 2,
        })
    }
}

/// Ways in which a task is worse. A margin may lose `allow` per cent of the deadline.
fn worse(old: Option<Side>, new: Option<Side>, allow: u32) -> Vec<String> {
    let Some(old) = old.filter(|side| side.rank().is_some()) else { return Vec::new() };
    let Some(new) = new else { return vec!["it is gone".to_owned()] };
    let mut out = Vec::new();
    match (old.rank(), new.rank()) {
        (Some(_), None) => out.push("it has no promise any more".to_owned()),
        (Some(before), Some(after)) if after > before => out.push("verdict".to_owned()),
        _ => {}
    }
    let allowed = i128::from(old.deadline_ns.unwrap_or(0)) * i128::from(allow) / 100;
    if let (Some(before), Some(after)) = (old.margin_ns, new.margin_ns)
        && after + allowed < before
    {
        out.push("margin".to_owned());
    }
    out
}

/// A plan's statements by name of the task; a search for each name would be quadratic.
fn sides(plan: &Plan) -> HashMap<&str, Side> {
    plan.tasks.iter().map(|t| (t.name.as_str(), Side::of(t))).collect()
}

impl Difference {
    fn of(old: &Plan, new: &Plan, allow: u32) -> Self {
        let (sides_of_old, sides_of_new) = (sides(old), sides(new));
        let added = new.tasks.iter().filter(|t| !sides_of_old.contains_key(t.name.as_str()));
        let tasks: Vec<TaskDifference> = old
            .tasks
            .iter()
            .chain(added)
            .map(|t| {
                let of = |sides: &HashMap<&str, Side>| sides.get(t.name.as_str()).copied();
                let (before, after) = (of(&sides_of_old), of(&sides_of_new));
                let worse = worse(before, after, allow);
                TaskDifference { name: t.name.clone(), old: before, new: after, worse }
            })
            .collect();
        let ids: BTreeSet<u32> = old.cores.iter().chain(&new.cores).map(|c| c.id).collect();
        let cores = ids.into_iter().map(|id| {
            let of = |plan: &Plan| {
                plan.cores.iter().find(|c| c.id == id).map(|c| (c.budget_accesses, c.ways))
            };
            let (before, after) = (of(old), of(new));
            CoreDifference {
                id,
                old_budget_accesses: before.and_then(|c| c.0),
                new_budget_accesses: after.and_then(|c| c.0),
                old_ways: before.map(|c| c.1),
                new_ways: after.map(|c| c.1),
            }
        });
        let known: BTreeSet<&str> = old.promises.iter().map(|p| p.id.as_str()).collect();
        let ids = new.promises.iter().map(|p| p.id.as_str());
        let weaker_model = old.model == Model::Sound && new.model == Model::Sce;
        Self {
            format: "solocore-diff/1",
            worse: weaker_model || tasks.iter().any(|t| !t.worse.is_empty()),
            cores: cores.collect(),
            new_promises: ids.filter(|id| !known.contains(id)).map(str::to_owned).collect(),
            tasks,
            weaker_model,
        }
    }

    fn text(&self) -> String {
        let head =
            ["task", "bound ms", "new ms", "margin ms", "new ms", "verdict", "new", "worse in"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for t in &self.tasks {
            let bound = |s: Option<Side>| table::ms(s.and_then(|s| s.wcrt_ns));
            let margin = |s: Option<Side>| {
                let ns = s.and_then(|s| s.margin_ns);
                ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
            };
            let verdict = |s: Option<Side>| match s.map(|s| s.verdict) {
                None => "not there".to_owned(),
                Some(verdict) => verdict.map_or("-".to_owned(), |v| v.to_string()),
            };
            let names = if t.worse.is_empty() { "-".to_owned() } else { t.worse.join(", ") };
            rows.push(vec![
                t.name.clone(),
                bound(t.old),
                bound(t.new),
                margin(t.old),
                margin(t.new),
                verdict(t.old),
                verdict(t.new),
                names,
            ]);
        }
        let mut out = table::render(&rows);
        for t in &self.tasks {
            if let (Some(old), Some(new)) = (t.old, t.new)
                && old.deadline_ns != new.deadline_ns
            {
                let ms = |s: Side| table::ms(s.deadline_ns);
                out += &format!("task {}: deadline {} ms, new {} ms\n", t.name, ms(old), ms(new));
            }
        }
        for c in &self.cores {
            let (old, new) =
                ((c.old_budget_accesses, c.old_ways), (c.new_budget_accesses, c.new_ways));
            if old != new {
                let shown = |(budget, ways): (Option<u64>, Option<u32>)| {
                    let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
                    format!(
                        "{} accesses a period, {} ways",
                        number(budget),
                        number(ways.map(u64::from))
                    )
                };
                out += &format!("core {}: {}; new: {}\n", c.id, shown(old), shown(new));
            }
        }
        if !self.new_promises.is_empty() {
            out += &format!("only the new plan rests on: {}\n", self.new_promises.join(", "));
        }
        if self.weaker_model {
            out += "the new plan's bounds are on the papers' model of memory (model = \"sce\"), and \
                margins do not compare\n";
        }
        out + if self.worse { "\nWORSE\n" } else { "\nnothing is worse\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(verdict: Option<Verdict>, margin_us: i128) -> Option<Side> {
        let (margin_ns, deadline_ns) = (Some(margin_us * 1000), Some(1_000_000));
        Some(Side {
            core: 0,
            verdict,
            wcet_ns: 1,
            misses: 1,
            wcrt_ns: None,
            deadline_ns,
            margin_ns,
        })
    }

    #[test]
    fn less_is_worse_and_more_is_not() {
        let meets = |margin| side(Some(Verdict::Meets), margin);
        let late = |margin| side(Some(Verdict::MayMiss), margin);
        let none = side(None, 0);
        for (old, new, allow, expected) in [
            (meets(100), meets(100), 0, &[][..]),
            (meets(100), meets(101), 0, &[]),
            (meets(100), meets(99), 0, &["margin"]),
            // A hundredth of a deadline of 1 ms is 10 us.
            (meets(100), meets(90), 1, &[]),
            (meets(100), meets(89), 1, &["margin"]),
            (meets(100), late(-5), 0, &["verdict", "margin"]),
            (meets(100), late(-5), 50, &["verdict"]),
            (late(-5), meets(1), 0, &[]),
            (late(-5), late(-6), 0, &["margin"]),
            (meets(100), side(Some(Verdict::NoBound), 100), 0, &["verdict"]),
            (meets(100), none, 0, &["it has no promise any more", "margin"]),
            (meets(100), None, 0, &["it is gone"]),
            (none, None, 0, &[]),
            (None, late(-5), 0, &[]),
        ] {
            assert_eq!(worse(old, new, allow), expected, "{old:?} {new:?} {allow}");
        }
    }
}
