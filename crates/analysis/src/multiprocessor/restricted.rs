//! Tardiness when higher levels take part of each core.
//!
//! # Problem
//! Under MC² global EDF is level C: it gets the time that levels A and B leave of each core, in
//! pieces that it cannot choose.
//!
//! # Rule
//! Core `p` gives level C at least `r_p*d - w_p` in any interval of length `d` ([`CoreSupply`]).
//! Let `R = sum r_p`, `Omega = sum w_p`, and `Y_i` be relative priority points lowered by their
//! minimum. If `U <= R` and
//!
//! `R - (m - 1)*max u_i - (the m - 1 largest u_i) > 0`,
//!
//! each job ends within `Y_i + C_i + x_i` of its release,
//! `x_i = max(0, (s - (R - m + 1)*C_i) / (R - (m - 1)*u_i))`, for any `s` with
//! `s >= sum u_i*max(0, T_i - Y_i) + Omega + (the m - 1 largest of u_j*(x_j + min(Y_j, T_j)))`.
//!
//! With `R = m - sum U_A - sum U_B` the condition is that of MC²:
//! `sum U_A + sum U_B + (m - 1)*h + H < m`.
//!
//! # Source
//! The condition: Leontyev, Anderson: "Generalized tardiness bounds for global multiprocessor
//! scheduling", RTSS 2007, and Leontyev, Chakraborty, Anderson, Real-Time Systems 47, 2011; the MC²
//! papers quote it. The bound is derived here: Let `y` be a job's priority point; count work that
//! precedes it, against the fluid schedule of `tardiness.rs`. Let `t0 <= y` be the last instant at
//! which an available core did not run such work. There fewer than `m` tasks are pending, each
//! runs, and has a lag of at most `u_j*(x_j + min(Y_j, T_j))`. From `t0` to `y + z` available time
//! is wasted only while the job's own task runs, on at most `m - 1` cores. The task's own work left
//! at `y`, the job included, is at most `C_i + u_i*x_i`: with a head job that has `e` left and was
//! due `q*T_i` earlier, `q*T_i <= x_i + C_i - e`, and the work is `e + q*C_i`. So the work left at
//! `y + z` is at most `s - R*z + (m - 1)*(C_i + u_i*x_i)`, `Omega` being charged once for the whole
//! interval; it is 0 for `z = C_i + x_i`.
//!
//! # Not covered
//! The sharper condition with the number of partially available cores in place of `m`: not proved
//! here. On full cores use [`tardiness`](super::tardiness): its bounds are lower.

use super::exact::{ratio_down, ratio_up};
use super::tardiness::{Bounds, PriorityPoint, scaled_points};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// One, in steps of 2^-64.
const ONE: i128 = 1 << 64;

/// Least time that a core gives in any interval of length `d`: `rate/2^64*d - late`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreSupply {
    /// Long-run share in steps of 2^-64, at most 2^64.
    pub rate: u128,
    /// Largest deficit of an interval against that share, in the set's unit.
    pub late: u64,
}

impl CoreSupply {
    /// A core without higher levels.
    #[must_use]
    pub fn full() -> Self {
        Self { rate: 1 << 64, late: 0 }
    }

    /// Supply of a core after tasks of higher levels, if each of their jobs ends within its period
    /// of its release.
    ///
    /// A sporadic task runs for at most `u*d + 2*C*(1 - u)` in any interval of length `d`: the most
    /// relative to `u*d` is two jobs back to back, `2*C` in `2*C`. `None` if they leave no time or
    /// a number does not fit.
    #[must_use]
    pub fn left_by(higher: &[SporadicTask]) -> Option<Self> {
        let (mut rate, mut late) = (1u128 << 64, 0u128);
        for t in higher {
            if t.period == 0 || t.wcet > t.period {
                return None;
            }
            rate = rate.checked_sub(ratio_up(t.wcet, t.period))?;
            let product = u128::from(t.wcet) * u128::from(t.period - t.wcet);
            late = late.checked_add(product.checked_mul(2)?.div_ceil(u128::from(t.period)))?;
        }
        Some(Self { rate, late: u64::try_from(late).ok()? })
    }
}

/// Is tardiness bounded by the rule above? One supply per core; any other number of them is a no.
///
/// # Errors
/// Impossible numbers, or more utilisation than cores.
pub fn bounded(set: &TaskSet, supplies: &[CoreSupply]) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(Level::new(set, supplies, PriorityPoint::Deadline).is_some())
}

/// Response and tardiness bounds with reduced supply. `None` if the condition fails, the number of
/// supplies is not that of cores, or a number leaves 64 bits.
///
/// # Errors
/// As [`bounded`].
pub fn bounds(
    set: &TaskSet,
    supplies: &[CoreSupply],
    points: PriorityPoint,
) -> Result<Option<Bounds>, TaskSetError> {
    super::check(set)?;
    Ok(Level::new(set, supplies, points).and_then(|level| level.bounds(set)))
}

/// As [`bounds`], with the reasons.
///
/// # Errors
/// As [`bounded`].
pub fn bounds_explained(
    set: &TaskSet,
    supplies: &[CoreSupply],
    points: PriorityPoint,
) -> Result<Derivation, TaskSetError> {
    super::check(set)?;
    let mut derivation = Derivation::new(
        "R - (m - 1)*max u_i - (m - 1 largest u_i) > 0; response_i = Y_i + C_i + max(0, (s - (R - \
            m + 1)*C_i) / (R - (m - 1)*u_i))",
        "Leontyev, Anderson 2007; derived in multiprocessor/restricted.rs",
    )
    .input("m", u64::from(set.cores));
    let Some(level) = Level::new(set, supplies, points) else {
        return Ok(derivation.result(crate::derivation::Value::None));
    };
    derivation = derivation
        .step("R", level.rate as f64 / ONE as f64)
        .step("Omega", u64::try_from(level.late).ok());
    let Some(bounds) = level.bounds(set) else { return Ok(derivation) };
    for (i, (response, tardiness)) in bounds.response.iter().zip(&bounds.tardiness).enumerate() {
        derivation = derivation
            .step(format!("response_{i}"), *response)
            .step(format!("tardiness_{i}"), *tardiness);
    }
    Ok(derivation.result(bounds.tardiness.into_iter().max()))
}

