//! The system as the exact search sees it: demands of sets of tasks on one of several equal cores.
//!
//! Problem: a search asks for the bounds of thousands of sets of tasks, each with every number of
//! ways. Rule: a task is a bit, the one with the largest load first, so that a set is a number.
//! Pages are ranked once by the accesses that they save (see [`Pages`]); the demands of each task
//! are kept by its number of locked pages. Does not cover: cores that differ, because some share no
//! channel.

use super::pages::{Pages, Saved, saved};
use crate::budgets::optimal::analysed::Borrowed;
use crate::budgets::optimal::candidate::{Candidate, load};
use crate::budgets::optimal::certificate::{Set, bits};
use crate::budgets::optimal::problem::Problem;
use crate::resources::Resources;
use solocore_analysis::interference::{Budget, Costs, Job, Others, Pool, Rivals, Stall};
use solocore_analysis::response::{Demand as Asked, RtaTask};
use std::sync::Arc;

/// Most tasks of a system: a set of them must be one of a table.
pub const MOST_TASKS: usize = 20;

/// A set with a number of ways.
#[derive(Debug)]
pub struct Content {
    /// Its analysed tasks, highest priority first, each after the tasks that can preempt it.
    tasks: Vec<RtaTask>,
    /// Of each of them, the demand of a job without preemptions, and the time alone in ps.
    jobs: Vec<(Asked, u64)>,
    /// Accesses of a job of each of them, with reloads, by bit.
    pub accesses: Vec<(usize, u64)>,
    /// Part of the time that they leave.
    pub time: f64,
    /// Accesses that they take in a period on average.
    pub taken: f64,
    /// Ways without locked pages.
    pub free_ways: u32,
}

impl Content {
    /// Are no tasks analysed?
    pub fn is_soft(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Its analysed tasks, lowest priority first.
    pub fn jobs(&self) -> impl Iterator<Item = Borrowed<'_>> {
        let mut left = &self.tasks[..];
        self.jobs.iter().enumerate().rev().map(move |(at, &(asked, alone_ps))| {
            let (before, tasks) = left.split_at(left.len() - at - 1);
            left = before;
            Borrowed { tasks, asked, alone_ps }
        })
    }
}

/// The system.
#[derive(Debug)]
pub struct Machine<'a> {
    pub problem: &'a Problem<'a>,
    /// Number of cores.
    pub cores: u32,
    /// Ways that all cores have together, and the most that one has; both are `cores` and 1 where
    /// there is no choice.
    pub ways: (u32, u32),
    /// Task of each bit.
    pub tasks: Vec<usize>,
    /// The tasks that are analysed, and those that are not.
    pub hard: Set,
    pub programs: Set,
    /// Are the others' jobs known?
    pub known: bool,
    /// Most sets of a part of the choices that are looked at with each number of ways, if there are
    /// smaller parts. With 0, all choices together count as such a part.
    pub few_left: usize,
    /// The sets of tasks with the same stated core, with that core.
    pub pins: Vec<(u32, Set)>,
    /// Bits of the analysed tasks, highest priority first.
    order: Vec<usize>,
    pages: Pages,
    /// Accesses that a job causes by preempting, by bit.
    reloads: Vec<u64>,
    /// Demand of a job by bit and number of locked pages.
    asked: Vec<Vec<Asked>>,
    /// Pages and the cost that each of them saves the others at most, falling, by bit and ways.
    savings: Vec<Vec<Saved>>,
    /// See [`Machine::pool`].
    pool: Vec<u64>,
    costs: Costs,
}

