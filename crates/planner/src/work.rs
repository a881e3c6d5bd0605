//! A task with its demand, as everything that plans sees it.
//!
//! Rule, where pages lie anywhere (`[regulation] pages`): nothing is locked, so that no access is
//! sure to hit the shared cache. Besides, each line that a job brings into it, or writes back to it,
//! may push out one dirty line, whoever wrote that. A job of `R` reads and `W` write-backs then
//! makes at most `R` reads and `R + W` writes in DRAM: each write-back takes the place of the one
//! that it pushes out. What others push out of a job's lines is theirs.
//! Assumed: the shared cache takes no lines out of the private ones.

use crate::demand::Demand;
use crate::resources::Resources;
use solocore_analysis::Derivation;
use solocore_analysis::response::Demand as Asked;
use solocore_model::system::{Criticality, Model, Task};

/// Tasks up to which a plan has what each costs as much as all of them together: margins,
/// derivations, and for each promise the names of all tasks that it is made for.
pub const DETAILED: usize = 512;

/// A task together with what is known of its jobs.
#[derive(Debug)]
pub struct Work<'a> {
    pub task: &'a Task,
    pub demand: &'a Demand,
    /// 1 is highest.
    pub priority: u32,
}

impl Work<'_> {
    /// Execution time alone of a job with `k` locked pages, ps. Under the interference model not
    /// less than its DRAM accesses take at `L_max` each: a stated time of an analysed task is to
    /// hold that. Best effort may overlap its accesses, and has no bound.
    pub fn wcet_ps(&self, k: usize, r: &Resources) -> u64 {
        let stated = self.wcet_at(k, r.platform.dram.latency_max.ps(), r);
        match r.model {
            Model::Sce => stated,
            Model::Sound if self.hard() => stated.max(r.access_ps(self.misses(k, r))),
            Model::Sound => stated,
        }
    }

    /// Execution time alone where each DRAM transaction takes `access_ps`, ps. Stated times hold
    /// what a job does alone, and not what it pushes out besides.
    pub fn wcet_at(&self, k: usize, access_ps: u64, r: &Resources) -> u64 {
        let pushed = self.pushed(k, r).saturating_mul(access_ps);
        self.demand.wcet_at(k, access_ps, &r.platform).saturating_add(pushed)
    }

    /// DRAM transactions of a job with `k` locked pages.
    pub fn misses(&self, k: usize, r: &Resources) -> u64 {
        self.demand.misses(k).saturating_add(self.pushed(k, r))
    }

    /// Demand of a job with `k` locked pages.
    pub fn asked(&self, k: usize, r: &Resources) -> Asked {
        let (reads, writes) = self.demand.kinds(k);
        let writes = if r.pages.is_own() { writes } else { self.demand.misses(k) };
        Asked { work_ps: self.wcet_ps(k, r), misses: self.misses(k, r), writes, reads }
    }

    /// Dirty lines that the reads of a job may push out of a cache that all share.
    fn pushed(&self, k: usize, r: &Resources) -> u64 {
        if r.pages.is_own() { 0 } else { self.demand.kinds(k).0 }
    }

    /// DRAM transactions that a preemption costs the task at most: a read, and the write-back of a
    /// dirty line, for at most what the private caches hold and what it uses. Under LRU a few new
    /// lines can make whole sets miss, so the preempting job's own size does not help. In a cache
    /// that all share, the read may push out another dirty line.
    pub fn reload(&self, r: &Resources) -> u64 {
        let each = if r.pages.is_own() { 2 } else { 3 };
        each * self.demand.lines().min(r.platform.private_lines())
    }

    /// How `C` and `mu` came about with `k` locked pages.
    pub fn explain(&self, k: usize, r: &Resources) -> Derivation {
        let own = self.demand.explain(k, &r.platform);
        if r.pages.is_own() {
            return own;
        }
        Derivation::new(
            "C and mu of a job that may push a dirty line out of the shared cache with each read",
            "crates/planner/src/work.rs",
        )
        .input("reads", self.demand.kinds(k).0)
        .step("mu", self.misses(k, r))
        .because(own)
        .result(self.wcet_ps(k, r))
    }

    pub fn hard(&self) -> bool {
        self.task.criticality != Criticality::D
    }
}
