//! Random numbers that are the same on every machine.
//!
//! Problem: a study is reproducible only if each of its systems can be drawn again, alone and in
//! any order. Rule: the key of a ChaCha stream with eight rounds *is* the system's name: seed,
//! scenario, utilization in thousandths, index, 64 bits each, little endian. Streams of different
//! keys are independent; this is the purpose of the cipher. Numbers are taken from the stream by
//! the formulas here, so that they do not change with a library.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// One system's numbers.
pub struct Stream(ChaCha8Rng);

/// A half-open range of real numbers, `[low, high)`; of one number if both are equal.
pub type Range = [f64; 2];

impl Stream {
    /// The stream of a key.
    #[must_use]
    pub fn new(key: [u64; 4]) -> Self {
        let mut bytes = [0; 32];
        for (part, word) in bytes.chunks_exact_mut(8).zip(key) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(bytes))
    }

    /// Uniform in `[0, 1)`, a multiple of `2^-53`.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// Uniform in a range.
    pub fn within(&mut self, [low, high]: Range) -> f64 {
        // Rounding may reach `high`; the range is half-open.
        let drawn = low + (high - low) * self.unit();
        if drawn >= high { low } else { drawn }
    }

    /// Uniform in `0..n`, up to a bias below `n * 2^-32`; 0 for `n = 0`.
    pub fn below(&mut self, n: u32) -> u32 {
        u32::try_from((u64::from(self.0.next_u32()) * u64::from(n)) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_what_they_were() {
        let mut stream = Stream::new([1, 2, 3, 4]);
        let first = (stream.unit(), stream.below(1000));
        let mut again = Stream::new([1, 2, 3, 4]);
        assert_eq!(first, (again.unit(), again.below(1000)));
        assert_ne!(first.0, Stream::new([1, 2, 3, 5]).unit());
    }

    #[test]
    fn ranges_are_half_open() {
        let mut stream = Stream::new([9; 4]);
        let drawn: Vec<f64> = (0..10_000).map(|_| stream.within([2.0, 3.0])).collect();
        assert!(drawn.iter().all(|x| (2.0..3.0).contains(x)));
        assert!((drawn.iter().sum::<f64>() / 10_000.0 - 2.5).abs() < 0.02);
        assert_eq!(stream.within([5.0, 5.0]), 5.0);
        assert_eq!(stream.below(0), 0);
    }
}
