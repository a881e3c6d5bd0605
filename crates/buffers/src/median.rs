//! The median of samples, and its interval with 95 % confidence.
//!
//! Rule: order statistics. Of n independent samples of any one distribution, the number below its
//! median is that of a fair coin's heads; so the median lies between two ranks. Source: David and
//! Nagaraja, Order Statistics, section 7.1; the binomial distribution by its normal approximation.
//! Does not cover: samples that depend on each other (a machine that was busy for a while): then
//! the confidence is lower than stated.

/// The median of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median, in the unit of the samples.
    pub value: f64,
    /// The median of all such samples is not below this ...
    pub low: f64,
    /// ... nor above this, with 95 % confidence.
    pub high: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Median {
    /// The median of these samples; `None` without samples.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let (low, high) = ranks(samples.len());
        let at = |rank: usize| samples.get(rank).copied();
        Some(Self {
            value: at(samples.len() / 2)?,
            low: at(low)?,
            high: at(high)?,
            samples: samples.len(),
        })
    }

    /// The same in another unit: `number` multiplies by a positive factor, and subtracts a
    /// constant.
    #[must_use]
    pub fn map(self, number: impl Fn(f64) -> f64) -> Self {
        Self {
            value: number(self.value),
            low: number(self.low),
            high: number(self.high),
            samples: self.samples,
        }
    }
}

/// Ranks, from 0, of the values that enclose the median with 95 % confidence: half the number less
/// and more 1.96 standard deviations of a fair coin's heads.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, below the number"
)]
fn ranks(values: usize) -> (usize, usize) {
    let (half, spread) = (values as f64 / 2.0, 0.98 * (values as f64).sqrt());
    let low = (half - spread).floor().max(0.0) as usize;
    let high = (half + spread).ceil() as usize;
    (low, high.min(values.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Random;

    #[test]
    fn a_median_lies_between_its_ranks() {
        // Tables of the binomial distribution: of 100 values the 40th and the 61st enclose it with
        // 96 %.
        assert_eq!(ranks(100), (40, 60));
        assert_eq!(ranks(20), (5, 15));
        assert_eq!([ranks(0), ranks(1), ranks(3)], [(0, 0), (0, 0), (0, 2)]);
        assert_eq!(Median::of(vec![]), None);
    }

    /// For a skewed distribution with a known median, the interval contains it with the stated
    /// frequency.
    #[test]
    fn the_interval_holds_the_median_as_often_as_it_says() {
        let mut random = Random::new(1);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let truth = std::f64::consts::LN_2;
        let holds = (0..2000)
            .filter(|_| {
                let found = Median::of((0..41).map(|_| -uniform().max(1e-300).ln()).collect());
                found.is_some_and(|m| m.low <= truth && truth <= m.high)
            })
            .count();
        // 95 % of 2000 is 1900; three standard deviations of the count are 29.
        assert!(holds > 1870 && holds < 2000, "{holds}");
    }
}
