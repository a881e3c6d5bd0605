//! One core: which pages its tasks lock, and their response times.

use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::Stall;
use solocore_analysis::response::{Demand as Asked, Task as RtaTask, Window, response_time};
use solocore_analysis::{Derivation, stall};
use solocore_model::plan::{PlanTask, Unlocked};
use solocore_model::profile::PageName;
use solocore_model::system::Model;
use std::collections::{BinaryHeap, HashMap};

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

/// An analysed task with those that can hold it up on its core, as the response-time analysis sees
/// them.
#[derive(Debug)]
pub struct Level {
    /// Its number in the system.
    pub index: usize,
    /// Highest priority first, itself last; with their numbers in the system.
    pub tasks: Vec<(usize, RtaTask)>,
    /// Tasks of lower priority share the core.
    pub company: bool,
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
            Demand::Given { .. } => (None, None, None, Vec::new()),
            // Stated curves do not name their pages.
            Demand::Curve(_) => (
                None,
                None,
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
            command,
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

/// The bounds of one core.
pub struct CoreBounds<'a> {
    /// Which core.
    pub core: u32,
    /// Its share.
    pub resources: &'a Resources,
}

impl CoreBounds<'_> {
    /// The core's stall under the interference model; `None` where there is no model of the memory.
    fn sound(&self) -> Option<&Stall> {
        self.resources.stalls.get(self.core as usize)
    }

    /// Stall of what jobs ask for, without what an earlier task left behind; [`u64::MAX`]: no
    /// bound.
    pub fn stall(&self, asked: Asked) -> u64 {
        let r = &self.resources.regulation;
        if self.resources.model == Model::Sound {
            return self.sound().map_or(u64::MAX, |s| s.of(asked));
        }
        let misses = asked.misses;
        let Some(budgets) = &self.resources.budgets else {
            return stall::stall_unregulated(r, misses);
        };
        let own = self.core as usize;
        match (self.resources.explicit, self.resources.carry_in) {
            (true, _) => stall::stall_explicit(r, budgets, own, misses),
            (false, true) => stall::stall(r, budgets[own], misses),
            (false, false) => stall::stall_paper(r, misses),
        }
    }

    /// Once per busy window: the budget that an earlier task may have drained, and what is under
    /// way. In the papers' model, by the fastest accesses the memory can serve; with an access of a
    /// lower-priority task `in_flight`, that comes on top.
    pub fn once(&self, in_flight: bool) -> u64 {
        let r = &self.resources.regulation;
        if self.resources.model == Model::Sound {
            return self.sound().map_or(u64::MAX, Stall::once);
        }
        match &self.resources.budgets {
            _ if !self.resources.carry_in => 0,
            None if in_flight => self.resources.blocking_ps(),
            None => 0,
            Some(budgets) => {
                let budget = budgets[self.core as usize];
                let fastest = self.resources.platform.row_hit().ps();
                let drained = if in_flight {
                    stall::carry_in_in_flight(r, budget)
                } else {
                    stall::carry_in(r, budget)
                };
                drained.saturating_add(stall::fast_service(r, fastest, budget))
            }
        }
    }

    /// What each window of a partition costs besides: its last regulation period may have begun
    /// shortly before its end.
    pub fn each_window(&self) -> u64 {
        let sound = self.sound().filter(|_| self.resources.model == Model::Sound);
        self.once(true).saturating_add(sound.map_or(0, Stall::in_period))
    }

    /// Which stall and carry-in these are.
    pub fn explain(&self) -> Derivation {
        if let (Model::Sound, Some(sound)) = (self.resources.model, self.sound()) {
            return sound.explain();
        }
        let r = &self.resources.regulation;
        let (rule, source) =
            match (&self.resources.budgets, self.resources.explicit, self.resources.carry_in) {
                (None, ..) => {
                    ("stall(mu) = (m-1)*mu*L", "crates/analysis/src/stall.rs, stall_unregulated")
                }
                (_, true, _) => (
                    "stall(mu) = max(mu*s(1), floor(mu/Q)*(P - Q*L) + (mu mod Q)*s(1)), s(1) = L * \
                    other cores with a budget",
                    "crates/analysis/src/stall.rs, stall_explicit",
                ),
                (_, _, true) => (
                    "stall(mu) = max(mu*(m-1)*L, floor(mu/Q)*(P - Q*L) + (mu mod Q)*(m-1)*L)",
                    "crates/analysis/src/stall.rs, stall",
                ),
                _ => ("stall(mu) = m*mu*L", "single-core-equivalence section 3.1, eq. (1)"),
            };
        let d = Derivation::new(rule, source)
            .input("m", u64::from(r.cores))
            .input("L ps", r.latency_ps);
        let Some(budgets) = &self.resources.budgets else { return d.result("as above") };
        let budget = budgets.get(self.core as usize).copied().unwrap_or(0);
        d.input("P ps", r.period_ps)
            .input("Q", budget)
            .step("drained by an earlier task, once ps", self.once(false))
            .step("the same beside an access of lower priority in flight ps", self.once(true))
            .result("as above")
    }

