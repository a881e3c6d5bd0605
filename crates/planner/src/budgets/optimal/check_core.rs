//! One core with its tasks, as the check of a certificate sees it.
//!
//! Rule: everything is asked of `core_plan` and `solocore_analysis`, as for a plan. Does not cover:
//! which sets stand beside each other (`check`).

use super::analysed::WHOLE;
use super::certificate::{Certificate, Question, Set};
use super::pages;
use super::problem::Problem;
use crate::core_plan::{HardTasks, Level, preemption_accesses};
use crate::resources::Resources;
use solocore_analysis::interference::{Budget, Job, Others, Pool, Rivals, Stall};
use solocore_analysis::response::{Demand as Asked, RtaTask, Window, response_time};
use solocore_model::system::Objective;
use std::collections::HashMap;
use std::sync::Arc;

/// Most sets with their pages that are kept.
const MOST_KEPT: usize = 1 << 16;

/// Pages with the cost that each of them saves, falling.
type Saved = Arc<[(u64, u64)]>;

/// A set of tasks with its pages locked.
#[derive(Debug)]
pub struct Content {
    levels: Vec<Level>,
    /// Accesses of a job of each analysed task, with reloads.
    accesses: Vec<(usize, u64)>,
    /// Part of the time that its jobs leave, and the accesses in a period that they take.
    pub left: (f64, f64),
    /// Pages locked.
    pub locked: usize,
}

/// The cores of a system.
pub struct Cores<'a> {
    pub problem: &'a Problem<'a>,
    pub question: Question,
    /// Number of cores.
    pub count: u32,
    /// All ways, and the most of one core; the number of cores and 1 where there is no choice.
    pub ways: (u32, u32),
    tasks: &'a [usize],
    /// Are the others' jobs known?
    pub known: bool,
    contents: HashMap<(Set, u32), Arc<Content>>,
    /// Jobs of the others beside the last set, with its least ways.
    beside: Option<(Set, u32, Arc<Rivals>)>,
    /// The savings of a task's pages, by the most pages.
    savings: HashMap<(usize, u64), Saved>,
}

impl<'a> Cores<'a> {
    /// The cores of a system.
    ///
    /// # Errors
    /// When the cores are not equal, or the certificate does not name each task once.
    pub fn of(problem: &'a Problem<'a>, certificate: &'a Certificate) -> Result<Self, String> {
        let (base, work) = (&problem.base, problem.work);
        let count = base.cores;
        let all_meet = (0..count).all(|core| base.rivals(core).len() as u32 + 1 == count);
        let alike = base.stalls.windows(2).all(|pair| pair[0].costs == pair[1].costs);
        let writes = base.platform.dram.counts_writes;
        let typed = base.platform.cores_differ();
        if !all_meet || !alike || base.stalls.is_empty() || writes || typed || base.io.is_some() {
            return Err("the cores are not equal".to_owned());
        }
        let mut named = certificate.tasks.clone();
        named.sort_unstable();
        if work.len() > 31 || !named.iter().copied().eq(0..work.len()) {
            return Err("the certificate does not name each task once".to_owned());
        }
        let lockable =
            |w: &crate::work::Work| w.hard() && w.demand.page_accesses().next().is_some();
        let gains = work.iter().any(lockable) || problem.needs.iter().any(|n| n.has_ways());
        let all = base.platform.llc.ways;
        let choice = base.pages.is_own() && all >= count && gains;
        let ways = if choice { (all, all + 1 - count) } else { (count, 1) };
        let known = !base.other_programs && work.iter().all(crate::work::Work::hard);
        let (question, tasks) = (certificate.question, &certificate.tasks[..]);
        let (contents, beside, savings) = (HashMap::new(), None, HashMap::new());
        Ok(Self { problem, question, count, ways, tasks, known, contents, beside, savings })
    }

    /// The same cores for another thread, with nothing kept.
    pub fn again(&self) -> Self {
        let (contents, beside, savings) = (HashMap::new(), None, HashMap::new());
        Self { contents, beside, savings, ..*self }
    }

    /// All tasks.
    pub fn all(&self) -> Set {
        (1 << self.tasks.len()) - 1
    }

