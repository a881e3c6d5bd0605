//! The curve of an effect that saturates.
//!
//! Rule: the planner reckons with share * (1 - e^(-load / saturation)), as the study does
//! (crates/study/parameters.toml). The share is the one of least squares for a saturation, and the
//! saturation the best of a grid. It lies between an eighth of the least load and the largest one:
//! larger loads were not measured, so the curve has reached 63 % there at the
//! latest. Does not cover: effects that shrink with the load.

/// Steps of the grid.
const STEPS: i32 = 200;

/// An effect, by its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Its limit, not below zero.
    pub share: f64,
    /// Load at which 63 % of it are reached; of no meaning where the share is zero.
    pub saturation: f64,
}

/// The curve that is closest to points of a load and its effect; `None`: no load is above zero.
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let loads = || points.iter().map(|&(load, _)| load).filter(|&load| load > 0.0);
    let (least, largest) = (loads().reduce(f64::min)? / 8.0, loads().reduce(f64::max)?);
    let of = |step: i32| least * (largest / least).powf(f64::from(step) / f64::from(STEPS));
    let fits = (0..=STEPS).map(|step| of_saturation(points, of(step)));
    fits.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, fit)| fit)
}

/// The best curve with this saturation, behind the sum of its squared errors.
fn of_saturation(points: &[(f64, f64)], saturation: f64) -> (f64, Fit) {
    let reached = |load: f64| 1.0 - (-load / saturation).exp();
    let (mut product, mut square) = (0.0, 0.0);
    for &(load, effect) in points {
        product += effect * reached(load);
        square += reached(load) * reached(load);
    }
    let share = if square > 0.0 { (product / square).max(0.0) } else { 0.0 };
    let error = points.iter().map(|&(load, effect)| (effect - share * reached(load)).powi(2));
    (error.sum(), Fit { share, saturation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(share: f64, saturation: f64) -> Vec<(f64, f64)> {
        let of = |load: f64| (load, share * (1.0 - (-load / saturation).exp()));
        [0.1, 0.2, 0.5, 1.0].map(of).to_vec()
    }

    #[test]
    fn a_curve_is_found_again() {
        for (share, saturation) in [(0.5, 0.05), (0.1, 0.3), (2.0, 0.9)] {
            let found = fit(&curve(share, saturation)).unwrap();
            assert!((found.share / share - 1.0).abs() < 0.02, "{found:?}");
            assert!((found.saturation / saturation - 1.0).abs() < 0.03, "{found:?}");
        }
    }

    #[test]
    fn nothing_is_claimed_beyond_the_largest_load() {
        // A straight line never saturates.
        let line = [0.25, 0.5, 1.0].map(|load| (load, load));
        let found = fit(&line).unwrap();
        assert!((found.saturation - 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.share < 1.6, "{found:?}");
    }

    #[test]
    fn no_effect_is_no_share() {
        assert_eq!(fit(&[(0.5, -0.01), (1.0, -0.02)]).map(|f| f.share), Some(0.0));
        assert_eq!(fit(&[(0.0, 0.3)]), None);
        assert_eq!(fit(&[]), None);
    }
}
