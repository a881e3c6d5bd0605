//! Delay of a core by other cores' memory traffic, a regulator and refreshes: the one model under
//! every bound.
//!
//! # Problem
//! A core runs jobs that need `C` alone and make `n` DRAM accesses. Other cores, with several
//! reads under way and posted writes, share the channel. What is the longest delay of the jobs'
//! ends, compared with running alone?
//!
//! # Rule
//! There are two bounds on the delay of the core's accesses; the smaller holds.
//! * *Request-driven*: [`Costs::request_ps`] bounds the delay that others can add to one access,
//!   for any behaviour of theirs.
//! * *Job-driven*: each request that others can issue in the window at all adds at most its cost,
//!   [`Costs::read_ps`] or [`Costs::write_ps`]; their number follows from budgets
//!   ([`Others::Budgets`]) or from their tasks ([`Stall::jobs`]).
//!
//! After H. Kim et al., RTAS 2014 (request- and job-driven bounds, private and shared banks), and
//! Yun, Pellizzoni, Valsan, ECRTS 2015 (parallel misses, write batching). The terms are derived
//! here for the controller of crates/dram (docs/dram.md). Kim et al. leave out write batching, Yun
//! et al. take one batch per read as the worst, and neither covers a rival on the core's own
//! CPU.
//!
//! # Costs
//! All in the time of the memory clock; names of JEDEC. The controller is work conserving: while a
//! request waits, the next command of some request is issued as soon as timing permits. So a
//! request always waits for a command that was issued at most one timing gap earlier, and each
//! command of another core moves at most one command in wait, by one gap.
//! * `service` of an own access, alone: a read in its turn is looked up (`overhead`), closes and
//!   opens a row, and transfers, `rp + rcd + cl + burst`; a write keeps its bank for
//!   `write-to-precharge + rp + rcd`. `n` accesses take `n` services, and once the delay that a
//!   write causes to the read after it.
//! * `L_max` ([`Costs::latency_ps`]): one read by itself, its bank right after a write, or right
//!   after a row was opened for a write that now waits: `max(write-to-precharge, ras) + rp + rcd +
//!   cl + burst`.
//! * A *read* of another core in a bank of its own moves a waiting PRE, ACT and RD by one gap each
//!   ([`latency::delay_per_access`]); in a shared bank it takes a row cycle as well.
//! * A *write* of another core: while writes are drained, reads wait. The drain serves a write at
//!   least every `write-to-precharge + rp + rcd` (all of them in one bank, row after row), so that
//!   this is the cost of each; a posted write moves other commands by less.
//! * `row`: the core's own posted writes may wait for a place in the write queue while the
//!   controller serves the reads for which the last drain was cut short. The reads of one core may
//!   all lie in one bank, a row cycle each: once for each [`Queue::drain_most`] writes.
//! * A *refresh* stops its rank for `rfc`, and for the commands that close and open the banks
//!   around it. While writes are drained, a refresh of any rank can delay the drain. A window `t`
//!   meets `floor((t + refresh)/refi) + 1` for each rank.
//! * The *rest* at the start of a window or of a regulation period: reads under way (at most the
//!   miss registers), a full write queue, and each core's posted writes in front of it.
//!
//! One access beside others of any rate (*request-driven*) waits for reads that are older, and
//! those that pass ([`latency::read_delay`]). A drain that was under way may end with fewer than
//! `drain_most` writes, and one whole drain follows, which is cut short for waiting reads. The
//! first delays come again after each drain. Without a row-hit cap the controller gives no turns:
//! no bound. A full read queue would let reads wait in front of it, where each older one costs a
//! row cycle; so if it can fill: no bound.
//!
//! # Stall under budgets
//! All cores have budgets per period `P`, replenished at the same instants. Let `a` be the time
//! alone that `C` counts for each access, `D` the delay that others may add in one period (their
//! budgets' cost, the rest, refreshes). Of the periods that lie in the window,
//! * one in which the core is stopped, as it has used a budget of `Q`, makes at least `Q*a` of
//!   progress: it costs at most `P - Q*a`;
//! * any other costs at most `D`.
//!
//! With `K = floor(n/Q)` periods of the first kind at most, the time of `n` periods must hold the
//! work: the least `n` with `work + K*max(0, P - Q*a - D) + n*D <= n*P`. The opening period is
//! charged whole ([`Stall::once`]): another task on the core may have used up the budget, with
//! parallel misses or merged writes, in no time.
//!
//! # Budgets of others
//! Two rules of `solocore/memguard.h` let cores exceed their budgets. The bounds hold under both,
//! if the core under analysis gives nothing away.
//! * *Reclaiming*: in each period the budgets of all cores and the pool make the same sum. The core
//!   keeps its own, so the others' accesses in a period stay within the sum of their budgets.
//!   `D` depends on that sum only, where an access costs the same under each budget. With accesses
//!   from the pool the core stops later, and the others make fewer by the same number.
//! * *Shared rounds*: a round begins when every core has used its budget up, and so the core under
//!   analysis, too. Its period is therefore of the first kind, and among the `K`. From then on the
//!   others have no limit, and may hold up the `u` accesses that the core has under way
//!   ([`Costs::unfinished`]). The others of its `Q` have made their progress, so the period costs
//!   at most `P - (Q - u)*a`, for any use of the core's share of the round. Without a round, an
//!   access under way at the period's end has waited for accesses within budgets, which `D` holds.
//!   Accesses that a round leaves under way are in the rest of the next period: queues bound them.
//!   `R` holds beside any rate. A core whose budget was used up before the window opens meets the
//!   round in the opening period, which is charged whole.
//!
//! [`Stall::jobs`] charges the rest once per window, so that it holds with shared rounds only where
//! all accesses are those of the jobs.
//!
//! # Jobs that hold the bandwidth lock
//! While a job of the core runs, it holds the lock ([`Others::Locked`]). A core that has seen it
//! makes at most `Q` accesses in each of its periods, besides those of its analysed tasks. So a
//! core counts as one more job ([`Job::of_budget`]) in [`Stall::jobs`]. Until then the others have
//! no limit; all of that time may be lost, and what they have under way then. A job that begins
//! first in its window is charged with that once ([`Stall::once`]). Each job that preempts charges
//! it twice: as it begins, and as the other job goes on. Source: bwlock, section 3; derived here.
//!
//! # Not covered
//! Prefetchers (their reads count against budgets where the counter sees them), closed pages,
//! per-bank refresh, interrupts and skid of the counter, budgets of cores that are replenished at
//! different instants (add one period's budgets). Nor DRAM controllers that differ from the one of
//! docs/dram.md.

