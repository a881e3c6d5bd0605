//! Levels A and B on one core.
//!
//! # Problem
//! Level A runs from a table, level B below it by rate. Are the deadlines of both certain?
//!
//! # Rule
//! The paper, section 2: tasks of A and B start at 0 and have harmonic periods with implicit
//! deadlines; the periods of B are multiples of the hyperperiod of A.
//! * Level A, with A-PETs: `sum C/T <= 1`. Then EDF meets all deadlines from 0 on (Liu and Layland
//!   1973), and its schedule of one hyperperiod is a table. Periods need not be harmonic for that;
//!   the table of others has the length of their least common multiple. The caller decides by
//!   [`hyperperiod`] whether the table can be built in practice.
//! * Level B, with B-PETs for both: `sum over A + sum over B of C/T <= 1`.
//!
//! # Why the second suffices
//! Let `i` be a task of level B, its job has the window `[k*T_i, (k+1)*T_i)`. `T_i` is a multiple
//! of the period of every task of A and of every task of B with a higher priority, and all started
//! at 0. So exactly `T_i/T_j` jobs of each lie in the window with release and deadline. None
//! reaches into it (those of A as they keep to their table, those of B by induction over priorities
//! and windows). While job `i` is not done, the core is never idle; so it is done when
//! `D_i = sum over A, and over B up to i, of C_j*T_i/T_j` has been served. `D_i <= T_i` for all `i`
//! is that the utilization up to `i` is at most 1. Where in the hyperperiod the table puts a job
//! does not matter. The condition is also necessary, for periodic tasks.
//!
//! Interrupts, the scheduler's own sections and latencies ([`Noise`]) make it
//! `D_i + noise(T_i) <= T_i` for each `i`. They do not scale with the window, so that the longest
//! window alone is not enough.
//!
//! # Not covered
//! Tables that must not split a job: deciding on those is bin packing. Sporadic releases, offsets
//! and other periods at level B: use [`level_b_response`](super::level_b_response).

use super::{Level, LevelsTask, Noise};
use serde::{Deserialize, Serialize};

/// One core: its tasks of levels A and B (of B by period, shortest first), and the time that it
/// loses otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnalysedCore<'a> {
    /// Tasks of level A.
    pub a: &'a [LevelsTask],
    /// Tasks of level B.
    pub b: &'a [LevelsTask],
    /// Time lost in each window of level B, beyond the PETs.
    pub noise: Noise<'a>,
}

/// Outcome for a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreVerdict {
    /// All deadlines are met.
    Schedulable,
    /// A task has a period of zero, or one of level A a PET of level B or C that does not fit its
    /// slots.
    Invalid {
        /// Level of the task.
        level: Level,
        /// Its index at its level.
        task: usize,
    },
    /// The period of a task is not a multiple of the one before (or, the first of level B, of the
    /// hyperperiod of level A). Or the tasks of level B are not in the order of their periods, or
    /// (level A, task 0) the hyperperiod does not fit in 64 bits. This test gives no answer then.
    NotHarmonic {
        /// Level of the task.
        level: Level,
        /// Its index at its level.
        task: usize,
    },
    /// More demand than time.
    Overload {
        /// The level whose PETs were assumed.
        level: Level,
        /// At level B, the first task with a window that is too short.
        task: usize,
    },
}

/// Least common multiple of the periods, the length of the table; 1 without tasks. `None` if it
/// does not fit in 64 bits, or a period is zero.
#[must_use]
pub fn hyperperiod(tasks: &[LevelsTask]) -> Option<u64> {
    tasks.iter().try_fold(1u64, |all, task| {
        if task.period == 0 {
            return None;
        }
        // The usual case needs one division.
        if task.period.is_multiple_of(all) {
            return Some(task.period);
        }
        let (mut a, mut b) = (all, task.period);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        (all / a).checked_mul(task.period)
    })
}

/// Level A of one core: is there a table in which every job fits between its release and its
/// deadline, with A-PETs?
///
/// Overheads belong in the PETs: a slot must be long enough in itself
/// ([`overheads`](super::overheads)).
#[must_use]
pub fn level_a(a: &[LevelsTask]) -> CoreVerdict {
    if let Some(verdict) = invalid(a, &[]) {
        return verdict;
    }
    let Some(length) = hyperperiod(a) else {
        return CoreVerdict::NotHarmonic { level: Level::A, task: 0 };
    };
    // At most 2^128 only if costs exceed periods by far: then the sum stays at its largest value,
    // above every length.
    let demand =
        a.iter().fold(0u128, |sum, task| sum.saturating_add(in_window(task, Level::A, length)));
    if demand <= u128::from(length) {
        CoreVerdict::Schedulable
    } else {
        CoreVerdict::Overload { level: Level::A, task: 0 }
    }
}

