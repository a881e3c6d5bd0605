//! A task with its demand, as all planning modules see it.
//!
//! Rule, where pages lie anywhere (`[regulation] pages`): no page is locked, so that no access is
//! sure to hit the shared cache. Besides, each line that a job brings into it, or writes back to
//! it, may evict one dirty line of any task. A job of `R` reads and `W` write-backs then makes at
//! most `R` reads and `R + W` writes in DRAM: each write-back takes the place of the line that it
//! evicts. Evictions by others are counted with the others. Assumed: the shared cache evicts no
//! lines from the private ones.

use crate::demand::Demand;
use crate::resources::Resources;
use solocore_analysis::Derivation;
use solocore_analysis::response::Demand as Asked;
use solocore_model::platform::Pace;
use solocore_model::system::{Criticality, Model, SystemTask};

/// Most tasks for which a plan has the parts whose cost grows with the square of the number:
/// margins, derivations, and for each promise the names of all its tasks.
pub const DETAILED: usize = 512;

/// A task and the demand of its jobs.
#[derive(Debug)]
pub struct Work<'a> {
    pub task: &'a SystemTask,
    pub demand: &'a Demand,
    /// 1 is highest.
    pub priority: u32,
}

/// Is a bound on an execution at most this many thousandths of its time alone?
pub fn within_slowdown(bound_ps: u64, alone_ps: u64, permille: u64) -> bool {
    u128::from(bound_ps) * 1000 <= u128::from(alone_ps) * u128::from(permille)
}

impl Work<'_> {
    /// Execution time alone of a job with `k` locked pages on the slowest core, ps.
    pub fn wcet_ps(&self, k: usize, r: &Resources) -> u64 {
        self.wcet_with(k, r, r.platform.slowest_pace())
    }

    /// Time alone of a job on the slowest core with the whole shared cache, ps: from the profile
    /// with DRAM's row hits, or as stated.
    pub fn alone_ps(&self, r: &Resources) -> u64 {
        match self.demand {
            Demand::Profiled { .. } => self.demand.alone(&r.platform).0,
            _ => self.wcet_ps(usize::MAX, r),
        }
    }

    /// Execution time alone on a core with this pace. Under the interference model not less than
    /// its DRAM accesses take at `L_max` each: a stated time of an analysed task must include that.
    /// Best effort may overlap its accesses, and has no bound.
    pub fn wcet_with(&self, k: usize, r: &Resources, pace: Pace) -> u64 {
        let stated = self.wcet_at(k, r.platform.dram.latency_max.ps(), r, pace);
        match r.model {
            Model::Sce => stated,
            Model::Sound if self.hard() => stated.max(r.access_ps(self.misses(k, r))),
            Model::Sound => stated,
        }
    }

    /// Execution time alone on a core with this pace, where each DRAM access takes `access_ps`, ps.
    /// Stated times contain a job's own accesses, but not the evictions that it causes.
    pub fn wcet_at(&self, k: usize, access_ps: u64, r: &Resources, pace: Pace) -> u64 {
        let pushed = self.pushed(k, r).saturating_mul(access_ps);
        self.demand.wcet_at(k, access_ps, &r.platform, pace).saturating_add(pushed)
    }

    /// DRAM accesses of a job with `k` locked pages.
    pub fn misses(&self, k: usize, r: &Resources) -> u64 {
        self.demand.misses(k).saturating_add(self.pushed(k, r))
    }

    /// Demand of a job with `k` locked pages on the slowest core: enough where its core is not
    /// known.
    pub fn asked(&self, k: usize, r: &Resources) -> Asked {
        self.asked_with(k, r, r.platform.slowest_pace())
    }

    /// Demand of a job with `k` locked pages on this core.
    pub fn asked_on(&self, core: u32, k: usize, r: &Resources) -> Asked {
        self.asked_with(k, r, r.platform.pace_of(core))
    }

    fn asked_with(&self, k: usize, r: &Resources, pace: Pace) -> Asked {
        let (reads, writes) = self.demand.kinds(k);
        let writes = if r.pages.is_own() { writes } else { self.demand.misses(k) };
        let work_ps = self.wcet_with(k, r, pace);
        Asked { work_ps, misses: self.misses(k, r), writes, reads }
    }

    /// Dirty lines that the reads of a job may evict from a cache that all tasks share.
    fn pushed(&self, k: usize, r: &Resources) -> u64 {
        if r.pages.is_own() { 0 } else { self.demand.kinds(k).0 }
    }

    /// DRAM accesses that a preemption costs the task at most. Each line costs a read and the
    /// write-back of a dirty line. There are at most as many lines as the private caches hold (of
    /// several types of cores the largest), and as the task uses. Under LRU a few new lines can
    /// make whole sets miss, so the size of the preempting job gives no smaller bound. In a cache
    /// that all tasks share, the read may evict another dirty line.
    pub fn reload(&self, r: &Resources) -> u64 {
        let each = if r.pages.is_own() { 2 } else { 3 };
        each * self.demand.lines().min(r.platform.private_lines())
    }

    /// Derivation of `C` and `mu` with `k` locked pages, on a core with this pace.
    pub fn explain(&self, k: usize, r: &Resources, pace: Pace) -> Derivation {
        let own = self.demand.explain(k, &r.platform, pace);
        if r.pages.is_own() {
            return own;
        }
        Derivation::new(
            "C and mu of a job that may evict a dirty line from the shared cache with each read",
            "crates/planner/src/work.rs",
        )
        .input("reads", self.demand.kinds(k).0)
        .step("mu", self.misses(k, r))
        .because(own)
        .result(self.wcet_with(k, r, pace))
    }

    pub fn hard(&self) -> bool {
        self.task.criticality != Criticality::D
    }
}
