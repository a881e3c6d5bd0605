//! Level C: global EDF on the time that levels A and B leave, with bounded tardiness.
//!
//! # Problem
//! Sporadic tasks with implicit deadlines run under global EDF on `m` cores. Core `k` is taken away
//! at times by the tasks of A and B bound to it. May deadlines be missed by a bounded time only,
//! and by how much at most?
//!
//! # Rule
//! All with C-PETs. `U_k` is the utilization of A and B on core `k`, `U_C` that of level C, `h` its
//! largest, `H` the sum of its `min(m-1, n)` largest. Two conditions, [`level_c`]:
//! 1. `U_C + sum of U_k <= m`;
//! 2. `sum of U_k + f*h + H < m`, with `f = m - 1` (analysis notes, after Leontyev and Anderson) or
//!    `f = max(F-1, 0)`, `F` the number of cores that have tasks of A or B ([`Form::Sharp`]).
//!
//! Then every job of task `i` ends at most `x + C_i` after its deadline ([`tardiness`]):
//!
//! `x = (B + K + f*C_max) / (m - sum of U_k - H - f*h)`, `f = max(F-1, 0)`
//!
//! `K` is the sum of the `min(m-1, n)` largest `C`, `C_max` the largest, and `B` the sum over A and
//! B of `2*C_j*(1 - u_j)`.
//!
//! # Derivation
//! After Devi and Anderson, "Tardiness bounds under global EDF scheduling on a multiprocessor"
//! (2005), with supply taken away.
//!
//! *Supply.* A task that executes for at most `C` somewhere in each `[k*T, (k+1)*T)` takes at most
//! `u*t + 2*C*(1-u)` of any interval of length `t` (reached by two jobs back to back at `t = 2*C`).
//! So all cores together supply at least `A*t - B` with `A = m - sum of U_k`.
//!
//! *Induction.* Let job `J` of task `l` have deadline `d`; suppose all jobs with earlier deadlines
//! keep the bound. `S` are the jobs with deadlines up to `d`. The lag of a task is its demand in
//! the fluid schedule, at rate `c/T` for a job of actual cost `c`, less the service that it has
//! received. At any `t <= d`, a task with a pending job in `S` has lag at most `u*x + C`: if the
//! job's deadline is at or after `t` the lag is at most `C`. Otherwise the job still needs some `r
//! <= C` and by induction gets it within `x + C` of its deadline, so the lag is at most `r + u*(x +
//! C - r) <= u*x + C`. A task without one has lag at most 0.
//!
//! *Before `d`.* Let `t0 <= d` end the last instant at which an available core did not execute `S`;
//! fewer than `m` tasks were pending then, so the lags sum to at most `x*H + K`. From `t0` to `d`
//! all supply goes to `S`, and demand grows by at most `U_C <= A` per unit.
//!
//! *After `d`.* No more jobs of `S` are released, so the number `p` of tasks pending in `S` never
//! grows. Let `t1` be the first instant with `p <= m - F`. From `t1` on there is a core that is
//! always available for each pending task, so task `l` executes without a break. If `t1 <= d + x`,
//! `J` starts no later than `d + x`, because its predecessor ends by `d - T_l + x + C_l <= d + x`,
//! and is done by `d + x + C_l`. If `t1 > d + x`: at each instant of `[d, d + x)` either all
//! available cores execute `S`, or task `l` executes and at most `m - p <= F - 1` of them do not.
//! Task `l` executes for at most its lag at `d`, `u_l*x + C_l`. So of `[t0, d + x)` at most `B +
//! f*(h*x + C_max)` of supply is lost, and the work pending at `d + x` is at most `x*H + K + B +
//! f*(h*x + C_max) - A*x`, which is 0 for the `x` above: `J` is done by `d + x`. This also proves
//! condition 2 in its sharp form, and so in the other.
//!
//! The scheduler must be truly global: whenever a core is available or taken away, the pending jobs
//! with the earliest deadlines run on the available cores, also after a migration.
//!
//! Jobs of A and B must stay in their periods with C-PETs. With harmonic periods they do, by the
//! argument of level B, if level A has passed and their C-PETs fit each core: [`level_c`] checks
//! `U_k <= 1`.
//!
//! # Not covered
//! Scheduler sections and interrupts act through inflated costs only
//! ([`overheads`](super::overheads)). Restricted affinities. For cores without A and B the bound is
//! that of Devi and Anderson but for their `-C_min` in the numerator.

use super::exact::{Fraction, compare_sum};
use super::{AnalysedCore, Level, LevelsTask};
use crate::Derivation;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Factor `f` of condition 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `f = m - 1`.
    Coarse,
    /// `f = max(F - 1, 0)`.
    #[default]
    Sharp,
}

/// Outcome for level C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelCVerdict {
    /// Tardiness is bounded.
    Bounded,
    /// The task has a period of zero, or a C-PET above its period; or there are no cores (task 0).
    Invalid {
        /// Index at level C.
        task: usize,
    },
    /// Condition 1 fails, or `U_k > 1` on a core, or a task of A or B has a period of zero.
    Overload,
    /// Condition 2 fails; tardiness may be bounded all the same.
    Unproved,
}

