//! Estimated demand of rare jobs, from many measured ones.
//!
//! Problem: the largest of a hundred jobs says little about the largest in a year. Rule: the
//! largest jobs of blocks follow a generalised extreme-value distribution if jobs are independent
//! and of one distribution. It is fitted by probability-weighted moments, and three tests check
//! that the fit, the independence and the single distribution are believable. A shape below 0 is
//! replaced by 0, as it would end the tail at a number that few blocks cannot determine. Source:
//! Hosking, Wallis and Wood, Technometrics 27(3), 1985 (the fit); Anderson and Darling, 1954 (the
//! distance, by parametric bootstrap); Wald and Wolfowitz, 1940 (runs); Smirnov, 1948 (two
//! samples). It is not a proof, and no bound depends on it.

use solocore_model::profile::Extreme;
use solocore_model::random::Random;

/// Fewest blocks of a fit.
const BLOCKS: usize = 20;
/// Fewest jobs in a block.
const BLOCK: usize = 5;
/// Samples of the fitted distribution.
const SAMPLES: u32 = 500;
/// A chance below this counts as a contradiction.
const LEVEL: f64 = 0.05;
/// Chances per job for which values are estimated.
const CHANCES: [f64; 3] = [1e-3, 1e-6, 1e-9];
/// Euler and Mascheroni's.
const GAMMA: f64 = 0.577_215_664_901_532_9;

/// Estimates rare values from the counts of jobs, in their order.
///
/// # Errors
/// The reason for which there is no estimate: too few jobs, or no spread.
pub fn estimate(values: &[u64]) -> Result<Extreme, String> {
    let least = BLOCKS * BLOCK;
    if values.len() < least {
        return Err(format!("an estimate needs {least} jobs; {} were measured", values.len()));
    }
    // Blocks of the same length, as many jobs as possible in them.
    let block = (values.len() / BLOCKS).min(BLOCK.max(values.len() / 50));
    let most = |jobs: &[u64]| jobs.iter().copied().max().unwrap_or(0) as f64;
    let mut maxima: Vec<f64> = values.chunks_exact(block).map(most).collect();
    maxima.sort_unstable_by(f64::total_cmp);
    let (Some(first), Some(last)) = (maxima.first(), maxima.last()) else {
        return Err("no block is whole".to_owned());
    };
    if first == last {
        return Err("the largest job of each block is the same".to_owned());
    }
    let fitted = Gev::fit(&maxima).ok_or("no distribution of extreme values fits")?;
    let fit_p = fitted.believable(&maxima);
    let independence_p = runs(values);
    let identity_p = halves(values);
    let tail = Gev { shape: fitted.shape.max(0.0), ..fitted };
    let exceeded = CHANCES
        .iter()
        .map(|&chance| {
            // A block does not exceed it if none of its jobs does.
            let none = block as f64 * (-chance).ln_1p();
            let value = tail.quantile_of_log(none).max(most(values));
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            let value = value.ceil() as u64;
            (chance, value)
        })
        .collect();
    Ok(Extreme {
        block: block as u64,
        blocks: maxima.len() as u64,
        location: fitted.location,
        scale: fitted.scale,
        shape: fitted.shape,
        fit_p,
        independence_p,
        identity_p,
        plausible: [fit_p, independence_p, identity_p].iter().all(|&p| p >= LEVEL),
        exceeded,
    })
}

/// The generalised extreme-value distribution.
#[derive(Clone, Copy, Debug)]
struct Gev {
    location: f64,
    scale: f64,
    /// Above 0: heavy tail (Fréchet); 0: Gumbel; below 0: it ends.
    shape: f64,
}