    fn base(&self) -> &'a Resources {
        &self.problem.base
    }

    /// Accesses in a period that no core exceeds.
    pub fn bus(&self) -> u64 {
        self.problem.bus
    }

    /// A sum of the others' budgets with which nothing is left of a period.
    pub fn endless(&self) -> u64 {
        let any_ps = self.base().stalls.first().map_or(1, |stall| stall.costs.any_ps);
        1 + self.base().regulation.period_ps / any_ps.max(1)
    }

    /// Least sum of the others' budgets.
    pub fn least_others(&self) -> u64 {
        u64::from(self.count) - 1
    }

    /// The tasks of a set.
    pub fn tasks_of(&self, set: Set) -> Vec<usize> {
        (0..self.tasks.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| self.tasks[bit]).collect()
    }

    /// Has a set an analysed task?
    pub fn analysed(&self, set: Set) -> bool {
        (0..self.tasks.len()).any(|b| set >> b & 1 == 1 && self.problem.work[self.tasks[b]].hard())
    }

    /// Can these tasks, and no others, be those of a core?
    pub fn allowed(&self, set: Set) -> bool {
        let stated = |t: usize| self.problem.work[t].task.core;
        let on = self.tasks_of(set);
        let Some(core) = on.iter().find_map(|&t| stated(t)) else { return true };
        let of_core = |&t: &usize| stated(t) == Some(core);
        let all = (0..self.problem.work.len()).filter(of_core).count();
        on.iter().all(|&t| stated(t).is_none_or(|c| c == core))
            && on.iter().filter(|&t| of_core(t)).count() == all
    }

    /// The best-effort programs, by bit.
    pub fn soft(&self) -> Set {
        let soft = |&bit: &usize| !self.problem.work[self.tasks[bit]].hard();
        (0..self.tasks.len()).filter(soft).map(|bit| 1 << bit).sum()
    }

    /// Best-effort programs of a set.
    pub fn programs(&self, set: Set) -> Vec<usize> {
        self.tasks_of(set).into_iter().filter(|&t| !self.problem.work[t].hard()).collect()
    }

    /// The budget that the rule for shares gives a core at least.
    pub fn floor(&self, set: Set) -> u64 {
        let programs = self.programs(set).len() as u64;
        let most = if programs > 0 {
            self.question.t.max(self.share(set)).saturating_mul(programs)
        } else if self.analysed(set) {
            0
        } else if self.base().other_programs {
            self.question.t
        } else {
            self.question.t.max(self.question.part.least).min(super::problem::LEAST)
        };
        most.clamp(1, self.bus())
    }

    /// The least share of the programs of a set: those without analysed tasks may be unable to use
    /// more.
    fn share(&self, set: Set) -> u64 {
        let least = self.question.part.least;
        if least <= 1 || self.analysed(set) {
            return least;
        }
        least.min(self.problem.usable(0, &self.programs(set)))
    }

    /// The set of one task.
    pub fn set_of(&self, task: usize) -> Set {
        (0..self.tasks.len()).filter(|&bit| self.tasks[bit] == task).map(|bit| 1 << bit).sum()
    }

    /// Ways of a core as the system counts them.
    pub fn own_ways(&self, ways: u32) -> u32 {
        if self.ways.0 == self.count { self.base().ways } else { ways }
    }

    /// A set of tasks with its pages in these ways.
    pub fn content(&mut self, set: Set, ways: u32) -> Arc<Content> {
        if let Some(known) = self.contents.get(&(set, ways)) {
            return Arc::clone(known);
        }
        let (problem, work) = (self.problem, self.problem.work);
        let mut resources = problem.base.clone();
        resources.set_ways(vec![self.own_ways(ways); self.count as usize]);
        resources.verdict_only = true;
        let multiples = problem.objective == Objective::Bounds || problem.wish.is_some();
        let alone = multiples.then_some(&problem.alone[..]);
        let mut on = self.tasks_of(set);
        let locked = pages::locked(0, &on, alone, work, &resources);
        on.sort_by_key(|&t| work[t].priority);
        let hard = HardTasks::of(0, &on, &locked, work, &resources);
        let rate = |n: u64, task: usize| {
            n as f64 / work[task].task.period.map_or(f64::INFINITY, |p| p.ps() as f64)
        };
        let period = resources.regulation.period_ps as f64;
        let places = || (0..hard.len()).map(|at| (hard.index(at), hard.asked(at)));
        let again = |task: usize| preemption_accesses(task, &on, work, &resources);
        let made = Arc::new(Content {
            levels: (0..hard.len()).map(|at| hard.level(at, &resources)).collect(),
            accesses: places()
                .map(|(t, asked)| (t, asked.misses.saturating_add(again(t))))
                .collect(),
            left: (
                1.0 - places().map(|(t, asked)| rate(asked.work_ps, t)).sum::<f64>(),
                places().map(|(t, asked)| rate(asked.misses, t) * period).sum(),
            ),
            locked: places().map(|(t, _)| locked.get(&t).copied().unwrap_or(0)).sum(),
        });
        if self.contents.len() > MOST_KEPT {
            self.contents.clear();
        }
        self.contents.insert((set, ways), Arc::clone(&made));
        made
    }

    fn job(&self, task: usize, accesses: u64) -> Option<Job> {
        let (task, costs) = (self.problem.work[task].task, self.base().stalls.first()?.costs);
        Some(Job::of_accesses((task.period?.ps(), task.deadline?.ps()), accesses, &costs))
    }

    /// Rivals with these jobs, where the others' jobs are known.
    pub fn rivals(&self, jobs: Vec<Job>) -> Option<Arc<Rivals>> {
        self.known.then(|| Arc::new(Rivals::new(jobs)))
    }

    /// The least accesses of the tasks outside of a set, if they are known, while the set has at
    /// least `least` ways. The others have the rest of the ways at most, and its pages go where
    /// they save most. All but one task of each other core reload for a task of lower priority
    /// there.
    pub fn least_jobs(&mut self, set: Set, least: u32) -> Option<Arc<Rivals>> {
        if !self.known {
            return None;
        }
        if let Some((_, _, known)) = self.beside.as_ref().filter(|b| (b.0, b.1) == (set, least)) {
            return Some(Arc::clone(known));
        }
        let left = self.ways.0.saturating_sub(least);
        let further = self.count.saturating_sub(2);
        let each = self.pages_in(left.saturating_sub(further).max(1));
        let any_ps = self.base().stalls.first()?.costs.any_ps;
        let (mut jobs, mut savings, mut spared) = (Vec::new(), Vec::new(), Vec::new());
        let outside = self.tasks_of(self.all() & !set);
        for &task in &outside {
            let (problem, base) = (self.problem, self.base());
            let w = &problem.work[task];
            let below = outside.iter().map(|&t| &self.problem.work[t]);
            let below = below.filter(|other| other.priority > w.priority);
            let again = below.map(|other| other.reload(self.base())).min().unwrap_or(0);
            let accesses = w.misses(0, self.base()).saturating_add(again);
            let Some(job) = self.job(task, accesses) else { continue };
            jobs.push(job);
            spared.push(again.saturating_mul(any_ps));
            let made = || {
                let most = w.demand.page_accesses().count().min(usize::try_from(each).unwrap_or(0));
                saved(&(0..=most).map(|pages| w.misses(pages, base)).collect::<Vec<u64>>(), any_ps)
            };
            savings.push(Arc::clone(self.savings.entry((task, each)).or_insert_with(made)));
        }
        let pages = self.pages_of(self.count.saturating_sub(1), left);
        let few = self.count as usize - 1;
        let made = Arc::new(Rivals::sharing(jobs, Pool { savings, pages, spared, few }));
        self.beside = Some((set, least, Arc::clone(&made)));
        Some(made)
    }

    fn pages_in(&self, ways: u32) -> u64 {
        self.base().lock_capacity_in(self.own_ways(ways))
    }

    /// Most pages of some cores that have these ways together, each one at least.
    fn pages_of(&self, cores: u32, ways: u32) -> u64 {
        let further = cores.saturating_sub(1);
        let of = |own: u32| self.pages_in(own) + self.pages_of(further, ways - own);
        if cores == 0 { 0 } else { (1..=ways - further.min(ways)).map(of).max().unwrap_or(0) }
    }

    /// The jobs of the others beside a core, where they are known.
    pub fn jobs_beside(
        &mut self,
        placed: &[Set],
        ways: &[u32],
        budgets: &[u64],
        own: usize,
    ) -> Option<Arc<Rivals>> {
        if !self.known {
            return None;
        }
        let mut out = Vec::new();
        let costs = self.base().stalls.first()?.costs;
        for at in (0..placed.len()).filter(|&at| at != own) {
            if placed[at] == 0 {
                let period_ps = self.base().regulation.period_ps;
                let accesses = budgets[at].saturating_add(self.base().skid);
                out.push(Job::of_budget(period_ps, accesses, &costs));
            }
            let content = self.content(placed[at], ways[at]);
            out.extend(content.accesses.iter().filter_map(|&(t, n)| self.job(t, n)));
        }
        self.rivals(out)
    }

    /// Do the tasks of a set keep to the limits with this budget, beside others with this sum of
    /// budgets that make these jobs?
    pub fn keeps(
        &mut self,
        set: Set,
        ways: u32,
        own: u64,
        others: u64,
        jobs: Option<Arc<Rivals>>,
    ) -> bool {
        let (content, base) = (self.content(set, ways), self.base());
        let Some(of_core) = base.stalls.first() else { return true };
        let rivals = u64::from(self.count) - 1;
        let sum = |other: u64| if other == 0 { others.saturating_sub(rivals - 1) } else { 1 };
        let budget = |other: u64| Budget::Together(sum(other).saturating_add(base.skid));
        let stall = Stall {
            costs: of_core.costs,
            others: Others::Budgets {
                period_ps: base.regulation.period_ps,
                own: Budget::Together(own),
                others: (0..rivals).map(budget).collect(),
            },
            jobs,
            counted_ps: base.regulation.latency_ps,
        };
        // The lowest priority is the first to break a limit.
        content.levels.iter().rev().all(|level| self.within(level, &stall))
    }

    fn within(&self, level: &Level, stall: &Stall) -> bool {
        let part = |n: u64, limit: u64| u128::from(n) * u128::from(limit) / u128::from(WHOLE);
        let tasks: Vec<RtaTask> = level.tasks.iter().map(|(_, task)| *task).collect();
        let Some(own) = tasks.last() else { return true };
        let limits = self.question.limits;
        if limits.slowdown != u64::MAX {
            // The last of a level reloads for nobody below it.
            let time = own.wcet_ps.saturating_add(stall.of(Asked::of(own)));
            let all = time.saturating_add(stall.once());
            if u128::from(all) > part(self.problem.alone[level.index], limits.slowdown) {
                return false;
            }
        }
        let of = |asked: Asked| stall.of(asked);
        let window = Window { once_ps: stall.once(), stall: &of };
        let limit = part(own.deadline_ps, limits.deadline);
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        response_time(&tasks, tasks.len() - 1, &window, limit).is_some()
    }
}

