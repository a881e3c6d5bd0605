//! One core: the pages that its tasks lock, and their response times.

mod bounds;
mod hard;
mod pages;

pub use bounds::{CoreBounds, Level, preemption_accesses};
pub use hard::{Change, HardTasks};
pub use pages::{hand_out, lockable, share_pages};

use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use bounds::all_preemption_accesses;
use solocore_analysis::Derivation;
use solocore_model::plan::{PlanTask, Unlocked};
use solocore_model::platform::Pace;
use solocore_model::profile::PageName;
use std::collections::HashMap;

/// Rounds in which tasks that fail are given more cache.
const ROUNDS: u32 = 6;

/// The plan of one core.
#[derive(Debug)]
pub struct CorePlan {
    /// Number of the core.
    pub core: u32,
    /// Sum of `C_sce / T`.
    pub utilization: f64,
    tasks: Vec<TaskPlan>,
}

/// The numbers of a task.
#[derive(Debug)]
pub struct TaskPlan {
    /// Number of the task in the system.
    pub index: usize,
    /// Locked pages.
    pub locked: usize,
    /// Pace of a core in `C`.
    pub pace: Pace,
    /// `C`.
    pub wcet_ps: u64,
    /// `mu`.
    pub misses: u64,
    /// Stall of a job by itself.
    pub stall_ps: u64,
    /// Worst reload per preemption by this task.
    pub crpd_ps: u64,
    /// Response time, ps, where it is bounded.
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
            if !lockable(&on_core, work, resources.lock_capacity_of(core)) {
                break;
            }
        }
        first.unwrap_or(Self { core, utilization: 0.0, tasks: Vec::new() })
    }

    /// [`CorePlan::utilization`] with the pages that save most.
    pub fn load(core: u32, on_core: &[usize], work: &[Work], resources: &Resources) -> f64 {
        let capacity = resources.lock_capacity_of(core);
        let locked = share_pages(on_core, &HashMap::new(), work, capacity);
        let mut order: Vec<usize> = on_core.to_vec();
        order.sort_by_key(|&t| work[t].priority);
        let own = CoreBounds { core, resources };
        let share = |&t: &usize| {
            let k = locked.get(&t).copied().unwrap_or(0);
            own.utilization(&work[t], work[t].asked_on(core, k, resources))
        };
        order.iter().filter(|&&t| work[t].hard()).map(share).fold(0.0, |sum, u| sum + u)
    }

    /// The first task that may miss its deadline with the pages that save most. Where there is
    /// none, the first round of [`CorePlan::best`] is schedulable.
    pub fn late(
        core: u32,
        on_core: &[usize],
        work: &[Work],
        resources: &Resources,
    ) -> Option<usize> {
        let capacity = resources.lock_capacity_of(core);
        let locked = share_pages(on_core, &HashMap::new(), work, capacity);
        let mut order: Vec<usize> = on_core.to_vec();
        order.sort_by_key(|&t| work[t].priority);
        let own = CoreBounds { core, resources };
        HardTasks::of(core, &order, &locked, work, resources).late(&own)
    }

    /// With the pages that save most, even if a deadline is missed.
    pub fn first(core: u32, on_core: Vec<usize>, work: &[Work], resources: &Resources) -> Self {
        Self::weighted(core, &on_core, &HashMap::new(), work, resources)
    }

    /// With the pages that save most where tasks have these weights (weight 1 by default).
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

    /// Does every analysed task meet its deadline?
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

    /// Would each task of this core meet its deadline with the same pages, under other resources?
    pub fn keeps(&self, work: &[Work], resources: &Resources) -> bool {
        self.hard(work, resources).late(&CoreBounds { core: self.core, resources }).is_none()
    }

    /// Bounds with this number of pages of each task locked.
    pub fn with_pages(
        core: u32,
        on_core: &[usize],
        locked: &HashMap<usize, usize>,
        work: &[Work],
        resources: &Resources,
    ) -> Self {
        let mut order: Vec<usize> = on_core.to_vec();
        order.sort_by_key(|&t| work[t].priority);
        let own = CoreBounds { core, resources };
        let reloads = all_preemption_accesses(&order, work, resources);
        let responses = HardTasks::of(core, &order, locked, work, resources).responses(&own);
        let mut utilization = 0.0;
        let mut tasks = Vec::with_capacity(order.len());
        // Best effort comes last, so that the indices of the analysed tasks and of their responses
        // agree.
        for ((&index, reload), response) in
            order.iter().zip(reloads).zip(responses.into_iter().chain(std::iter::repeat(None)))
        {
            let w = &work[index];
            let k = locked.get(&index).copied().unwrap_or(0);
            let asked = w.asked_on(core, k, resources);
            let (wcet_ps, misses) = (asked.work_ps, asked.misses);
            let stall_ps = own.stall(asked).saturating_add(own.once(false));
            let crpd_ps = resources.access_ps(reload);
            let (response_ps, meets) = if w.hard() {
                utilization += own.utilization(w, asked);
                let meets =
                    matches!((response, w.task.deadline), (Some(r), Some(d)) if r <= d.ps());
                (response, meets)
            } else {
                (None, true)
            };
            tasks.push(TaskPlan {
                index,
                locked: k,
                pace: resources.platform.pace_of(core),
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

    /// The analysed tasks of this core.
    pub fn hard(&self, work: &[Work], resources: &Resources) -> HardTasks {
        let locked: HashMap<usize, usize> =
            self.tasks.iter().map(|t| (t.index, t.locked)).collect();
        let order: Vec<usize> = self.tasks.iter().map(|t| t.index).collect();
        HardTasks::of(self.core, &order, &locked, work, resources)
    }

    /// The same as a list of levels.
    pub fn levels(&self, work: &[Work], resources: &Resources) -> Vec<Level> {
        let hard = self.hard(work, resources);
        (0..hard.len()).map(|at| hard.level(at, resources)).collect()
    }

    /// DRAM accesses of a job of each task, with the reloads that its preemptions cause. A job
    /// of lower priority evicts no lines into other cores' banks.
    pub fn accesses_with_reloads<'a>(
        &'a self,
        work: &[Work],
        resources: &Resources,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        let order: Vec<usize> = self.tasks.iter().map(|t| t.index).collect();
        let extra = all_preemption_accesses(&order, work, resources);
        self.tasks.iter().zip(extra).map(|(t, extra)| (t.index, t.misses.saturating_add(extra)))
    }

    /// Execution time alone of a job, in picoseconds, and its DRAM accesses.
    pub fn demand_of(&self, index: usize) -> Option<(u64, u64)> {
        self.tasks.iter().find(|t| t.index == index).map(|t| (t.wcet_ps, t.misses))
    }

    /// Derivation of execution time and misses of a task.
    pub fn demand(&self, index: usize, w: &Work, resources: &Resources) -> Derivation {
        let locked = self.tasks.iter().find(|t| t.index == index).map_or(0, |t| t.locked);
        w.explain(locked, resources, resources.platform.pace_of(self.core))
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
            // The deadline that is compared with it is rounded up.
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
            program_files: Vec::new(),
            touched_pages: None,
            command,
            program: w.task.program.clone(),
            soft_budget: None,
            soft_budget_length_ns: None,
            partition: None,
            unlocked: match w.demand {
                Demand::Curve(points) => {
                    points.first().map(|p| Unlocked { wcet_ns: ns(p.0), misses: p.1 })
                }
                // Stated numbers hold alone; beside others a job evicts more lines.
                Demand::Given { wcet_ps, misses } if *misses < t.misses => {
                    Some(Unlocked { wcet_ns: ns(*wcet_ps), misses: *misses })
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