/// Level B of one core, with B-PETs for both levels. `b` in the order of periods, shortest first.
/// [`level_a`] has passed.
#[must_use]
pub fn level_b(a: &[LevelsTask], b: &[LevelsTask], noise: &Noise) -> CoreVerdict {
    if let Some(verdict) = invalid(a, b) {
        return verdict;
    }
    let Some(mut window) = hyperperiod(a) else {
        return CoreVerdict::NotHarmonic { level: Level::A, task: 0 };
    };
    let mut demand =
        a.iter().fold(0u128, |sum, task| sum.saturating_add(in_window(task, Level::B, window)));
    for (index, task) in b.iter().enumerate() {
        if !task.period.is_multiple_of(window) {
            return CoreVerdict::NotHarmonic { level: Level::B, task: index };
        }
        demand = demand
            .saturating_mul(u128::from(task.period / window))
            .saturating_add(u128::from(task.pets.b));
        window = task.period;
        let time = noise.within(window).map(|noise| demand.saturating_add(u128::from(noise)));
        if time.is_none_or(|time| time > u128::from(window)) {
            return CoreVerdict::Overload { level: Level::B, task: index };
        }
    }
    CoreVerdict::Schedulable
}

/// The first task that the tests of levels A and B cannot handle.
fn invalid(a: &[LevelsTask], b: &[LevelsTask]) -> Option<CoreVerdict> {
    let unfit = |task: &LevelsTask| task.period == 0 || task.pets.a < task.pets.b.max(task.pets.c);
    if let Some(task) = a.iter().position(unfit) {
        return Some(CoreVerdict::Invalid { level: Level::A, task });
    }
    let task = b.iter().position(|task| task.period == 0)?;
    Some(CoreVerdict::Invalid { level: Level::B, task })
}

/// Demand of the jobs in `window`, a multiple of the period.
fn in_window(task: &LevelsTask, level: Level, window: u64) -> u128 {
    u128::from(task.pets.at(level)) * u128::from(window / task.period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Pets;

    fn task(period: u64, a: u64, b: u64) -> LevelsTask {
        LevelsTask { period, pets: Pets { a, b, c: b } }
    }

    #[test]
    fn full_cores_pass_and_one_unit_more_fails() {
        let a = [task(10, 3, 2), task(20, 14, 4)];
        assert_eq!(level_a(&a), CoreVerdict::Schedulable);
        assert_eq!(
            level_a(&[a[0], task(20, 15, 4)]),
            CoreVerdict::Overload { level: Level::A, task: 0 }
        );
        // At level B, A takes 8 of 20.
        let none = Noise::default();
        assert_eq!(level_b(&a, &[task(20, 12, 12)], &none), CoreVerdict::Schedulable);
        let over = CoreVerdict::Overload { level: Level::B, task: 1 };
        assert_eq!(level_b(&a, &[task(20, 11, 11), task(40, 3, 3)], &none), over);
        assert_eq!(
            level_b(&a, &[task(20, 11, 11), task(40, 2, 2)], &none),
            CoreVerdict::Schedulable
        );
        assert_eq!(
            level_b(&a, &[task(30, 1, 1)], &none),
            CoreVerdict::NotHarmonic { level: Level::B, task: 0 }
        );
    }

    #[test]
    fn a_table_of_coprime_periods() {
        assert_eq!(hyperperiod(&[task(4, 1, 1), task(6, 1, 1)]), Some(12));
        assert_eq!(
            level_a(&[task(2, 1, 1), task(3, 1, 1), task(6, 1, 1)]),
            CoreVerdict::Schedulable
        );
        assert_eq!(hyperperiod(&[task(u64::MAX, 1, 1), task(u64::MAX - 1, 1, 1)]), None);
        assert_eq!(hyperperiod(&[]), Some(1));
    }

    #[test]
    fn extremes_never_pass_by_overflow() {
        let max = u64::MAX;
        for tasks in [
            vec![task(1, max, max); 5],
            vec![task(max, max, max); 2],
            vec![task(1, 1, 1), task(max, 1, 1)],
        ] {
            assert_ne!(level_a(&tasks), CoreVerdict::Schedulable);
            assert_ne!(level_b(&[], &tasks, &Noise::default()), CoreVerdict::Schedulable);
            assert_ne!(
                level_b(&tasks, &[task(max, 1, 1)], &Noise::default()),
                CoreVerdict::Schedulable
            );
        }
        assert_eq!(level_a(&[task(max, max, max)]), CoreVerdict::Schedulable);
    }
}
