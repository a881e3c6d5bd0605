//! Earliest deadline first on one core: the exact test, on a whole core and on any supply.
//!
//! # Problem
//! Preemptive EDF meets all deadlines of sporadic tasks on one core iff in no window the work that
//! is released and due in it exceeds the supply (Baruah, Mok, Rosier, RTSS 1990): `dbf(t) <=
//! sbf(t)` for all `t`, with `dbf(t) = sum of max(0, floor((t - D_i)/T_i) + 1)*C_i`. There are too
//! many `t` to try all.
//!
//! # Rule
//! Only `t` up to a horizon matter, the least of those below. Quick processor-demand analysis
//! (Zhang and Burns, "Schedulability analysis for real-time systems with EDF scheduling", IEEE ToC
//! 2009, section 4) goes down from there: if `dbf(t) > sbf(t)`, no. Otherwise let `t'` be the
//! shortest window that supplies `dbf(t)`: all windows between the two have at most that demand and
//! at least that supply. Go on with `t'`, or if that is `t` with the next deadline below. Zhang and
//! Burns have `sbf(t) = t`; the argument only needs `sbf` to be monotone.
//!
//! Horizons:
//! * the longest busy window `L`, least `t` with `sbf(t) >= sum of ceil(t/T_i)*C_i`: All work
//!   released in the first `L` of a busy period is done by its end, so that no busy period that
//!   ends in a miss is longer. Holds at `U = rate` too;
//! * for `U < rate`, with `sbf(t) >= rate*(t - d)`: a `t` with too much demand is below
//!   `max(D_i - T_i)`, or below `(rate*d + sum of (T_i - D_i)*U_i)/(rate - U)`. Rounded up in 2^-64
//!   steps;
//! * `H + max(d, D_i - T_i)`, `H` a multiple of all periods, the supply's included. A later `t` has
//!   too much demand only if `t - H` has, as in each `H` from there on `dbf` grows by `U*H`, and
//!   `sbf` by `rate*H`, which is no less.
//!
//! If `D_i >= T_i` for all tasks, `U <= 1` is enough on a whole core.
//!
//! # Not covered
//! Response times under EDF; blocking; non-preemptive EDF.

use super::supply::{Dedicated, Supply};
use super::{MAX_STEPS, fits_supply};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Steps in search of the longest busy window, which is given up in favour of another horizon.
const BUSY_STEPS: u64 = 1 << 12;

/// Result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub schedulable: bool,
    /// Largest relevant window, in the unit of the tasks; 0 if none had to be tested.
    pub horizon: u64,
    /// Windows tested.
    pub steps: u64,
    /// The window that decided: one with too much demand, or the last one tested.
    pub window: u64,
    /// Its demand; saturates at [`u64::MAX`].
    pub demand: u64,
}

/// Work released and due within a window of this length.
///
/// Each term is at most `window + C`, so that fewer than 2^63 tasks cannot exceed 128 bits.
#[must_use]
pub fn demand(tasks: &[SporadicTask], window: u64) -> u128 {
    let term = |t: &SporadicTask| -> u128 {
        let Some(span) = window.checked_sub(t.deadline) else { return 0 };
        let jobs = span.checked_div(t.period).map_or(u128::MAX >> 64, u128::from) + 1;
        jobs * u128::from(t.wcet)
    };
    tasks.iter().map(term).sum()
}

/// The largest deadline of a job below `window`, all tasks released at 0.
fn deadline_below(tasks: &[SporadicTask], window: u64) -> Option<u64> {
    let last = |t: &SporadicTask| {
        let span = window.checked_sub(1)?.checked_sub(t.deadline)?;
        Some(span / t.period * t.period + t.deadline)
    };
    tasks.iter().filter_map(last).max()
}

/// Longest busy window, if it is found in a few steps and fits in 64 bits.
fn busy_window<S: Supply>(supply: &S, tasks: &[SporadicTask]) -> Option<u64> {
    let mut window = 1u64;
    for _ in 0..BUSY_STEPS {
        let work: u128 =
            tasks.iter().map(|t| u128::from(window.div_ceil(t.period)) * u128::from(t.wcet)).sum();
        let end = supply.window_for(u64::try_from(work).ok()?)?;
        if end <= window {
            return Some(window);
        }
        window = end;
    }
    None
}

/// `ceil(a*b/c)`, if the product fits.
fn scaled_up(a: u128, b: u128, c: u128) -> Option<u128> {
    Some(a.checked_mul(b)?.div_ceil(c))
}

/// The horizon of utilisations below the rate. `None` too if the numbers are too large for it.
fn slack_horizon<S: Supply>(supply: &S, tasks: &[SporadicTask]) -> Option<u64> {
    let (rate, out_of) = supply.rate();
    let (rate, out_of, one) = (u128::from(rate), u128::from(out_of), 1u128 << 64);
    let (mut spare, mut above, mut below) =
        (rate.checked_mul(one)?.checked_div(out_of)?, 0u128, 0u128);
    above = above.checked_add(scaled_up(u128::from(supply.delay()), rate, out_of)?)?;
    let mut longest = 0;
    for t in tasks {
        let (wcet, period) = (u128::from(t.wcet), u128::from(t.period));
        spare = spare.checked_sub(scaled_up(wcet, one, period)?)?;
        if t.period >= t.deadline {
            above =
                above.checked_add(scaled_up(u128::from(t.period - t.deadline), wcet, period)?)?;
        } else {
            below = below.checked_add(u128::from(t.deadline - t.period) * wcet / period)?;
            longest = longest.max(t.deadline - t.period);
        }
    }
    if spare == 0 {
        return None;
    }
    let horizon = scaled_up(above.saturating_sub(below), one, spare)?;
    u64::try_from(horizon).ok().map(|h| h.max(longest))
}

