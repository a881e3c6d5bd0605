//! Random sporadic task sets for studies of schedulability tests.
//!
//! # Problem
//! A curve of schedulability is only as good as its task sets. Utilisations must be uniform among
//! all vectors with the wanted sum, or the curve shows the generator's preferences.
//!
//! # Rule
//! Utilisations, periods and deadlines are drawn one after the other from the set's own stream,
//! named by its seed and its index. A set does not depend on the number of sets drawn with it.
//!
//! # Rounding
//! Times are integers in the caller's unit: `C = round(u T)`, at least 1 and at most `T`. The sum
//! of `C/T` therefore differs from the wanted one, by up to `sum(1 / 2T)` where no `u T` is below
//! one half: periods of at least 10^4 units keep three digits of it.

mod periods;
mod simplex;

pub use periods::Periods;
pub use simplex::Simplex;

use crate::StudyError;
use crate::random::Stream;
use solocore_analysis::SporadicTask;

/// Names the streams of these sets among all streams of [`Stream`].
const PURPOSE: u64 = u64::from_le_bytes(*b"sporadic");
/// Vectors that UUniFast-Discard may refuse in a row.
const DISCARDS: u32 = 100_000;

/// Distribution of utilisations.
#[derive(Clone, Debug)]
pub enum Utilizations {
    /// Uniform with bounds on each task.
    Simplex(Simplex),
    /// UUniFast-Discard: uniform without bounds, again until all tasks are within theirs. For equal
    /// upper bounds (Davis and Burns, RTSS 2009).
    Discard(Simplex),
}

/// Distribution of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// `D = T`.
    Implicit,
    /// `D` uniform in `C..=T`.
    Constrained,
}

/// A distribution of task sets.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Distribution of the tasks' utilisations.
    pub utilizations: Utilizations,
    /// Distribution of the tasks' periods.
    pub periods: Periods,
    /// Distribution of the tasks' deadlines.
    pub deadlines: Deadlines,
    /// Names the sequence of sets.
    pub seed: u64,
}

/// Working memory of a [`Generator`].
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    shares: Vec<f64>,
    periods: Vec<u64>,
}

impl Generator {
    /// Draws the set with this index: its tasks, in order of deadlines (shortest first, which is
    /// the order of deadline monotonic priorities), replace those in `tasks`.
    ///
    /// # Errors
    /// When UUniFast-Discard finds no vector.
    pub fn set(
        &self,
        index: u64,
        scratch: &mut Scratch,
        tasks: &mut Vec<SporadicTask>,
    ) -> Result<(), StudyError> {
        let mut stream = Stream::new([PURPOSE, self.seed, index, 0]);
        match &self.utilizations {
            Utilizations::Simplex(simplex) => simplex.draw(&mut stream, &mut scratch.shares),
            Utilizations::Discard(simplex) => {
                let within = |n: u32| {
                    if n >= DISCARDS {
                        return Err(StudyError::Input(format!(
                            "utilizations: UUniFast-Discard refused {DISCARDS} vectors in a row; \
                                use \"simplex\", which refuses none"
                        )));
                    }
                    Ok(())
                };
                let mut tries = 0;
                while !simplex.discard(&mut stream, &mut scratch.shares) {
                    tries += 1;
                    within(tries)?;
                }
            }
        }
        self.periods.draw(&mut stream, scratch.shares.len(), &mut scratch.periods);
        tasks.clear();
        for (&share, &period) in scratch.shares.iter().zip(&scratch.periods) {
            let wcet = ((share * period as f64).round() as u64).clamp(1, period);
            let deadline = match self.deadlines {
                Deadlines::Implicit => period,
                Deadlines::Constrained => {
                    let spare = (period - wcet) as f64 + 1.0;
                    (wcet + (stream.unit() * spare) as u64).min(period)
                }
            };
            tasks.push(SporadicTask { wcet, period, deadline });
        }
        tasks.sort_by_key(|task| task.deadline);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(deadlines: Deadlines) -> Generator {
        Generator {
            utilizations: Utilizations::Simplex(Simplex::new(&[0.0; 5], &[0.5; 5], 1.5).unwrap()),
            periods: Periods::log_uniform(10_000, 1_000_000, 1).unwrap(),
            deadlines,
            seed: 7,
        }
    }

    #[test]
    fn a_set_is_named_by_seed_and_index() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let (mut scratch, mut fresh) = (Scratch::default(), Scratch::default());
        let generator = generator(Deadlines::Constrained);
        for index in [5, 3, 5] {
            generator.set(index, &mut scratch, &mut one).unwrap();
        }
        generator.set(5, &mut fresh, &mut other).unwrap();
        assert_eq!(one, other);
        Generator { seed: 8, ..generator }.set(5, &mut fresh, &mut other).unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn sets_are_what_was_asked_for() {
        let (mut tasks, mut scratch) = (Vec::new(), Scratch::default());
        let generator = generator(Deadlines::Constrained);
        for index in 0..1000 {
            generator.set(index, &mut scratch, &mut tasks).unwrap();
            let sum: f64 = tasks.iter().map(SporadicTask::utilization).sum();
            // Five roundings of half a unit in periods of 10,000 units.
            assert!((sum - 1.5).abs() <= 5.0 * 0.5 / 10_000.0, "{sum}");
            assert!(tasks.is_sorted_by_key(|t| t.deadline));
            for t in &tasks {
                assert!(t.wcet >= 1 && t.wcet <= t.deadline && t.deadline <= t.period);
                assert!(t.utilization() <= 0.5 + 0.5 / 10_000.0);
            }
        }
    }

    #[test]
    fn a_hopeless_discard_ends() {
        let simplex = Simplex::new(&[0.0; 20], &[0.1; 20], 1.999).unwrap();
        let utilizations = Utilizations::Discard(simplex);
        let generator = Generator { utilizations, ..generator(Deadlines::Implicit) };
        let error = generator.set(0, &mut Scratch::default(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("simplex"), "{error}");
    }
}
