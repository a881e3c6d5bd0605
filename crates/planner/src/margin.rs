//! How far the tasks of a core may grow before one of them misses its deadline, and how each
//! response time came about.
//!
//! Rule: the core's own test, evaluated with one quantity changed; it is monotone in each, so a
//! binary search finds the edge (`solocore_analysis::sensitivity`). Not covered: growth on several
//! cores at once, and placements that would have been chosen for larger tasks.

use crate::core_plan::{CoreBounds, CorePlan, Level};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::response::{Demand as Asked, Task, explain, response_time};
use solocore_analysis::sensitivity::{Found, largest_passing, least_passing};
use solocore_analysis::{Derivation, Window};
use solocore_model::plan::{CoreMargin, TaskMargin};
use solocore_model::system::Model;

/// Factors are in thousandths, and looked for up to a thousandfold.
const UNITY: u64 = 1000;
const MOST: u64 = 1000 * UNITY;
/// Miss counts are looked for up to this.
const MOST_MISSES: u64 = 1 << 48;

/// The margins of a core's tasks.
pub struct Margins<'a> {
    core: &'a CorePlan,
    levels: Vec<Level>,
    resources: &'a Resources,
}

impl<'a> Margins<'a> {
    /// Of this core.
    pub fn of(core: &'a CorePlan, work: &'a [Work<'a>], resources: &'a Resources) -> Self {
        Self { core, levels: core.levels(work, resources), resources }
    }

    fn bounds<'b>(&self, resources: &'b Resources) -> CoreBounds<'b> {
        CoreBounds { core: self.core.core, resources }
    }

    /// Do all tasks meet their deadlines after `change`?
    fn passes(&self, resources: &Resources, change: impl Fn(usize, &Task) -> Option<Task>) -> bool {
        let bounds = self.bounds(resources);
        self.levels.iter().all(|level| {
            let tasks: Option<Vec<Task>> =
                level.tasks.iter().map(|(index, t)| change(*index, t)).collect();
            let Some(tasks) = tasks else { return false };
            let Some((last, _)) = tasks.split_last() else { return true };
            let stall = |asked: Asked| bounds.stall(asked);
            let window = Window { once_ps: bounds.once(level.company), stall: &stall };
            response_time(&tasks, tasks.len() - 1, &window, last.deadline_ps).is_some()
        })
    }

    fn wcet(&self, index: usize, wcet_ps: u64, deadline_ps: u64) -> Found {
        largest_passing(0, deadline_ps, wcet_ps, |wcet_ps| {
            self.passes(self.resources, |i, t| {
                Some(Task { wcet_ps: if i == index { wcet_ps } else { t.wcet_ps }, ..*t })
            })
        })
    }

    /// Of one task; `None` if a deadline of its core is missed as it is.
    pub fn task(&self, index: usize) -> Option<TaskMargin> {
        let (_, task) = self.levels.iter().find(|l| l.index == index)?.tasks.last()?;
        if !self.core.schedulable() {
            return None;
        }
        let wcet = self.wcet(index, task.wcet_ps, task.deadline_ps);
        // What it reloads after preemptions of others stays as it is.
        let (_, own) = self.core.demand_of(index)?;
        let misses = largest_passing(0, MOST_MISSES, own, |misses| {
            self.passes(self.resources, |i, t| {
                if i == index {
                    t.with_misses(t.misses, (t.misses - own).checked_add(misses)?)
                } else {
                    Some(*t)
                }
            })
        });
        Some(TaskMargin {
            wcet_ns: wcet.passes.map(|ps| ps / 1000),
            misses: misses.fails.and(misses.passes),
        })
    }

    /// Of the whole core.
    pub fn core(&self, name: impl Fn(usize) -> String) -> Option<CoreMargin> {
        if self.levels.is_empty() || !self.core.schedulable() {
            return None;
        }
        let grow = |value: u64, k: u64| {
            u64::try_from((u128::from(value) * u128::from(k)).div_ceil(u128::from(UNITY))).ok()
        };
        let wcets = largest_passing(1, MOST, UNITY, |k| {
            self.passes(self.resources, |_, t| Some(Task { wcet_ps: grow(t.wcet_ps, k)?, ..*t }))
        });
        let misses = largest_passing(1, MOST, UNITY, |k| {
            self.passes(self.resources, |_, t| t.with_misses(t.misses, grow(t.misses, k)?))
        });
        let relative = |level: &&Level| {
            let Some((index, t)) = level.tasks.last().copied() else { return u128::MAX };
            let most = self.wcet(index, t.wcet_ps, t.deadline_ps).passes.unwrap_or(0);
            // Thousandths do: the name is for people.
            (u128::from(most) * u128::from(MOST))
                .checked_div(u128::from(t.wcet_ps))
                .unwrap_or(u128::MAX)
        };
        let critical = self.levels.iter().min_by_key(relative)?;
        Some(CoreMargin {
            wcets_permille: wcets.passes?,
            misses_permille: misses.fails.and(misses.passes),
            least_budget_accesses: self.least_budget(),
            critical_task: name(critical.index),
        })
    }

    fn least_budget(&self) -> Option<u64> {
        let budgets = self.resources.budgets.as_ref()?;
        let own = self.core.core as usize;
        let budget = *budgets.get(own)?;
        // Eq. (1) alone does not look at the budget.
        if self.resources.model == Model::Sce
            && !self.resources.carry_in
            && !self.resources.explicit
        {
            return None;
        }
        let writes = &self.resources.write_budgets;
        // Its part for writes stays; a core needs one read as well.
        let least = writes.get(own).copied().flatten().map_or(0, |w| w + 1);
        let found = least_passing(least, budget, budget, |budget| {
            let mut varied = budgets.clone();
            varied[own] = budget;
            self.passes(&self.resources.with_budgets(varied, writes.clone()), |_, t| Some(*t))
        });
        found.passes
    }

    /// How the response time of a task came about.
    pub fn derivation(&self, index: usize, demand: Derivation) -> Option<Derivation> {
        let level = self.levels.iter().find(|l| l.index == index)?;
        let bounds = self.bounds(self.resources);
        let stall = |asked: Asked| bounds.stall(asked);
        let window = Window { once_ps: bounds.once(level.company), stall: &stall };
        let tasks: Vec<Task> = level.tasks.iter().map(|(_, t)| *t).collect();
        let response = self.core.response_ps(index);
        Some(
            explain(&tasks, tasks.len().checked_sub(1)?, &window, response)
                .because(demand)
                .because(bounds.explain()),
        )
    }
}
