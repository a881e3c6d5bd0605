//! Jobs that hold the bandwidth lock: response times beside it.
//!
//! Problem: budgets limit the other programs of a machine all the time, and analysed tasks need
//! that only while they run. Rule: with `lock = "jobs"` each analysed task holds the lock while it
//! runs. Programs that are not real-time then make at most `lock_bandwidth` on each core, and
//! otherwise as much as they like. A core beside the lock counts as a job of its budget in each
//! period, next to its analysed tasks, which no lock limits
//! (`solocore_analysis::interference`, "Jobs that hold the bandwidth lock"). The time until the
//! others have seen the lock is charged for each job that begins or goes on. If the file states no
//! `lock_bandwidth`, it is the largest with which every deadline is met, and the wanted slowdown
//! kept: bounds rise with it, so that bisection finds it. Tasks are placed by worst fit on the
//! first core, the first two and so on, as if the others made one access in a period. For each
//! placement, the cores have even ways, and those that optimal shares begin with. The choice that
//! leaves best effort the most speed is taken, and the one with the largest budget where there is
//! none. Where none keeps the wanted slowdown, it is left out. Source: bwlock, section 3. Does not
//! cover: deadlines after the period's end, and other schemes than budgets.

use super::between::speed_under_lock;
use super::optimal::ways_tried;
use super::placement::place;
use crate::core_plan::{CorePlan, TaskPlan};
use crate::lock::most_in_period;
use crate::resources::Resources;
use crate::whole::before_verdict;
use crate::work::{DETAILED, Work, within_slowdown};
use solocore_analysis::interference::{Costs, Job};
use solocore_analysis::sensitivity::largest_passing;
use solocore_model::plan::{Plan, PlanLock};
use solocore_model::system::System;
use solocore_model::{Bandwidth, Time};

/// Places and budget, and what follows.
pub struct Held {
    /// The cores with their tasks.
    pub cores: Vec<CorePlan>,
    /// The machine beside the lock.
    pub resources: Resources,
    /// Accesses of a core in a period beside a held lock.
    pub budget: u64,
    /// Longest time until the other cores keep to it, ns.
    reaction_ns: u64,
    /// No budget keeps the wanted slowdown.
    pub misses_wish: bool,
}

impl Held {
    /// The mean speed that it leaves best effort, estimated.
    pub fn speed(&self, work: &[Work]) -> f64 {
        speed_under_lock(&self.cores, work, &self.resources, self.budget)
    }
}

/// Places the tasks and chooses the budget beside the lock. `budget`: that of the stated
/// bandwidth, or the usual one; `share` is told the part of the tasks that is placed. `None`: no
/// budget keeps every deadline. Bounds must then not count on the lock, as they would rest on each
/// other's deadlines.
pub fn choose(
    system: &System,
    work: &[Work],
    resources: &Resources,
    budget: u64,
    share: &dyn Fn(f64),
) -> Option<Held> {
    let reaction_ns = PlanLock::reaction_to_jobs(system.regulation.period.ns_ceil());
    let free = resources.with_lock(reaction_ns.saturating_mul(Time::PS_PER_NS));
    let stated = system.regulation.lock_bandwidth.is_some();
    let least = if stated { budget } else { 1 };
    let most = if stated { budget } else { most_in_period(resources) };
    // A verdict is about deadlines only.
    let wish = system.regulation.slowdown_permille.filter(|_| !resources.verdict_only);
    let mut search = Search {
        work,
        free,
        range: (least, most),
        alone: work.iter().map(|w| w.alone_ps(resources)).collect(),
        ways: resources.stated_ways(),
        wish,
        reaction_ns,
    };
    let found = search.best(share);
    if found.is_some() || wish.is_none() {
        return found;
    }
    search.wish = None;
    search.best(share).map(|held| Held { misses_wish: true, ..held })
}

/// What all choices have in common.
struct Search<'a> {
    work: &'a [Work<'a>],
    /// The machine, with jobs that hold the lock.
    free: Resources,
    /// Least and most budget beside the lock.
    range: (u64, u64),
    /// Time alone of each task's job, ps.
    alone: Vec<u64>,
    /// Ways of each core, where the file states some.
    ways: Option<Vec<u32>>,
    /// The wanted slowdown, in thousandths.
    wish: Option<u64>,
    /// See [`Held`].
    reaction_ns: u64,
}