/// A bound on tardiness: a job of task `i` ends at most `x + C_i` after its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tardiness {
    /// The part common to all tasks, in the unit of the tasks.
    pub x: u64,
}

impl Tardiness {
    /// The bound for one task. `None` if it does not fit in 64 bits.
    #[must_use]
    pub fn of(&self, task: &LevelsTask) -> Option<u64> {
        self.x.checked_add(task.pets.c)
    }
}

/// The tasks of A and B of all cores.
fn bound<'a>(cores: &'a [AnalysedCore<'a>]) -> impl Iterator<Item = &'a LevelsTask> + Clone {
    cores.iter().flat_map(|core| core.a.iter().chain(core.b))
}

fn fraction(task: &LevelsTask) -> Fraction {
    Fraction { cost: task.pets.at(Level::C), period: task.period, times: 1 }
}

/// Compares utilizations of level C. Periods are not zero.
fn by_utilization(one: &LevelsTask, other: &LevelsTask) -> Ordering {
    let left = u128::from(one.pets.c) * u128::from(other.period);
    left.cmp(&(u128::from(other.pets.c) * u128::from(one.period)))
}

/// Tasks from the largest on, without sorting: as many passes as items taken.
#[derive(Clone)]
struct Largest<'a> {
    tasks: &'a [LevelsTask],
    order: fn(&LevelsTask, &LevelsTask) -> Ordering,
    last: Option<usize>,
}

impl<'a> Iterator for Largest<'a> {
    type Item = &'a LevelsTask;

    fn next(&mut self) -> Option<&'a LevelsTask> {
        // Descending, ties by index.
        let before =
            |i: usize, j: usize| (self.order)(&self.tasks[j], &self.tasks[i]).then(i.cmp(&j));
        let rest = (0..self.tasks.len())
            .filter(|&i| self.last.is_none_or(|last| before(last, i) == Ordering::Less));
        self.last = Some(rest.min_by(|&i, &j| before(i, j))?);
        self.last.map(|i| &self.tasks[i])
    }
}

/// The `m - 1` largest tasks.
fn largest(
    tasks: &[LevelsTask],
    m: u32,
    order: fn(&LevelsTask, &LevelsTask) -> Ordering,
) -> impl Iterator<Item = &LevelsTask> + Clone {
    let number = usize::try_from(m.saturating_sub(1)).unwrap_or(usize::MAX);
    Largest { tasks, order, last: None }.take(number)
}