impl Gev {
    /// By probability-weighted moments of rising values.
    fn fit(sorted: &[f64]) -> Option<Self> {
        let n = sorted.len() as f64;
        let mut b = [0.0; 3];
        for (at, &x) in sorted.iter().enumerate() {
            let j = at as f64;
            b[0] += x / n;
            b[1] += x * j / (n * (n - 1.0));
            b[2] += x * j * (j - 1.0) / (n * (n - 1.0) * (n - 2.0));
        }
        let l2 = 2.0 * b[1] - b[0];
        let l3 = 3.0 * b[2] - b[0];
        if l2 <= 0.0 || l3 <= 0.0 {
            return None;
        }
        let c = l2 / l3 - 2f64.ln() / 3f64.ln();
        // Hosking's shape has the other sign. His rational fit holds between -0.5 and 0.5.
        let k = (7.859_0 * c + 2.955_4 * c * c).clamp(-0.5, 0.5);
        let (scale, location) = if k.abs() < 1e-6 {
            let scale = l2 / 2f64.ln();
            (scale, b[0] - GAMMA * scale)
        } else {
            let g = libm::tgamma(1.0 + k);
            let scale = l2 * k / (g * (1.0 - 2f64.powf(-k)));
            (scale, b[0] + scale * (g - 1.0) / k)
        };
        (scale.is_finite() && scale > 0.0 && location.is_finite()).then_some(Self {
            location,
            scale,
            shape: -k,
        })
    }

    /// The value that is not exceeded with the chance whose natural logarithm is `log`.
    fn quantile_of_log(self, log: f64) -> f64 {
        let y = -log;
        if self.shape.abs() < 1e-6 {
            self.location - self.scale * y.ln()
        } else {
            self.location + self.scale * (y.powf(-self.shape) - 1.0) / self.shape
        }
    }

    /// The chance of at most `x`.
    fn at_most(self, x: f64) -> f64 {
        let z = (x - self.location) / self.scale;
        if self.shape.abs() < 1e-6 {
            return (-(-z).exp()).exp();
        }
        let t = 1.0 + self.shape * z;
        if t <= 0.0 {
            return if self.shape > 0.0 { 0.0 } else { 1.0 };
        }
        (-t.powf(-1.0 / self.shape)).exp()
    }

    /// Anderson and Darling's distance of rising values.
    fn distance(self, sorted: &[f64]) -> f64 {
        let n = sorted.len();
        let chance = |x: f64| self.at_most(x).clamp(1e-300, 1.0 - 1e-16);
        let sum: f64 = (0..n)
            .map(|i| {
                let (low, high) = (chance(sorted[i]), chance(sorted[n - 1 - i]));
                (2.0 * i as f64 + 1.0) * (low.ln() + (-high).ln_1p())
            })
            .sum();
        -(n as f64) - sum / n as f64
    }

    /// Share of samples of this distribution with at least this distance from their own fit.
    fn believable(self, sorted: &[f64]) -> f64 {
        let seen = self.distance(sorted);
        let mut random = Random::new(1);
        let mut as_far = 0u32;
        for _ in 0..SAMPLES {
            let mut sample: Vec<f64> =
                sorted.iter().map(|_| self.quantile_of_log(uniform(&mut random).ln())).collect();
            sample.sort_unstable_by(f64::total_cmp);
            let far = Self::fit(&sample).is_none_or(|own| own.distance(&sample) >= seen);
            as_far += u32::from(far);
        }
        f64::from(as_far) / f64::from(SAMPLES)
    }
}

