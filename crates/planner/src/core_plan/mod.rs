//! One core: which pages its tasks lock, and their response times.

mod bounds;
mod pages;

pub use bounds::{CoreBounds, Level, preemption_accesses};
pub use pages::hand_out;

use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use pages::share_pages;
use solocore_analysis::Derivation;
use solocore_model::plan::{PlanTask, Unlocked};
use solocore_model::profile::PageName;
use std::collections::HashMap;

/// Rounds of giving more cache to tasks that fail.
const ROUNDS: u32 = 6;

/// The plan of one core.
#[derive(Debug)]
pub struct CorePlan {
    /// Which core.
    pub core: u32,
    /// Sum of `C_sce / T`.
    pub utilization: f64,
    tasks: Vec<TaskPlan>,
}

/// The numbers of a task.
#[derive(Debug)]
pub struct TaskPlan {
    /// Its number in the system.
    pub index: usize,
    /// Locked pages.
    pub locked: usize,
    /// `C`.
    pub wcet_ps: u64,
    /// `mu`.
    pub misses: u64,
    /// Stall of a job by itself.
    pub stall_ps: u64,
    /// Worst reload per preemption by this task.
    pub crpd_ps: u64,
    /// Response time, where it is bounded.
    pub response_ps: Option<u64>,
    /// Does it meet its deadline?
    pub meets: bool,
}

impl CorePlan {
    /// Plans the tasks `on_core`: pages by the utilisation they save; when a task then misses its
    /// deadline, its pages count more in the next round.
    pub fn best(core: u32, on_core: Vec<usize>, work: &[Work], resources: &Resources) -> Self {
        let mut weights: HashMap<usize, u64> = on_core.iter().map(|&t| (t, 1)).collect();
        let mut first: Option<Self> = None;
        for _ in 0..ROUNDS {
            let locked = share_pages(&on_core, &weights, work, resources.lock_capacity_of(core));
            let plan = Self::with_pages(core, &on_core, &locked, work, resources);
            if plan.schedulable() {
                return plan;
            }
            for failing in plan.tasks.iter().filter(|t| !t.meets) {
                *weights.entry(failing.index).or_insert(1) *= 4;
            }
            first.get_or_insert(plan);
        }
        first.unwrap_or(Self { core, utilization: 0.0, tasks: Vec::new() })
    }

    /// With the pages that save most, whether or not every deadline is met.
    pub fn first(core: u32, on_core: Vec<usize>, work: &[Work], resources: &Resources) -> Self {
        Self::weighted(core, &on_core, &HashMap::new(), work, resources)
    }

    /// With the pages that save most where tasks have these weights (1 where they have none).
    pub fn weighted(
        core: u32,
        on_core: &[usize],
        weights: &HashMap<usize, u64>,
        work: &[Work],
        resources: &Resources,
    ) -> Self {
        let locked = share_pages(on_core, weights, work, resources.lock_capacity_of(core));
        Self::with_pages(core, on_core, &locked, work, resources)
    }

    /// The numbers of its tasks, highest priority first.
    pub fn tasks(&self) -> &[TaskPlan] {
        &self.tasks
    }

    /// Every analysed task meets its deadline.
    pub fn schedulable(&self) -> bool {
        self.tasks.iter().all(|t| t.meets)
    }

    /// The same tasks with the same pages, under other resources.
    pub fn again(&self, work: &[Work], resources: &Resources) -> Self {
        let locked: HashMap<usize, usize> =
            self.tasks.iter().map(|t| (t.index, t.locked)).collect();
        let on_core: Vec<usize> = self.tasks.iter().map(|t| t.index).collect();
        Self::with_pages(self.core, &on_core, &locked, work, resources)
    }

    /// With so many pages of each task locked.
    pub fn with_pages(
        core: u32,
        on_core: &[usize],
        locked: &HashMap<usize, usize>,
        work: &[Work],
        resources: &Resources,
    ) -> Self {
        let mut order: Vec<usize> = on_core.to_vec();
        order.sort_by_key(|&t| work[t].priority);
        let hard: Vec<usize> = order.iter().copied().filter(|&t| work[t].hard()).collect();
        let best_effort = order.len() > hard.len();
        let own = CoreBounds { core, resources };
        let mut utilization = 0.0;
        let mut tasks = Vec::new();
        for &index in &order {
            let w = &work[index];
            let k = locked.get(&index).copied().unwrap_or(0);
            let (wcet_ps, misses) = (w.wcet_ps(k, resources), w.demand.misses(k));
            let stall_ps = own.stall(w.asked(k, resources)).saturating_add(own.once(false));
            let crpd_ps = resources.access_ps(preemption_accesses(index, &order, work, resources));
            let (response_ps, meets) = if w.hard() {
                if let Some(period) = w.task.period {
                    utilization += (wcet_ps as f64 + stall_ps as f64) / period.ps() as f64;
                }
                let response = own.response(index, &hard, best_effort, locked, work);
                let meets =
                    matches!((response, w.task.deadline), (Some(r), Some(d)) if r <= d.ps());
                (response, meets)
            } else {
                (None, true)
            };
            tasks.push(TaskPlan {
                index,
                locked: k,
                wcet_ps,
                misses,
                stall_ps,
                crpd_ps,
                response_ps,
                meets,
            });
        }
        Self { core, utilization, tasks }
    }

