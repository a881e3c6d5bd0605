//! The forced-forward demand test for global EDF.
//!
//! # Problem
//! A job released before a window may have been held back by others. In a schedule that misses,
//! such jobs can be assumed to have progressed at a speed `sigma` before the window, for any
//! `sigma` that no density exceeds.
//!
//! # Rule
//! `FFDBF_i(t)` is the work with deadlines in a window of length `t` that ends with one, where the
//! job over the start, begun `s` earlier, counts `max(0, C_i - sigma*s)`. Schedulable if there is a
//! `sigma >= max C_i/min(D_i, T_i)` such that for all `t`:
//! `sum FFDBF_i(t) <= (m - (m - 1)*sigma)*t`.
//!
//! # Source
//! Baruah, Bonifaci, Marchetti-Spaccamela, Stiller: "Implementation of a speedup-optimal global EDF
//! schedulability test", ECRTS 2009, and "Improved multiprocessor global schedulability analysis",
//! Real-Time Systems 46, 2010. Any deadlines: take for the paper's tardy job the whole backlog of
//! its task since the task was last idle. The `q + 1` jobs in `q*T + D` stay below `sigma` times
//! that length too. Before a window a backlog begun `s` earlier has done `sigma*s`. Going back a
//! further period adds `C - sigma*T <= 0`, so one job before the window is the worst.
//!
//! # Evaluation
//! Exact in integers, without a grid for `sigma`:
//! * Between points `D_i + j*T_i` the sum is convex in `t`, so these points suffice;
//!   `sum FFDBF <= U*t + sum U_i*max(0, T_i - D_i)` bounds them, and as in QPA one goes down from
//!   the bound to the largest point below `sum FFDBF / (m - (m - 1)*sigma)`.
//! * For fixed `t` both sides are piecewise linear in `sigma`, their difference is convex. `sigma`
//!   starts at the largest density; where a point fails, the tangent gives the least `sigma` that
//!   can pass there, or shows that none can. So the least `sigma` that passes is found, or there is
//!   none.
//! * `m = 1`: nothing limits `sigma`; in the limit FFDBF is DBF and the test is the exact one of
//!   EDF.
//!
//! # Not covered
//! `sigma` where `m - (m - 1)*sigma` is within 2^-60 of `U`: the window lengths have no bound
//! there.

use super::bar::quotient_64;
use super::exact::utilization_up;
use super::gfb;
use crate::derivation::{Derivation, Value};
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Most windows that are tried before giving up.
const MAX_STEPS: u32 = 1 << 14;

/// Is the set schedulable by the forced-forward demand test? Any deadlines. Pseudo-polynomial.
///
/// # Errors
/// Impossible numbers, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(gfb::holds(set) || holds(set))
}

/// As [`schedulable`], with the reasons: the `sigma` that passes.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    let verdict = schedulable(set)?;
    let derivation = Derivation::new(
        "for some sigma >= max C_i / min(D_i, T_i) and all t: sum FFDBF_i(t, sigma) <= (m - (m - \
            1) * sigma) * t",
        "Baruah, Bonifaci, Marchetti-Spaccamela, Stiller 2010",
    )
    .input("m", u64::from(set.cores));
    let sigma =
        if gfb::holds(set) { gfb::densest(&set.tasks).map(Speed::density) } else { find(set) };
    let sigma = match sigma {
        Some(Speed { p: _, q: 0 }) => Value::from("unlimited"),
        Some(Speed { p, q }) => Value::from(format!("{p}/{q}")),
        None => Value::None,
    };
    Ok(derivation.step("sigma", sigma).result(verdict))
}

/// The verdict, for a set that was checked and that the density test rejects.
pub(super) fn holds(set: &TaskSet) -> bool {
    find(set).is_some()
}

/// `sigma = p/q`; `q = 0` stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Speed {
    p: i128,
    q: i128,
}

impl Speed {
    fn density(t: &SporadicTask) -> Self {
        Self::new(i128::from(t.wcet), i128::from(t.constrained_deadline()))
    }

    fn new(p: i128, q: i128) -> Self {
        let (mut a, mut b) = (p.unsigned_abs(), q.unsigned_abs());
        while b > 0 {
            (a, b) = (b, a % b);
        }
        match i128::try_from(a) {
            Ok(g) if g > 1 => Self { p: p / g, q: q / g },
            _ => Self { p, q },
        }
    }

    /// `(m - (m - 1)*sigma) * q`.
    fn capacity(self, cores: u32) -> Option<i128> {
        if self.q == 0 {
            return Some(1);
        }
        i128::from(cores)
            .checked_mul(self.q)?
            .checked_sub(i128::from(cores - 1).checked_mul(self.p)?)
    }
}

