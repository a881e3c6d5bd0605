//! Execution time of a job whose functions hold the bandwidth lock.
//!
//! # Problem
//! A job needs `C` alone and makes `n` DRAM accesses, at least `n_in` of them in calls that hold
//! the lock. Other cores run tasks that are not real-time without limit, except that each makes at
//! most `Q` accesses in a period `P` while the lock is in force. How long does the job execute?
//!
//! # Rule
//! The time of a job is parted into three: outside of sections, in a section before the others have
//! seen the lock (at most `d` for each section), and in a section from then on.
//! * Outside, an access is delayed by `R` at most, as beside others of any rate
//!   ([`Costs::request_ps`]). So are the accesses under way as a section ends, `u` of them.
//! * Before the lock is seen, the delay of a section is at most `d`, which is all the time there
//!   is.
//! * From then on the job waits for the accesses that the others had under way (`left` for each
//!   section), and for those that they issue. In each period a core issues `Q` and an overshoot of
//!   four accesses. A core that had made `Q` accesses in this period before it saw the lock
//!   stops at once.
//! * `m` sections with a time `W` in all meet at most `floor(W/P) + 2*m` periods of a core, because
//!   each meets `ceil(w/P) + 1`. A job with a span of `S` from begin to end meets at most
//!   `ceil(S/P) + 1`.
//! * Analysed tasks of other cores are never limited. In the span they make the accesses of their
//!   jobs, as [`Rivals`] counts them.
//! * Not more than `n*R` are all delays together, as without a lock.
//!
//! With `F = m*(d + left)`, `X = R*min(n, n - n_in + m*u)`, `J(S)` for the jobs of analysed tasks
//! and `V = N*cores*(Q + overshoot)*any`:
//! `T = C + o*(1 + r) + min(n*R, X + F + V + J(S)) + refreshes(S)`,
//! `W = H + F + m*u*R + V + J(S) + refreshes(S)`,
//! `N = min(ceil(S/P) + 1, floor(W/P) + 2*m)`; the bound is the least solution. `H` is the longest
//! time alone of all sections. A job that is preempted `r` times returns to a section as if it
//! entered it, so that `r` is added to `m`; `S` is then the span of its response. `o` is the wait
//! for accesses that were under way as the job began or came back
//! ([`crate::interference::Stall::once`]).
//!
//! Source: bwlock, section 3 (the rule of the lock); the terms are those of
//! [`crate::interference`], the parts are derived here.
//!
//! # Not covered
//! Programs that the lock does not limit: holders on other cores, and those with a real-time policy. A
//! section that is longer than the limit on holding; counters that leave out a part of the accesses.

use crate::derivation::Derivation;
use crate::interference::Rivals;
use crate::memory::costs::{Costs, OVERSHOOT, STEPS};
use crate::sensitivity::largest_passing;

/// A job with the sections in which it holds the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockedJob {
    /// `C`: execution time alone, in picoseconds.
    pub work_ps: u64,
    /// `n`: most DRAM accesses.
    pub accesses: u64,
    /// `n_in`: least DRAM accesses in its sections.
    pub covered: u64,
    /// `H`: longest time alone in its sections, in picoseconds.
    pub held_ps: u64,
    /// `m`: most sections.
    pub sections: u64,
    /// `r`: most preemptions.
    pub returns: u64,
    /// Longest time from begin to end in picoseconds, where it can be preempted.
    pub span_ps: u64,
}

/// The lock and the cores beside it.
#[derive(Debug, Clone, Copy)]
pub struct Lock<'a> {
    /// Costs of accesses for the job's core.
    pub costs: &'a Costs,
    /// `P`, in picoseconds.
    pub period_ps: u64,
    /// `d`: longest time until another core has seen that the lock is held, in picoseconds.
    pub reaction_ps: u64,
    /// Other cores of the channel.
    pub cores: u64,
    /// `u`: accesses that the job's core can have under way.
    pub under_way: u64,
    /// `o`, in picoseconds.
    pub once_ps: u64,
    /// Analysed tasks of the other cores.
    pub rivals: &'a Rivals,
}

/// The terms that do not depend on the span.
#[derive(Debug, Clone, Copy)]
struct Terms {
    sections: u64,
    base_ps: u64,
    /// All accesses as without a lock.
    whole_ps: u64,
    /// Accesses outside of sections, and under way as one ends.
    outside_ps: u64,
    /// Begins of sections.
    begin_ps: u64,
    /// Accesses under way in sections that began outside.
    before_ps: u64,
    /// The other cores in one period.
    each_ps: u64,
}

