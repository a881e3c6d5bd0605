//! The bounds of one core: stalls, costs once per busy window, response times.
//!
//! Problem: the stall of a job depends on the model, on the core's budget and on an earlier task's
//! rest. Rule: [`CoreBounds`] picks the stall of `solocore_analysis` that holds, and gives it to
//! the response-time analysis with the tasks that can delay a job. Does not cover: the choice of
//! locked pages, which is an input.

use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::Stall;
use solocore_analysis::response::{Demand as Asked, RtaTask};
use solocore_analysis::{Derivation, stall};
use solocore_model::system::Model;
use std::collections::HashMap;

/// An analysed task with the tasks that can delay it on its core, as the response-time analysis
/// sees them.
#[derive(Debug)]
pub struct Level {
    /// Its number in the system.
    pub index: usize,
    /// Highest priority first, itself last; with their numbers in the system.
    pub tasks: Vec<(usize, RtaTask)>,
    /// Do tasks of lower priority share the core?
    pub company: bool,
}

/// The bounds of one core.
pub struct CoreBounds<'a> {
    /// Number of the core.
    pub core: u32,
    /// The shares of the machine.
    pub resources: &'a Resources,
}

impl CoreBounds<'_> {
    /// The core's stall under the interference model; `None` where there is no model of the memory.
    fn sound(&self) -> Option<&Stall> {
        self.resources.stalls.get(self.core as usize)
    }

    /// Stall of jobs with this demand, ps, without an earlier task's rest; [`u64::MAX`]: no bound.
    pub fn stall(&self, asked: Asked) -> u64 {
        let r = &self.resources.regulation;
        if self.resources.model == Model::Sound {
            return self.sound().map_or(u64::MAX, |s| s.of(asked));
        }
        let misses = asked.misses;
        let Some(budgets) = &self.resources.budgets else {
            return stall::stall_unregulated(r, misses);
        };
        let own = self.core as usize;
        match (self.resources.explicit, self.resources.carry_in) {
            (true, _) => stall::stall_explicit(r, budgets, own, misses),
            (false, true) => stall::stall(r, budgets[own], misses),
            (false, false) => stall::stall_paper(r, misses),
        }
    }

    /// Stall that is charged once per busy window, ps: the budget that an earlier task may have
    /// used up, and the accesses under way. In the papers' model, the budget is used by the fastest
    /// accesses that the memory can serve; an access of a lower-priority task `in_flight` is added.
    pub fn once(&self, in_flight: bool) -> u64 {
        let r = &self.resources.regulation;
        if self.resources.model == Model::Sound {
            return self.sound().map_or(u64::MAX, Stall::once);
        }
        match &self.resources.budgets {
            _ if !self.resources.carry_in => 0,
            None if in_flight => self.resources.blocking_ps(),
            None => 0,
            Some(budgets) => {
                let budget = budgets[self.core as usize];
                let fastest = self.resources.platform.row_hit().ps();
                let drained = if in_flight {
                    stall::carry_in_in_flight(r, budget)
                } else {
                    stall::carry_in(r, budget)
                };
                drained.saturating_add(stall::fast_service(r, fastest, budget))
            }
        }
    }

    /// Additional cost of each window of a partition, ps: its last regulation period may have begun
    /// shortly before its end.
    pub fn each_window(&self) -> u64 {
        let sound = self.sound().filter(|_| self.resources.model == Model::Sound);
        self.once(true).saturating_add(sound.map_or(0, Stall::in_period))
    }

    /// Utilisation by jobs with this demand and their stall; 0 without a period.
    pub fn utilization(&self, w: &Work, asked: Asked) -> f64 {
        let stall_ps = self.stall(asked).saturating_add(self.once(false));
        let period = w.task.period.map(|period| period.ps() as f64);
        period.map_or(0.0, |period| (asked.work_ps as f64 + stall_ps as f64) / period)
    }

    /// Derivation of the stall and the carry-in.
    pub fn explain(&self) -> Derivation {
        if let (Model::Sound, Some(sound)) = (self.resources.model, self.sound()) {
            return sound.explain();
        }
        let r = &self.resources.regulation;
        let (rule, source) =
            match (&self.resources.budgets, self.resources.explicit, self.resources.carry_in) {
                (None, ..) => {
                    ("stall(mu) = (m-1)*mu*L", "crates/analysis/src/stall.rs, stall_unregulated")
                }
                (_, true, _) => (
                    "stall(mu) = max(mu*s(1), floor(mu/Q)*(P - Q*L) + (mu mod Q)*s(1)), s(1) = L * \
                    other cores with a budget",
                    "crates/analysis/src/stall.rs, stall_explicit",
                ),
                (_, _, true) => (
                    "stall(mu) = max(mu*(m-1)*L, floor(mu/Q)*(P - Q*L) + (mu mod Q)*(m-1)*L)",
                    "crates/analysis/src/stall.rs, stall",
                ),
                _ => ("stall(mu) = m*mu*L", "single-core-equivalence section 3.1, eq. (1)"),
            };
        let d = Derivation::new(rule, source)
            .input("m", u64::from(r.cores))
            .input("L ps", r.latency_ps);
        let Some(budgets) = &self.resources.budgets else { return d.result("as above") };
        let budget = budgets.get(self.core as usize).copied().unwrap_or(0);
        d.input("P ps", r.period_ps)
            .input("Q", budget)
            .step("drained by an earlier task, once ps", self.once(false))
            .step("the same beside an access of lower priority in flight ps", self.once(true))
            .result("as above")
    }

    /// Input of the response-time analysis for `hard[..]`'s task `index`. Every job of higher
    /// priority may preempt, after which private caches have to be filled again. A job of lower
    /// priority may have an access under way.
    pub fn level(
        &self,
        index: usize,
        hard: &[usize],
        best_effort: bool,
        locked: &HashMap<usize, usize>,
        work: &[Work],
    ) -> Option<Level> {
        let at = hard.iter().position(|&t| t == index)?;
        let affected = &hard[..=at];
        let tasks = affected
            .iter()
            .map(|&t| {
                let w = &work[t];
                let k = locked.get(&t).copied().unwrap_or(0);
                let extra = preemption_accesses(t, affected, work, self.resources);
                let asked = w.asked(k, self.resources);
                let task = RtaTask {
                    wcet_ps: asked.work_ps,
                    misses: asked.misses.saturating_add(extra),
                    // A part of them are reads, the others write-backs.
                    reads: asked.reads.saturating_add(extra),
                    writes: asked.writes.saturating_add(extra),
                    period_ps: w.task.period.map_or(u64::MAX, |p| p.ps()),
                    deadline_ps: w.task.deadline.map_or(u64::MAX, |d| d.ps()),
                    preemption_ps: preemption_ps(self.core, extra, self.resources),
                };
                (t, task)
            })
            .collect();
        Some(Level { index, tasks, company: best_effort || at + 1 < hard.len() })
    }
}

