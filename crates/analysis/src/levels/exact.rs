//! Comparing a sum of utilizations with a number of cores, exactly.
//!
//! Problem: `sum U + (m-1)*h + H < m` is a strict comparison of fractions whose common denominator
//! has `64*n` bits.
//! Rule: sum in steps of 2^-64 rounded down and up; where the two disagree, compare digit by digit
//! in base 2^64.

use std::cmp::Ordering;

/// `times * cost/period`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fraction {
    pub(crate) cost: u64,
    pub(crate) period: u64,
    pub(crate) times: u32,
}

/// How does the sum of `terms` compare with `limit`? `None` if a period is zero.
pub(crate) fn compare_sum(
    terms: impl Iterator<Item = Fraction> + Clone,
    limit: u32,
) -> Option<Ordering> {
    let bound = u128::from(limit) << 64;
    let (mut low, mut high) = (0u128, 0u128);
    for term in terms.clone() {
        if term.period == 0 {
            return None;
        }
        let (scaled, period, times) =
            (u128::from(term.cost) << 64, u128::from(term.period), u128::from(term.times));
        let share = scaled / period;
        let above = if share * period == scaled { share } else { share.saturating_add(1) };
        low = low.saturating_add(share.saturating_mul(times));
        high = high.saturating_add(above.saturating_mul(times));
    }
    // A sum that saturated is above every limit, which is below 2^96.
    if high < bound {
        return Some(Ordering::Less);
    }
    if low > bound {
        return Some(Ordering::Greater);
    }
    Some(by_digits(terms, limit))
}

/// Called where the sum is near `limit`, so that no integer part is large.
fn by_digits(terms: impl Iterator<Item = Fraction> + Clone, limit: u32) -> Ordering {
    let mut spare = u128::from(limit);
    for term in terms.clone() {
        let whole = u128::from(term.cost / term.period).saturating_mul(u128::from(term.times));
        match spare.checked_sub(whole) {
            Some(left) => spare = left,
            None => return Ordering::Greater,
        }
    }
    let mut rest: Vec<(u128, u128, u128)> = terms
        .map(|t| (u128::from(t.cost % t.period), u128::from(t.period), u128::from(t.times)))
        .filter(|(part, _, times)| *part > 0 && *times > 0)
        .collect();
    let weight: u128 = rest.iter().map(|(_, _, times)| times).sum();
    // Sum and limit differ by a multiple of 1/(product of the periods) > 2^-(64n): n + 1 digits
    // show it.
    for _ in 0..rest.len() + 2 {
        if rest.iter().all(|(part, _, _)| *part == 0) {
            return if spare == 0 { Ordering::Equal } else { Ordering::Less };
        }
        // The rest of the fractions is above zero and below their weight.
        if spare >= weight {
            return Ordering::Less;
        }
        // weight < 2^32 * n, so this fits.
        let mut next = spare << 64;
        for (part, period, times) in &mut rest {
            let scaled = *part << 64;
            *part = scaled % *period;
            match next.checked_sub((scaled / *period).saturating_mul(*times)) {
                Some(left) => next = left,
                None => return Ordering::Greater,
            }
        }
        spare = next;
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(terms: &[(u64, u64, u32)], limit: u32) -> Option<Ordering> {
        compare_sum(
            terms.iter().map(|&(cost, period, times)| Fraction { cost, period, times }),
            limit,
        )
    }

    #[test]
    fn differences_of_one_unit_show() {
        let third = u64::MAX / 3;
        assert_eq!(compare(&[(1, 3, 2), (1, 3, 1)], 1), Some(Ordering::Equal));
        assert_eq!(compare(&[(third, u64::MAX, 3)], 1), Some(Ordering::Equal));
        assert_eq!(
            compare(&[(third, u64::MAX, 2), (third - 1, u64::MAX, 1)], 1),
            Some(Ordering::Less)
        );
        assert_eq!(
            compare(&[(third, u64::MAX, 2), (third + 1, u64::MAX, 1)], 1),
            Some(Ordering::Greater)
        );
        // 1 - 1/(p*q) and 1 + 1/(p*q) with p*q near 2^128.
        let (p, q) = (u64::MAX, u64::MAX - 1);
        assert_eq!(compare(&[(1, q, 1), (p - 2, p, 1), (1, p, 1)], 1), Some(Ordering::Greater));
        assert_eq!(compare(&[(q - 1, q, 1), (1, p, 1)], 1), Some(Ordering::Less));
        assert_eq!(compare(&[(1, 0, 1)], 1), None);
        assert_eq!(compare(&[], 0), Some(Ordering::Equal));
        assert_eq!(compare(&[(u64::MAX, 1, u32::MAX); 9], u32::MAX), Some(Ordering::Greater));
        assert_eq!(compare(&[(u64::MAX, u64::MAX, u32::MAX)], u32::MAX), Some(Ordering::Equal));
    }

    #[test]
    fn agrees_with_common_denominators() {
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..100_000 {
            let terms: Vec<(u64, u64, u32)> = (0..next(6))
                .map(|_| (next(13), next(12) + 1, u32::try_from(next(3)).unwrap()))
                .collect();
            let limit = u32::try_from(next(7)).unwrap();
            let scale = 27_720;
            let sum: u64 = terms.iter().map(|(c, t, k)| c * scale / t * u64::from(*k)).sum();
            assert_eq!(
                compare(&terms, limit),
                Some(sum.cmp(&(u64::from(limit) * scale))),
                "{terms:?} {limit}"
            );
        }
    }
}
