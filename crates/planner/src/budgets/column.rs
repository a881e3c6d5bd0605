//! One core of a choice, for programs that choose in another way.
//!
//! Problem: a search that proves its own shares optimal needs a referee that shares none of its
//! steps. Rule: a [`Column`] is one core with its tasks and ways, and pages locked where they save
//! most. It says whether the core keeps its deadlines with a budget of its own, beside a sum of the
//! others' budgets. The bounds are those of a plan. On equal cores they depend on that sum alone,
//! or also on the jobs of the others where all are known. Then the caller says who they are
//! ([`Rest`]). Not covered: cores that differ or share no channel, and budgets with a part for
//! writes.

use super::judge::Judge;
use super::known::Accesses;
use crate::core_plan::CorePlan;
use crate::error::PlanError;
use crate::resources::Resources;
use crate::work::Work;
use std::collections::HashMap;

/// The whole of a deadline, in the unit of limits.
const WHOLE: u128 = 1_000_000;

/// Tasks beside a column that preempt each other as if on one core.
#[derive(Debug, Clone)]
pub struct Rest {
    /// Numbers of the tasks.
    pub tasks: Vec<usize>,
    /// Ways of the shared cache for their pages; `None`: no page is locked.
    pub ways: Option<u32>,
}

/// A task of a column.
#[derive(Debug, Clone, Copy)]
pub struct Demanded {
    /// Number of the task.
    pub task: usize,
    /// Its locked pages.
    pub locked: usize,
    /// Time alone of a job, ps.
    pub wcet_ps: u64,
    /// Accesses of a job.
    pub misses: u64,
}

/// A core with its tasks and ways.
#[derive(Debug)]
pub struct Column<'a> {
    work: &'a [Work<'a>],
    plan: CorePlan,
    resources: Resources,
}

impl<'a> Column<'a> {
    /// See [`Judge::column`].
    pub(super) fn new(
        judge: &Judge<'a>,
        (tasks, ways): (&[usize], u32),
        rest: &[Rest],
        idle: u64,
    ) -> Self {
        let (work, even) = judge.parts();
        let with = |ways: u32| judge.with_ways(vec![ways; even.cores as usize]);
        let mut resources = with(ways);
        let plan = CorePlan::first(0, tasks.to_vec(), work, &resources);
        let beside = |rest: &Rest| match rest.ways {
            Some(ways) => CorePlan::first(1, rest.tasks.clone(), work, &with(ways)),
            None => CorePlan::with_pages(1, &rest.tasks, &HashMap::new(), work, &resources),
        };
        let others: Vec<CorePlan> = rest.iter().map(beside).collect();
        // A core that comes after the last rest has no tasks, and its budget counts as a job.
        resources.set_budgets(vec![idle; even.cores as usize], vec![None; even.cores as usize]);
        let cores = std::iter::once(&plan).chain(&others);
        if let Some(known) = Accesses::of(cores, work, &resources) {
            let rivals = known.rivals(work, &resources);
            resources.set_rivals(&rivals);
        }
        Self { work, plan, resources }
    }

    /// Do all responses take at most this part of their deadlines, in millionths, with this budget,
    /// beside others with this sum of budgets? The part is not more than the whole.
    #[must_use]
    pub fn keeps(&mut self, own: u64, others: u64, limit: u64) -> bool {
        let cores = self.resources.cores as usize;
        let mut budgets = vec![1; cores];
        budgets[0] = own;
        if let Some(second) = budgets.get_mut(1) {
            *second = others.saturating_sub(cores as u64 - 2).max(1);
        }
        self.resources.try_budgets(0, &budgets, &vec![None; cores]);
        let within = |response: u64, deadline: u64| {
            u128::from(response) * WHOLE <= u128::from(deadline) * u128::from(limit)
        };
        let again = self.plan.again(self.work, &self.resources);
        again.tasks().iter().filter(|t| self.work[t.index].hard()).all(|t| {
            let deadline = self.work[t.index].task.deadline;
            matches!((t.response_ps, deadline), (Some(r), Some(d)) if within(r, d.ps()))
        })
    }

    /// Its tasks.
    pub fn tasks(&self) -> impl Iterator<Item = Demanded> {
        self.plan.tasks().iter().map(|t| Demanded {
            task: t.index,
            locked: t.locked,
            wcet_ps: t.wcet_ps,
            misses: t.misses,
        })
    }
}

