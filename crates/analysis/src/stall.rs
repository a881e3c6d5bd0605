//! Stall caused by memory-bandwidth regulation and by the memory shared with other cores.
//!
//! # Problem
//! A core makes `mu` DRAM accesses in a window of its execution. Other cores delay each of
//! them, and a regulator (MemGuard) suspends the core when its budget of `Q` accesses in a period
//! `P` is used up. What is the longest delay of the work's end, compared with running alone?
//!
//! # Rule
//! "Single Core Equivalent Virtual Machines for Hard Real-Time Computing on Multicore Processors",
//! section 3.2, eq. (1): `Stall = m*mu*S_line/BW_min = m*mu*L`, with `L = L_max = S_line/BW_min`
//! ([`stall_paper`]). It has no carry-in. [`stall`] plus [`carry_in`] is the bound used by default;
//! it is derived here and checked against an exhaustive search in `tests/regulated_memory.rs`.
//!
//! # Model
//! 1. One memory serves one request at a time, each in at most `L`, round robin over the `m` cores;
//!    a core has one outstanding request at most. So an access waits for one request of each other
//!    core: at most `(m-1)*L`.
//! 2. An access counts against the period in which it is *issued*. The core that issues its `Q`-th
//!    access of a period is suspended when that access completes, until the period ends. All
//!    budgets are full at each period start.
//! 3. The solo execution time charges at least `L` to each of the `mu` accesses.
//!
//! # Derivation
//! Charge the wait of an access to the period of its issue, and a suspension to the period it lies
//! in.
//! * A period with `r` accesses and no suspension is charged at most `(m-1)*L*r`.
//! * A period with a suspension has `Q` accesses that were issued and served inside it, `Q*L` of
//!   progress, so it is charged at most `P - Q*L`.
//! * The period in which the window opens, when an earlier task has used part of its budget, is
//!   charged at most `P - Q*L` if it ends in a suspension. That holds for any number of accesses
//!   left to this window: [`carry_in`].
//!
//! Let `s1 = (m-1)*L`. If `P - Q*L >= Q*s1` (that is `Q <= P/(m*L)`), moving accesses together to
//! fill periods never lowers the sum: `K = floor(mu/Q)` full periods and `mu - K*Q` single accesses
//! are the worst. Otherwise a full period costs less per access than `s1`, and `mu*s1` is the
//! worst. The maximum of the two forms holds in both cases, whether or not the budgets of all cores
//! fit in a period. With `P = m*Q*L` the bound is reached. [`stall_explicit`] plus [`carry_in`] is
//! reached in every case searched, where the budgets of all cores fit in a period.
//!
//! # Not covered
//! * Regulator overhead (interrupts, timer), refresh, write-back traffic that is not in `mu`,
//!   prefetches.
//! * Assumption 2, if accesses count when they *complete*: an access that waits across a period
//!   start costs its wait in one period and a place in the next. Each full period can then cost up
//!   to `m*L` more: add `(K + 1)*m*L` with `K = floor(mu/Q)` (0.4 us a period on the P4080 of the
//!   paper).
//! * Assumption 3, if the solo time was *measured* with accesses faster than `L`: add
//!   [`fast_service`]. The `m` in eq. (1), where `m-1` other cores interfere, is exactly that term
//!   for accesses that take no time in the solo time.
//! * An access of a lower-priority task in flight when the window opens: use
//!   [`carry_in_in_flight`].

use serde::{Deserialize, Serialize};

/// A regulated memory shared by identical cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regulation {
    /// Regulation period `P`, in picoseconds.
    pub period_ps: u64,
    /// Longest service time `L_max` of one DRAM access, in picoseconds.
    pub latency_ps: u64,
    /// Number `m` of active cores, the one under analysis included.
    pub cores: u32,
}

impl Regulation {
    /// The budget, in accesses per period, of each core when the guaranteed bandwidth is shared
    /// evenly: `floor(P/(m*L))`. [`u64::MAX`] if `m` or `L` is zero, as the budget has no limit
    /// then.
    #[must_use]
    pub fn even_budget(&self) -> u64 {
        let slot = u128::from(self.cores) * u128::from(self.latency_ps);
        u128::from(self.period_ps).checked_div(slot).map_or(u64::MAX, narrow)
    }

    /// `(m-1)*L`, the longest wait of one access.
    fn wait(&self) -> u128 {
        u128::from(self.cores.saturating_sub(1)) * u128::from(self.latency_ps)
    }

    /// `P - q*L`, the longest suspension in one period, in picoseconds; zero if the budget cannot
    /// be used up.
    fn suspension(&self, budget: u64) -> u128 {
        let busy = u128::from(budget) * u128::from(self.latency_ps);
        u128::from(self.period_ps).saturating_sub(busy)
    }
}