/// Above 0 and below 1.
fn uniform(random: &mut Random) -> f64 {
    ((random.next() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

/// Chance of as few or as many runs of values above and below the median.
fn runs(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let sides: Vec<bool> = values.iter().filter(|&&v| v != median).map(|&v| v > median).collect();
    let above = sides.iter().filter(|&&s| s).count() as f64;
    let n = sides.len() as f64;
    let below = n - above;
    if above == 0.0 || below == 0.0 || n < 10.0 {
        // No evidence: nearly all values are the median.
        return 1.0;
    }
    let seen = 1.0 + sides.windows(2).filter(|w| w[0] != w[1]).count() as f64;
    let mean = 1.0 + 2.0 * above * below / n;
    let variance = (mean - 1.0) * (mean - 2.0) / (n - 1.0);
    libm::erfc((seen - mean).abs() / (2.0 * variance).sqrt())
}

/// Chance of so large a difference between the first and the second half.
fn halves(values: &[u64]) -> f64 {
    let (a, b) = values.split_at(values.len() / 2);
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    let share = |of: &[u64], x: u64| of.partition_point(|&v| v <= x) as f64 / of.len() as f64;
    let gap = a.iter().chain(&b).map(|&x| (share(&a, x) - share(&b, x)).abs()).fold(0.0, f64::max);
    let n = (a.len() * b.len()) as f64 / values.len() as f64;
    // Stephens' correction for small samples.
    let t = gap * (n.sqrt() + 0.12 + 0.11 / n.sqrt());
    if t < 0.2 {
        return 1.0;
    }
    let sum: f64 = (1..=100)
        .map(|j| {
            let j = f64::from(j);
            let sign = if j % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * (-2.0 * (j * t).powi(2)).exp()
        })
        .sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of exponential times: their blocks' maxima tend to Gumbel's distribution.
    fn exponential(random: &mut Random, jobs: usize) -> Vec<u64> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let one = |u: f64| (1e6 - 1e5 * u.ln()) as u64;
        (0..jobs).map(|_| one(uniform(random))).collect()
    }

    #[test]
    fn rare_jobs_of_a_known_distribution_are_estimated() {
        let mut random = Random::new(11);
        let mut ratios = Vec::new();
        let mut believed = 0;
        for _ in 0..40 {
            let found = estimate(&exponential(&mut random, 1000)).unwrap();
            believed += u32::from(found.plausible);
            // Exceeded with chance 1e-6: 1e6 + 1e5 * ln(1e6).
            let truth = 1e6 + 1e5 * 1e6f64.ln();
            ratios.push(found.exceeded[1].1 as f64 / truth);
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let median = ratios[20];
        assert!((0.95..1.25).contains(&median), "{ratios:?}");
        // Three tests at 5 % each.
        assert!(believed >= 28, "{believed} of 40");
    }

    #[test]
    fn the_fit_finds_its_own_distribution_again() {
        let mut random = Random::new(3);
        for shape in [-0.2, 0.0, 0.2] {
            let truth = Gev { location: 50.0, scale: 4.0, shape };
            let mut sample: Vec<f64> =
                (0..20_000).map(|_| truth.quantile_of_log(uniform(&mut random).ln())).collect();
            sample.sort_unstable_by(f64::total_cmp);
            let fit = Gev::fit(&sample).unwrap();
            assert!((fit.location - 50.0).abs() < 0.15, "{fit:?}");
            assert!((fit.scale - 4.0).abs() < 0.15, "{fit:?}");
            assert!((fit.shape - shape).abs() < 0.03, "{fit:?}");
            for x in [45.0, 50.0, 60.0] {
                let by_count =
                    sample.iter().filter(|&&s| s <= x).count() as f64 / sample.len() as f64;
                assert!((truth.at_most(x) - by_count).abs() < 0.02);
            }
        }
    }

    #[test]
    fn two_modes_trends_and_memory_are_not_believed() {
        let mut random = Random::new(5);
        let noise = exponential(&mut random, 400);
        let drift: Vec<u64> = (0..).zip(&noise).map(|(i, v)| v + i * 1000).collect();
        let found = estimate(&drift).unwrap();
        assert!(!found.plausible && found.identity_p < 0.01 && found.independence_p < 0.05);
        let waves: Vec<u64> = (0..).zip(&noise).map(|(i, v)| v + (i / 10 % 2) * 500_000).collect();
        assert!(estimate(&waves).unwrap().independence_p < 0.01);
        // One job in 12 is ten times as long: blocks' maxima have two clusters.
        let modes: Vec<u64> = (0..)
            .zip(&noise)
            .map(|(i, v)| if random.below(12) == 0 { 10_000_000 + i } else { *v })
            .collect();
        assert!(estimate(&modes).unwrap().fit_p < 0.05);
    }

    #[test]
    fn what_cannot_be_fitted_is_said() {
        assert!(estimate(&[1; 99]).unwrap_err().contains("100 jobs; 99"));
        assert!(estimate(&[7; 100]).unwrap_err().contains("the same"));
        let mut random = Random::new(1);
        let found = estimate(&exponential(&mut random, 100)).unwrap();
        assert_eq!((found.block, found.blocks), (5, 20));
        let all_above = found.exceeded.windows(2).all(|w| w[0].1 <= w[1].1);
        assert!(all_above, "{:?}", found.exceeded);
    }
}
