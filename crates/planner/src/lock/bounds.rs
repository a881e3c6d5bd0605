//! The bound of a task's execution time for each set of locked functions.
//!
//! Problem: a set of functions is worth the lock if the task then keeps to its wanted slowdown.
//! Rule: `solocore_analysis::memory::bandwidth_lock` gives the bound; here are its numbers, from
//! the plan of the cores and the profile. The time alone is `C` of the plan. Accesses of locked
//! pages are hits, so they are taken from those that a set covers. Each other core of the channel
//! keeps to the bandwidth beside the lock, and its analysed tasks make the accesses of their jobs.
//! Each preemption brings the private caches' lines back. Does not cover: other tasks of the core,
//! which lengthen the response but not the execution.

use super::functions::{Covered, Sections};
use super::search::{Candidate, Sets};
use crate::core_plan::{CorePlan, TaskPlan};
use crate::demand::Demand;
use crate::error::PlanError;
use crate::memory;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::{Costs, Job, Rivals};
use solocore_analysis::memory::bandwidth_lock::{Lock, LockedJob};
use solocore_model::Profile;
use solocore_model::plan::PlanLock;

/// Largest slowdown for which bounds are computed, as the largest that a system file can state.
const MOST_SLOWDOWN: u64 = 1000;

/// Everything beside a task's core.
struct Beside {
    costs: Costs,
    period_ps: u64,
    cores: u64,
    under_way: u64,
    once_ps: u64,
    rivals: Rivals,
}

/// A task whose functions are to be chosen.
pub struct Asker<'a> {
    /// Its number in the system.
    pub index: usize,
    /// Its name.
    pub name: &'a str,
    /// The functions that are looked at.
    pub sections: Sections<'a>,
    /// The job without a lock.
    pub plain: LockedJob,
    /// `C`, ps.
    pub alone_ps: u64,
    /// Longest execution time that is wanted, ps.
    pub limit_ps: u64,
    /// The wanted slowdown, in thousandths.
    pub permille: u64,
    period_ns: u64,
    /// Accesses that locked pages save.
    saved: u64,
    /// Is the time of the calls that of this board?
    timed: bool,
    /// Longest time of an access to the shared cache, ps. In a cache that all tasks share, a read
    /// may also evict another task's dirty line.
    access_ps: u64,
    beside: Beside,
}

impl<'a> Asker<'a> {
    /// The task with this number on its core.
    ///
    /// # Errors
    /// It has no profile with functions, or a task that delays it has no bound.
    pub fn of(
        (core, task): (&CorePlan, &TaskPlan),
        cores: &[CorePlan],
        work: &'a [Work],
        resources: &Resources,
    ) -> Result<Self, PlanError> {
        let (index, w) = (task.index, &work[task.index]);
        let name = w.task.name.as_str();
        let permille = w.task.slowdown_permille.unwrap_or(1000);
        let Demand::Profiled { profile, .. } = w.demand else {
            return Err(PlanError(format!(
                "task `{name}`: lock = \"auto\" chooses functions of a profile, and its numbers \
                    are stated; give command or profile, or name the functions"
            )));
        };
        one_type(name, profile, core.core, resources)?;
        let sections = Sections::of(name, profile)?;
        let beside = Beside::of(name, core.core, cores, work, resources)?;
        let (returns, span_ps) = preemptions(name, task, core, work)?;
        let reload = returns.saturating_mul(w.reload(resources));
        let alone_ps = task.wcet_ps;
        let limit_ps = u128::from(alone_ps) * u128::from(permille) / 1000;
        Ok(Self {
            index,
            name,
            sections,
            plain: LockedJob {
                work_ps: alone_ps.saturating_add(resources.access_ps(reload)),
                accesses: task.misses.saturating_add(reload),
                returns,
                span_ps,
                ..LockedJob::default()
            },
            alone_ps,
            limit_ps: u64::try_from(limit_ps).unwrap_or(u64::MAX),
            permille,
            period_ns: w.task.period.map_or(u64::MAX, |p| p.ps() / 1000),
            saved: profile.residual_misses(0).saturating_sub(profile.residual_misses(task.locked)),
            timed: timed(profile, resources),
            access_ps: resources.access_ps(if resources.pages.is_own() { 1 } else { 2 }),
            beside,
        })
    }

