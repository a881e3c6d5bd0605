//! Sums of fractions compared with integers, exactly.
//!
//! Problem: `sum C_i/T_i <= m` with floats can turn a no into a yes; with one common denominator it
//! overflows. Rule: sum in 2^-32 or 2^-64 steps, rounded down and up; only when the two disagree
//! produce digits in base 2^64 until the sign of the difference shows. A sum of `n` fractions with
//! denominators below 2^64 that is not an integer is at least 2^-(64n) from every integer, so
//! `n + 2` digits always decide.

use crate::task_set::SporadicTask;
use std::cmp::Ordering;

/// A sum of non-negative fractions `a/b` with `b < 2^64`.
#[derive(Debug, Clone, Default)]
pub(super) struct FractionSum {
    whole: u128,
    rests: Vec<(u64, u64)>,
    /// The integer part left 128 bits: larger than any limit.
    overflowed: bool,
}

impl FractionSum {
    /// Adds `numerator/denominator`; the denominator must not be 0.
    pub(super) fn add(&mut self, numerator: u128, denominator: u64) {
        let b = u128::from(denominator);
        match self.whole.checked_add(numerator / b) {
            Some(whole) => self.whole = whole,
            None => self.overflowed = true,
        }
        // A remainder is below its divisor, which has 64 bits.
        if let Ok(rest) = u64::try_from(numerator % b)
            && rest > 0
        {
            self.rests.push((rest, denominator));
        }
    }

    /// The sum against `limit`.
    pub(super) fn compare(&self, limit: u128) -> Ordering {
        if self.overflowed || self.whole > limit {
            return Ordering::Greater;
        }
        let mut rests = self.rests.clone();
        let count = rests.len() as u128;
        // Largest possible sum of the remainders; each is below 1.
        let mut spare = limit - self.whole;
        for _ in 0..self.rests.len() + 2 {
            if rests.iter().all(|(rest, _)| *rest == 0) {
                return 0.cmp(&spare);
            }
            if spare >= count {
                return Ordering::Less;
            }
            // spare < count < 2^64: the shift keeps all bits.
            spare <<= 64;
            let mut digit = 0u128;
            for (rest, denominator) in &mut rests {
                let scaled = u128::from(*rest) << 64;
                let b = u128::from(*denominator);
                digit += scaled / b;
                *rest = u64::try_from(scaled % b).unwrap_or(0);
            }
            if digit > spare {
                return Ordering::Greater;
            }
            spare -= digit;
        }
        // A difference would have shown by now.
        Ordering::Equal
    }
}

/// `C/T` in 2^-32 steps, rounded down, for `C < 2^32`.
pub(super) fn share_32(numerator: u64, denominator: u64) -> Option<u64> {
    (numerator < 1 << 32 && denominator > 0).then(|| (numerator << 32) / denominator)
}

/// Is the utilisation clearly at most `cores`? `false` decides nothing.
pub(super) fn utilization_quickly_at_most(tasks: &[SporadicTask], cores: u32) -> bool {
    let mut sum = 0u64;
    for t in tasks {
        let Some(share) = share_32(t.wcet, t.period) else { return false };
        // A share is at most 2^32; rounded up, it is at most one step more.
        sum = sum.saturating_add(share + 1);
    }
    sum <= u64::from(cores) << 32
}

/// Utilisation in 2^-64 steps, rounded up.
pub(super) fn utilization_up(tasks: &[SporadicTask]) -> u128 {
    tasks.iter().map(|t| ratio_up(t.wcet, t.period)).fold(0, u128::saturating_add)
}

/// `numerator/denominator` in 2^-64 steps, rounded up.
pub(super) fn ratio_up(numerator: u64, denominator: u64) -> u128 {
    (u128::from(numerator) << 64).div_ceil(u128::from(denominator))
}

/// `numerator/denominator` in 2^-64 steps, rounded down.
pub(super) fn ratio_down(numerator: u64, denominator: u64) -> u128 {
    (u128::from(numerator) << 64) / u128::from(denominator)
}

/// `ceil(sum C_i/T_i)`, exactly.
pub(super) fn utilization_ceil(tasks: &[SporadicTask]) -> u128 {
    let low: u128 =
        tasks.iter().map(|t| ratio_down(t.wcet, t.period)).fold(0, u128::saturating_add);
    // Rounded up, each share is at most one step more.
    let (whole, high) = (low.div_ceil(1 << 64), low.saturating_add(tasks.len() as u128));
    if high.div_ceil(1 << 64) == whole {
        return whole;
    }
    let mut sum = FractionSum::default();
    for t in tasks {
        sum.add(u128::from(t.wcet), t.period);
    }
    if sum.compare(whole) == Ordering::Greater { whole + 1 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(parts: &[(u128, u64)]) -> FractionSum {
        let mut sum = FractionSum::default();
        for (a, b) in parts {
            sum.add(*a, *b);
        }
        sum
    }

    #[test]
    fn sums_are_compared_exactly() {
        assert_eq!(sum(&[(1, 3), (1, 7), (11, 21)]).compare(1), Ordering::Equal);
        assert_eq!(sum(&[(1, 3), (1, 7), (11, 21), (1, u64::MAX)]).compare(1), Ordering::Greater);
        assert_eq!(sum(&[(1, 3), (1, 7), (10, 21)]).compare(1), Ordering::Less);
        assert_eq!(
            sum(&[(u128::from(u64::MAX - 1), u64::MAX), (1, u64::MAX - 1)]).compare(1),
            Ordering::Greater
        );
        assert_eq!(sum(&[(7, 2), (1, 2)]).compare(4), Ordering::Equal);
        assert_eq!(sum(&[]).compare(0), Ordering::Equal);
    }
}