mod rivals;

use crate::Derivation;
pub use crate::memory::costs::{Costs, Memory, Queue, Refresh, Requester, Sharing};
use crate::memory::costs::{OVERSHOOT, STEPS, beyond};
use crate::response::Demand;
pub use rivals::{Job, Pool, Rivals};
use std::sync::Arc;

/// A budget of a core per regulation period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Accesses of both kinds together.
    Together(u64),
    /// Reads and writes, each by itself; the core is stopped when one of them is used up.
    Apart {
        /// Reads.
        reads: u64,
        /// Writes.
        writes: u64,
    },
}

impl Budget {
    /// Largest cost of a core with this budget for another core in one period, in picoseconds.
    #[must_use]
    pub fn cost_ps(self, costs: &Costs) -> u64 {
        match self {
            Self::Together(all) => all.saturating_mul(costs.any_ps),
            Self::Apart { reads, writes } => reads
                .saturating_mul(costs.read_ps)
                .saturating_add(writes.saturating_mul(costs.write_ps)),
        }
    }

    fn writes(self) -> u64 {
        match self {
            Self::Together(_) => 0,
            Self::Apart { writes, .. } => writes,
        }
    }
}

/// Accesses that the others may issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// Accesses without a limit.
    Unlimited,
    /// Accesses within their budgets; the core has a budget as well.
    Budgets {
        /// `P`.
        period_ps: u64,
        /// Budget of the core under analysis.
        own: Budget,
        /// Budgets of the other cores of its channel.
        others: Vec<Budget>,
    },
    /// Accesses without a limit until the others have seen that a job of this core holds the
    /// bandwidth lock. From then on, those of [`Stall::jobs`].
    Locked {
        /// Longest delay of a job until then: the time that passes, and the rest of the others.
        unseen_ps: u64,
    },
}

/// Input for the delay of one core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Costs of accesses.
    pub costs: Costs,
    /// Accesses that others may issue.
    pub others: Others,
    /// All tasks of the other cores, if these tasks make all accesses of these cores.
    pub jobs: Option<Arc<Rivals>>,
    /// Time alone that the execution times count for each DRAM access, in picoseconds.
    pub counted_ps: u64,
}

impl Stall {
    /// Charged once per busy window, in picoseconds: the rest of the core's other tasks, and of the
    /// others. Also charged without misses.
    ///
    /// A core that waits takes no interrupt: for example, it waits for a miss register, and then
    /// for the access that needed it. Under budgets, the opening period, which is charged whole, or
    /// the others' budgets of the next one contain this.
    #[must_use]
    pub fn once(&self) -> u64 {
        let before = match &self.others {
            Others::Budgets { period_ps, .. } => *period_ps,
            Others::Unlimited => self.waits_ps(),
            Others::Locked { unseen_ps } => self.waits_ps().saturating_add(*unseen_ps),
        };
        before.saturating_add(self.costs.left_ps)
    }