impl<'a> Machine<'a> {
    /// The system; `None` where the search does not cover it: more than [`MOST_TASKS`] tasks, no
    /// analysed one, cores that differ (also in type), or budgets with a part for writes.
    pub fn of(problem: &'a Problem<'a>, few_left: usize) -> Option<Self> {
        let (work, base) = (problem.work, &problem.base);
        let costs = base.stalls.first()?.costs;
        let rivals = base.cores as usize - 1;
        let equal = base.stalls.len() == base.cores as usize
            && (0..base.cores).all(|core| base.rivals(core).len() == rivals)
            && base.stalls.iter().all(|stall| stall.costs == costs)
            && !base.platform.cores_differ()
            && base.io.is_none();
        let known = !base.other_programs && work.iter().all(crate::work::Work::hard);
        let analysed = work.iter().any(crate::work::Work::hard);
        if !equal || work.len() > MOST_TASKS || !analysed || base.platform.dram.counts_writes {
            return None;
        }
        let mut tasks: Vec<usize> = (0..work.len()).collect();
        let weight =
            |t: usize| if work[t].hard() { load(&work[t], base) } else { f64::NEG_INFINITY };
        tasks.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)).then(a.cmp(&b)));
        let hard = mask(&tasks, |t| work[t].hard());
        let mut order: Vec<usize> = bits(hard).collect();
        order.sort_by_key(|&bit| work[tasks[bit]].priority);
        let (pages, ways) = Pages::of(problem, &tasks);
        let most = usize::try_from(base.lock_capacity_in(ways.1)).unwrap_or(usize::MAX);
        let asked = |&t: &usize| {
            let pages = work[t].demand.page_accesses().count().min(most);
            (0..=if work[t].hard() { pages } else { 0 }).map(|k| work[t].asked(k, base)).collect()
        };
        let asked: Vec<Vec<Asked>> = tasks.iter().map(asked).collect();
        let pinned = |core: u32| (core, mask(&tasks, |t| work[t].task.core == Some(core)));
        let pins = (0..base.cores).map(pinned).filter(|&(_, set)| set != 0).collect();
        let programs = mask(&tasks, |t| !work[t].hard());
        let reloads = tasks.iter().map(|&t| work[t].reload(base)).collect();
        let cores = base.cores;
        let machine = Self {
            problem,
            cores,
            ways,
            tasks,
            hard,
            programs,
            known,
            few_left,
            pins,
            order,
            pages,
            reloads,
            asked,
            savings: Vec::new(),
            pool: Vec::new(),
            costs,
        };
        let savings = machine.asked.iter().map(|by_pages| machine.savings(by_pages)).collect();
        Some(Self { pool: machine.pool(), savings, ..machine })
    }

    /// The set of all tasks.
    pub fn all(&self) -> Set {
        self.hard | self.programs
    }

    /// May these tasks share a core, and no others with stated cores?
    pub fn allowed(&self, set: Set) -> bool {
        let mut touched = self.pins.iter().filter(|(_, pinned)| pinned & set != 0);
        match (touched.next(), touched.next()) {
            (Some((_, pinned)), None) => pinned & !set == 0,
            (None, _) => true,
            _ => false,
        }
    }

    fn resources(&self) -> &Resources {
        &self.problem.base
    }

    /// Pages that this number of ways holds locked.
    pub fn capacity(&self, ways: u32) -> u64 {
        let ways = if self.ways.0 == self.cores { self.resources().ways } else { ways };
        self.resources().lock_capacity_in(ways)
    }

    fn demand(&self, bit: usize, pages: u64) -> Asked {
        let by_pages = &self.asked[bit];
        let at = usize::try_from(pages).unwrap_or(usize::MAX).min(by_pages.len().saturating_sub(1));
        by_pages.get(at).copied().unwrap_or_default()
    }

    /// A set of tasks with this number of ways.
    pub fn content(&self, set: Set, ways: u32) -> Content {
        let (base, work) = (self.resources(), self.problem.work);
        let mut locked = [0; MOST_TASKS];
        self.pages.locked(set & self.hard, self.capacity(ways), &mut locked);
        let own: Vec<usize> = self.order.iter().copied().filter(|b| set >> b & 1 == 1).collect();
        let task = |bit: usize, reload: u64| {
            let (asked, w) = (self.demand(bit, locked[bit]), &work[self.tasks[bit]]);
            RtaTask {
                wcet_ps: asked.work_ps,
                misses: asked.misses.saturating_add(reload),
                reads: asked.reads.saturating_add(reload),
                writes: asked.writes.saturating_add(reload),
                period_ps: w.task.period.map_or(u64::MAX, |p| p.ps()),
                deadline_ps: w.task.deadline.map_or(u64::MAX, |d| d.ps()),
                preemption_ps: base.access_ps(reload),
            }
        };
        let reload = |bit: usize| self.reloads[bit];
        let mut tasks: Vec<RtaTask> = Vec::with_capacity(own.len() * (own.len() + 1) / 2);
        for at in 0..own.len() {
            let (first, mut most) = (tasks.len(), 0);
            for &bit in own[..=at].iter().rev() {
                tasks.push(task(bit, most));
                most = most.max(reload(bit));
            }
            tasks[first..].reverse();
        }
        let job =
            |&bit: &usize| (self.demand(bit, locked[bit]), self.problem.alone[self.tasks[bit]]);
        let mut out = Content {
            tasks,
            jobs: own.iter().map(job).collect(),
            accesses: Vec::with_capacity(own.len()),
            time: 1.0,
            taken: 0.0,
            free_ways: 0,
        };
        let mut most = 0;
        for &bit in own.iter().rev() {
            let asked = self.demand(bit, locked[bit]);
            out.accesses.push((bit, asked.misses.saturating_add(most)));
            most = most.max(reload(bit));
            let period = work[self.tasks[bit]].task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
            out.time -= asked.work_ps as f64 / period;
            out.taken += asked.misses as f64 / period * base.regulation.period_ps as f64;
        }
        let per_way = u64::from(base.platform.pages_per_way()).max(1);
        let all: u64 = locked.iter().sum();
        let used = u32::try_from(all.div_ceil(per_way)).unwrap_or(u32::MAX);
        out.free_ways = self.stated_ways(ways).saturating_sub(used);
        out
    }

    /// Ways of a core, of its own or about an even part.
    pub fn stated_ways(&self, ways: u32) -> u32 {
        let base = self.resources();
        match (base.pages.is_own(), self.ways.0 == self.cores) {
            (false, _) => base.platform.llc.ways / base.cores,
            (true, true) => base.ways,
            (true, false) => ways,
        }
    }

    /// The jobs of a set on all cores but one, which have this number of ways together: each page
    /// goes where it saves most. The last one of a core causes no reloads. Each of the others
    /// causes at least those of some task of lower priority.
    pub fn least_jobs(&self, set: Set, ways: u32) -> Arc<Rivals> {
        let others = self.cores.saturating_sub(1);
        let each = ways.saturating_sub(others.saturating_sub(1)).max(1);
        let (mut jobs, mut savings, mut spared) = (Vec::new(), Vec::new(), Vec::new());
        let mut least: Option<u64> = None;
        for &bit in self.order.iter().rev().filter(|&&bit| set >> bit & 1 == 1) {
            let reloads = least.unwrap_or(0);
            let own = self.reloads[bit];
            least = Some(least.map_or(own, |least| least.min(own)));
            let accesses = self.demand(bit, 0).misses.saturating_add(reloads);
            let Some(job) = self.job(bit, accesses) else { continue };
            let Some(saved) = self.savings[bit].get(each as usize) else { continue };
            jobs.push(job);
            savings.push(Arc::clone(saved));
            spared.push(reloads.saturating_mul(self.costs.any_ps));
        }
        let pages = self.pool.get(ways as usize).copied().unwrap_or(u64::MAX);
        Arc::new(Rivals::sharing(jobs, Pool { savings, pages, spared, few: others as usize }))
    }

    fn job(&self, bit: usize, accesses: u64) -> Option<Job> {
        let task = self.problem.work[self.tasks[bit]].task;
        Some(Job::of_accesses((task.period?.ps(), task.deadline?.ps()), accesses, &self.costs))
    }

    /// By ways of a core, what the pages of a task save.
    fn savings(&self, by_pages: &[Asked]) -> Vec<Saved> {
        let of = |ways: u32| {
            let pages = usize::try_from(self.capacity(ways)).unwrap_or(usize::MAX);
            let misses = by_pages.iter().take(pages.saturating_add(1)).map(|asked| asked.misses);
            saved(&misses.collect::<Vec<u64>>(), self.costs.any_ps)
        };
        (0..=self.ways.0).map(of).collect()
    }

    /// Pages that all cores but one can have together, by the number of their ways.
    fn pool(&self) -> Vec<u64> {
        let most = self.ways.0 as usize;
        let mut pool = vec![0; most + 1];
        for _ in 1..self.cores {
            let with = |ways: usize| {
                let own = (1..=ways).map(|own| self.capacity(own as u32) + pool[ways - own]);
                own.max().unwrap_or(0)
            };
            pool = (0..=most).map(with).collect();
        }
        pool
    }

    /// Those of the jobs that make most accesses in a time.
    pub fn heaviest(
        &self,
        jobs: impl Iterator<Item = (usize, u64)>,
        few: usize,
    ) -> impl Iterator<Item = (usize, u64)> {
        let period = |bit: usize| self.problem.work[self.tasks[bit]].task.period;
        let rate = |&(bit, accesses): &(usize, u64)| {
            accesses as f64 / period(bit).map_or(f64::INFINITY, |p| p.ps() as f64)
        };
        let mut all: Vec<(usize, u64)> = jobs.collect();
        all.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        all.truncate(few);
        all.into_iter()
    }

    /// Rivals with these accesses of jobs, by bit, and cores without tasks that have these budgets.
    pub fn rivals(
        &self,
        accesses: impl Iterator<Item = (usize, u64)>,
        idle: &[u64],
    ) -> Arc<Rivals> {
        let base = self.resources();
        let job = |(bit, accesses): (usize, u64)| self.job(bit, accesses);
        let period_ps = base.regulation.period_ps;
        let idle = idle
            .iter()
            .map(|budget| Job::of_budget(period_ps, budget.saturating_add(base.skid), &self.costs));
        Arc::new(Rivals::new(accesses.filter_map(job).chain(idle).collect()))
    }

    /// The stall of a core beside others with this sum of budgets.
    pub fn stall(&self, own: u64, others: u64, jobs: Option<Arc<Rivals>>) -> Stall {
        let (base, rivals) = (self.resources(), self.cores as usize - 1);
        let mut budgets = vec![Budget::Together(1u64.saturating_add(base.skid)); rivals];
        if let Some(first) = budgets.first_mut() {
            let all = others.saturating_sub(rivals as u64 - 1).saturating_add(base.skid);
            *first = Budget::Together(all);
        }
        Stall {
            costs: self.costs,
            others: Others::Budgets {
                period_ps: base.regulation.period_ps,
                own: Budget::Together(own),
                others: budgets,
            },
            jobs,
            counted_ps: base.regulation.latency_ps,
        }
    }

    /// Sum of the others' budgets with which nothing is left of a period.
    pub fn endless(&self) -> u64 {
        self.resources().regulation.period_ps / self.costs.any_ps.max(1) + 1
    }

    /// The candidate with these sets on its cores, and their ways.
    pub fn candidate(&self, sets: &[Set], ways: &[u32]) -> Candidate {
        let count = self.cores as usize;
        let mut at: Vec<Option<usize>> = vec![None; count];
        let pin = |set: Set| self.pins.iter().find(|(_, p)| p & set != 0).map(|&(core, _)| core);
        for (index, &set) in sets.iter().enumerate() {
            if let Some(core) = pin(set) {
                at[core as usize] = Some(index);
            }
        }
        let mut open = (0..sets.len()).filter(|&index| pin(sets[index]).is_none());
        for core in at.iter_mut().filter(|core| core.is_none()) {
            *core = open.next();
        }
        let mut out = Candidate {
            placement: vec![0; self.tasks.len()],
            ways: vec![self.resources().ways; count],
        };
        let mut idle = sets.len();
        for (core, index) in at.into_iter().enumerate() {
            let index = index.unwrap_or_else(|| {
                idle += 1;
                idle - 1
            });
            for bit in bits(sets.get(index).copied().unwrap_or(0)) {
                out.placement[self.tasks[bit]] = core as u32;
            }
            if self.ways.0 != self.cores {
                out.ways[core] = ways.get(index).copied().unwrap_or(1);
            }
        }
        out
    }
}

/// The bits of tasks that have a property.
fn mask(tasks: &[usize], is: impl Fn(usize) -> bool) -> Set {
    (0..).zip(tasks).filter(|&(_, &t)| is(t)).map(|(bit, _): (u32, _)| 1 << bit).sum()
}
