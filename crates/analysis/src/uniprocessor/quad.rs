//! Four instants handled at once.
//!
//! Problem: the inner loop of [`plain`](super::plain) is "add where less" over 64-bit integers. The
//! baseline instructions of x86-64 add these two at a time, but compare only doubles two at a time;
//! and adding doubles takes as long as four additions of integers that wait for each other.
//!
//! Rule: an instant `t` below 2^52 is held as `ZERO + t`. These are the bits of the double
//! 2^52 + t, whose last bit is worth 1. So such numbers are added as integers, and compared either
//! as integers or as doubles. [`Wide`] takes AVX2, [`Baseline`] the SSE2 that every x86-64 core
//! has, or plain Rust elsewhere; all give the same numbers.

/// The instant 0.
pub const ZERO: u64 = 0x4330_0000_0000_0000;
/// Later than every instant: 2^52.
pub const NEVER: u64 = ZERO + (1 << 52);

/// Four instants or lengths of time. A value exists only on a machine with its instructions.
pub trait Quad: Copy {
    /// One number four times.
    ///
    /// # Safety
    /// The machine has the instructions of the type.
    unsafe fn all(value: u64) -> Self;
    /// From memory.
    ///
    /// # Safety
    /// The machine has the instructions of the type.
    unsafe fn load(from: &Four) -> Self;
    /// To memory.
    fn store(self, to: &mut Four);
    /// Sums, of lengths or of an instant and a length.
    fn add(self, other: Self) -> Self;
    /// The earlier of two instants each.
    fn min(self, other: Self) -> Self;
    /// `self` where `left` is before `right`, 0 elsewhere.
    fn where_before(self, left: Self, right: Self) -> Self;
    /// Is one of these instants before that of `other`?
    fn any_before(self, other: Self) -> bool;
    /// The sum of the four, four times.
    fn sum(self) -> Self;
    /// The first of the four.
    fn first(self) -> u64;
}