    /// The analysed tasks of this core, highest priority first.
    pub fn levels(&self, work: &[Work], resources: &Resources) -> Vec<Level> {
        let own = CoreBounds { core: self.core, resources };
        let hard: Vec<usize> =
            self.tasks.iter().map(|t| t.index).filter(|&t| work[t].hard()).collect();
        let best_effort = self.tasks.len() > hard.len();
        let locked: HashMap<usize, usize> =
            self.tasks.iter().map(|t| (t.index, t.locked)).collect();
        hard.iter()
            .filter_map(|&index| own.level(index, &hard, best_effort, &locked, work))
            .collect()
    }

    /// DRAM transactions of a job, with what its preemptions make others read again. A job of lower
    /// priority pushes nothing out of other cores' banks.
    pub fn accesses_with_reloads(
        &self,
        index: usize,
        work: &[Work],
        resources: &Resources,
    ) -> Option<u64> {
        let order: Vec<usize> = self.tasks.iter().map(|t| t.index).collect();
        let extra = preemption_accesses(index, &order, work, resources);
        self.demand_of(index).map(|(_, misses)| misses.saturating_add(extra))
    }

    /// Execution time alone of a job, in picoseconds, and its DRAM transactions.
    pub fn demand_of(&self, index: usize) -> Option<(u64, u64)> {
        self.tasks.iter().find(|t| t.index == index).map(|t| (t.wcet_ps, t.misses))
    }

    /// Response time, where it is bounded.
    pub fn response_ps(&self, index: usize) -> Option<u64> {
        self.tasks.iter().find(|t| t.index == index)?.response_ps
    }

    /// How execution time and misses of a task came about.
    pub fn demand(&self, index: usize, w: &Work, resources: &Resources) -> Derivation {
        let locked = self.tasks.iter().find(|t| t.index == index).map_or(0, |t| t.locked);
        w.demand.explain(locked, &resources.platform)
    }

    /// The plan's entry of a task of this core, without margin and derivation.
    ///
    /// # Panics
    /// If the task is not on this core.
    pub fn task(&self, index: usize, w: &Work) -> PlanTask {
        self.tasks
            .iter()
            .find(|t| t.index == index)
            .expect("the task is placed on this core")
            .entry(self.core, w)
    }
}

impl TaskPlan {
    /// The plan's entry of a task, without margin and derivation.
    pub fn entry(&self, core: u32, w: &Work) -> PlanTask {
        let t = self;
        let ns = |ps: u64| ps.div_ceil(1000);
        let (wcet_ns, stall_ns) = (ns(t.wcet_ps), ns(t.stall_ps));
        let (profile, command, private_cycles, locked_pages) = match w.demand {
            Demand::Given { .. } => (None, w.task.command.clone(), None, Vec::new()),
            // Stated curves do not name their pages.
            Demand::Curve(_) => (
                None,
                w.task.command.clone(),
                None,
                (0..t.locked as u64)
                    .map(|offset| PageName { region: "stated".to_owned(), offset })
                    .collect(),
            ),
            Demand::Profiled { path, profile } => (
                Some(path.clone()),
                Some(profile.command.clone()),
                Some(profile.private_cycles),
                profile.pages.iter().take(t.locked).map(|p| p.name.clone()).collect(),
            ),
        };
        PlanTask {
            name: w.task.name.clone(),
            core,
            criticality: w.task.criticality,
            wcet_ns,
            misses: t.misses,
            stall_ns,
            c_sce_ns: if t.stall_ps == u64::MAX {
                u64::MAX
            } else {
                wcet_ns.saturating_add(stall_ns)
            },
            wcrt_ns: t.response_ps.map(ns),
            // What is compared with it is rounded up.
            deadline_ns: w.task.deadline.map(|d| d.ps() / 1000),
            schedulable: t.meets,
            verdict: None,
            assumes: Vec::new(),
            period_ns: w.task.period.map(|p| ns(p.ps())),
            priority: w.priority,
            crpd_ns: ns(t.crpd_ps),
            private_cycles,
            locked_pages,
            profile,
            profiled: None,
            command,
            program: w.task.program.clone(),
            soft_budget: None,
            soft_budget_length_ns: None,
            partition: None,
            unlocked: match w.demand {
                Demand::Curve(points) => {
                    points.first().map(|p| Unlocked { wcet_ns: ns(p.0), misses: p.1 })
                }
                _ => None,
            },
            tardiness_ns: None,
            margin: None,
            derivation: None,
            waterfall: Vec::new(),
        }
    }
}
