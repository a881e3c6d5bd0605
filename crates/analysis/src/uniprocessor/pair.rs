//! Two doubles handled at once.
//!
//! Problem: compilers do not turn "add where less" over doubles into vector instructions by
//! themselves, and that is the inner loop of [`plain`](super::plain). Rule: the few operations it
//! needs, with the SSE2 instructions that every x86-64 core has, and the same in plain Rust
//! elsewhere. No operand is a NaN.

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::x86_64::{
        __m128d, _mm_add_pd, _mm_and_pd, _mm_cmplt_pd, _mm_cvtsd_f64, _mm_min_pd, _mm_set_pd,
        _mm_unpackhi_pd,
    };

    /// Two doubles.
    #[derive(Debug, Clone, Copy)]
    pub struct Pair(__m128d);

    // SAFETY (all blocks): the instructions are SSE2, which the x86-64 architecture includes; none
    // touches memory.
    #[allow(unused_unsafe, reason = "newer compilers know that these are safe")]
    impl Pair {
        #[inline]
        pub fn new(low: f64, high: f64) -> Self {
            // SAFETY: SSE2 is always there, see above.
            Self(unsafe { _mm_set_pd(high, low) })
        }

        #[inline]
        pub fn get(self) -> [f64; 2] {
            // SAFETY: SSE2 is always there, see above.
            unsafe { [_mm_cvtsd_f64(self.0), _mm_cvtsd_f64(_mm_unpackhi_pd(self.0, self.0))] }
        }

        #[inline]
        pub fn add(self, other: Self) -> Self {
            // SAFETY: SSE2 is always there, see above.
            Self(unsafe { _mm_add_pd(self.0, other.0) })
        }

        #[inline]
        pub fn min(self, other: Self) -> Self {
            // SAFETY: SSE2 is always there, see above.
            Self(unsafe { _mm_min_pd(self.0, other.0) })
        }

        /// `self` where `left < right`, 0 elsewhere.
        #[inline]
        pub fn where_less(self, left: Self, right: Self) -> Self {
            // SAFETY: SSE2 is always there, see above.
            Self(unsafe { _mm_and_pd(_mm_cmplt_pd(left.0, right.0), self.0) })
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    /// Two doubles.
    #[derive(Debug, Clone, Copy)]
    pub struct Pair([f64; 2]);

    impl Pair {
        #[inline]
        pub fn new(low: f64, high: f64) -> Self {
            Self([low, high])
        }

        #[inline]
        pub fn get(self) -> [f64; 2] {
            self.0
        }

        #[inline]
        pub fn add(self, other: Self) -> Self {
            Self([self.0[0] + other.0[0], self.0[1] + other.0[1]])
        }

        #[inline]
        pub fn min(self, other: Self) -> Self {
            Self([self.0[0].min(other.0[0]), self.0[1].min(other.0[1])])
        }

        /// `self` where `left < right`, 0 elsewhere.
        #[inline]
        pub fn where_less(self, left: Self, right: Self) -> Self {
            let keep = |i: usize| {
                let mask = 0u64.wrapping_sub(u64::from(left.0[i] < right.0[i]));
                f64::from_bits(self.0[i].to_bits() & mask)
            };
            Self([keep(0), keep(1)])
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use arch::Pair;
#[cfg(not(target_arch = "x86_64"))]
pub use portable::Pair;

impl Pair {
    /// The same in both places.
    #[inline]
    pub fn both(value: f64) -> Self {
        Self::new(value, value)
    }

    /// Replaces one of the two, the second if `place` is odd.
    #[inline]
    pub fn set(&mut self, place: usize, value: f64) {
        let [low, high] = self.get();
        *self =
            if place.is_multiple_of(2) { Self::new(value, high) } else { Self::new(low, value) };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{Pair, portable};

    #[test]
    fn both_kinds_agree() {
        let values = [0.0, 1.0, 5.0, 9_007_199_254_740_991.0, f64::INFINITY];
        for (a, b, c) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b, a + b))) {
            let (x, y, z) = (Pair::new(a, b), Pair::new(b, a), Pair::new(c, 3.0));
            let (u, v, w) =
                (portable::Pair::new(a, b), portable::Pair::new(b, a), portable::Pair::new(c, 3.0));
            assert_eq!(x.add(y).get(), u.add(v).get());
            assert_eq!(x.min(y).get(), u.min(v).get());
            assert_eq!(z.where_less(x, y).get(), w.where_less(u, v).get());
        }
    }
}