/// Time of a preemption on a core, ps: that of the accesses that are repeated. A job that holds the
/// bandwidth lock also adds the time until the other cores have seen it, twice: as it begins, and as
/// the other job goes on.
pub fn preemption_ps(core: u32, accesses: u64, resources: &Resources) -> u64 {
    let unseen_ps = resources.unseen_ps(core).saturating_mul(2);
    resources.access_ps(accesses).saturating_add(unseen_ps)
}

/// DRAM accesses that a job of `preempting` can cost the tasks of lower priority among `order`:
/// the most that one of them reloads ([`Work::reload`]).
pub fn preemption_accesses(
    preempting: usize,
    order: &[usize],
    work: &[Work],
    resources: &Resources,
) -> u64 {
    let below =
        order.iter().filter(|&&t| work[t].priority > work[preempting].priority && work[t].hard());
    below.map(|&t| work[t].reload(resources)).max().unwrap_or(0)
}

/// The same of all tasks of `order`, which has the highest priority first and best effort last.
pub fn all_preemption_accesses(order: &[usize], work: &[Work], resources: &Resources) -> Vec<u64> {
    let mut most = 0;
    let mut out: Vec<u64> = Vec::with_capacity(order.len());
    for &t in order.iter().rev() {
        out.push(most);
        if work[t].hard() {
            most = most.max(work[t].reload(resources));
        }
    }
    out.reverse();
    out
}
