//! What MemGuard's prediction, reclaiming and sharing leave of the bounds of [`mod@crate::stall`].
//!
//! # Problem
//! A core may start a period with what it is expected to use and give the rest of its reservation away; cores that run out take
//! from what was given; when all have used their reservations up, all may go on (policy/include/solocore/memguard.h;
//! Yun et al., RTAS 2013). Whose bound survives, and what is guaranteed to a core that gives?
//!
//! # Rule, derived here
//! **A hard core** (it never gives) has its whole reservation `Q` in each period. The derivation in `stall.rs` uses of the
//! others only that an access waits for one of each: it needs no budgets of theirs. So [`crate::stall::stall`] and
//! [`crate::stall::carry_in`] hold with `Q`, with reclaiming and with either kind of sharing. A shared round that lets the core itself go
//! on only shortens a suspension: a period with `x >= Q` accesses is charged at most `P - x*L <= P - Q*L`, as one with `Q`
//! is, and uses up more of `mu`.
//!
//! **Counting others' accesses**: what is granted and what is in the pool make the sum of the reservations, in each period. So all
//! other cores together make at most `sum over j != i of Q_j` beside a hard core `i`, but a single one of them may make all
//! of it: `sum over j of min(n, Q_j)` is no bound any more, `min over ...` must be taken on the sum. Shared rounds add
//! to the sum; they start when all cores counted have used their reservations, so not before core `i` has used its own, if
//! `cores` counts all. [`most_by_others`].
//!
//! **A core that gives** starts with `max(1, min(predicted, Q))`, and may find the pool empty: others may have taken all. Its bound is
//! that of a core with the least budget `g` that a period can start with. The prediction is
//! `p' = floor((3p + used + 3)/4)`, first `Q`:
//! * `p' >= min(p, used)`, so a core that makes at least `u` accesses in every period has `p >= min(Q, u)` for ever;
//! * `3p + 3 >= 12` for `p >= 3`, so however long it idles, `p >= min(Q, 3)`, and it gets there ([`after_idle`]).
//!
//! Hence `g = min(Q, max(u, 3))`. It does not recover by itself: a core that then wants all of `Q` but is stopped at `g`
//! has `used = g` and `p' = g`. Only what it reclaims raises the prediction; beside cores that always
//! take the pool first, it is held at `g` for good, and a window of `mu` accesses costs up to
//! `floor(mu/g)` suspensions of `P - g*L` in place of `floor(mu/Q)` of `P - Q*L`.
//! So: reclaiming keeps the bound of hard cores and of no others; soft cores get `g` for sure.
//!
//! # Not covered
//! Skid, reservations changed at run time (`g` holds from the change on with the new `Q`), cores whose timers are late.
//! Reads and writes have budgets of their own and either stops the core: give `mu` and `Q` of the kind that does.

use crate::Derivation;
use crate::stall::{self, Regulation};
use serde::{Deserialize, Serialize};

/// Below this the prediction does not fall: the least `p` with `floor((3p + 3)/4) = p` from above.
const PREDICTION_FLOOR: u64 = 3;

/// A core under MemGuard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Accesses per period `Q`.
    pub reservation: u64,
    /// Gives away what it is not expected to use (`SC_PREDICT` without `SC_HARD`).
    pub gives: bool,
    /// `u`: the fewest accesses it makes in any period; 0 if nothing is known.
    #[serde(default)]
    pub least_use: u64,
}

/// The next prediction: three parts of the last one, one of what was used, rounded up.
#[must_use]
pub fn predict(predicted: u64, used: u64) -> u64 {
    let sum = u128::from(predicted) * 3 + u128::from(used) + 3;
    u64::try_from(sum / 4).unwrap_or(u64::MAX)
}

/// With what budget a core that gives starts after so many periods without an access.
#[must_use]
pub fn after_idle(reservation: u64, periods: u64) -> u64 {
    let mut predicted = reservation;
    for _ in 0..periods {
        let next = predict(predicted, 0).min(predicted);
        if next == predicted {
            break;
        }
        predicted = next;
    }
    predicted
}

