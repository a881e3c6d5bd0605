//! Utilisations with a given sum and bounds on each, uniform among all such vectors.
//!
//! # Problem
//! `{x : sum x = U, l_i <= x_i <= u_i}` is a simplex that planes cut. Rescaling draws from the
//! whole simplex (the package `drs`) is quick, but not uniform.
//!
//! # Rule
//! With independent `x_i` uniform in their bounds, the wanted distribution is theirs given the sum.
//! Let `f_k` be the density of `x_1 + ... + x_k` and `F_k` its integral. Then `f_(k+1)(s)` is
//! `(F_k(s) - F_k(s - w)) / w` for a task of width `w`, and given that `k + 1` tasks sum to `s`,
//! the sum `y` of the first `k` has density `f_k(y)` on `s - w <= y <= s`. So each `F_k` is made of
//! the one before, once; a vector then takes one inversion of `F_k` for each task, from the last to
//! the first. That sums of independent draws, convolved, give this distribution is the idea of
//! Convolutional Fixed Sum (Griffin, Davis, ECRTS 2025).
//!
//! # Numbers
//! Each `F_k` is a cubic Hermite interpolation of values and slopes at [`CELLS`] + 1 points. `F_k`
//! for few wide tasks is computed there in closed form (inclusion and exclusion), the others by the
//! rule, integrated with Hermite's correction. Where no upper bound is within reach, spacings give
//! the distribution exactly, without tables. Beyond half of the highest sum, `u - x` is drawn.

use crate::StudyError;
use crate::random::Stream;

/// Intervals in which `F_k` is interpolated.
const CELLS: usize = 4096;
/// Tasks beyond which values of `F_k` leave the doubles.
const MOST: usize = 256;
/// Subsets are counted in closed form up to this many tasks, if none is narrower than this share of
/// the sum: with narrower ones the terms cancel.
const CLOSED: usize = 4;
const NARROW: f64 = 0.05;
/// Rounding of the caller's sums.
const SLACK: f64 = 1e-9;

/// A distribution of vectors with one sum.
#[derive(Clone, Debug)]
pub struct Simplex {
    lower: Vec<f64>,
    upper: Vec<f64>,
    /// Places of the tasks that vary, and their widths, widest first.
    free: Vec<(usize, f64)>,
    /// Sum of their draws.
    rest: f64,
    /// Is `u - x` drawn, not `x - l`?
    mirrored: bool,
    /// `F_1` to `F_(n-1)`; none where spacings are used.
    sums: Vec<Sum>,
    total: f64,
}

/// `F_k` up to a factor, at equal distances from 0 to the sum.
#[derive(Clone, Debug)]
struct Sum {
    step: f64,
    /// Sum of the widths: `F_k` is constant beyond it.
    end: f64,
    value: Vec<f64>,
    slope: Vec<f64>,
}

impl Simplex {
    /// Vectors with `lower[i] <= x_i <= upper[i]` that sum to `total`.
    ///
    /// # Errors
    /// When bounds are not finite, negative or crossed, when no vector sums to `total`, or when
    /// more than 256 tasks vary and their bounds matter.
    pub fn new(lower: &[f64], upper: &[f64], total: f64) -> Result<Self, StudyError> {
        check(lower, upper, total)?;
        let (least, most): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
        let mut free: Vec<(usize, f64)> =
            lower.iter().zip(upper).map(|(l, u)| u - l).enumerate().filter(|f| f.1 > 0.0).collect();
        free.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (up, down) = ((total - least).max(0.0), (most - total).max(0.0));
        let mirrored = down < up;
        let rest = if mirrored { down } else { up };
        let sums = match free.last() {
            Some((_, narrowest)) if *narrowest < rest => {
                if free.len() > MOST {
                    return Err(StudyError::Input(format!(
                        "utilizations: {} tasks vary within bounds that matter; give at most \
                            {MOST}, or wider bounds",
                        free.len()
                    )));
                }
                tables(&free, rest)
            }
            _ => Vec::new(),
        };
        let (lower, upper) = (lower.to_vec(), upper.to_vec());
        Ok(Self { lower, upper, free, rest, mirrored, sums, total })
    }