impl Judge<'_> {
    /// A core with these tasks and ways. `rest`: the tasks of the other cores, where their jobs are
    /// known; `idle`: budget of the cores without tasks then.
    ///
    /// # Errors
    /// [`PlanError`] where the bounds depend on more than the sum of the others' budgets.
    pub fn column(
        &self,
        tasks: &[usize],
        ways: u32,
        rest: &[Rest],
        idle: u64,
    ) -> Result<Column<'_>, PlanError> {
        let (_, even) = self.parts();
        let others = even.cores as usize - 1;
        let meet = (0..even.cores).all(|core| even.rivals(core).len() == others);
        if !meet || even.platform.cores_differ() || even.platform.dram.counts_writes {
            return Err(PlanError(
                "the cores are not equal, or the board counts writes; use another platform".into(),
            ));
        }
        Ok(Column::new(self, (tasks, ways), rest, idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::Allotment;
    use crate::demand::Demand;
    use crate::planning::judge;
    use solocore_model::System;
    use std::path::Path;

    /// Two tasks on cores of their own; a third core has a program, or is idle.
    fn with_judge(program: bool, test: impl FnOnce(&Judge)) {
        let task = |name: &str, rest: &str| format!("[[task]]\nname = \"{name}\"\n{rest}\n");
        let best_effort = "criticality = \"D\"\nwcet = \"20 ms\"\nmisses = 90000";
        let text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
                \"optimal\"\nactive_cores = 3\n"
            .to_owned()
            + &task("a", "period = \"20 ms\"\nwcet = \"6 ms\"\nmisses = 20000")
            + &task("b", "period = \"30 ms\"\nwcet = \"8 ms\"\nmisses = 40000")
            + &if program { task("d", best_effort) } else { String::new() };
        let system = System::parse(Path::new("system.toml"), &text).expect("a system");
        let demands: Vec<Demand> =
            system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
        judge(&system, &demands, test).expect("even shares can be had");
    }

    /// Columns that all keep their deadlines are a choice that the judge accepts, and only these:
    /// the bounds of equal cores depend on the sum of the others' budgets.
    #[test]
    fn columns_agree_with_the_judge() {
        for program in [true, false] {
            with_judge(program, |judge| {
                let tasks = 2 + usize::from(program);
                let (mut met, mut missed) = (0, 0);
                for step in 0..64u64 {
                    let budgets =
                        vec![400 << (step % 4), 400 << (step / 4 % 4), 100 << (step / 16)];
                    let sum: u64 = budgets.iter().sum();
                    // Without programs, the third core has no task, and its budget is a job.
                    let idle = budgets[2];
                    let rest = |tasks| vec![Rest { tasks: vec![tasks], ways: Some(4) }];
                    let keeps = |task: usize| {
                        let mut column =
                            judge.column(&[task], 4, &rest(1 - task), idle).expect("equal cores");
                        column.keeps(budgets[task], sum - budgets[task], 1_000_000)
                    };
                    let both = keeps(0) && keeps(1);
                    let placement = (0..tasks as u32).collect();
                    let allotment = Allotment { placement, ways: vec![4; 3], budgets, pages: None };
                    assert_eq!(both, judge.meets(&allotment).expect("it fits"), "{allotment:?}");
                    if both { met += 1 } else { missed += 1 }
                }
                println!("{met} met, {missed} missed");
                assert!(missed > 0 && met > 0);
            });
        }
    }

    /// A tighter part of the deadlines, a larger sum of the others' budgets or a smaller own one
    /// is not kept sooner.
    #[test]
    fn tighter_limits_need_more() {
        with_judge(true, |judge| {
            let mut column = judge.column(&[0], 4, &[], 1).expect("equal cores");
            let kept: Vec<u64> = (1..=20)
                .map(|n| n * 50_000)
                .filter(|&limit| column.keeps(4000, 800, limit))
                .collect();
            assert!((1..20).contains(&kept.len()) && kept.last() == Some(&1_000_000), "{kept:?}");
            assert!(!column.keeps(4000, 800_000, 1_000_000) && !column.keeps(1, 800, 1_000_000));
            let own: Vec<usize> = column.tasks().map(|t| t.task).collect();
            assert_eq!(own, [0]);
        });
    }
}