/// `g`: the accesses that a core has for sure in each period, whatever the others do.
#[must_use]
pub fn guaranteed(core: &Reservation) -> u64 {
    if core.gives { core.reservation.min(core.least_use.max(PREDICTION_FLOOR)) } else { core.reservation }
}

/// Periods until a core whose prediction is `predicted` starts with all of `reservation`, if it makes that many accesses in each
/// of them, which takes a pool that is not empty.
#[must_use]
pub fn recovery_periods(predicted: u64, reservation: u64) -> u64 {
    let (mut predicted, mut periods) = (predicted, 0);
    while predicted < reservation {
        // Rounding up makes each step at least one, and each takes off a quarter: some hundred steps at most.
        predicted = predict(predicted, reservation);
        periods += 1;
    }
    periods
}

/// Stall of `misses` accesses in one busy window under reclaiming, in picoseconds; [`u64::MAX`] for "no bound".
#[must_use]
pub fn stall(r: &Regulation, core: &Reservation, misses: u64) -> u64 {
    stall::stall(r, guaranteed(core), misses)
}

/// What an earlier task on the core can have left, `P - g*L`, in picoseconds: once per busy window.
#[must_use]
pub fn carry_in(r: &Regulation, core: &Reservation) -> u64 {
    stall::carry_in(r, guaranteed(core))
}

/// Most accesses of all other cores together in one period, until core `own` has used its reservation up. `None` if it does
/// not fit, or there is no core `own`.
#[must_use]
pub fn most_by_others(cores: &[Reservation], own: usize) -> Option<u64> {
    let kept = guaranteed(cores.get(own)?);
    let sum = cores.iter().try_fold(0u64, |sum, c| sum.checked_add(c.reservation))?;
    Some(sum - kept)
}

/// How the stall of a window comes about.
#[must_use]
pub fn explain(r: &Regulation, core: &Reservation, misses: u64) -> Derivation {
    let budget = guaranteed(core);
    let total = stall(r, core, misses).saturating_add(carry_in(r, core));
    Derivation::new(
        "stall(g, mu) + P - g*L, g = Q for a core that gives nothing, else min(Q, max(u, 3))",
        "memory/reclaim.rs, with stall.rs",
    )
    .input("P", r.period_ps)
    .input("L", r.latency_ps)
    .input("m", u64::from(r.cores))
    .input("Q", core.reservation)
    .input("gives", core.gives)
    .input("u", core.least_use)
    .input("mu", misses)
    .step("g", budget)
    .step("stall", stall(r, core, misses))
    .step("carry-in", carry_in(r, core))
    .result((total != u64::MAX).then_some(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_never_fall_below_what_is_guaranteed() {
        for reservation in 1..200 {
            let mut idle = reservation;
            for _ in 0..100 {
                idle = predict(idle, 0).min(idle);
            }
            let core = Reservation { reservation, gives: true, least_use: 0 };
            assert_eq!(idle, guaranteed(&core), "{reservation}");
            assert_eq!(after_idle(reservation, 100), idle);
            for used in 0..reservation {
                assert!(predict(reservation, used) >= used.min(reservation));
            }
        }
        assert_eq!(after_idle(100, 1), 75);
        assert_eq!(recovery_periods(3, 100), 14);
        assert!(recovery_periods(0, u64::MAX / 8) < 200);
    }

    #[test]
    fn a_giver_that_is_always_stopped_does_not_recover() {
        let mut predicted = after_idle(100, 1000);
        for _ in 0..1000 {
            predicted = predict(predicted, predicted);
        }
        assert_eq!(predicted, 3);
    }

    #[test]
    fn extremes() {
        let r = Regulation { period_ps: u64::MAX, latency_ps: u64::MAX, cores: u32::MAX };
        let core = Reservation { reservation: u64::MAX, gives: true, least_use: 0 };
        assert_eq!(stall(&r, &core, u64::MAX), u64::MAX);
        assert_eq!(most_by_others(&[core, core], 0), None);
        assert_eq!(most_by_others(&[core], 1), None);
        assert_eq!(predict(u64::MAX, u64::MAX), u64::MAX);
        let _ = explain(&r, &core, 9);
    }
}