    /// Time for which an earlier task of the core can wait, so that it takes no interrupt.
    fn waits_ps(&self) -> u64 {
        let access = self.costs.latency_ps.saturating_add(self.costs.request_ps.unwrap_or(0));
        access.saturating_mul(2)
    }

    /// Largest delay by others and refreshes in one regulation period, in picoseconds; zero without
    /// budgets.
    #[must_use]
    pub fn in_period(&self) -> u64 {
        let Others::Budgets { period_ps, own, others } = &self.others else { return 0 };
        let c = &self.costs;
        let overshoot = OVERSHOOT.saturating_mul(c.any_ps);
        let others_ps = others
            .iter()
            .map(|b| b.cost_ps(c).saturating_add(overshoot))
            .fold(0, u64::saturating_add);
        let writes = others.iter().chain([own]).map(|b| b.writes()).fold(0, u64::saturating_add);
        // `any_ps` is not below a row cycle, so that budgets for both kinds have no phases besides.
        let phases = if writes > 0 { writes / c.phase_writes.max(1) + 2 } else { 0 };
        others_ps
            .saturating_add(phases.saturating_mul(c.phase_ps))
            .saturating_add(c.left_ps)
            .saturating_add(c.refresh.within(*period_ps))
    }

    /// Stall of this demand in one busy window, in picoseconds; [`u64::MAX`]: no bound.
    ///
    /// Monotone in each field of `demand`. [`Stall::once`] is added once per window.
    #[must_use]
    pub fn of(&self, demand: Demand) -> u64 {
        let by_budgets = self.by_budgets(demand);
        // Without its refreshes it is no less than that.
        let request_ps = self.costs.request_ps.unwrap_or(u64::MAX).saturating_mul(demand.misses);
        let all = if request_ps < by_budgets {
            by_budgets.min(self.by_request(demand))
        } else {
            by_budgets
        };
        self.jobs.as_ref().map_or(all, |jobs| self.by_jobs(jobs, demand, all))
    }

    /// Each access by itself, and the refreshes; under budgets, also the periods in which the
    /// core's own budget is used up.
    pub(super) fn by_request(&self, demand: Demand) -> u64 {
        let Some(request_ps) = self.costs.request_ps else {
            return if demand.misses == 0 { 0 } else { u64::MAX };
        };
        let delay = request_ps.saturating_mul(demand.misses);
        let busy = demand.work_ps.saturating_add(delay).saturating_add(self.all_stops(demand));
        if demand.misses == 0 {
            return 0;
        }
        beyond(self.costs.refresh.lengthen(busy), demand.work_ps)
    }

    /// The accesses of the others' jobs during the window, the periods in which the core's own
    /// budget is used up, and the refreshes; `most` if that is less.
    fn by_jobs(&self, jobs: &Rivals, demand: Demand, most: u64) -> u64 {
        let once = self.once();
        let fixed = self.costs.left_ps.saturating_add(self.all_stops(demand));
        let base = demand.work_ps.saturating_add(fixed);
        let least = jobs.at_least(base, once, &self.costs.refresh);
        if least > demand.work_ps && least >= u64::MAX / 2 {
            return most;
        }
        self.least_total(jobs, demand, fixed, demand.work_ps.max(least), most)
    }

    /// The stall of the least solution of the recurrence of [`Stall::by_jobs`], from a total that
    /// is no more than it; `most` if that is less. `fixed`: the delay that does not depend on the
    /// window.
    fn least_total(&self, jobs: &Rivals, demand: Demand, fixed: u64, from: u64, most: u64) -> u64 {
        let (mut total, once) = (from, self.once());
        for _ in 0..STEPS {
            if total.saturating_sub(demand.work_ps) >= most {
                return most;
            }
            let window = total.saturating_add(once);
            let delay = fixed.saturating_add(jobs.cost_ps(window));
            let next = demand
                .work_ps
                .saturating_add(delay)
                .saturating_add(self.costs.refresh.within(window));
            if next <= total {
                return total - demand.work_ps;
            }
            if next >= u64::MAX / 2 {
                break;
            }
            total = next;
        }
        most
    }