/// Level C on its supply; utilisations are rounded up, the supply is rounded down.
struct Level {
    cores: i128,
    rate: i128,
    late: i128,
    shares: Vec<i128>,
    /// Priority points times `m`.
    points: Vec<i128>,
    periods: Vec<i128>,
    wcets: Vec<i128>,
    /// `sum u_i*max(0, T_i - Y_i)`, rounded up to integers.
    head: i128,
}

impl Level {
    /// `None` if the condition is not met.
    fn new(set: &TaskSet, supplies: &[CoreSupply], points: PriorityPoint) -> Option<Self> {
        let m = i128::from(set.cores);
        if u32::try_from(supplies.len()).ok()? != set.cores {
            return None;
        }
        let (mut rate, mut late) = (0i128, 0i128);
        for supply in supplies {
            // More than a whole core is not a supply.
            rate = rate.checked_add(i128::try_from(supply.rate).ok().filter(|r| *r <= ONE)?)?;
            late += i128::from(supply.late);
        }
        let mut shares = Vec::with_capacity(set.tasks.len());
        for t in &set.tasks {
            shares.push(i128::try_from(ratio_up(t.wcet, t.period)).ok()?);
        }
        // Exact at full supply, where the rounded shares may exceed m although U <= m was checked.
        let low: u128 = set.tasks.iter().map(|t| ratio_down(t.wcet, t.period)).sum();
        let fits = shares.iter().sum::<i128>() <= rate
            || (rate == m * ONE && low <= u128::try_from(rate).ok()?);
        let most = shares.iter().copied().max()?;
        if !fits
            || rate - (m - 1).checked_mul(most)? - largest(&mut shares.clone(), set.cores - 1)? <= 0
        {
            return None;
        }
        let points = scaled_points(set, points);
        let mut head = 0i128;
        for ((t, y), share) in set.tasks.iter().zip(&points).zip(&shares) {
            let b = (m * i128::from(t.period) - y).max(0);
            head = head.checked_add(ceil(b.checked_mul(*share)?, m.checked_mul(ONE)?)?)?;
        }
        let periods = set.tasks.iter().map(|t| i128::from(t.period)).collect();
        let wcets = set.tasks.iter().map(|t| i128::from(t.wcet)).collect();
        Some(Self { cores: m, rate, late, shares, points, periods, wcets, head })
    }

    /// `x_i` for `s`, rounded up.
    fn x(&self, i: usize, s: i128) -> Option<i128> {
        let spare = self.rate - (self.cores - 1) * ONE;
        let numerator = s.checked_mul(ONE)?.checked_sub(spare.checked_mul(self.wcets[i])?)?;
        let denominator = self.rate.checked_sub((self.cores - 1).checked_mul(self.shares[i])?)?;
        ceil(numerator.max(0), denominator)
    }

    /// Is `s` at least the right-hand side, which is rounded up?
    fn compliant(&self, s: i128) -> Option<bool> {
        let mut values = Vec::with_capacity(self.shares.len());
        for i in 0..self.shares.len() {
            let y = ceil(self.points[i], self.cores)?.min(self.periods[i]);
            values.push(ceil(self.shares[i].checked_mul(self.x(i, s)?.checked_add(y)?)?, ONE)?);
        }
        let pending = u32::try_from(self.cores - 1).ok()?;
        let right =
            self.head.checked_add(self.late)?.checked_add(largest(&mut values, pending)?)?;
        Some(right <= s)
    }

    /// A small compliant `s`. Rounding keeps the condition true above it except for some units, so
    /// any `s` found is safe.
    fn solve(&self) -> Option<i128> {
        let (mut low, mut high) = (0i128, 1i128);
        while !self.compliant(high)? {
            low = high;
            high = high.checked_mul(2)?;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.compliant(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    fn bounds(&self, set: &TaskSet) -> Option<Bounds> {
        let s = self.solve()?;
        let (mut response, mut tardiness) = (Vec::new(), Vec::new());
        for (i, task) in set.tasks.iter().enumerate() {
            let y = ceil(self.points[i], self.cores)?;
            let bound = y.checked_add(self.x(i, s)?)?.checked_add(self.wcets[i])?;
            let bound = u64::try_from(bound).ok()?;
            response.push(bound);
            tardiness.push(bound.saturating_sub(task.deadline));
        }
        Some(Bounds { response, tardiness })
    }
}

/// `a/b` rounded up, for `a >= 0`, `b > 0`; `None` otherwise.
fn ceil(a: i128, b: i128) -> Option<i128> {
    let (a, b) = (u128::try_from(a).ok()?, u128::try_from(b).ok()?);
    if b == 0 {
        return None;
    }
    i128::try_from(a.div_ceil(b)).ok()
}

/// Sum of the `count` largest, checked.
fn largest(values: &mut [i128], count: u32) -> Option<i128> {
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.iter().take(usize::try_from(count).ok()?).try_fold(0i128, |sum, v| sum.checked_add(*v))
}
