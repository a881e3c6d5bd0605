//! The longest time for which `m` cores can keep one job waiting, given a bound on the execution of
//! each other task meanwhile.
//!
//! # Rule
//! A job waits only while all `m` cores run other tasks. If it waits for `x` in total, task `i`
//! runs in at most `min(V_i, x)` of it, `V_i` being any bound on its work, so
//! `m*x <= sum min(V_i, x)`: Bertogna, Cirinei, Lipari 2005, lemma 4. The largest such `x` has a
//! closed form: for each `p`, `sum min(V_i, x) <= p*x + (sum of all V but the p largest)`, with
//! equality for the right `p`. Hence
//!
//! `x <= min over 0 <= p < m of (sum of all V but the p largest) / (m - p)`.
//!
//! A miss needs strictly more than `D - C`, so `x <= D - C` is enough; this is the theorem of 2005
//! with its clause for equality. In integral time a miss needs `D - C + 1`, which amounts to
//! rounding the result down; here it is rounded up, so that releases may be at any time.

use super::int::Int;

/// The largest interference, rounded up. `works` holds the bounds `V_i` of all other tasks;
/// `cores > 0`.
///
/// Newton's iteration from above on the concave `sum min(V, x) - m*x`: each pass drops the values
/// above `x` from the sum.
pub(super) fn most<N: Int>(works: &[N], total: N, cores: u32) -> N {
    let m = N::from(cores);
    let (mut rest, mut large) = (total, N::default());
    loop {
        let share = m - large;
        // V > rest/share iff V > its floor, V being an integer.
        let bound = rest.quotient(share);
        let (mut next_rest, mut next_large) = (N::default(), 0u32);
        for v in works {
            // Without a branch: the order of works is arbitrary.
            let large = *v > bound;
            next_large += u32::from(large);
            next_rest += if large { N::default() } else { *v };
        }
        let next = N::from(next_large);
        // The values above the bound are those already left out: this is the minimum. Fewer than m
        // are above it, because their sum is at most m times the bound.
        if next <= large || next >= m {
            return rest.div_up(share);
        }
        (rest, large) = (next_rest, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula as written, over all p.
    fn by_formula(works: &[u64], cores: u32) -> u64 {
        let mut sorted = works.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        (0..cores.min(works.len() as u32 + 1))
            .map(|p| sorted[p as usize..].iter().sum::<u64>().div_ceil(u64::from(cores - p)))
            .min()
            .unwrap_or(0)
    }

    #[test]
    fn newton_finds_the_minimum() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200_000 {
            let works: Vec<u64> = (0..draw(9)).map(|_| draw(12) * draw(12)).collect();
            let cores = 1 + draw(6) as u32;
            assert_eq!(
                most(&works, works.iter().sum(), cores),
                by_formula(&works, cores),
                "{works:?} on {cores}"
            );
        }
    }
}