    /// Replaces `out` by a vector.
    pub fn draw(&self, stream: &mut Stream, out: &mut Vec<f64>) {
        out.clear();
        out.extend_from_slice(if self.mirrored { &self.upper } else { &self.lower });
        let sign = if self.mirrored { -1.0 } else { 1.0 };
        let mut left = self.rest;
        for at in (1..self.free.len()).rev() {
            let (place, width) = self.free[at];
            let others = if self.sums.is_empty() {
                // The largest of `at` uniform draws: the rest that spacings leave to the others.
                left * stream.unit().powf(1.0 / at as f64)
            } else {
                let sum = &self.sums[at - 1];
                let (low, high) = ((left - width).max(0.0), left.min(sum.end));
                let (from, to) = (sum.at(low).0, sum.at(high).0);
                sum.inverse(from + stream.unit() * (to - from), low, high)
            };
            out[place] += sign * (left - others);
            left = others;
        }
        if let Some((place, _)) = self.free.first() {
            out[*place] += sign * left;
        }
        for ((x, l), u) in out.iter_mut().zip(&self.lower).zip(&self.upper) {
            *x = x.clamp(*l, *u);
        }
    }

    /// Replaces `out` by a vector without bounds that is uniform (UUniFast: Bini, Buttazzo, 2005);
    /// false if it is not within the bounds.
    pub fn discard(&self, stream: &mut Stream, out: &mut Vec<f64>) -> bool {
        out.clear();
        let (mut left, count) = (self.total, self.lower.len());
        for at in (1..count).rev() {
            let others = left * stream.unit().powf(1.0 / at as f64);
            out.push(left - others);
            left = others;
        }
        out.push(left);
        out.iter().zip(&self.lower).zip(&self.upper).all(|((x, l), u)| x >= l && x <= u)
    }
}

fn check(lower: &[f64], upper: &[f64], total: f64) -> Result<(), StudyError> {
    let refuse = |what: String| Err(StudyError::Input(what));
    if lower.is_empty() || lower.len() != upper.len() {
        return refuse(format!(
            "bounds: {} lower and {} upper ones; give one of each for each task",
            lower.len(),
            upper.len()
        ));
    }
    for (task, (l, u)) in lower.iter().zip(upper).enumerate() {
        // False also for values that are not numbers.
        let ordered = *l >= 0.0 && l <= u && u.is_finite();
        if !ordered {
            return refuse(format!(
                "bounds: task {task} has {l} to {u}; give 0 <= lower <= upper, both finite"
            ));
        }
    }
    let (least, most): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
    let possible = total > 0.0 && total >= least - SLACK && total <= most + SLACK;
    if !possible {
        return refuse(format!(
            "utilization: {total} is not possible with bounds that sum to {least} and {most}; give \
                one above 0 and between these"
        ));
    }
    Ok(())
}

fn tables(free: &[(usize, f64)], rest: f64) -> Vec<Sum> {
    let widths: Vec<f64> = free.iter().map(|f| f.1).collect();
    let mut sums: Vec<Sum> = Vec::with_capacity(widths.len());
    for k in 1..widths.len() {
        let wide = k <= CLOSED && widths[k - 1] >= NARROW * rest;
        let next = match sums.last() {
            Some(before) if !(wide || k == 1) => before.with(widths[k - 1]),
            _ => Sum::closed(&widths[..k], rest),
        };
        sums.push(next.scaled());
    }
    sums
}

impl Sum {
    /// By inclusion and exclusion over the subsets of tasks at their upper bounds.
    fn closed(widths: &[f64], rest: f64) -> Self {
        let step = rest / CELLS as f64;
        let power = |base: f64, k: usize| (1..=k).fold(1.0, |p, j| p * base / j as f64);
        let of = |s: f64, k: usize| {
            let mut sum = 0.0;
            for subset in 0..1u32 << widths.len() {
                let chosen = || (0..widths.len()).filter(|i| subset >> i & 1 == 1);
                let base = s - chosen().map(|i| widths[i]).sum::<f64>();
                if base > 0.0 {
                    let sign = if subset.count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                    sum += sign * power(base, k);
                }
            }
            sum
        };
        let points = || (0..=CELLS).map(|i| i as f64 * step);
        Self {
            step,
            end: widths.iter().sum(),
            value: points().map(|s| of(s, widths.len())).collect(),
            slope: points().map(|s| of(s, widths.len() - 1).max(0.0)).collect(),
        }
    }