/// The least `sigma` that passes.
fn find(set: &TaskSet) -> Option<Speed> {
    // At D >= T for all tasks, FFDBF <= U*t, so only t -> infinity matters, which the density test
    // has decided.
    if set.tasks.iter().all(|t| t.deadline >= t.period)
        || set.tasks.iter().any(|t| t.wcet > t.deadline)
    {
        return None;
    }
    let mut speed = if set.cores == 1 {
        Speed { p: 1, q: 0 }
    } else {
        Speed::density(gfb::densest(&set.tasks)?)
    };
    let mut steps = 0;
    'speeds: while steps < MAX_STEPS {
        let mut t = largest_point(&set.tasks, range(set, speed)?);
        while let Some(point) = t {
            steps += 1;
            if steps >= MAX_STEPS {
                return None;
            }
            match Line::at(set, point, speed)?.judge(set.cores, point, speed)? {
                Judgement::Passes { below } => t = largest_point(&set.tasks, below),
                Judgement::Raise(faster) => {
                    speed = faster;
                    continue 'speeds;
                }
            }
        }
        return Some(speed);
    }
    None
}

/// Window length beyond which demand cannot exceed capacity.
fn range(set: &TaskSet, speed: Speed) -> Option<u64> {
    let capacity = u128::try_from(speed.capacity(set.cores)?).ok()?;
    let per = u128::try_from(speed.q.max(1)).ok()?;
    // Capacity in 2^-64 steps, rounded down; at most m.
    let whole = (capacity / per).checked_mul(1 << 64)?;
    let rest = capacity % per;
    let fraction = match rest.checked_mul(1 << 64) {
        Some(scaled) => scaled / per,
        None => (rest << rest.leading_zeros()) / ((per >> (64 - rest.leading_zeros())) + 1),
    };
    let spare = (whole + fraction).checked_sub(utilization_up(&set.tasks))?;
    let late = |t: &SporadicTask| {
        (u128::from(t.wcet) * u128::from(t.period.saturating_sub(t.deadline)))
            .div_ceil(u128::from(t.period))
    };
    quotient_64(set.tasks.iter().map(late).sum(), spare)
}

/// Largest `D_i + j*T_i` that is at most `t`.
fn largest_point(tasks: &[SporadicTask], t: u64) -> Option<u64> {
    tasks
        .iter()
        .filter(|task| task.deadline <= t)
        .map(|task| t - (t - task.deadline) % task.period)
        .max()
}

/// `sum FFDBF(t, sigma) = work - sigma*ahead` near one `sigma`.
struct Line {
    work: i128,
    ahead: i128,
}

enum Judgement {
    /// No violation at this point, nor at any above `below`.
    Passes { below: u64 },
    /// The least `sigma` that the tangent at this point allows.
    Raise(Speed),
}

impl Line {
    fn at(set: &TaskSet, t: u64, speed: Speed) -> Option<Self> {
        let (mut work, mut ahead) = (0i128, 0i128);
        for task in &set.tasks {
            let wcet = i128::from(task.wcet);
            let (jobs, next) = match t.checked_sub(task.deadline) {
                Some(after) => {
                    (i128::from(after / task.period) + 1, task.period - after % task.period)
                }
                None => (0, task.deadline - t),
            };
            work = work.checked_add(jobs * wcet)?;
            let next = i128::from(next);
            if speed.q > 0 && wcet.checked_mul(speed.q)? > next.checked_mul(speed.p)? {
                work = work.checked_add(wcet)?;
                ahead = ahead.checked_add(next)?;
            }
        }
        Some(Self { work, ahead })
    }

    /// `None` if no `sigma` passes, or numbers leave 128 bits.
    fn judge(&self, cores: u32, t: u64, speed: Speed) -> Option<Judgement> {
        let (t, per) = (i128::from(t), speed.q.max(1));
        let capacity = speed.capacity(cores)?;
        let ahead = if speed.q > 0 { self.ahead.checked_mul(speed.p)? } else { 0 };
        let demand = self.work.checked_mul(per)?.checked_sub(ahead)?;
        if demand <= capacity.checked_mul(t)? {
            // The largest length below which the demand at t might still exceed the capacity:
            // capacity * length < demand.
            let below = u64::try_from((demand - 1).max(0) / capacity).ok()?;
            return Some(Judgement::Passes { below });
        }
        // work - sigma*ahead <= m*t - (m - 1)*sigma*t  iff sigma*(ahead - (m - 1)*t) >= work - m*t.
        let gain = self.ahead.checked_sub(i128::from(cores - 1).checked_mul(t)?)?;
        if gain <= 0 || speed.q == 0 {
            return None;
        }
        Some(Judgement::Raise(Speed::new(self.work - i128::from(cores).checked_mul(t)?, gain)))
    }
}
