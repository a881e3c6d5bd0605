//! Cost of other cores' tasks in a window, for many tasks and many windows.
//!
//! # Problem
//! The stall of one window needs the sum over all tasks of the other cores repeatedly: in each step
//! of every recurrence, for every level of every core. With `n` tasks, a plan computes `n` times
//! `n` terms.
//!
//! # Rule
//! The sum only changes at a release of a job, so it is a staircase. The releases up to a horizon
//! are sorted once, with the sum after each; a window is then looked up. Horizons are powers of
//! two. The staircase is exact: it equals the sum for every window.
//!
//! A recurrence that adds the sum to its own window begins at [`Rivals::at_least`]: without the
//! rounding to whole jobs it is a linear equation, and its solution is no more than the least one.
//!
//! # Not covered
//! Horizons with more releases than [`MOST`] for each task: there the sum itself is computed.

use crate::memory::costs::Refresh;
use std::sync::OnceLock;

/// Most releases of a staircase, for each task.
const MOST: u64 = 64;
/// Up to this number of tasks, the sum is computed directly.
const FEW: usize = 8;
/// Powers of two that a horizon may be, ps.
const HORIZONS: usize = 62;
/// A sum of 100,000 floating point numbers that are not negative, times this, is no more than the
/// exact one.
const ROUNDED: f64 = 1.0 - 1e-9;

/// A task of another core: its jobs cost `cost_ps` each, are released at least `period_ps` apart,
/// and end within `reach_ps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Least time between releases.
    pub period_ps: u64,
    /// Longest time from a job's release to its end.
    pub reach_ps: u64,
    /// Cost of its accesses.
    pub cost_ps: u64,
}

/// Instants, ascending, with the cost of all releases up to each, ps.
type Staircase = Vec<(u64, u64)>;

/// All tasks of the other cores.
pub struct Rivals {
    jobs: Vec<Job>,
    /// By the power of two of the horizon; `None`: too many releases.
    stairs: [OnceLock<Option<Staircase>>; HORIZONS],
    /// At most the part of all time that their jobs cost in the long run.
    part: f64,
    /// At most the cost of a window beyond that part of it, ps.
    before_ps: f64,
}

impl Rivals {
    /// The rivals with these tasks.
    #[must_use]
    pub fn new(jobs: Vec<Job>) -> Self {
        let each = |j: &Job| j.cost_ps as f64 / j.period_ps.max(1) as f64;
        // A window of the recurrence and the reach together fit in 64 bits.
        let before = |j: &Job| j.reach_ps.min(u64::MAX / 2) as f64 * each(j);
        let part = ROUNDED * jobs.iter().map(each).sum::<f64>();
        let before_ps = ROUNDED * jobs.iter().map(before).sum::<f64>();
        Self { jobs, stairs: [const { OnceLock::new() }; HORIZONS], part, before_ps }
    }

    /// The tasks.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The longest delay of a core by their jobs in a window of `window_ps`, in picoseconds: the
    /// sum of `ceil((window + reach)/period)*cost`. [`u64::MAX`] if that is more.
    #[must_use]
    pub fn cost_ps(&self, window_ps: u64) -> u64 {
        let horizon = (u64::BITS - window_ps.saturating_sub(1).leading_zeros()) as usize;
        let stairs = (self.jobs.len() > FEW)
            .then(|| self.stairs.get(horizon))
            .flatten()
            .and_then(|stairs| stairs.get_or_init(|| self.staircase(1 << horizon)).as_ref());
        match stairs {
            // The first step lies at 0 and contains the releases before the window.
            Some(stairs) => {
                let after = stairs.partition_point(|&(at, _)| at < window_ps);
                stairs[after.max(1) - 1].1
            }
            None => self.sum(window_ps),
        }
    }