    /// The sum with one more task.
    fn with(&self, width: f64) -> Self {
        let change = |i: usize| {
            let s = i as f64 * self.step;
            let (value, slope) = self.at(s - width);
            (self.value[i] - value, self.slope[i] - slope)
        };
        let (mut value, mut slope) = (vec![0.0], Vec::with_capacity(CELLS + 1));
        let (mut before, mut before_curve) = change(0);
        slope.push(before);
        for i in 1..=CELLS {
            let (here, curve) = change(i);
            let here = here.max(0.0);
            let area = self.step * (before + here) / 2.0
                + self.step * self.step * (before_curve - curve) / 12.0;
            value.push(value[i - 1] + area.max(0.0));
            slope.push(here);
            (before, before_curve) = (here, curve);
        }
        Self { step: self.step, end: self.end + width, value, slope }
    }

    /// Never falling, and 1 at the end: factors do not matter, but doubles end.
    fn scaled(mut self) -> Self {
        let mut highest = 0.0f64;
        for value in &mut self.value {
            highest = highest.max(*value);
            *value = highest;
        }
        if highest > 0.0 {
            self.value.iter_mut().chain(&mut self.slope).for_each(|x| *x /= highest);
        }
        self
    }

    /// `F_k` and its slope at `s`.
    fn at(&self, s: f64) -> (f64, f64) {
        if s <= 0.0 {
            return (0.0, 0.0);
        }
        let cell = ((s / self.step) as usize).min(CELLS - 1);
        self.inside(cell, ((s - cell as f64 * self.step) / self.step).min(1.0))
    }

    /// In a cell, at a share of it.
    fn inside(&self, cell: usize, t: f64) -> (f64, f64) {
        let (a, b) = (self.value[cell], self.value[cell + 1]);
        let (m, n) = (self.slope[cell] * self.step, self.slope[cell + 1] * self.step);
        let (c, d) = (3.0 * (b - a) - 2.0 * m - n, m + n - 2.0 * (b - a));
        let value = a + t * (m + t * (c + t * d));
        (value.clamp(a, b), ((m + t * (2.0 * c + 3.0 * t * d)) / self.step).max(0.0))
    }