/// A bound too large for 64 bits becomes [`u64::MAX`], never a small number.
fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Stall of `misses` accesses as in eq. (1) of the paper, `m*mu*L`, in picoseconds, for an even
/// split of the bandwidth.
///
/// Without carry-in: too low for a few misses in a window that opens with the budget used up.
#[must_use]
pub fn stall_paper(r: &Regulation, misses: u64) -> u64 {
    let per_miss = u128::from(r.cores) * u128::from(r.latency_ps);
    narrow(per_miss.saturating_mul(u128::from(misses)))
}

/// Stall of `misses` accesses in one busy window, in picoseconds, for a core with `budget` accesses
/// per period.
///
/// The larger of `(m-1)*L*mu` and `K*(P-q*L) + min((m-1)*rest*L, P-q*L)`, with `K = floor(mu/q)`
/// and `rest = mu - K*q`. It holds for any budgets of the other cores. [`carry_in`] is added once
/// per window.
///
/// Superadditive in `misses`: charge a window for the total of its jobs, not job by job.
/// [`u64::MAX`] if the budget is zero and `misses` is not: such a core never gets to memory.
#[must_use]
pub fn stall(r: &Regulation, budget: u64, misses: u64) -> u64 {
    let shared = r.wait().saturating_mul(u128::from(misses));
    let Some(full_periods) = misses.checked_div(budget) else {
        return if misses == 0 { 0 } else { u64::MAX };
    };
    let suspension = r.suspension(budget);
    let rest = r.wait().saturating_mul(u128::from(misses % budget)).min(suspension);
    let regulated = suspension.saturating_mul(u128::from(full_periods)).saturating_add(rest);
    narrow(shared.max(regulated))
}

/// `P - q*L` in picoseconds: an earlier task may have used up the budget just before the busy
/// window opens.
///
/// Charged once per busy window, also to one without misses.
#[must_use]
pub fn carry_in(r: &Regulation, budget: u64) -> u64 {
    narrow(r.suspension(budget))
}

/// [`carry_in`] where an access of a lower-priority task may be in flight as the busy window opens,
/// in picoseconds: `max(P - q*L, (m-1)*L) + L`.
///
/// A core that waits for a load does not take an interrupt. If the load ends in its own period, its
/// `L` comes on top of the carry-in; if it waits into the next period, that period has a full
/// budget, and only the load itself counts.
#[must_use]
pub fn carry_in_in_flight(r: &Regulation, budget: u64) -> u64 {
    narrow(r.suspension(budget).max(r.wait()).saturating_add(u128::from(r.latency_ps)))
}

/// Term to add when the solo execution time charges only `fastest_ps < L` to an access: `(L -
/// fastest)*mu`, in picoseconds.
///
/// A measured solo time is of this kind. Add it to [`stall`] with the window's misses, and to
/// [`carry_in`] with `q` in the place of the misses, as the budget can then be used up in
/// `q*fastest`.
#[must_use]
pub fn fast_service(r: &Regulation, fastest_ps: u64, misses: u64) -> u64 {
    r.latency_ps.saturating_sub(fastest_ps).saturating_mul(misses)
}

/// Stall of `misses` accesses of core `own` in one busy window, in picoseconds, where the budgets
/// of all cores are known (`budgets.len()` cores; `r.cores` is not used). [`carry_in`] is added
/// once per window.
///
/// # Derivation
/// A period with `n` accesses of this core stalls it for
/// `s(n) = L * sum over j != own of min(n, Q_j)` if `n < Q`, and `s(Q) = P - Q*L`. The maximum is
/// over all distributions of the accesses to *any number* of periods. Below `Q`, `s` is concave
/// with `s(0) = 0`, so `s(n) <= n*s(1)`: one access per period is the worst, and
/// `s(1) = L * |{j != own: Q_j >= 1}|`. With `k` full periods the worst is thus
/// `k*s(Q) + (mu - k*Q)*s(1)`, linear in `k`, with its maximum at `k = 0` or `k = floor(mu/Q)`:
///
/// `max(mu*s(1), K*(P - Q*L) + (mu - K*Q)*s(1))`
///
/// The sizes of the other budgets matter only as far as they are zero. For `Q = 1` and budgets that
/// do not fit in a period, `mu*s(1)` can exceed the maximum above, and is needed as an access may
/// wait past the end of its period.
///
/// [`u64::MAX`] if there are misses but no budget, or no core `own`.
#[must_use]
pub fn stall_explicit(r: &Regulation, budgets: &[u64], own: usize, misses: u64) -> u64 {
    let budget = budgets.get(own).copied().unwrap_or(0);
    let Some(full_periods) = misses.checked_div(budget) else {
        return if misses == 0 { 0 } else { u64::MAX };
    };
    let rivals = budgets.iter().enumerate().filter(|&(core, &q)| core != own && q > 0).count();
    let wait = u128::from(r.latency_ps).saturating_mul(rivals as u128);
    let spread = wait.saturating_mul(u128::from(misses));
    let packed = r
        .suspension(budget)
        .saturating_mul(u128::from(full_periods))
        .saturating_add(wait.saturating_mul(u128::from(misses % budget)));
    narrow(spread.max(packed))
}