    /// A lower limit, in picoseconds, of the least total that holds `base_ps`, the jobs of the
    /// window `total + once_ps`, and its refreshes; [`u64::MAX`] if these take all the time.
    #[must_use]
    pub(super) fn at_least(&self, base_ps: u64, once_ps: u64, refresh: &Refresh) -> u64 {
        let part = self.part + ROUNDED * refresh.part();
        let fixed_ps = base_ps as f64 + once_ps as f64 * part + self.before_ps;
        if part < 1.0 {
            (fixed_ps / (1.0 - part) * ROUNDED) as u64
        } else if fixed_ps > 0.0 {
            u64::MAX
        } else {
            0
        }
    }

    fn sum(&self, window_ps: u64) -> u64 {
        let cost = |j: &Job| {
            let number = window_ps.saturating_add(j.reach_ps).div_ceil(j.period_ps.max(1));
            number.saturating_mul(j.cost_ps)
        };
        self.jobs.iter().map(cost).fold(0, u64::saturating_add)
    }

    /// The staircase of windows up to `horizon_ps`; `None` if it has too many steps, or if a time
    /// does not fit.
    fn staircase(&self, horizon_ps: u64) -> Option<Staircase> {
        let count = |j: &Job| horizon_ps / j.period_ps.max(1);
        let count = self.jobs.iter().map(count).fold(0, u64::saturating_add);
        let far = self.jobs.iter().any(|j| j.reach_ps.max(j.period_ps) >= 1 << HORIZONS);
        if far || count > MOST * self.jobs.len() as u64 {
            return None;
        }
        let mut stairs: Staircase = vec![(0, self.sum(0))];
        for j in &self.jobs {
            let period_ps = j.period_ps.max(1);
            // A window that ends after this instant meets one job more.
            let mut at_ps = j.reach_ps.div_ceil(period_ps) * period_ps - j.reach_ps;
            while at_ps < horizon_ps {
                stairs.push((at_ps, j.cost_ps));
                at_ps += period_ps;
            }
        }
        stairs[1..].sort_unstable();
        let mut sum_ps = 0u64;
        for (_, cost_ps) in &mut stairs {
            sum_ps = sum_ps.saturating_add(*cost_ps);
            *cost_ps = sum_ps;
        }
        Some(stairs)
    }
}

impl Clone for Rivals {
    fn clone(&self) -> Self {
        Self::new(self.jobs.clone())
    }
}

impl PartialEq for Rivals {
    fn eq(&self, other: &Self) -> bool {
        self.jobs == other.jobs
    }
}

impl Eq for Rivals {}

impl std::fmt::Debug for Rivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.jobs).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs() -> impl Strategy<Value = Vec<Job>> {
        let small = (1u64..60, 0u64..200, 0u64..9);
        let any = (any::<u64>(), any::<u64>(), any::<u64>());
        let near = (1u64 << 58..1 << 62, 1u64 << 58..1 << 62, 0u64..1 << 60);
        let job = prop_oneof![20 => small, 1 => near, 1 => any];
        let job =
            job.prop_map(|(period_ps, reach_ps, cost_ps)| Job { period_ps, reach_ps, cost_ps });
        prop::collection::vec(job, 0..30)
    }

    proptest! {
        /// Also at the instants of the steps themselves, where an error of one would show.
        #[test]
        fn the_staircase_is_the_sum(
            jobs in jobs(), windows in prop::collection::vec(0u64..300, 1..40), shift in 0u32..63,
        ) {
            let rivals = Rivals::new(jobs);
            for window in windows.into_iter().flat_map(|w| [w, w << (shift / 8), w << shift, u64::MAX - w]) {
                prop_assert_eq!(rivals.cost_ps(window), rivals.sum(window), "{}", window);
            }
        }
    }

    #[test]
    fn many_windows_use_a_staircase_and_endless_ones_the_sum() {
        let job = |n: u64| Job { period_ps: 10 + n, reach_ps: n, cost_ps: 1 };
        let rivals = Rivals::new((0..20).map(job).collect());
        assert_eq!(rivals.cost_ps(100), rivals.sum(100));
        assert!(rivals.stairs[7].get().is_some_and(Option::is_some));
        assert_eq!(rivals.cost_ps(1 << 40), rivals.sum(1 << 40));
        assert!(rivals.stairs[40].get().is_some_and(Option::is_none));
    }
}
