//! The two integer widths of the tests: 64 bits where nothing can overflow, 128 bits elsewhere.
//!
//! Problem: divisions of 128 bits cost several times those of 64, and nearly all task sets fit in 64. Rule: a test is written
//! once over [`Int`]; [`narrow`] says when 64 bits hold all intermediates. 128 bits hold them for every input: values are
//! below 2^64, and a test multiplies them by at most the number of tasks, of cores, or both.

use crate::task_set::TaskSet;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An unsigned integer that a test computes with.
pub(super) trait Int:
    Copy
    + Ord
    + Default
    + From<u32>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
{
    /// A time; callers with 64 bits have asked [`narrow`].
    fn time(value: u64) -> Self;
    /// `a/b` rounded down.
    fn quotient(self, divisor: Self) -> Self;
    /// Back to 64 bits, [`u64::MAX`] when it does not fit.
    fn saturated(self) -> u64;
    /// `a - b`, or 0.
    fn minus(self, other: Self) -> Self {
        if self > other { self - other } else { Self::default() }
    }
    /// `a/b` rounded up, for `b > 0`.
    fn div_up(self, divisor: Self) -> Self {
        (self + divisor - Self::from(1)).quotient(divisor)
    }
}

impl Int for u64 {
    fn time(value: u64) -> Self {
        value
    }
    fn quotient(self, divisor: Self) -> Self {
        // A division of 32 bits costs a fraction of one of 64 on many cores.
        match (u32::try_from(self), u32::try_from(divisor)) {
            (Ok(a), Ok(b)) => Self::from(a / b),
            _ => self / divisor,
        }
    }
    fn saturated(self) -> u64 {
        self
    }
}

impl Int for u128 {
    fn time(value: u64) -> Self {
        Self::from(value)
    }
    fn quotient(self, divisor: Self) -> Self {
        match (u64::try_from(self), u64::try_from(divisor)) {
            (Ok(a), Ok(b)) => Self::from(a / b),
            _ => self / divisor,
        }
    }
    fn saturated(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

/// Largest time for which 64 bits are enough.
pub(super) const NARROW_TIME: u64 = 1 << 44;
/// Largest number of tasks, and of cores, for which 64 bits are enough.
pub(super) const NARROW_TASKS: usize = 1 << 10;

/// Do 64 bits hold sums of terms below `4 * NARROW_TIME` over all tasks, and such a term times the number of cores?
/// 2^46 * 2^10 = 2^56.
pub(super) fn narrow(set: &TaskSet) -> bool {
    set.tasks.len() <= NARROW_TASKS
        && usize::try_from(set.cores).is_ok_and(|cores| cores <= NARROW_TASKS)
        && set.tasks.iter().all(|t| t.wcet <= NARROW_TIME && t.period <= NARROW_TIME && t.deadline <= NARROW_TIME)
}
