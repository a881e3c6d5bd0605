//! Even budgets: the accesses of each core in a period.
//!
//! Problem: a core's budget lets its own tasks proceed, and delays those of the others. With large
//! budgets a task that mostly computes suffers from its neighbours in every period. With small ones
//! a task that mostly reads waits for its own core's next period. Where a board counts write-backs,
//! a part of the budget can be kept for writes, which hold others up longer. Rule: budgets are
//! tried on a ladder up to the largest that each core can surely use up, and where writes can be
//! counted, with several parts for writes. The price is the geometric mean of the analysed tasks'
//! longest executions beside the other cores. The largest budget is taken whose price is at most
//! [`TOLERANCE`] above the least. It is a quarter of the largest at least, unless deadlines need
//! less. Where a task exceeds its deadline, or all together the cores' time, the excess counts. Not
//! covered: budgets that differ between cores.

use crate::core_plan::CoreBounds;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::response::Demand as Asked;
use solocore_model::system::{Model, Policy, Share};
use solocore_model::{System, Time};

/// Steps of the ladder, in parts of 24 of the largest budget.
const STEPS: u64 = 24;
/// Choices with a part for writes: the whole budget relative to one for both kinds, and the part,
/// in percent. Reads cost the others less, so the whole may be larger.
const WRITES: [(u64, u64); 10] = [
    (100, 10),
    (100, 20),
    (100, 30),
    (100, 40),
    (100, 50),
    (200, 10),
    (200, 20),
    (200, 30),
    (200, 40),
    (200, 50),
];
/// Largest factor by which a larger budget may raise the bounds.
const TOLERANCE: f64 = 1.02;
/// Added to the price of budgets with which a task does not fit; they come after all others.
const MISFIT: f64 = 1e12;

/// The resources with even budgets chosen, where the system asks for them.
pub fn choose(system: &System, work: &[Work], resources: Resources) -> Resources {
    // Optimal shares begin from even ones.
    let even = system.regulation.policy == Policy::Memguard
        && system.regulation.share() != Share::Explicit;
    let stated = resources.write_budgets.iter().any(Option::is_some);
    let Some(largest) = resources.budgets.as_ref().and_then(|b| b.first()).copied() else {
        return resources;
    };
    if !even
        || resources.model == Model::Sce
        || resources.stalls.is_empty()
        || !work.iter().any(Work::hard)
    {
        return resources;
    }
    let cores = resources.cores as usize;
    let apart = resources.platform.dram.counts_writes && system.windows().is_none() && !stated;
    let tasks: Vec<Asker> =
        work.iter().filter(|w| w.hard()).map(|w| Asker::of(w, &resources)).collect();
    let mut tried = resources.clone();
    let mut found: Vec<Found> = Vec::new();
    for step in (1..=STEPS).rev() {
        let budget = (largest * step / STEPS).max(1);
        let together = if stated { resources.write_budgets.clone() } else { vec![None; cores] };
        let parts = WRITES.iter().filter(|_| apart).map(|&(of, writes)| {
            let whole = budget.saturating_mul(of) / 100;
            (whole, vec![Some(whole * writes / 100); cores])
        });
        for (budget, writes) in std::iter::once((budget, together)).chain(parts) {
            if writes.iter().flatten().all(|&w| w > 0 && w < budget) {
                tried.set_budgets(vec![budget; cores], writes.clone());
                found.push((budget, cost(&tasks, &tried), writes));
            }
        }
    }
    // Less than a quarter of the largest only where deadlines need it: best effort is to have
    // something, too.
    let usual = |f: &Found| f.0 * 4 >= largest;
    if found.iter().any(|f| usual(f) && f.1 < MISFIT) {
        found.retain(usual);
    }
    let least = found.iter().map(|f| f.1).fold(f64::INFINITY, f64::min);
    let good = found.into_iter().filter(|f| f.1 <= least * TOLERANCE);
    // The largest; among equals the first: one budget for both kinds, the simplest to enforce.
    let best = good.reduce(|best, f| if f.0 > best.0 { f } else { best });
    if let Some((budget, _, writes)) = best {
        tried.set_budgets(vec![budget; cores], writes);
    }
    tried
}

/// A budget, its price, and the parts for writes.
type Found = (u64, f64, Vec<Option<u64>>);

/// Demand of a task with all lockable pages locked, and the cores that it may run on.
struct Asker<'a> {
    work: &'a Work<'a>,
    asked: Asked,
    cores: std::ops::Range<u32>,
}

impl<'a> Asker<'a> {
    fn of(work: &'a Work<'a>, resources: &Resources) -> Self {
        let cores = work.task.core.map_or(0..resources.cores, |core| core..core + 1);
        let room = cores.clone().map(|core| resources.lock_capacity_of(core)).min();
        let room = usize::try_from(room.unwrap_or_default()).unwrap_or(usize::MAX);
        let locked = work.demand.page_accesses().take(room).count();
        // Without a stated core, the slowest of all.
        let asked = match work.task.core {
            Some(core) => work.asked_on(core, locked, resources),
            None => work.asked(locked, resources),
        };
        Self { work, asked, cores }
    }

    /// The longest execution of a job, on the worst of its possible cores, ps. Cores with equal
    /// stalls are asked once: `kinds` has the first core of each kind.
    fn execution_ps(&self, resources: &Resources, kinds: &[u32]) -> f64 {
        let on = |core: u32| {
            let bounds = CoreBounds { core, resources };
            let stall = bounds.stall(self.asked).saturating_add(bounds.once(false));
            if stall == u64::MAX { f64::INFINITY } else { self.asked.work_ps as f64 + stall as f64 }
        };
        if self.work.task.core.is_some() {
            return self.cores.clone().map(on).fold(0.0, f64::max);
        }
        kinds.iter().copied().map(on).fold(0.0, f64::max)
    }
}

/// The first core of each kind: cores whose stalls are equal have the same bounds on one job.
fn kinds(resources: &Resources) -> Vec<u32> {
    let stalls = &resources.stalls;
    let first = |&core: &u32| {
        let own = stalls.get(core as usize);
        !stalls.iter().take(core as usize).any(|other| Some(other) == own)
    };
    (0..resources.cores).filter(first).collect()
}

/// Price of budgets: the mean of the bounds, or the excess where they do not fit.
fn cost(tasks: &[Asker], resources: &Resources) -> f64 {
    let (mut logarithms, mut worst, mut load) = (0.0, 0.0f64, 0.0);
    let kinds = kinds(resources);
    for task in tasks {
        let bound = task.execution_ps(resources, &kinds);
        let ps = |time: Option<Time>| time.map_or(f64::INFINITY, |t| t.ps() as f64);
        logarithms += bound.max(1.0).ln();
        worst = worst.max(bound / ps(task.work.task.deadline));
        load += bound / ps(task.work.task.period);
    }
    let misfit = worst.max(load / f64::from(resources.cores));
    if misfit > 1.0 { misfit * MISFIT } else { (logarithms / tasks.len().max(1) as f64).exp() }
}
