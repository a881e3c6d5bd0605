//! Powers and exponentials that are the same to the last bit on every machine.

use super::ways::SIZES;

/// `e^-x` for `x >= 0`, with no more than additions, multiplications and divisions, which IEEE 754
/// defines to the last bit: the libraries' exponentials differ between machines. Relative error
/// below `1e-11`, and below `1e-14` up to `x = 1`; 0 beyond `x = 700`.
#[must_use]
pub fn decay(x: f64) -> f64 {
    if x >= 700.0 {
        return 0.0;
    }
    // e^-x = (e^(-x / 2^k))^(2^k), with x / 2^k at most 1/8: eight terms are enough.
    let (mut small, mut squarings) = (x.max(0.0), 0);
    while small > 0.125 {
        small *= 0.5;
        squarings += 1;
    }
    let mut sum = 1.0;
    for k in (1..=9u8).rev() {
        sum = 1.0 - small / f64::from(k) * sum;
    }
    for _ in 0..squarings {
        sum *= sum;
    }
    sum
}

/// `1 - e^-(x/scale)`: the part of its limit that a saturating effect has reached. 0 for `x = 0`,
/// always below 1.
#[must_use]
pub fn saturation(x: f64, scale: f64) -> f64 {
    if x <= 0.0 { 0.0 } else { 1.0 - decay(x / scale) }
}

/// `base^n` by multiplication alone, the same on every machine.
#[must_use]
pub fn power(base: f64, n: usize) -> f64 {
    (0..n).fold(1.0, |product, _| product * base)
}

/// `base^n` for each size of a region.
#[must_use]
pub fn powers(base: f64) -> [f64; SIZES] {
    let mut out = [1.0; SIZES];
    for size in 1..SIZES {
        out[size] = out[size - 1] * base;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decay_is_the_exponential() {
        for step in 0..7000 {
            let x = f64::from(step) * 0.1;
            let exact = (-x).exp();
            assert!(
                (decay(x) - exact).abs() <= exact * if x <= 1.0 { 1e-14 } else { 1e-11 },
                "{x}: {} {exact}",
                decay(x)
            );
        }
        assert_eq!((decay(0.0), decay(1e9), saturation(0.0, 1.0)), (1.0, 0.0, 0.0));
    }
}
