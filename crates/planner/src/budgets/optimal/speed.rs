//! Speed of best-effort programs beside given budgets.
//!
//! Rule: a best-effort program has a part of its core's time, a part of the accesses that the
//! core's budget leaves, and a part of the ways without locked pages. Its speed is its number of
//! jobs a second under these limits, relative to the program alone on the machine. The speed is an
//! estimate to compare plans; nothing is promised.

use super::candidate::Candidate;
use crate::core_plan::{CorePlan, TaskPlan};
use crate::demand::{Demand, inside_ps};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::Budget;

/// Demand of a best-effort job.
#[derive(Debug)]
pub struct Need {
    /// Its number in the system.
    pub task: usize,
    /// By ways, from none on: time alone in ps, and DRAM accesses.
    by_ways: Vec<(f64, f64)>,
    /// Part of its accesses that are writes; one half where that is not known.
    writes: f64,
}

impl Need {
    /// The demand of a best-effort task.
    pub fn of(task: usize, w: &Work, r: &Resources) -> Self {
        let hit = r.platform.row_hit().ps() as f64;
        let by_ways = match w.demand {
            Demand::Profiled { profile, .. } => {
                let inside = inside_ps(profile, &r.platform, r.platform.slowest_pace()) as f64;
                let all =
                    std::iter::once(profile.llc_accesses()).chain(profile.by_ways.iter().copied());
                all.map(|n| (inside + n as f64 * hit, n as f64)).collect()
            }
            _ => vec![(w.wcet_ps(0, r) as f64, w.misses(0, r) as f64)],
        };
        let (reads, writes) = w.demand.kinds(0);
        let all = reads as f64 + writes as f64;
        Self { task, by_ways, writes: if all > 0.0 { writes as f64 / all } else { 0.5 } }
    }

    /// Do its numbers depend on its ways?
    pub fn has_ways(&self) -> bool {
        self.by_ways.len() > 1
    }

    fn with(&self, ways: u32) -> (f64, f64) {
        let at = (ways as usize).min(self.by_ways.len() - 1);
        self.by_ways[at]
    }

    /// Speed with this part of the time, these accesses in a period, and ways of its own; 1 is the
    /// speed alone on the machine.
    pub fn speed(&self, time: f64, accesses: f64, period_ps: f64, ways: u32) -> f64 {
        let (alone, _) = self.by_ways[self.by_ways.len() - 1];
        let (work, misses) = self.with(ways);
        let by_time = time * alone / work.max(1.0);
        if misses > 0.0 { by_time.min(accesses / period_ps * alone / misses) } else { by_time }
    }

    /// Accesses of a budget that it can use, with its part of writes.
    fn usable(&self, budget: Budget) -> f64 {
        match budget {
            Budget::Together(all) => all as f64,
            Budget::Apart { reads, writes } => {
                let of = |budget: u64, part: f64| {
                    if part > 0.0 { budget as f64 / part } else { f64::INFINITY }
                };
                of(reads, 1.0 - self.writes).min(of(writes, self.writes))
            }
        }
    }

    /// Accesses in a period beyond which a larger budget has no effect.
    pub fn most(&self, period_ps: f64) -> f64 {
        self.by_ways
            .iter()
            .map(|(work, misses)| period_ps * misses / work.max(1.0))
            .fold(1.0, f64::max)
    }
}

/// Mean speed of the best-effort programs.
pub fn mean(
    needs: &[Need],
    work: &[Work],
    candidate: &Candidate,
    cores: &[CorePlan],
    r: &Resources,
) -> f64 {
    let period = r.regulation.period_ps as f64;
    let of = |need: &Need| {
        let core = candidate.placement[need.task];
        let plan = &cores[core as usize];
        let programs = candidate.best_effort(core, work) as f64;
        let hard = || plan.tasks().iter().filter(|t| work[t.index].hard());
        let locked: usize = hard().map(|t| t.locked).sum();
        let per_way = (r.platform.pages_per_way() as usize).max(1);
        // Of a cache that all cores share, about an even part.
        let own = if r.pages.is_own() { r.ways_of(core) } else { r.platform.llc.ways / r.cores };
        let ways = own.saturating_sub(u32::try_from(locked.div_ceil(per_way)).unwrap_or(u32::MAX));
        let rate = |n: u64, t: &TaskPlan| {
            n as f64 / work[t.index].task.period.map_or(f64::INFINITY, |p| p.ps() as f64)
        };
        // Average time of the analysed jobs: their time alone, and their accesses.
        let time = 1.0 - hard().map(|t| rate(t.wcet_ps, t)).sum::<f64>();
        let taken = hard().map(|t| rate(t.misses, t) * period).sum::<f64>();
        let budget = need.usable(r.budget(core));
        let accesses = (budget - taken).max(0.0) / programs;
        need.speed(time.max(0.0) / programs, accesses, period, ways / (programs as u32).max(1))
    };
    if needs.is_empty() { 0.0 } else { needs.iter().map(of).sum::<f64>() / needs.len() as f64 }
}