    /// Response time of `hard[..]`'s task `index`.
    fn response(
        &self,
        index: usize,
        hard: &[usize],
        best_effort: bool,
        locked: &HashMap<usize, usize>,
        work: &[Work],
    ) -> Option<u64> {
        let level = self.level(index, hard, best_effort, locked, work)?;
        let tasks: Vec<RtaTask> = level.tasks.iter().map(|(_, t)| *t).collect();
        let deadline_ps = tasks
            .last()
            .filter(|_| self.resources.verdict_only)
            .map_or(u64::MAX, |t| t.deadline_ps);
        let limit = tasks.iter().map(|t| t.period_ps).max()?.saturating_mul(100).min(deadline_ps);
        let stall = |asked: Asked| self.stall(asked);
        let window = Window { once_ps: self.once(level.company), stall: &stall };
        response_time(&tasks, tasks.len() - 1, &window, limit)
    }

    /// What decides the response time of `hard[..]`'s task `index`. Every job of higher priority
    /// may preempt, after which private caches have to be filled again; a job of lower priority may
    /// have an access under way.
    pub fn level(
        &self,
        index: usize,
        hard: &[usize],
        best_effort: bool,
        locked: &HashMap<usize, usize>,
        work: &[Work],
    ) -> Option<Level> {
        let at = hard.iter().position(|&t| t == index)?;
        let affected = &hard[..=at];
        let tasks = affected
            .iter()
            .map(|&t| {
                let w = &work[t];
                let k = locked.get(&t).copied().unwrap_or(0);
                let extra = preemption_accesses(t, affected, work, self.resources);
                let asked = w.asked(k, self.resources);
                let task = RtaTask {
                    wcet_ps: asked.work_ps,
                    misses: asked.misses.saturating_add(extra),
                    // Half of them reads, half write-backs.
                    reads: asked.reads.saturating_add(extra),
                    writes: asked.writes.saturating_add(extra),
                    period_ps: w.task.period.map_or(u64::MAX, |p| p.ps()),
                    deadline_ps: w.task.deadline.map_or(u64::MAX, |d| d.ps()),
                    preemption_ps: self.resources.access_ps(extra),
                };
                (t, task)
            })
            .collect();
        Some(Level { index, tasks, company: best_effort || at + 1 < hard.len() })
    }
}

/// DRAM transactions that a job of `preempting` can cost the tasks of lower priority among `order`:
/// a read, and the write-back of a dirty line, for at most what the private caches hold and what
/// the largest of those tasks uses. Under LRU a few new lines can make whole sets miss, so the
/// preempting job's own size does not help.
pub fn preemption_accesses(
    preempting: usize,
    order: &[usize],
    work: &[Work],
    resources: &Resources,
) -> u64 {
    let below =
        order.iter().filter(|&&t| work[t].priority > work[preempting].priority && work[t].hard());
    let largest = below.map(|&t| work[t].demand.lines()).max().unwrap_or(0);
    2 * largest.min(resources.platform.private_lines())
}

/// Locked pages per task: the `capacity` pages that save most accesses per second, weighted.
fn share_pages(
    on_core: &[usize],
    weights: &HashMap<usize, u64>,
    work: &[Work],
    capacity: u64,
) -> HashMap<usize, usize> {
    let curves: HashMap<usize, Vec<u64>> = on_core
        .iter()
        .filter(|&&t| work[t].hard())
        .map(|&t| {
            (
                t,
                work[t]
                    .demand
                    .page_accesses()
                    .take(usize::try_from(capacity).unwrap_or(usize::MAX))
                    .collect(),
            )
        })
        .collect();
    let gain = |task: usize, at: usize| -> Option<u128> {
        let accesses = *curves.get(&task)?.get(at)?;
        let period = work[task].task.period?.ps();
        let weight = weights.get(&task).copied().unwrap_or(1);
        Some(u128::from(accesses) * u128::from(weight) * 1_000_000_000_000 / u128::from(period))
    };
    hand_out(on_core, capacity, gain)
}

/// Pages per task: one after the other to the task for which `worth` of a task and the pages that
/// it has already is largest; `None`: it has no use for more.
pub fn hand_out(
    on_core: &[usize],
    capacity: u64,
    worth: impl Fn(usize, usize) -> Option<u128>,
) -> HashMap<usize, usize> {
    let mut heap = BinaryHeap::new();
    let mut taken: HashMap<usize, usize> = HashMap::new();
    for &task in on_core {
        if let Some(first) = worth(task, 0) {
            heap.push((first, std::cmp::Reverse(task)));
        }
    }
    let mut left = capacity;
    while left > 0
        && let Some((_, std::cmp::Reverse(task))) = heap.pop()
    {
        let count = taken.entry(task).or_insert(0);
        *count += 1;
        left -= 1;
        if let Some(next) = worth(task, *count) {
            heap.push((next, std::cmp::Reverse(task)));
        }
    }
    taken
}
