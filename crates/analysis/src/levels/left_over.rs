//! Level B by response times, where [`level_b`](super::level_b) does not apply.
//!
//! # Problem
//! Periods at level B that do not divide one another or are not multiples of the hyperperiod of
//! level A, or sporadic releases. The table of level A is not known yet.
//!
//! # Rule
//! `W = C_i + sum over j < i of ceil(W/T_j)*C_j + sum over A of ceil((W + T_k - C_k)/T_k)*C_k +
//! noise(W)`, B-PETs, the least solution up to `T_i`.
//!
//! # Why it holds
//! Take the level-`i` busy window of B from its first release on. In any interval of length `W`, a
//! task of A that executes for at most `C` somewhere in each `[k*T, (k+1)*T)` takes at most
//! `ceil((W + T - C)/T)*C`. The worst case has one job at the end of its period and the next at the
//! start of theirs. Higher tasks of B released in the window bring `ceil(W/T_j)` jobs each. What is
//! left of `W` is `C_i`. Response times up to the period only, so the window has one job of task
//! `i`. The interference of A is that of a task with release jitter `T - C` and holds for every
//! table; with the table known it can be less.

use super::{LevelsTask, Noise};

/// Steps after which the recurrence counts as endless.
const MAX_STEPS: u32 = 1 << 20;

/// Bound on the response time of `b[i]` under a table of `a`, with B-PETs. `b` in priority order,
/// highest first.
///
/// `None` if it exceeds the period, does not fit in 64 bits, there is no task `i`, a period is
/// zero, or a task of A has a B-PET above its period or its A-PET.
#[must_use]
pub fn level_b_response(
    a: &[LevelsTask],
    b: &[LevelsTask],
    i: usize,
    noise: &Noise,
) -> Option<u64> {
    let (task, higher) = b.get(..=i)?.split_last()?;
    if a.iter().any(|t| t.pets.b > t.period || t.pets.a < t.pets.b)
        || a.iter().chain(b).any(|t| t.period == 0)
    {
        return None;
    }
    let mut window = task.pets.b.max(1);
    for _ in 0..MAX_STEPS {
        let next = demand(a, task, higher, noise, window)?;
        if next > task.period {
            return None;
        }
        if next <= window {
            return Some(window);
        }
        window = next;
    }
    None
}

/// The right side of the rule.
fn demand(
    a: &[LevelsTask],
    task: &LevelsTask,
    higher: &[LevelsTask],
    noise: &Noise,
    window: u64,
) -> Option<u64> {
    let mut sum = task.pets.b.checked_add(noise.within(window)?)?;
    for t in higher {
        sum = sum.checked_add(window.div_ceil(t.period).checked_mul(t.pets.b)?)?;
    }
    sum.checked_add(level_a_within(a, window)?)
}

/// Most time that level A takes in any interval of length `window`, with B-PETs, for every table.
///
/// `None` if it does not fit in 64 bits, or a B-PET is above its period.
#[must_use]
pub fn level_a_within(a: &[LevelsTask], window: u64) -> Option<u64> {
    a.iter().filter(|t| t.pets.b > 0).try_fold(0u64, |sum, t| {
        let reach = window.checked_add(t.period.checked_sub(t.pets.b)?)?;
        sum.checked_add(reach.div_ceil(t.period).checked_mul(t.pets.b)?)
    })
}