impl Lock<'_> {
    fn terms(&self, job: &LockedJob, budget: u64) -> Terms {
        let c = self.costs;
        let sections = if job.sections == 0 { 0 } else { job.sections.saturating_add(job.returns) };
        let delay = |accesses: u64| match (c.request_ps, accesses) {
            (_, 0) => 0,
            (Some(each), n) => each.saturating_mul(n),
            (None, _) => u64::MAX,
        };
        let ends = sections.saturating_mul(self.under_way);
        let outside = job.accesses.saturating_sub(job.covered).saturating_add(ends);
        let begin = self.reaction_ps.saturating_add(c.left_ps);
        let calls = job.returns.saturating_add(1);
        Terms {
            sections,
            base_ps: job.work_ps.saturating_add(self.once_ps.saturating_mul(calls)),
            whole_ps: delay(job.accesses),
            outside_ps: delay(outside.min(job.accesses)),
            begin_ps: sections.saturating_mul(begin),
            before_ps: delay(ends.min(job.accesses)),
            each_ps: budget
                .saturating_add(OVERSHOOT)
                .saturating_mul(self.cores)
                .saturating_mul(c.any_ps),
        }
    }

    /// Longest execution time of the job in picoseconds, beside `budget` accesses of each other
    /// core in a period; `None`: it is more than `limit_ps`, or has no bound.
    ///
    /// Monotone in `budget` and in each number of the job, except for `covered`, which shortens it.
    #[must_use]
    pub fn execution(&self, job: &LockedJob, budget: u64, limit_ps: u64) -> Option<u64> {
        let t = self.terms(job, budget);
        let period_ps = self.period_ps.max(1);
        let (mut total, mut held) = (t.base_ps, job.held_ps);
        for _ in 0..STEPS {
            let span = total.max(job.span_ps);
            let refreshes = self.costs.refresh.within(span);
            let in_span = span.div_ceil(period_ps).saturating_add(1);
            let in_sections = (held / period_ps).saturating_add(t.sections.saturating_mul(2));
            let inside = in_span
                .min(in_sections)
                .saturating_mul(t.each_ps)
                .saturating_add(self.rivals.cost_ps(span))
                .saturating_add(t.begin_ps);
            let locked = t.outside_ps.saturating_add(inside);
            let delay = t.whole_ps.min(locked);
            let next = t.base_ps.saturating_add(delay).saturating_add(refreshes);
            if next > limit_ps || next == u64::MAX {
                return None;
            }
            let next_held = job
                .held_ps
                .saturating_add(inside)
                .saturating_add(t.before_ps)
                .saturating_add(refreshes);
            if next <= total && (next_held <= held || locked >= t.whole_ps) {
                return Some(total);
            }
            (total, held) = (total.max(next), held.max(next_held));
        }
        None
    }

    /// The largest number of accesses per period and core, from 1 to `most`, beside which the job
    /// keeps to `limit_ps`; `None`: there is none.
    #[must_use]
    pub fn largest_budget(&self, job: &LockedJob, most: u64, limit_ps: u64) -> Option<u64> {
        let keeps = |budget: u64| self.execution(job, budget, limit_ps).is_some();
        largest_passing(1, most, 1, keeps).passes
    }

    /// The terms of [`Lock::execution`], their values and sources.
    #[must_use]
    pub fn explain(&self, job: &LockedJob, budget: u64) -> Derivation {
        let t = self.terms(job, budget);
        let d = Derivation::new(
            "T = C + o*(1+r) + min(n*R, X + F + V + J) + refreshes, V = N*cores*(Q + \
                overshoot)*any, N = min(ceil(S/P) + 1, floor(W/P) + 2*m)",
            "crates/analysis/src/memory/bandwidth_lock.rs; bwlock section 3",
        )
        .input("C ps", job.work_ps)
        .input("n", job.accesses)
        .input("n_in: covered by the lock", job.covered)
        .input("m: sections", job.sections)
        .input("r: preemptions", job.returns)
        .input("H: held alone ps", job.held_ps)
        .input("Q", budget)
        .input("P ps", self.period_ps)
        .input("d: until the lock is seen ps", self.reaction_ps)
        .step("n*R ps", t.whole_ps)
        .step("X: outside of sections ps", t.outside_ps)
        .step("F: begins of sections ps", t.begin_ps)
        .step("others in one period ps", t.each_ps)
        .step("C + o*(1+r) ps", t.base_ps);
        match self.execution(job, budget, u64::MAX) {
            Some(total) => d.result(total),
            None => d.result("no bound"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn costs(request: u64, any: u64, left: u64) -> Costs {
        Costs { request_ps: Some(request), ..Costs::plain(any, left) }
    }

    /// One run of a job of steps. A step is a time of work, then perhaps an access, and says if a
    /// section holds the lock. The others delay as much as the rule of the lock allows. Each access
    /// outside waits for `R`. In a section they take all the time until they see the lock, and then
    /// all accesses that they have left in a period. `phase`: the instant at which their first
    /// period begins.
    fn worst(
        steps: &[(u64, bool, bool)],
        lock: &Lock<'_>,
        budget: u64,
        (phase, patient): (u64, bool),
    ) -> u64 {
        let c = lock.costs;
        let (mut now, mut period, mut used) = (0u64, u64::MAX, 0);
        let mut inside = false;
        for &(work, access, locked) in steps {
            if locked && !inside {
                now += lock.reaction_ps + c.left_ps;
            }
            inside = locked;
            for tick in 0..work {
                now += 1;
                let current = (now + phase) / lock.period_ps;
                if current != period {
                    (period, used) = (current, 0);
                }
                // A patient enemy waits for the end of a period, so that two budgets follow.
                let last = (now + phase + 1) % lock.period_ps == 0 || tick + 1 == work;
                if locked && (!patient || last) && used == 0 {
                    used = lock.cores * (budget + OVERSHOOT);
                    now += used * c.any_ps;
                }
            }
            if access && !locked {
                now += c.request_ps.unwrap_or(0);
            }
        }
        now
    }

    proptest! {
        /// No enemy of the kind above exceeds the bound: fails where a period, a begin of a section
        /// or an access outside is left out.
        #[test]
        fn no_enemy_exceeds_the_bound(
            steps in prop::collection::vec((1u64..60, any::<bool>(), any::<bool>()), 1..40),
            request in 1u64..50, each in 1u64..4, left in 0u64..20, reaction in 0u64..30,
            budget in 1u64..8, period in 40u64..200, phase in 0u64..200, patient in any::<bool>(),
        ) {
            let (costs, rivals) = (costs(request, each, left), Rivals::new(Vec::new()));
            let lock = Lock {
                costs: &costs, period_ps: period, reaction_ps: reaction, cores: 1, under_way: 0,
                once_ps: 0, rivals: &rivals,
            };
            let count = |of: &dyn Fn(&(u64, bool, bool)) -> bool| {
                steps.iter().filter(|s| of(s)).count() as u64
            };
            let begins = steps.windows(2).filter(|w| !w[0].2 && w[1].2).count() as u64;
            let job = LockedJob {
                work_ps: steps.iter().map(|s| s.0).sum(),
                // Enough accesses that the bound without a lock is not the smaller one.
                accesses: count(&|s| s.1) + 1_000_000,
                covered: count(&|s| s.1 && s.2) + 1_000_000,
                held_ps: steps.iter().filter(|s| s.2).map(|s| s.0).sum(),
                sections: begins + u64::from(steps[0].2),
                returns: 0,
                span_ps: 0,
            };
            if let Some(bound) = lock.execution(&job, budget, u64::MAX) {
                let seen = worst(&steps, &lock, budget, (phase % period, patient));
                prop_assert!(seen <= bound, "{seen} > {bound}");
                let more = lock.execution(&job, budget + 1, u64::MAX);
                prop_assert!(more.is_none_or(|more| more >= bound));
                let less = LockedJob { covered: job.covered - 1, ..job };
                prop_assert!(lock.execution(&less, budget, u64::MAX).is_none_or(|b| b >= bound));
            }
        }

        /// The largest budget keeps to the limit and the next one does not, as a search of all
        /// finds it.
        #[test]
        fn the_largest_budget_is_the_last_that_keeps(
            work in 100u64..5000, outside in 0u64..20, held in 0u64..100, sections in 0u64..4,
            limit in 100u64..20_000,
        ) {
            let (costs, rivals) = (costs(17, 2, 5), Rivals::new(Vec::new()));
            let lock = Lock {
                costs: &costs, period_ps: 500, reaction_ps: 10, cores: 3, under_way: 1, once_ps: 3,
                rivals: &rivals,
            };
            let held_ps = work * held / 100;
            let job = LockedJob {
                work_ps: work, accesses: 400, covered: 400 - outside, held_ps, sections,
                ..LockedJob::default()
            };
            let keeps = |q: u64| lock.execution(&job, q, limit).is_some();
            let last = (1..=64).rev().find(|&q| keeps(q));
            prop_assert_eq!(lock.largest_budget(&job, 64, limit), last);
        }
    }

    #[test]
    fn without_sections_the_bound_is_that_of_all_accesses() {
        let (costs, rivals) = (costs(10, 2, 5), Rivals::new(Vec::new()));
        let lock = Lock {
            costs: &costs,
            period_ps: 100,
            reaction_ps: 10,
            cores: 3,
            under_way: 2,
            once_ps: 7,
            rivals: &rivals,
        };
        let job = LockedJob { work_ps: 1000, accesses: 30, ..LockedJob::default() };
        assert_eq!(lock.execution(&job, 50, u64::MAX), Some(1000 + 7 + 300));
        // A section of 10 accesses that are all under way as it ends saves nothing.
        let short = LockedJob { covered: 2, sections: 1, held_ps: 20, ..job };
        assert_eq!(lock.execution(&short, 50, u64::MAX), Some(1000 + 7 + 300));
        // All accesses but those under way as the section ends: 20 + 15 + 3 periods of 3*5*2.
        let whole = LockedJob { covered: 30, sections: 1, held_ps: 20, ..job };
        assert_eq!(lock.execution(&whole, 1, u64::MAX), Some(1000 + 7 + 20 + 15 + 90));
        assert_eq!(lock.execution(&whole, 1, 1131), None);
        let no_turns = Costs { request_ps: None, ..costs };
        assert_eq!(Lock { costs: &no_turns, ..lock }.execution(&job, 1, u64::MAX), None);
    }
}
