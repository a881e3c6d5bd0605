//! The accesses of the other cores' jobs, where the plan knows all programs.
//!
//! Rule: where there is no best effort, the other cores make no more accesses than their jobs do (a
//! promise, `Subject::Others`). That holds if all of them end by their deadlines: the user of these
//! jobs checks that every core meets its deadlines beside them. A core without tasks may run other
//! programs: it counts with its budget in each period, as if that were a job. Does not cover: cores
//! with best effort, whose other tasks' jobs would be known as well.

use crate::core_plan::CorePlan;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::{Budget, Costs, Job, Rivals};
use solocore_model::system::Model;
use std::sync::Arc;

/// Accesses of a job of each task, with the core and the number of the task.
#[derive(Debug)]
pub struct Accesses {
    of: Vec<(u32, usize, u64)>,
    /// Has each core tasks?
    used: Vec<bool>,
}

impl Accesses {
    /// Those of all jobs; `None` where other programs may make accesses as well.
    pub fn of<'a>(
        cores: impl Iterator<Item = &'a CorePlan>,
        work: &[Work],
        resources: &Resources,
    ) -> Option<Self> {
        let best_effort = resources.other_programs || work.iter().any(|w| !w.hard());
        if resources.model == Model::Sce || resources.stalls.is_empty() || best_effort {
            return None;
        }
        let (mut of, mut used) = (Vec::new(), Vec::new());
        for core in cores {
            used.push(!core.tasks().is_empty());
            let jobs = core.accesses_with_reloads(work, resources);
            of.extend(jobs.map(|(index, accesses)| (core.core, index, accesses)));
        }
        Some(Self { of, used })
    }

    /// Does a core run no task?
    pub fn idle(&self, core: u32) -> bool {
        !self.used.get(core as usize).copied().unwrap_or(false)
    }

    /// The jobs that delay each core, beside the budgets of `resources`.
    pub fn rivals(&self, work: &[Work], resources: &Resources) -> Vec<Option<Arc<Rivals>>> {
        let period_ps = resources.regulation.period_ps;
        resources.rivals_with(&|core, costs: &Costs| {
            let rivals = resources.rivals(core);
            let of = |&(other, index, accesses): &(u32, usize, u64)| -> Option<Job> {
                let task = rivals.contains(&other).then(|| work[index].task)?;
                let (period, deadline) = (task.period?.ps(), task.deadline?.ps());
                Some(Job::of_accesses((period, deadline), accesses, costs))
            };
            // Each access as the costlier kind: the cost of reads and writes apart leaves out the
            // turns between them, which `Stall::in_period` adds.
            let of_idle = |&rival: &u32| {
                let accesses = match resources.most_in_period(rival)? {
                    Budget::Together(all) => all,
                    Budget::Apart { reads, writes } => reads.saturating_add(writes),
                };
                Some(Job::of_budget(period_ps, accesses, costs))
            };
            let idle = rivals.iter().filter(|&&r| self.idle(r));
            self.of.iter().filter_map(of).chain(idle.filter_map(of_idle)).collect()
        })
    }
}

/// The bounds of these cores by the jobs of the other cores, where there is no best effort. If a
/// task may then miss its deadline, the bounds stay as they are.
pub fn with_rivals(
    cores: Vec<CorePlan>,
    work: &[Work],
    resources: Resources,
) -> (Vec<CorePlan>, Resources) {
    let Some(accesses) = Accesses::of(cores.iter(), work, &resources) else {
        return (cores, resources);
    };
    let mut known = resources.clone();
    known.set_rivals(&accesses.rivals(work, &resources));
    // Response times beyond deadlines take long to compute, and are not needed.
    if cores.iter().all(|core| core.keeps(work, &known)) {
        (cores.iter().map(|core| core.again(work, &known)).collect(), known)
    } else {
        (cores, resources)
    }
}