    /// Cost of the periods in which the core's budgets are used up, beyond `other_ps`, which each
    /// period costs anyway.
    fn stopped(&self, own: Budget, period_ps: u64, demand: Demand, other_ps: u64) -> u64 {
        let cost = |budget: u64| {
            let finished = budget.saturating_sub(self.costs.unfinished);
            let progress = finished.saturating_mul(self.counted_ps);
            period_ps.saturating_sub(progress).saturating_sub(other_ps)
        };
        let of = |accesses: u64, budget: u64| match accesses.checked_div(budget) {
            Some(periods) => periods,
            None => u64::from(accesses > 0) * u64::MAX,
        };
        match own {
            Budget::Together(all) => of(demand.misses, all).saturating_mul(cost(all)),
            Budget::Apart { reads, writes } => {
                let most = of(demand.misses, reads.min(writes));
                let by_reads = of(demand.reads, reads).min(most);
                let by_writes = of(demand.writes, writes).min(most - by_reads);
                let other = of(demand.writes, writes).min(most);
                let swapped = of(demand.reads, reads).min(most - other);
                let sum = |r: u64, w: u64| {
                    r.saturating_mul(cost(reads)).saturating_add(w.saturating_mul(cost(writes)))
                };
                sum(by_reads, by_writes).max(sum(swapped, other))
            }
        }
    }

    /// The largest time that the core's own budget can cost.
    fn all_stops(&self, demand: Demand) -> u64 {
        match &self.others {
            Others::Budgets { period_ps, own, .. } => self.stopped(*own, *period_ps, demand, 0),
            Others::Unlimited | Others::Locked { .. } => 0,
        }
    }

    fn by_budgets(&self, demand: Demand) -> u64 {
        let Others::Budgets { period_ps, own, .. } = &self.others else { return u64::MAX };
        if demand.misses == 0 {
            return 0;
        }
        let other_ps = self.in_period();
        let Some(left) = period_ps.checked_sub(other_ps).filter(|&left| left > 0) else {
            return u64::MAX;
        };
        let stopped = self.stopped(*own, *period_ps, demand, other_ps);
        // Each access is counted in the work, so that the periods in which the core is stopped are
        // among the `periods`.
        let work = demand.work_ps.max(demand.misses.saturating_mul(self.counted_ps));
        let need = work.saturating_add(stopped);
        let periods = need.div_ceil(left);
        beyond(need.saturating_add(periods.saturating_mul(other_ps)), demand.work_ps)
    }

    /// The terms, their values and sources.
    #[must_use]
    pub fn explain(&self) -> Derivation {
        let c = &self.costs;
        let rule = match (&self.others, &self.jobs) {
            (Others::Unlimited | Others::Locked { .. }, None) => "stall = n*R + refreshes",
            (Others::Unlimited | Others::Locked { .. }, Some(_)) => {
                "stall = min(n*R, sum over the others' tasks of ceil((W + reach)/T)*cost + left) + \
                    refreshes"
            }
            (Others::Budgets { .. }, None) => {
                "stall = the least of K*max(0, P - Q*a - D) + N*D, N the least with work + stall \
                    <= N*P, and n*R + K*(P - Q*a) + refreshes"
            }
            (Others::Budgets { .. }, Some(_)) => {
                "stall = the least of K*max(0, P - Q*a - D) + N*D, N the least with work + stall \
                    <= N*P, and K*(P - Q*a) + refreshes + \
                 min(n*R, sum over the others' tasks of ceil((W + reach)/T)*cost + left)"
            }
        };
        let mut d = Derivation::new(rule, "crates/analysis/src/interference/mod.rs");
        if let Some(jobs) = &self.jobs {
            d = d.input(
                "kinds of tasks of other cores, by period and deadline",
                jobs.jobs().len() as u64,
            );
        }
        d = d
            .input("a: counted for an own access ps", self.counted_ps)
            .step("L_max by the memory's timing ps", c.latency_ps)
            .step("a read of another core ps", c.read_ps)
            .step("a write of another core ps", c.write_ps)
            .step("an access of another core ps", c.any_ps)
            .step("R: one access beside anything ps", c.request_ps)
            .step("left under way ps", c.left_ps)
            .step("a refresh ps", c.refresh.each_ps)
            .step("from one refresh to the next ps", c.refresh.every_ps);
        if let Others::Budgets { period_ps, own, .. } = &self.others {
            d = d.input("P ps", *period_ps);
            d = match own {
                Budget::Together(all) => d.input("Q", *all),
                Budget::Apart { reads, writes } => {
                    d.input("Q of reads", *reads).input("Q of writes", *writes)
                }
            };
            d = d.step("D: others in one period ps", self.in_period());
        }
        if let Others::Locked { unseen_ps } = &self.others {
            d = d.step("until the others have seen the lock ps", *unseen_ps);
        }
        if c.unfinished > 0 {
            d = d.step("own accesses of Q under way as a shared round begins", c.unfinished);
        }
        d.step("once per busy window ps", self.once()).result("as above")
    }
}

#[cfg(test)]
mod tests;
