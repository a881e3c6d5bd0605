//! The two integer widths of the tests: 64 bits where nothing can overflow, 128 bits elsewhere.
//!
//! Problem: divisions of 128 bits cost several times those of 64, and nearly all task sets fit in
//! 64. Rule: a test is written once over [`Int`]; [`narrow`] says when 64 bits hold all
//! intermediates. The 128 bits hold them for every input: values are below 2^64, and a test
//! multiplies them by at most the number of tasks, of cores, or both.

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
    /// Precomputed inverse of a divisor, for [`Self::quotient_with`].
    fn inverse(_divisor: Self) -> u64 {
        0
    }
    /// `a/b` rounded down, with the inverse of `b`.
    fn quotient_with(self, divisor: Self, _inverse: u64) -> Self {
        self.quotient(divisor)
    }
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
    /// `floor(2^64/b) + 1` for `1 < b < 2^32`, else 0.
    fn inverse(divisor: Self) -> u64 {
        if divisor > 1 && divisor <= u64::from(u32::MAX) { u64::MAX / divisor + 1 } else { 0 }
    }
    /// A multiplication: exact for dividends below 2^32, because the inverse is too large by at
    /// most 1 in 2^64 of its unit (Granlund, Montgomery: "Division by invariant integers using
    /// multiplication", PLDI 1994).
    fn quotient_with(self, divisor: Self, inverse: u64) -> Self {
        if self >> 32 == 0 && inverse > 0 {
            return ((u128::from(self) * u128::from(inverse)) >> 64) as u64;
        }
        self.quotient(divisor)
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

/// Do 64 bits hold sums of terms below `4 * NARROW_TIME` over all tasks, and such a term times the
/// number of cores? 2^46 * 2^10 = 2^56.
pub(super) fn narrow(set: &TaskSet) -> bool {
    set.tasks.len() <= NARROW_TASKS
        && usize::try_from(set.cores).is_ok_and(|cores| cores <= NARROW_TASKS)
        && set
            .tasks
            .iter()
            .all(|t| t.wcet <= NARROW_TIME && t.period <= NARROW_TIME && t.deadline <= NARROW_TIME)
}

#[cfg(test)]
mod tests {
    use super::Int;

    #[test]
    fn inverses_divide_exactly() {
        let edges = [
            1u64,
            2,
            3,
            5,
            7,
            1 << 16,
            (1 << 31) - 1,
            1 << 31,
            (1 << 32) - 5,
            (1 << 32) - 1,
            1 << 32,
            1 << 40,
        ];
        for b in edges {
            let inverse = u64::inverse(b);
            for a in edges
                .iter()
                .flat_map(|a| [a - 1, *a, a + 1, a / b * b, (a / b * b).saturating_sub(1)])
            {
                assert_eq!(a.quotient_with(b, inverse), a / b, "{a} / {b}");
            }
        }
    }
}