/// Pages with the cost that each of them saves at most, falling, by the accesses with a number of
/// pages. Pages in a row that save about as much are one group, with the same sum. As many of them
/// as possible save as much as the first page, and the others save as little as the last one.
fn saved(misses: &[u64], any_ps: u64) -> Saved {
    let mut pages: Vec<u64> = Vec::new();
    for pair in misses.windows(2).rev() {
        let saves = pair[0].saturating_sub(pair[1]).saturating_mul(any_ps);
        if saves > 0 || !pages.is_empty() {
            pages.push(saves.max(pages.last().copied().unwrap_or(0)));
        }
    }
    pages.reverse();
    for part in [98, 95, 90, 80, 70, 50, 30, 10, 0] {
        let mut groups: Vec<Vec<u64>> = Vec::new();
        for &saves in &pages {
            match groups.last_mut() {
                Some(group) if saves.saturating_mul(100) >= group[0].saturating_mul(part) => {
                    group.push(saves);
                }
                _ => groups.push(vec![saves]),
            }
        }
        if groups.len() <= 5 || part == 0 {
            return groups.iter().flat_map(|group| extreme(group)).collect();
        }
    }
    Arc::from([])
}

/// Falling savings with the first, the last and the sum of these ones: the largest ones first.
fn extreme(group: &[u64]) -> Vec<(u64, u64)> {
    let (largest, least) = (group[0], group[group.len() - 1]);
    let mut left = group.iter().copied().fold(0, u64::saturating_add);
    let mut out: Vec<(u64, u64)> = Vec::new();
    for at in 0..group.len() as u64 {
        let later = (group.len() as u64 - at - 1).saturating_mul(least);
        let own = largest.min(left.saturating_sub(later));
        left = left.saturating_sub(own);
        match out.last_mut() {
            Some((pages, each)) if *each == own => *pages += 1,
            _ => out.push((1, own)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::exact_tests::{falling, outlines};
    use super::*;

    #[test]
    fn pages_save_no_less_than_they_do_and_all_of_them_no_more() {
        falling(|misses| outlines(misses, 3, &saved(misses, 3)));
    }
}