impl Search<'_> {
    /// The best choice of placement, ways and budget.
    fn best(&self, share: &dyn Fn(f64)) -> Option<Held> {
        let work = self.work;
        let some = work.iter().any(|w| !w.hard()) && work.len() <= DETAILED;
        let by_speed = some && !self.free.verdict_only;
        let (least, most) = self.range;
        // No core has analysed tasks yet.
        let mut first = self.free.clone();
        let beside = |core, costs: &Costs| beside(core, least, &self.free, costs);
        first.set_rivals(&self.free.rivals_with(&beside));
        let mut best: Option<(f64, Held)> = None;
        for count in fewest(work)..=self.free.cores {
            let placement = on_first(count, work, &first, share);
            let tried = || ways_tried(&placement, work, &self.free);
            for ways in self.ways.clone().map_or_else(tried, |stated| vec![stated]) {
                let with = |resources: &Resources| {
                    let mut resources = resources.clone();
                    resources.set_ways(ways.clone());
                    resources
                };
                let (free, first) = (with(&self.free), with(&first));
                let cores = on_cores(&placement, work, &first);
                // Where budgets decide, only a larger one is of interest.
                let so_far = best.as_ref().map(|(_, held)| held.budget);
                let larger = so_far.filter(|_| !by_speed).map(|budget| budget.saturating_add(1));
                let (from, near) = (larger.unwrap_or(least), so_far.unwrap_or(least));
                let keeps = |budget: u64| self.keeps(&cores, &known(&free, &cores, work, budget));
                if self.free.verdict_only && keeps(least) {
                    return Some(self.held(&cores, &free, least));
                }
                let Some(budget) = largest_passing(from, most, near, keeps).passes else {
                    continue;
                };
                let held = self.held(&cores, &free, budget);
                let speed = if by_speed { held.speed(work) } else { 0.0 };
                let value = (speed, budget);
                if best.as_ref().is_none_or(|(speed, held)| value > (*speed, held.budget)) {
                    best = Some((speed, held));
                }
            }
        }
        best.map(|(_, held)| held)
    }

    /// Are all deadlines met, and is the wanted slowdown kept?
    fn keeps(&self, cores: &[CorePlan], known: &Resources) -> bool {
        let kept = |task: &TaskPlan, wish: u64| {
            let bound_ps = task.wcet_ps.saturating_add(task.stall_ps);
            within_slowdown(bound_ps, self.alone[task.index], wish)
        };
        let slow = |core: &CorePlan, wish: u64| {
            let core = core.again(self.work, known);
            core.tasks().iter().any(|task| self.work[task.index].hard() && !kept(task, wish))
        };
        cores.iter().all(|core| core.keeps(self.work, known))
            && self.wish.is_none_or(|wish| !cores.iter().any(|core| slow(core, wish)))
    }

    fn held(&self, cores: &[CorePlan], free: &Resources, budget: u64) -> Held {
        let resources = known(free, cores, self.work, budget);
        let cores = cores.iter().map(|core| core.again(self.work, &resources)).collect();
        Held { cores, resources, budget, reaction_ns: self.reaction_ns, misses_wish: false }
    }
}

/// The fewest cores from the first one on that hold all stated cores of analysed tasks.
fn fewest(work: &[Work]) -> u32 {
    let stated = work.iter().filter(|w| w.hard()).filter_map(|w| w.task.core);
    stated.map(|core| core.saturating_add(1)).max().unwrap_or(1)
}

/// The analysed tasks on the first `count` cores, best effort on those with the fewest of them.
fn on_first(count: u32, work: &[Work], resources: &Resources, share: &dyn Fn(f64)) -> Vec<u32> {
    let mut few = resources.clone();
    few.cores = count;
    let mut placement = place(work, &few, share);
    let mut analysed = vec![0; resources.cores as usize];
    for (_, &core) in placement.iter().enumerate().filter(|&(task, _)| work[task].hard()) {
        analysed[core as usize] += 1;
    }
    let mut all: Vec<usize> = analysed.clone();
    for (task, w) in work.iter().enumerate().filter(|(_, w)| !w.hard()) {
        let free = (0..resources.cores).min_by_key(|&c| (analysed[c as usize], all[c as usize]));
        placement[task] = w.task.core.or(free).unwrap_or_default();
        all[placement[task] as usize] += 1;
    }
    placement
}