/// Stall of `misses` accesses without a regulator: `(m-1)*L*mu`, in picoseconds.
#[must_use]
pub fn stall_unregulated(r: &Regulation, misses: u64) -> u64 {
    narrow(r.wait().saturating_mul(u128::from(misses)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const P4080: Regulation = Regulation { period_ps: 1_000_000_000, latency_ps: 49_600, cores: 8 };

    #[test]
    fn p4080_budget_and_carry_in() {
        assert_eq!(P4080.even_budget(), 2520);
        assert_eq!(carry_in(&P4080, 2520), 875_008_000);
    }

    #[test]
    fn p4080_eq1_is_below_the_bound_up_to_17_6e3_misses() {
        let bound = |misses| stall(&P4080, 2520, misses) + carry_in(&P4080, 2520);
        let crossing =
            (0..100_000).find(|&misses| stall_paper(&P4080, misses) >= bound(misses)).unwrap();
        // (P - Q*L)/L = 17,641.3; the rounding of Q to 2520 costs 64 ns in each of the seven full
        // periods.
        assert_eq!(crossing, 17_651);
        assert!((crossing..200_000).all(|misses| stall_paper(&P4080, misses) >= bound(misses)));
    }

    #[test]
    fn degenerate_inputs_give_no_false_bound() {
        let none = Regulation { period_ps: 100, latency_ps: 0, cores: 0 };
        assert_eq!(none.even_budget(), u64::MAX);
        assert_eq!(stall_unregulated(&none, 9), 0);
        assert_eq!(stall(&P4080, 0, 1), u64::MAX);
        assert_eq!(stall(&P4080, 0, 0), 0);
        assert_eq!(carry_in(&P4080, 0), P4080.period_ps);
        assert_eq!(stall_explicit(&P4080, &[5, 5], 2, 1), u64::MAX);
        let huge = Regulation { period_ps: u64::MAX, latency_ps: u64::MAX, cores: u32::MAX };
        for bound in [
            stall_paper(&huge, u64::MAX),
            stall(&huge, 1, u64::MAX),
            stall_unregulated(&huge, u64::MAX),
            stall_explicit(&huge, &[1, 1, 1], 0, u64::MAX),
            carry_in_in_flight(&huge, 1),
            fast_service(&huge, 0, 2),
        ] {
            assert_eq!(bound, u64::MAX);
        }
    }

    #[test]
    fn explicit_handles_large_budgets_and_counts() {
        let r = Regulation { period_ps: 1_000_000_000_000, latency_ps: 100_000, cores: 3 };
        let bound = stall_explicit(&r, &[1_000_000, 1_000_000, 1_000_000], 0, 1_000_000_000);
        assert_eq!(bound, 1000 * 900_000_000_000);
        assert_eq!(bound, stall(&r, 1_000_000, 1_000_000_000));
    }

    #[test]
    fn free_accesses_in_the_solo_time_turn_the_bound_into_eq1() {
        let r = Regulation { period_ps: 8 * 2520 * 49_600, ..P4080 };
        for misses in [0, 1, 2519, 2520, 2521, 1_000_000] {
            assert_eq!(
                stall(&r, 2520, misses) + fast_service(&r, 0, misses),
                stall_paper(&r, misses)
            );
        }
    }

    fn regulation() -> impl Strategy<Value = Regulation> {
        (1u64..2_000, 1u64..20, 1u32..9).prop_map(|(period_ps, latency_ps, cores)| Regulation {
            period_ps,
            latency_ps,
            cores,
        })
    }

    proptest! {
        #[test]
        fn stall_is_monotone_and_superadditive(r in regulation(), q in 1u64..60, a in 0u64..500, b in 0u64..500) {
            prop_assert!(stall(&r, q, a) <= stall(&r, q, a + 1));
            prop_assert!(stall(&r, q, a) >= stall_unregulated(&r, a));
            // Jobs charged one by one may be charged too little; only the total is a bound.
            if u64::from(r.cores) * q * r.latency_ps <= r.period_ps {
                prop_assert!(stall(&r, q, a) + stall(&r, q, b) <= stall(&r, q, a + b));
            }
        }

        #[test]
        fn explicit_never_exceeds_the_general_bound(
            r in regulation(), qs in prop::collection::vec(0u64..40, 1..6), misses in 0u64..500
        ) {
            let r = Regulation { cores: u32::try_from(qs.len()).unwrap(), ..r };
            let explicit = stall_explicit(&r, &qs, 0, misses);
            prop_assert!(explicit <= stall(&r, qs[0], misses));
            if qs.iter().all(|&q| q > 0) {
                prop_assert_eq!(explicit, stall(&r, qs[0], misses));
            }
        }
    }
}