    /// The lock beside this task's core.
    pub fn lock(&self) -> Lock<'_> {
        let b = &self.beside;
        Lock {
            costs: &b.costs,
            period_ps: b.period_ps,
            reaction_ps: PlanLock::reaction_of(b.period_ps.div_ceil(1000)).saturating_mul(1000),
            cores: b.cores,
            under_way: b.under_way,
            once_ps: b.once_ps,
            rivals: &b.rivals,
        }
    }

    /// The job with a set of functions locked.
    pub fn job(&self, set: &[usize]) -> LockedJob {
        let Covered { least, most, calls, held_ns } = self.sections.covered(set);
        // Each access may be one of the memory, which the profile's time does not hold.
        let inside_ps = self.plain.accesses.min(most).saturating_mul(self.access_ps);
        let held_ps = held_ns.saturating_mul(1000).saturating_add(inside_ps);
        let again_ps = self.plain.work_ps.saturating_sub(self.alone_ps);
        LockedJob {
            covered: least.saturating_sub(self.saved).min(self.plain.accesses),
            held_ps: if set.is_empty() {
                0
            } else if self.timed {
                held_ps.saturating_add(again_ps).min(self.plain.work_ps)
            } else {
                self.plain.work_ps
            },
            sections: calls,
            ..self.plain
        }
    }

    /// All sets of its functions.
    pub fn sets(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        let count = self.sections.len();
        (0u32..1 << count).map(move |mask| (0..count).filter(|&at| mask >> at & 1 == 1).collect())
    }

    /// The sets that keep the wanted slowdown beside an access per period at least.
    pub fn candidates(&self, most: u64) -> Sets {
        let lock = self.lock();
        let candidate = |functions: Vec<usize>| {
            let budget = lock.largest_budget(&self.job(&functions), most, self.limit_ps)?;
            let held_ns = self.sections.covered(&functions).held_ns;
            Some(Candidate { functions, held_ns, budget })
        };
        Sets { period_ns: self.period_ns, candidates: self.sets().filter_map(candidate).collect() }
    }

    /// Bound on the execution time with a set of functions locked, ps; `None`: there is none, or it
    /// is more than a thousand times the time alone.
    pub fn bound(&self, set: &[usize], budget: u64) -> Option<u64> {
        let limit_ps = self.alone_ps.saturating_mul(MOST_SLOWDOWN);
        self.lock().execution(&self.job(set), budget, limit_ps)
    }
}

impl Beside {
    fn of(
        name: &str,
        core: u32,
        cores: &[CorePlan],
        work: &[Work],
        resources: &Resources,
    ) -> Result<Self, PlanError> {
        let Some(stall) = resources.stalls.get(core as usize) else {
            return Err(PlanError(format!(
                "task `{name}`: lock = \"auto\" needs the timing of the memory; name dram.memory \
                    in the platform file, and remove model = \"sce\" and carry_in from [regulation]"
            )));
        };
        let mut jobs = Vec::new();
        let on_channel = resources.rivals(core);
        for other in cores.iter().filter(|c| on_channel.contains(&c.core)) {
            let accesses = other.accesses_with_reloads(work, resources);
            for ((index, accesses), task) in accesses.zip(other.tasks()) {
                let rival = work[index].task;
                if !work[index].hard() {
                    continue;
                }
                let (Some(period), Some(reach_ps)) = (rival.period, task.response_ps) else {
                    return Err(PlanError(format!(
                        "task `{name}`: no lock limits the analysed task `{}` of core {}, and its \
                            response time has no bound; lengthen its period, or make it best \
                            effort (criticality = \"D\")",
                        rival.name, other.core
                    )));
                };
                let cost_ps = accesses.saturating_mul(stall.costs.any_ps);
                jobs.push(Job { period_ps: period.ps(), reach_ps, cost_ps });
            }
        }
        let own = memory::core(&resources.platform);
        Ok(Self {
            costs: stall.costs,
            period_ps: resources.regulation.period_ps,
            cores: on_channel.len() as u64,
            under_way: own.reads.saturating_add(own.writes),
            once_ps: stall.once(),
            rivals: Rivals::new(jobs),
        })
    }
}

/// Most preemptions of a job, and its longest time from begin to end in ps; both 0 where no task of
/// its core comes before it.
fn preemptions(
    name: &str,
    task: &TaskPlan,
    core: &CorePlan,
    work: &[Work],
) -> Result<(u64, u64), PlanError> {
    let rank = work[task.index].priority;
    let above = |t: &&TaskPlan| {
        let other = &work[t.index];
        t.index != task.index && other.hard() && other.priority <= rank
    };
    let (mut returns, mut any) = (0u64, false);
    let span_ps = task.response_ps.unwrap_or(u64::MAX);
    for t in core.tasks().iter().filter(above) {
        let period = work[t.index].task.period.map(|p| p.ps());
        let (Some(response), Some(reach), Some(period)) = (task.response_ps, t.response_ps, period)
        else {
            return Err(PlanError(format!(
                "task `{name}`: its response time beside the other tasks of core {} has no bound, \
                    so its preemptions cannot be counted; give it a core of its own, or a higher \
                    priority",
                core.core
            )));
        };
        let jobs = response.saturating_add(reach).div_ceil(period.max(1));
        (returns, any) = (returns.saturating_add(jobs), true);
    }
    Ok((returns, if any { span_ps } else { 0 }))
}

/// Does the profile have the time of calls on this board? Counters raise other numbers, and a core
/// type has a clock of its own.
fn timed(profile: &Profile, resources: &Resources) -> bool {
    let p = &resources.platform;
    profile.geometry == p.geometry() && profile.engine == "qemu" && p.core_types.is_empty()
}

/// Refuses a profile behind the private caches of several types of cores: its counts are the most
/// of each, and no lower limits.
fn one_type(
    name: &str,
    profile: &Profile,
    core: u32,
    resources: &Resources,
) -> Result<(), PlanError> {
    let p = &resources.platform;
    let own = p.geometry_on(Some(core));
    if own == p.geometry() || own == profile.geometry {
        return Ok(());
    }
    Err(PlanError(format!(
        "task `{name}`: lock = \"auto\" needs a profile behind the private caches of its core, and \
            this one has the most of all types of cores; state core = {core} and profile again, or \
            name the functions"
    )))
}