/// Four numbers in memory.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub struct Four(pub [u64; 4]);

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Four, Quad};
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi64, _mm_and_si128, _mm_castpd_si128, _mm_castsi128_pd,
        _mm_cmplt_pd, _mm_cvtsi128_si64, _mm_load_si128, _mm_min_pd, _mm_movemask_epi8,
        _mm_or_si128, _mm_set1_epi64x, _mm_shuffle_epi32, _mm_store_si128, _mm256_add_epi64,
        _mm256_and_si256, _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_castsi256_si128,
        _mm256_cmpgt_epi64, _mm256_load_si256, _mm256_min_pd, _mm256_movemask_epi8,
        _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_shuffle_epi32, _mm256_store_si256,
    };

    /// With the instructions that the architecture includes.
    #[derive(Debug, Clone, Copy)]
    pub struct Baseline([__m128i; 2]);

    /// With AVX2.
    #[derive(Debug, Clone, Copy)]
    pub struct Wide(__m256i);

    /// Exchanges the halves of 128 bits.
    const EXCHANGE: i32 = 0b01_00_11_10;

    #[inline(always)]
    fn before(left: __m128i, right: __m128i) -> __m128i {
        // SAFETY: SSE2 is always there.
        unsafe { _mm_castpd_si128(_mm_cmplt_pd(_mm_castsi128_pd(left), _mm_castsi128_pd(right))) }
    }

    #[inline(always)]
    fn earlier(left: __m128i, right: __m128i) -> __m128i {
        // SAFETY: SSE2 is always there.
        unsafe { _mm_castpd_si128(_mm_min_pd(_mm_castsi128_pd(left), _mm_castsi128_pd(right))) }
    }

    // SAFETY (all blocks): SSE2 is always there. `Four` has the alignment of the loads and stores.
    #[allow(unused_unsafe, reason = "newer compilers know that these are safe")]
    impl Quad for Baseline {
        #[inline(always)]
        unsafe fn all(value: u64) -> Self {
            // SAFETY: see above.
            Self([unsafe { _mm_set1_epi64x(value.cast_signed()) }; 2])
        }

        #[inline(always)]
        unsafe fn load(from: &Four) -> Self {
            let at = from.0.as_ptr();
            // SAFETY: see above; both halves lie within.
            Self(unsafe { [_mm_load_si128(at.cast()), _mm_load_si128(at.add(2).cast())] })
        }

        #[inline(always)]
        fn store(self, to: &mut Four) {
            let at = to.0.as_mut_ptr();
            // SAFETY: see above; both halves lie within.
            unsafe {
                _mm_store_si128(at.cast(), self.0[0]);
                _mm_store_si128(at.add(2).cast(), self.0[1]);
            }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            let sum = |i: usize| unsafe { _mm_add_epi64(self.0[i], other.0[i]) };
            Self([sum(0), sum(1)])
        }

        #[inline(always)]
        fn min(self, other: Self) -> Self {
            Self([earlier(self.0[0], other.0[0]), earlier(self.0[1], other.0[1])])
        }

        #[inline(always)]
        fn where_before(self, left: Self, right: Self) -> Self {
            // SAFETY: see above.
            let keep =
                |i: usize| unsafe { _mm_and_si128(before(left.0[i], right.0[i]), self.0[i]) };
            Self([keep(0), keep(1)])
        }

        #[inline(always)]
        fn any_before(self, other: Self) -> bool {
            let (a, b) = (before(self.0[0], other.0[0]), before(self.0[1], other.0[1]));
            // SAFETY: see above.
            unsafe { _mm_movemask_epi8(_mm_or_si128(a, b)) != 0 }
        }

        #[inline(always)]
        fn sum(self) -> Self {
            // SAFETY: see above.
            unsafe {
                let half = _mm_add_epi64(self.0[0], self.0[1]);
                Self([_mm_add_epi64(half, _mm_shuffle_epi32::<EXCHANGE>(half)); 2])
            }
        }

        #[inline(always)]
        fn first(self) -> u64 {
            // SAFETY: see above.
            unsafe { _mm_cvtsi128_si64(self.0[0]).cast_unsigned() }
        }
    }

    // SAFETY (all blocks): the caller of `all` or `load`, which made the value, guarantees that
    // AVX2 is there. `Four` has the alignment of the loads and stores.
    impl Quad for Wide {
        #[inline(always)]
        unsafe fn all(value: u64) -> Self {
            // SAFETY: the caller's.
            Self(unsafe { _mm256_set1_epi64x(value.cast_signed()) })
        }

        #[inline(always)]
        unsafe fn load(from: &Four) -> Self {
            // SAFETY: the caller's.
            Self(unsafe { _mm256_load_si256(from.0.as_ptr().cast()) })
        }

        #[inline(always)]
        fn store(self, to: &mut Four) {
            // SAFETY: see above.
            unsafe { _mm256_store_si256(to.0.as_mut_ptr().cast(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see above.
            Self(unsafe { _mm256_add_epi64(self.0, other.0) })
        }

        #[inline(always)]
        fn min(self, other: Self) -> Self {
            // SAFETY: see above.
            unsafe {
                let (a, b) = (_mm256_castsi256_pd(self.0), _mm256_castsi256_pd(other.0));
                Self(_mm256_castpd_si256(_mm256_min_pd(a, b)))
            }
        }

        #[inline(always)]
        fn where_before(self, left: Self, right: Self) -> Self {
            // SAFETY: see above.
            Self(unsafe { _mm256_and_si256(_mm256_cmpgt_epi64(right.0, left.0), self.0) })
        }

        #[inline(always)]
        fn any_before(self, other: Self) -> bool {
            // SAFETY: see above.
            unsafe { _mm256_movemask_epi8(_mm256_cmpgt_epi64(other.0, self.0)) != 0 }
        }

        #[inline(always)]
        fn sum(self) -> Self {
            // SAFETY: see above.
            unsafe {
                let half = _mm256_add_epi64(self.0, _mm256_permute4x64_epi64::<EXCHANGE>(self.0));
                Self(_mm256_add_epi64(half, _mm256_shuffle_epi32::<EXCHANGE>(half)))
            }
        }

        #[inline(always)]
        fn first(self) -> u64 {
            // SAFETY: see above.
            unsafe { _mm_cvtsi128_si64(_mm256_castsi256_si128(self.0)).cast_unsigned() }
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{Four, Quad};
    use std::array::from_fn;

    /// For machines without such instructions.
    #[derive(Debug, Clone, Copy)]
    pub struct Baseline([u64; 4]);

    impl Quad for Baseline {
        #[inline(always)]
        unsafe fn all(value: u64) -> Self {
            Self([value; 4])
        }

        #[inline(always)]
        unsafe fn load(from: &Four) -> Self {
            Self(from.0)
        }

        #[inline(always)]
        fn store(self, to: &mut Four) {
            to.0 = self.0;
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i].wrapping_add(other.0[i])))
        }

        #[inline(always)]
        fn min(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i].min(other.0[i])))
        }

        #[inline(always)]
        fn where_before(self, left: Self, right: Self) -> Self {
            Self(from_fn(|i| if left.0[i] < right.0[i] { self.0[i] } else { 0 }))
        }

        #[inline(always)]
        fn any_before(self, other: Self) -> bool {
            (0..4).any(|i| self.0[i] < other.0[i])
        }

        #[inline(always)]
        fn sum(self) -> Self {
            Self([self.0.iter().fold(0, |sum: u64, v| sum.wrapping_add(*v)); 4])
        }

        #[inline(always)]
        fn first(self) -> u64 {
            self.0[0]
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use arch::{Baseline, Wide};
#[cfg(not(target_arch = "x86_64"))]
pub use portable::Baseline;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{Baseline, Four, NEVER, Quad, Wide, ZERO, portable};

    /// All results of a kind for three times four instants.
    ///
    /// # Safety
    /// The machine has the instructions of the kind.
    unsafe fn all<Q: Quad>(a: &Four, b: &Four, length: u64) -> Vec<u64> {
        // SAFETY: the caller's.
        let (x, y, z) = unsafe { (Q::load(a), Q::load(b), Q::all(length)) };
        let mut found = vec![z.sum().first(), x.first(), x.any_before(y).into()];
        for quad in [x, x.add(z), x.min(y), z.where_before(x, y), z.where_before(x, y).sum()] {
            let mut four = Four([0; 4]);
            quad.store(&mut four);
            found.extend(four.0);
        }
        found
    }

    #[test]
    fn all_kinds_agree() {
        let ends = [0, 1, 2, 3, 1 << 31, 1 << 32, (1 << 50) - 1, 1 << 50, (1 << 52) - 1];
        let mut values: Vec<u64> = ends.iter().map(|t| ZERO + t).collect();
        values.push(NEVER);
        for (i, a) in values.iter().enumerate() {
            for b in &values {
                let x = Four([*a, *b, values[i / 2], NEVER]);
                let y = Four([*b, *a, values[i], ZERO + 2]);
                for length in [0, 1, 1 << 32, 1 << 50] {
                    // SAFETY: plain Rust, and SSE2, which is always there.
                    let (plain, baseline) = unsafe {
                        (all::<portable::Baseline>(&x, &y, length), all::<Baseline>(&x, &y, length))
                    };
                    assert_eq!(baseline, plain);
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: it is there.
                        assert_eq!(unsafe { all::<Wide>(&x, &y, length) }, plain);
                    }
                }
            }
        }
    }
}