    /// The `s` between `low` and `high` with `F_k(s) = wanted`.
    fn inverse(&self, wanted: f64, low: f64, high: f64) -> f64 {
        let (first, last) = ((low / self.step) as usize, (high / self.step).ceil() as usize);
        let nodes = &self.value[first.min(CELLS)..=last.min(CELLS)];
        let after = nodes.partition_point(|value| *value < wanted);
        let cell = (first + after).saturating_sub(1).min(CELLS - 1);
        let (mut below, mut above) = (0.0f64, 1.0f64);
        let mut t = 0.5;
        for _ in 0..60 {
            let (value, slope) = self.inside(cell, t);
            if value < wanted {
                below = t;
            } else {
                above = t;
            }
            let newton = t - (value - wanted) / (slope * self.step);
            let next =
                if newton > below && newton < above { newton } else { (below + above) / 2.0 };
            if (next - t).abs() < 1e-12 {
                break;
            }
            t = next;
        }
        ((cell as f64 + t) * self.step).clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest distance between the share of draws up to some value and the exact share.
    fn distance(mut draws: Vec<f64>, exact: impl Fn(f64) -> f64) -> f64 {
        draws.sort_by(f64::total_cmp);
        let count = draws.len() as f64;
        let of = |(i, x): (usize, &f64)| {
            (exact(*x) - i as f64 / count).abs().max((exact(*x) - (i + 1) as f64 / count).abs())
        };
        draws.iter().enumerate().map(of).fold(0.0, f64::max)
    }

    /// `count` draws, by task.
    fn draws(simplex: &Simplex, count: u32) -> Vec<Vec<f64>> {
        let mut out = Vec::new();
        let mut all = vec![Vec::new(); simplex.lower.len()];
        for index in 0..u64::from(count) {
            simplex.draw(&mut Stream::new([0, 1, index, 0]), &mut out);
            all.iter_mut().zip(&out).for_each(|(of_task, x)| of_task.push(*x));
        }
        all
    }

    /// Volume of the vectors that sum to `s` with these widths, by subsets, in one dimension less.
    fn volume(widths: &[f64], s: f64, k: i32) -> f64 {
        (0..1u32 << widths.len())
            .map(|subset| {
                let all = (0..widths.len()).filter(|i| subset >> i & 1 == 1);
                let base = s - all.map(|i| widths[i]).sum::<f64>();
                let sign = if subset.count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                if base > 0.0 { sign * base.powi(k) } else { 0.0 }
            })
            .sum()
    }

    /// Each task's distribution, with bounds that matter, against the exact one of subsets. The
    /// limit is Kolmogorov's for a chance of 10^-6; a distribution that is 2 % off somewhere fails.
    #[test]
    fn each_task_has_its_exact_distribution() {
        let count = 40_000u32;
        let limit = 2.7 / f64::from(count).sqrt();
        for widths in [
            vec![0.5, 0.4, 0.3],
            vec![1.0, 0.2, 0.2, 0.2, 0.2, 0.1, 0.05],
            vec![0.3; 8],
            vec![0.9, 0.8, 0.03, 0.02, 0.01, 0.4],
        ] {
            let all: f64 = widths.iter().sum();
            for share in [0.2, 0.45, 0.7, 0.9] {
                let total = all * share;
                let simplex = Simplex::new(&vec![0.0; widths.len()], &widths, total).unwrap();
                for (place, drawn) in draws(&simplex, count).into_iter().enumerate() {
                    let mut others = widths.clone();
                    others.remove(place);
                    let k = i32::try_from(others.len()).unwrap();
                    let up_to = |x: f64| volume(&others, total, k) - volume(&others, total - x, k);
                    let whole = up_to(widths[place]);
                    let off = distance(drawn, |x| up_to(x) / whole);
                    assert!(off < limit, "{widths:?} {total} task {place}: {off} above {limit}");
                }
            }
        }
    }

    #[test]
    fn sums_and_bounds_are_kept() {
        let mut out = Vec::new();
        for n in [1usize, 2, 20, 200] {
            let lower: Vec<f64> = (0..n).map(|i| 0.1 * (i % 3) as f64).collect();
            let upper: Vec<f64> = (0..n).map(|i| 0.2 + 0.15 * (i % 5) as f64).collect();
            let (least, most): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
            for share in [0.001, 0.3, 0.6, 0.999, 1.0] {
                let total = least + share * (most - least);
                let simplex = Simplex::new(&lower, &upper, total).unwrap();
                for index in 0..50 {
                    simplex.draw(&mut Stream::new([2, 3, index, 0]), &mut out);
                    assert!((out.iter().sum::<f64>() - total).abs() < 1e-9, "{n} {share}");
                    let within = |((x, l), u): ((&f64, &f64), &f64)| x >= l && x <= u;
                    assert!(out.iter().zip(&lower).zip(&upper).all(within));
                }
            }
        }
    }

    #[test]
    fn impossible_bounds_are_refused() {
        for (lower, upper, total) in [
            (vec![], vec![], 1.0),
            (vec![0.0], vec![1.0, 1.0], 1.0),
            (vec![0.0, f64::NAN], vec![1.0, 1.0], 1.0),
            (vec![0.0, -0.1], vec![1.0, 1.0], 1.0),
            (vec![0.0, 0.0], vec![1.0, f64::INFINITY], 1.0),
            (vec![0.6, 0.6], vec![1.0, 1.0], 1.0),
            (vec![0.0, 0.0], vec![0.4, 0.4], 1.0),
            (vec![0.0, 0.0], vec![1.0, 1.0], f64::NAN),
            (vec![0.0, 0.0], vec![1.0, 1.0], 0.0),
        ] {
            assert!(Simplex::new(&lower, &upper, total).is_err(), "{lower:?} {upper:?} {total}");
        }
    }
}
