//! A task with its demand, as everything that plans sees it.

use crate::demand::Demand;
use crate::resources::Resources;
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
        let stated = self.demand.wcet_ps(k, &r.platform);
        match r.model {
            Model::Sce => stated,
            Model::Sound if self.hard() => stated.max(r.access_ps(self.demand.misses(k))),
            Model::Sound => stated,
        }
    }

    /// What a job with `k` locked pages asks for.
    pub fn asked(&self, k: usize, r: &Resources) -> Asked {
        let (reads, writes) = self.demand.kinds(k);
        Asked { work_ps: self.wcet_ps(k, r), misses: self.demand.misses(k), writes, reads }
    }

    pub fn hard(&self) -> bool {
        self.task.criticality != Criticality::D
    }
}
