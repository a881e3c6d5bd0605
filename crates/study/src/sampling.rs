//! Number of systems that a point needs.
//!
//! Rule: systems are drawn in steps of [`STEP`] until the 95 % interval of every scheme's share is
//! within +-0.05, all schemes on the same systems (the paper, section 6.1: "within +-0.05 with 95%
//! confidence"). Intervals are Wilson's, which hold where a share is near 0 or 1: there some 40
//! systems suffice, in the middle 400. The number depends on the systems alone, not on threads or
//! time.
//!
//! Not covered: repeated checks of an interval make it miss a little more often than 5 %.

/// Systems between two checks of the intervals.
pub const STEP: u32 = 20;

/// Fewest systems of a point.
pub const FEWEST: u32 = 40;

/// Largest half width of an interval.
pub const PRECISION: f64 = 0.05;

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % interval of a share. `[0, 1]` without samples.
#[must_use]
pub fn interval(successes: u32, samples: u32) -> (f64, f64) {
    if samples == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (f64::from(samples), f64::from(successes) / f64::from(samples));
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Are all intervals narrow enough?
#[must_use]
pub fn precise(successes: &[u32], samples: u32) -> bool {
    samples >= FEWEST
        && successes.iter().all(|&s| {
            let (low, high) = interval(s, samples);
            high - low <= 2.0 * PRECISION
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilsons_interval() {
        let (low, high) = interval(50, 100);
        assert!((low - 0.4038).abs() < 1e-4 && (high - 0.5962).abs() < 1e-4);
        assert_eq!(interval(0, 40).0, 0.0);
        assert_eq!(interval(0, 0), (0.0, 1.0));
    }

    #[test]
    fn extremes_need_few_and_halves_many() {
        let needs = |share: f64| {
            (1..)
                .map(|n| n * STEP)
                .find(|&n| precise(&[(share * f64::from(n)).round() as u32], n))
                .unwrap()
        };
        assert_eq!((needs(0.0), needs(1.0), needs(0.5)), (40, 40, 400));
        assert!(!precise(&[0, 20], 40));
    }
}