/// The cores with the tasks of a placement, and the pages that save most.
fn on_cores(placement: &[u32], work: &[Work], resources: &Resources) -> Vec<CorePlan> {
    let on = |core: u32| (0..work.len()).filter(|&task| placement[task] == core).collect();
    (0..resources.cores).map(|core| CorePlan::best(core, on(core), work, resources)).collect()
}

/// The machine beside the lock, with the jobs of these cores.
fn known(free: &Resources, cores: &[CorePlan], work: &[Work], budget: u64) -> Resources {
    let mut out = free.clone();
    out.set_rivals(&free.rivals_with(&|core, costs| {
        let mut jobs = beside(core, budget, free, costs);
        jobs.extend(analysed(core, cores, work, free, costs));
        jobs
    }));
    out
}

/// The programs beside a core that the lock limits, as jobs of their cores' budgets.
fn beside(core: u32, budget: u64, resources: &Resources, costs: &Costs) -> Vec<Job> {
    let made = budget.saturating_add(resources.skid);
    let each = Job::of_budget(resources.regulation.period_ps, made, costs);
    vec![each; resources.rivals(core).len()]
}

/// The jobs of the analysed tasks beside a core. They end by their deadlines, which is checked.
fn analysed(
    core: u32,
    cores: &[CorePlan],
    work: &[Work],
    resources: &Resources,
    costs: &Costs,
) -> Vec<Job> {
    let rivals = resources.rivals(core);
    let others = cores.iter().filter(|other| rivals.contains(&other.core));
    let jobs = others.flat_map(|other| other.accesses_with_reloads(work, resources));
    let of = |(index, accesses): (usize, u64)| {
        let task = work[index].hard().then(|| work[index].task)?;
        Some(Job::of_accesses((task.period?.ps(), task.deadline?.ps()), accesses, costs))
    };
    jobs.filter_map(of).collect()
}

/// Adds the choice to the plan. `budget`: that of the stated bandwidth, or the usual one.
pub fn note(system: &System, plan: &mut Plan, held: Option<&Held>, budget: u64) {
    let budget = held.map_or(budget, |held| held.budget);
    plan.regulation.lock_budget_accesses = Some(budget);
    plan.regulation.lock_reaction_ns = held.map(|held| held.reaction_ns);
    let whose = match system.regulation.lock_bandwidth {
        Some(_) => "stated",
        None if system.regulation.slowdown_permille.is_some()
            && held.is_some_and(|held| !held.misses_wish) =>
        {
            "the largest with which every deadline is met on these cores and the wanted slowdown kept"
        }
        None => "the largest with which every deadline is met on these cores",
    };
    let reason = match held {
        Some(held) => {
            let reaction = Time::from_ns(held.reaction_ns);
            plan.assumptions.push(format!(
                "Each analysed task holds the bandwidth lock while it runs. Every other core keeps \
                    to lock_bandwidth within {reaction} of a job's beginning. No other program \
                    has a real-time policy or the lock."
            ));
            let bandwidth = Bandwidth(held.resources.bandwidth(budget));
            format!(
                "bandwidth lock: while an analysed task runs, each core makes at most {budget} \
                    accesses per period ({bandwidth:.2}, {whose}) for other programs; otherwise \
                    they have no limit"
            )
        }
        None => format!(
            "bandwidth lock: no {} keeps every deadline, so the bounds do not count on the lock",
            match system.regulation.lock_bandwidth {
                Some(_) => "placement of the tasks beside the stated lock_bandwidth",
                None => "lock_bandwidth",
            }
        ),
    };
    let missed = held.filter(|held| held.misses_wish).and(system.regulation.slowdown_permille);
    let missed = missed.map(|permille| {
        format!(
            "slowdown: {} keeps all bounds within {} times the time alone; raise [regulation] \
                slowdown",
            if system.regulation.lock_bandwidth.is_some() {
                "no placement of the tasks beside the stated lock_bandwidth"
            } else {
                "no lock_bandwidth"
            },
            permille as f64 / 1000.0
        )
    });
    before_verdict(plan, [reason].into_iter().chain(missed));
}
