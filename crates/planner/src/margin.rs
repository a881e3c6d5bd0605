//! The growth of a core's tasks until one of them misses its deadline, and the derivation of each
//! response time.
//!
//! Rule: the core's own test, evaluated with one quantity changed; it is monotone in each, so a
//! binary search finds the edge (`solocore_analysis::sensitivity`). Not covered: growth on several
//! cores at once, and the placements that larger tasks would get.

use crate::core_plan::{Change, CoreBounds, CorePlan, HardTasks};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::response::RtaTask;
use solocore_analysis::sensitivity::{largest_passing, least_passing};
use solocore_analysis::{BusyWindow, Derivation};
use solocore_model::Time;
use solocore_model::plan::{CoreMargin, TaskMargin};
use solocore_model::system::Model;
use std::cell::OnceCell;
use std::collections::HashMap;

/// Factors are in thousandths; the search ends at a thousandfold.
const UNITY: u64 = 1000;
const MOST: u64 = 1000 * UNITY;
/// Upper limit of the search for miss counts.
const MOST_MISSES: u64 = 1 << 48;

/// The margins of a core's tasks.
pub struct Margins<'a> {
    core: &'a CorePlan,
    hard: HardTasks,
    /// The place of each task, by its number in the system.
    places: HashMap<usize, usize>,
    /// The busy window of each level as it begins, where every deadline is met.
    before: Vec<BusyWindow>,
    /// The largest execution time of each task, ns, once it has been computed.
    wcets: Vec<OnceCell<Option<u64>>>,
    resources: &'a Resources,
}

impl<'a> Margins<'a> {
    /// Margins of this core.
    pub fn of(core: &'a CorePlan, work: &[Work], resources: &'a Resources) -> Self {
        let hard = core.hard(work, resources);
        let places = (0..hard.len()).map(|at| (hard.index(at), at)).collect();
        let bounds = CoreBounds { core: core.core, resources };
        let (mut busy, mut before) = (hard.busy(), Vec::new());
        for at in (0..hard.len()).filter(|_| core.schedulable()) {
            before.push(busy.clone());
            hard.response(at, &mut busy, &bounds, &|_, t| Some(*t), hard.deadline_ps(at));
        }
        let wcets = vec![OnceCell::new(); hard.len()];
        Self { core, hard, places, before, wcets, resources }
    }

    /// Do the tasks from this place on meet their deadlines after `change`, which leaves those
    /// before unchanged?
    fn passes(&self, from: usize, resources: &Resources, change: Change<'_>) -> bool {
        let bounds = CoreBounds { core: self.core.core, resources };
        let mut busy = if from == 0 { self.hard.busy() } else { self.before[from].clone() };
        (from..self.hard.len()).all(|at| {
            let limit_ps = self.hard.deadline_ps(at);
            self.hard.response(at, &mut busy, &bounds, change, limit_ps).is_some()
        })
    }

    /// The largest execution time of the task at a place, in whole nanoseconds as plans have it.
    /// Each step closer to an utilisation of 1 looks at twice as many jobs.
    fn wcet(&self, at: usize) -> Option<u64> {
        *self.wcets[at].get_or_init(|| {
            let (index, given) = (self.hard.index(at), self.hard.asked(at).work_ps);
            let most_ns = self.hard.deadline_ps(at) / Time::PS_PER_NS;
            let found = largest_passing(0, most_ns, given / Time::PS_PER_NS, |wcet_ns| {
                let wcet_ps = wcet_ns.saturating_mul(Time::PS_PER_NS);
                self.passes(at, self.resources, &|i, t| {
                    Some(RtaTask { wcet_ps: if i == index { wcet_ps } else { t.wcet_ps }, ..*t })
                })
            });
            found.passes
        })
    }

    /// Margin of one task; `None` if a deadline of its core is missed already.
    pub fn task(&self, index: usize) -> Option<TaskMargin> {
        let at = *self.places.get(&index)?;
        if !self.core.schedulable() {
            return None;
        }
        // Its reloads after preemptions of others stay the same.
        let own = self.hard.asked(at).misses;
        let misses = largest_passing(0, MOST_MISSES, own, |misses| {
            self.passes(at, self.resources, &|i, t| {
                if i == index {
                    t.with_misses(t.misses, (t.misses - own).checked_add(misses)?)
                } else {
                    Some(*t)
                }
            })
        });
        Some(TaskMargin { wcet_ns: self.wcet(at), misses: misses.fails.and(misses.passes) })
    }

    /// Margin of the whole core.
    pub fn core(&self, name: impl Fn(usize) -> String) -> Option<CoreMargin> {
        if self.hard.len() == 0 || !self.core.schedulable() {
            return None;
        }
        let grow = |value: u64, k: u64| {
            u64::try_from((u128::from(value) * u128::from(k)).div_ceil(u128::from(UNITY))).ok()
        };
        let wcets = largest_passing(1, MOST, UNITY, |k| {
            self.passes(0, self.resources, &|_, t| {
                Some(RtaTask { wcet_ps: grow(t.wcet_ps, k)?, ..*t })
            })
        });
        let misses = largest_passing(1, MOST, UNITY, |k| {
            self.passes(0, self.resources, &|_, t| t.with_misses(t.misses, grow(t.misses, k)?))
        });
        let relative = |&at: &usize| {
            let most = self.wcet(at).unwrap_or(0).saturating_mul(Time::PS_PER_NS);
            // Thousandths are enough for a reader.
            (u128::from(most) * u128::from(MOST))
                .checked_div(u128::from(self.hard.asked(at).work_ps))
                .unwrap_or(u128::MAX)
        };
        let critical = (0..self.hard.len()).min_by_key(relative)?;
        Some(CoreMargin {
            wcets_permille: wcets.passes?,
            misses_permille: misses.fails.and(misses.passes),
            least_budget_accesses: self.least_budget(),
            critical_task: name(self.hard.index(critical)),
        })
    }

    fn least_budget(&self) -> Option<u64> {
        let budgets = self.resources.budgets.as_ref()?;
        let own = self.core.core as usize;
        let budget = *budgets.get(own)?;
        // Eq. (1) alone does not depend on the budget.
        if self.resources.model == Model::Sce
            && !self.resources.carry_in
            && !self.resources.explicit
        {
            return None;
        }
        let writes = &self.resources.write_budgets;
        // The part for writes is kept; a core needs one read as well.
        let least = writes.get(own).copied().flatten().map_or(0, |w| w + 1);
        let found = least_passing(least, budget, budget, |budget| {
            let mut varied = budgets.clone();
            varied[own] = budget;
            self.passes(0, &self.resources.with_budgets(varied, writes.clone()), &|_, t| Some(*t))
        });
        found.passes
    }

    /// Derivation of the `response` of a task.
    pub fn derivation(
        &self,
        index: usize,
        response: Option<u64>,
        demand: Derivation,
    ) -> Option<Derivation> {
        let at = *self.places.get(&index)?;
        let bounds = CoreBounds { core: self.core.core, resources: self.resources };
        let response = self.hard.explain(at, &bounds, response);
        Some(response.because(demand).because(bounds.explain()))
    }
}