/// `max(F - 1, 0)`.
fn sharp_factor(cores: &[AnalysedCore]) -> u32 {
    let partial =
        cores.iter().filter(|core| core.a.iter().chain(core.b).any(|task| task.pets.c > 0)).count();
    u32::try_from(partial.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Is the tardiness of level C bounded? Exact: no rounding.
#[must_use]
pub fn level_c(cores: &[AnalysedCore], c: &[LevelsTask], form: Form) -> LevelCVerdict {
    let m = match u32::try_from(cores.len()) {
        Ok(m) if m > 0 => m,
        _ => return LevelCVerdict::Invalid { task: 0 },
    };
    if let Some(task) = c.iter().position(|task| task.period == 0 || task.pets.c > task.period) {
        return LevelCVerdict::Invalid { task };
    }
    let fits = |core: &AnalysedCore| compare_sum(core.a.iter().chain(core.b).map(fraction), 1);
    if cores.iter().any(|core| matches!(fits(core), None | Some(Ordering::Greater))) {
        return LevelCVerdict::Overload;
    }
    let higher = bound(cores).map(fraction);
    match compare_sum(higher.clone().chain(c.iter().map(fraction)), m) {
        None | Some(Ordering::Greater) => return LevelCVerdict::Overload,
        Some(Ordering::Equal | Ordering::Less) => {}
    }
    let times = match form {
        Form::Coarse => m - 1,
        Form::Sharp => sharp_factor(cores),
    };
    let top = c
        .iter()
        .max_by(|one, other| by_utilization(one, other))
        .map(|task| Fraction { times, ..fraction(task) });
    let heavy = largest(c, m, by_utilization).map(fraction);
    match compare_sum(higher.chain(heavy).chain(top), m) {
        Some(Ordering::Less) => LevelCVerdict::Bounded,
        // Nothing runs at level C, so nothing is late.
        _ if c.iter().all(|task| task.pets.c == 0) => LevelCVerdict::Bounded,
        _ => LevelCVerdict::Unproved,
    }
}

/// Steps of a utilization in [`tardiness`].
const SHIFT: u32 = 48;

/// `u` in steps of 2^-48, rounded up.
fn scaled(task: &LevelsTask) -> u128 {
    (u128::from(task.pets.c) << SHIFT).div_ceil(u128::from(task.period))
}

/// Intermediate values of [`tardiness`]; utilizations in steps of 2^-48, rounded up.
struct Parts {
    taken: u128,
    burst: u128,
    heavy: u128,
    costs: u128,
    factor: u32,
    top: u128,
    top_cost: u64,
}

impl Parts {
    /// `None` if a sum does not fit in 128 bits. Periods are not zero.
    fn of(cores: &[AnalysedCore], c: &[LevelsTask]) -> Option<Self> {
        let m = u32::try_from(cores.len()).ok()?;
        let (mut taken, mut burst) = (0u128, 0u128);
        for task in bound(cores).filter(|task| task.pets.c > 0) {
            let (cost, period) = (u128::from(task.pets.c), u128::from(task.period));
            taken = taken.checked_add(scaled(task))?;
            burst = burst.checked_add((2 * cost * period.checked_sub(cost)?).div_ceil(period))?;
        }
        Some(Self {
            taken,
            burst,
            heavy: largest(c, m, by_utilization).map(scaled).sum(),
            costs: largest(c, m, |one, other| one.pets.c.cmp(&other.pets.c))
                .map(|task| u128::from(task.pets.c))
                .sum(),
            factor: sharp_factor(cores),
            top: c.iter().map(scaled).max().unwrap_or(0),
            top_cost: c.iter().map(|task| task.pets.c).max().unwrap_or(0),
        })
    }

    /// `x`, rounded up.
    fn x(&self, cores: usize) -> Option<u64> {
        let factor = u128::from(self.factor);
        let used =
            self.taken.checked_add(self.heavy)?.checked_add(factor.checked_mul(self.top)?)?;
        let left =
            (u128::try_from(cores).ok()? << SHIFT).checked_sub(used).filter(|left| *left > 0)?;
        let late =
            self.burst.checked_add(self.costs)?.checked_add(factor * u128::from(self.top_cost))?;
        u64::try_from(late.checked_mul(1 << SHIFT)?.div_ceil(left)).ok()
    }
}

/// A bound on the tardiness of level C, rounded up.
///
/// `None` if [`level_c`] does not find it bounded in its sharp form, or the bound does not fit.
/// With condition 2 true by less than about `n*2^-48`, it may be `None` all the same.
#[must_use]
pub fn tardiness(cores: &[AnalysedCore], c: &[LevelsTask]) -> Option<Tardiness> {
    if level_c(cores, c, Form::Sharp) != LevelCVerdict::Bounded {
        return None;
    }
    if c.iter().all(|task| task.pets.c == 0) {
        return Some(Tardiness { x: 0 });
    }
    Parts::of(cores, c)?.x(cores.len()).map(|x| Tardiness { x })
}

/// [`level_c`] in its sharp form and [`tardiness`], with reasons. Ratios are for reading.
#[must_use]
pub fn explain_level_c(cores: &[AnalysedCore], c: &[LevelsTask]) -> Derivation {
    let verdict = level_c(cores, c, Form::Sharp);
    let mut derivation = Derivation::new(
        "U_C + sum U_k <= m and sum U_k + f*h + H < m; tardiness_i <= x + C_i, x = (B + K + \
            f*C_max)/(m - sum U_k - H - f*h)",
        "analysis::levels::level_c, after Devi and Anderson 2005 and Leontyev and Anderson",
    )
    .input("m", u64::try_from(cores.len()).ok())
    .input("tasks of level C", u64::try_from(c.len()).ok())
    .step("verdict", format!("{verdict:?}"));
    let valid = !matches!(verdict, LevelCVerdict::Invalid { .. })
        && bound(cores).all(|task| task.period > 0);
    if let Some(parts) = valid.then(|| Parts::of(cores, c)).flatten() {
        let ratio = |steps: u128| steps as f64 / (1u64 << SHIFT) as f64;
        derivation = derivation
            .step("sum U_k", ratio(parts.taken))
            .step("U_C", ratio(c.iter().map(scaled).sum()))
            .step("f", u64::from(parts.factor))
            .step("h", ratio(parts.top))
            .step("H", ratio(parts.heavy))
            .step("B", u64::try_from(parts.burst).ok())
            .step("K", u64::try_from(parts.costs).ok())
            .step("C_max", parts.top_cost);
    }
    let x = tardiness(cores, c).map(|bound| bound.x);
    derivation.step("x", x).result(verdict == LevelCVerdict::Bounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Pets;

    /// Largest execution of a task in an interval, by brute force over its position: late in its
    /// first period, early in the next ones.
    #[test]
    fn the_burst_is_what_back_to_back_jobs_take_beyond_their_share() {
        for period in 1..12u64 {
            for cost in 1..=period {
                let task = LevelsTask { period, pets: Pets { a: cost, b: cost, c: cost } };
                let cores = [AnalysedCore { b: &[task], ..AnalysedCore::default() }];
                let parts = Parts::of(&cores, &[]).unwrap();
                let busy = |at: u64| {
                    at % period < cost && at >= period || (period - cost..period).contains(&at)
                };
                let taken =
                    |length: u64| (0..length).filter(|at| busy(period - cost + at)).count() as u64;
                // In parts of 1/period.
                let most = (0..8 * period)
                    .map(|length| (taken(length) * period).saturating_sub(cost * length))
                    .max();
                assert_eq!(
                    parts.burst,
                    u128::from(most.unwrap().div_ceil(period)),
                    "{cost} of {period}"
                );
            }
        }
    }
}
