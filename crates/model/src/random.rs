//! Reproducible randomness for traffic: the same numbers on every machine, integers only.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one addition and a mix a number.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d_4c95_7f2d }
    }

    /// The next 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an endless stream is not an iterator here")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }
}

/// A probability as a 64-bit fraction: 2^64 would be certainty, and `u64::MAX` stands for it.
pub fn fraction(numerator: u128, denominator: u128) -> u64 {
    if numerator >= denominator {
        return u64::MAX;
    }
    u64::try_from((numerator << 64) / denominator).unwrap_or(u64::MAX)
}

/// Gaps between the arrivals of a Bernoulli process: one trial a cycle.
///
/// Geometric numbers by inversion: a table holds the probabilities that the first `k` trials fail;
/// a draw beyond the table adds its length and draws again, which is exact because the process has
/// no memory.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Probability that trials 0 to k all fail, falling.
    survival: [u64; TABLE],
}

const TABLE: usize = 64;

impl Gaps {
    /// Arrivals with this probability (a 64-bit fraction) in every cycle.
    pub fn new(probability: u64) -> Self {
        let fail = u64::MAX - probability;
        let mut survival = [0; TABLE];
        let mut product = u64::MAX;
        for entry in &mut survival {
            product = u64::try_from((u128::from(product) * u128::from(fail)) >> 64).unwrap_or(0);
            *entry = product;
        }
        Self { survival }
    }

    /// Cycles to the next arrival, at least 1.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        let mut gap = 1;
        loop {
            let draw = random.next();
            if draw >= self.survival[TABLE - 1] {
                return gap + self.survival.partition_point(|&s| s > draw) as u64;
            }
            gap += TABLE as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_a_bernoulli_process() {
        for (percent, mean) in [(50u32, 2.0), (10, 10.0), (1, 100.0)] {
            let gaps = Gaps::new(fraction(percent.into(), 100));
            let mut random = Random::new(7);
            let drawn: Vec<f64> = (0..200_000).map(|_| gaps.draw(&mut random) as f64).collect();
            let got = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance =
                drawn.iter().map(|g| (g - got) * (g - got)).sum::<f64>() / drawn.len() as f64;
            assert!((got / mean - 1.0).abs() < 0.01, "{got} for {mean}");
            assert!((variance / (mean * mean - mean) - 1.0).abs() < 0.03, "{variance} for {mean}");
        }
        assert_eq!(Gaps::new(u64::MAX).draw(&mut Random::new(1)), 1);
    }

    #[test]
    fn below_covers_its_range() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 7];
        (0..7000).for_each(|_| seen[usize::try_from(random.below(7)).unwrap()] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }
}