/// The hyperperiod of tasks and supply, and the time from which on both repeat with it.
fn periodic_horizon<S: Supply>(supply: &S, tasks: &[SporadicTask]) -> Option<u64> {
    let hyperperiod = tasks
        .iter()
        .try_fold(supply.rate().1, |sum, t| (sum / gcd(sum, t.period)).checked_mul(t.period))?;
    let excess = tasks.iter().map(|t| t.deadline.saturating_sub(t.period)).max()?;
    hyperperiod.checked_add(excess.max(supply.delay()))
}

/// Greatest common divisor; of 0 and 0 it is 0.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The test on a supply. Exact for supplies with an attained bound; on others a yes is still safe.
///
/// # Errors
/// A task with a zero, or [`TaskSetError::Undecided`]: no horizon fits in 64 bits, or more than
/// [`MAX_STEPS`] windows. Utilisation above the rate of the supply is not an error, but a no.
pub fn test<S: Supply>(supply: &S, tasks: &[SporadicTask]) -> Result<Outcome, TaskSetError> {
    if tasks.is_empty() {
        return Err(TaskSetError::NoTasks);
    }
    for (task, t) in tasks.iter().enumerate() {
        for (what, value) in [("wcet", t.wcet), ("period", t.period), ("deadline", t.deadline)] {
            if value == 0 {
                return Err(TaskSetError::Zero { task, what });
            }
        }
    }
    let no = Outcome { schedulable: false, horizon: 0, steps: 0, window: 0, demand: 0 };
    if !fits_supply(supply, tasks) {
        return Ok(no);
    }
    let whole = supply.rate().0 == supply.rate().1 && supply.delay() == 0;
    if whole && tasks.iter().all(|t| t.deadline >= t.period) {
        return Ok(Outcome { schedulable: true, ..no });
    }
    let slack = slack_horizon(supply, tasks);
    let horizon = [slack, busy_window(supply, tasks), periodic_horizon(supply, tasks)]
        .into_iter()
        .flatten()
        .min();
    descend(supply, tasks, horizon.ok_or(TaskSetError::Undecided { steps: BUSY_STEPS })?)
}

/// Quick processor-demand analysis from the horizon down.
fn descend<S: Supply>(
    supply: &S,
    tasks: &[SporadicTask],
    horizon: u64,
) -> Result<Outcome, TaskSetError> {
    let first = tasks.iter().map(|t| t.deadline).min().unwrap_or(0);
    let mut outcome = Outcome { schedulable: true, horizon, steps: 0, window: 0, demand: 0 };
    // Deadlines up to and including the horizon.
    let start = horizon.checked_add(1).map_or(Some(horizon), |end| deadline_below(tasks, end));
    let mut next = start;
    while let Some(window) = next.filter(|w| *w >= first) {
        outcome.steps += 1;
        if outcome.steps > MAX_STEPS {
            return Err(TaskSetError::Undecided { steps: MAX_STEPS });
        }
        let demand = u64::try_from(demand(tasks, window)).unwrap_or(u64::MAX);
        (outcome.window, outcome.demand) = (window, demand);
        if demand > supply.supplied(window) {
            return Ok(Outcome { schedulable: false, ..outcome });
        }
        next = match supply.window_for(demand) {
            Some(shorter) if shorter < window => Some(shorter),
            _ => deadline_below(tasks, window),
        };
    }
    Ok(outcome)
}

/// The exact test on a whole core; deadlines may exceed periods.
///
/// # Errors
/// See [`check`](super::check) and [`test`].
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(test(&Dedicated, &set.tasks)?.schedulable)
}

/// [`schedulable`] with its reasons.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    super::check(set)?;
    let outcome = test(&Dedicated, &set.tasks)?;
    let rule = "schedulable iff dbf(t) <= t for all t up to the horizon, dbf(t) = sum of (floor((t \
        - D_i)/T_i) + 1)*C_i";
    let mut d = Derivation::new(rule, "Zhang and Burns, IEEE ToC 2009, section 4");
    for (i, t) in set.tasks.iter().enumerate() {
        d = d
            .input(format!("C_{i}"), t.wcet)
            .input(format!("T_{i}"), t.period)
            .input(format!("D_{i}"), t.deadline);
    }
    let utilization: f64 = set.tasks.iter().map(SporadicTask::utilization).sum();
    d = d.step("U", utilization);
    d = if outcome.steps == 0 {
        d.step("D_i >= T_i for all i", true)
    } else {
        d.step("horizon", outcome.horizon)
            .step("windows looked at", outcome.steps)
            .step("t", outcome.window)
            .step("dbf(t)", outcome.demand)
    };
    Ok(d.result(outcome.schedulable))
}
