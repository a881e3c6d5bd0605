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
//! # Locked pages
//! Where it is not known which pages these tasks lock, a [`Pool`] says what a page would save each
//! of them, and how many pages they have together. The sum is then one for which no choice of pages
//! has a smaller one: in each window, pages go where they save most. A few of the tasks, which are
//! not known either, may be spared a part of their cost: those where it is the most in the window.
//! A window counts as the next shorter one of a grid, so that each is summed up once; the sum never
//! falls with the window.
//!
//! # Not covered
//! Horizons with more releases than [`MOST`] for each task: there the sum itself is computed.

use crate::memory::costs::{Costs, OVERSHOOT, Refresh};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most releases of a staircase, for each task.
const MOST: u64 = 64;
/// Up to this number of tasks, the sum is computed directly.
const FEW: usize = 8;
/// Powers of two that a horizon may be, ps.
const HORIZONS: usize = 62;
/// Windows of the grid between a power of two and the next.
const GRID: usize = 32;
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

impl Job {
    /// A job with these accesses, each as the costlier kind: the cost of reads and writes apart
    /// leaves out the turns between them.
    #[must_use]
    pub const fn of_accesses(
        (period_ps, reach_ps): (u64, u64),
        accesses: u64,
        costs: &Costs,
    ) -> Self {
        Self { period_ps, reach_ps, cost_ps: accesses.saturating_mul(costs.any_ps) }
    }

    /// A core's budget in each period as a job: it costs no more in any window. `overshoot` is
    /// included: the accesses by which a core can exceed its budget.
    #[must_use]
    pub const fn of_budget(period_ps: u64, accesses: u64, costs: &Costs) -> Self {
        Self::of_accesses((period_ps, period_ps), accesses.saturating_add(OVERSHOOT), costs)
    }
}

/// Pages that jobs share out among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// By job: numbers of pages, and the cost that each of them saves at most, in ps, falling.
    pub savings: Vec<Arc<[(u64, u64)]>>,
    /// Pages of all jobs together.
    pub pages: u64,
    /// By job: a part of its cost that a few of them are spared, in ps.
    pub spared: Vec<u64>,
    /// Number of the jobs that are spared it.
    pub few: usize,
}

/// The sums of windows from a power of two on, plus one; 0 where a sum was not asked for.
type Row = Box<[AtomicU64; GRID]>;

/// Instants, ascending, with the cost of all releases up to each, ps.
type Staircase = Vec<(u64, u64)>;

/// A value for each power of two, each made when it is first asked for. Many rivals are asked
/// nothing.
struct Lazily<T>(OnceLock<Box<[OnceLock<T>; HORIZONS]>>);

impl<T> Lazily<T> {
    const fn none() -> Self {
        Self(OnceLock::new())
    }

    fn get_or(&self, power: usize, made: impl FnOnce() -> T) -> Option<&T> {
        let all = self.0.get_or_init(|| Box::new([const { OnceLock::new() }; HORIZONS]));
        all.get(power).map(|one| one.get_or_init(made))
    }

    #[cfg(test)]
    fn known(&self, power: usize) -> Option<&T> {
        self.0.get().and_then(|all| all.get(power)).and_then(OnceLock::get)
    }
}

/// All tasks of the other cores.
pub struct Rivals {
    jobs: Vec<Job>,
    /// By the power of two of the horizon; `None`: too many releases.
    stairs: Lazily<Option<Staircase>>,
    /// Pages that save a part of the cost, with the sums of the windows of the grid.
    pool: Option<(Pool, Lazily<Row>)>,
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
        Self { jobs, stairs: Lazily::none(), pool: None, part, before_ps }
    }

    /// The rivals with these tasks without locked pages, and the pages that they share out.
    #[must_use]
    pub fn sharing(jobs: Vec<Job>, pool: Pool) -> Self {
        let saved = |savings: &[(u64, u64)]| {
            let of = |&(pages, ps): &(u64, u64)| pages.min(pool.pages).saturating_mul(ps);
            savings.iter().map(of).fold(0, u64::saturating_add)
        };
        let least = |(at, j): (usize, &Job)| {
            let spared = pool.spared.get(at).copied().unwrap_or(0);
            let saved = pool.savings.get(at).map_or(0, |savings| saved(savings));
            let saved = saved.saturating_add(spared);
            Job { cost_ps: j.cost_ps.saturating_sub(saved), ..*j }
        };
        let least = Self::new(jobs.iter().enumerate().map(least).collect());
        Self { jobs, pool: Some((pool, Lazily::none())), ..least }
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
        if let Some((pool, grid)) = &self.pool {
            let (row, cell, from_ps) = on_grid(window_ps);
            let sum = || self.sum(from_ps).saturating_sub(self.saved(pool, from_ps));
            let none = || Box::new([const { AtomicU64::new(0) }; GRID]);
            let Some(known) = grid.get_or(row, none).and_then(|row| row.get(cell)) else {
                return sum();
            };
            // Two threads that find it at once find the same.
            return known.load(Ordering::Relaxed).checked_sub(1).unwrap_or_else(|| {
                let found = sum();
                // The largest number has no place: it is found again.
                known.store(found.wrapping_add(1), Ordering::Relaxed);
                found
            });
        }
        let horizon = (u64::BITS - window_ps.saturating_sub(1).leading_zeros()) as usize;
        let stairs = (self.jobs.len() > FEW)
            .then(|| self.stairs.get_or(horizon, || self.staircase(1 << horizon)))
            .flatten()
            .and_then(Option::as_ref);
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

    /// The most that pages can save in a window.
    fn saved(&self, pool: &Pool, window_ps: u64) -> u64 {
        let number = |j: &Job| window_ps.saturating_add(j.reach_ps).div_ceil(j.period_ps.max(1));
        // What is left of each job's pages.
        let mut jobs: Vec<(u64, &[(u64, u64)])> =
            self.jobs.iter().zip(&pool.savings).map(|(j, all)| (number(j), &all[..])).collect();
        let spared = jobs.iter().zip(&pool.spared).map(|(job, &ps)| job.0.saturating_mul(ps));
        let mut spared: Vec<u64> = spared.filter(|&ps| ps > 0).collect();
        spared.sort_unstable_by(|a, b| b.cmp(a));
        let mut saved = spared.iter().take(pool.few).copied().fold(0, u64::saturating_add);
        let gain = |job: &(u64, &[(u64, u64)])| {
            job.1.first().map_or(0, |&(_, each)| each.saturating_mul(job.0))
        };
        // What one of the next pages of each job saves: of few jobs, all are looked at.
        let mut next: Vec<u64> = jobs.iter().map(gain).collect();
        let mut left = pool.pages;
        while left > 0 {
            let (mut at, mut each) = (0, 0);
            for (other, &gain) in next.iter().enumerate() {
                (at, each) = if gain > each { (other, gain) } else { (at, each) };
            }
            let Some((&(pages, _), rest)) = jobs.get(at).and_then(|job| job.1.split_first()) else {
                break;
            };
            let taken = pages.min(left);
            saved = saved.saturating_add(each.saturating_mul(taken));
            left -= taken;
            jobs[at].1 = rest;
            next[at] = gain(&jobs[at]);
        }
        saved
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

/// The next shorter window of the grid, with its row and its place there.
fn on_grid(window_ps: u64) -> (usize, usize, u64) {
    let power = window_ps.max(GRID as u64).ilog2();
    let shift = power - GRID.ilog2();
    // In the first row, shorter windows come before it.
    let cell = (window_ps >> shift) as usize;
    let row = shift as usize + usize::from(cell >= GRID);
    (row, cell % GRID, (window_ps >> shift) << shift)
}

impl Clone for Rivals {
    fn clone(&self) -> Self {
        match &self.pool {
            Some((pool, _)) => Self::sharing(self.jobs.clone(), pool.clone()),
            None => Self::new(self.jobs.clone()),
        }
    }
}

impl PartialEq for Rivals {
    fn eq(&self, other: &Self) -> bool {
        let pool = |of: &Self| of.pool.as_ref().map(|(pool, _)| pool.clone());
        self.jobs == other.jobs && pool(self) == pool(other)
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

    /// Three jobs with falling savings of pages, and a part that few of them are spared.
    fn pools() -> impl Strategy<Value = (Vec<Job>, Pool)> {
        let job = (1u64..60, 0u64..200, 0u64..9, 0u64..9, prop::collection::vec(0u64..9, 0..4));
        (prop::collection::vec(job, 3), 0u64..9, 0usize..3).prop_map(|(all, pages, few)| {
            let mut pool = Pool { pages, few, ..Pool::default() };
            let mut jobs = Vec::new();
            for (period_ps, reach_ps, rest, spared, mut savings) in all {
                savings.sort_unstable_by(|a, b| b.cmp(a));
                let cost_ps = rest + spared + savings.iter().sum::<u64>();
                jobs.push(Job { period_ps, reach_ps, cost_ps });
                pool.savings.push(savings.into_iter().map(|ps| (1, ps)).collect());
                pool.spared.push(spared);
            }
            (jobs, pool)
        })
    }

    /// The jobs with these numbers of pages. Those in a set of bits are spared a part.
    fn chosen(jobs: &[Job], pool: &Pool, pages: [usize; 3], spared: usize) -> Vec<Job> {
        let of = |at: usize| {
            let saved: u64 = pool.savings[at].iter().take(pages[at]).map(|(_, ps)| ps).sum();
            let less = if spared >> at & 1 == 1 { pool.spared[at] } else { 0 };
            Job { cost_ps: jobs[at].cost_ps - saved - less, ..jobs[at] }
        };
        (0..3).map(of).collect()
    }

    proptest! {
        /// No choice of pages, and of jobs that are spared a part, costs less; nor do two windows
        /// change their order.
        #[test]
        fn no_choice_of_pages_costs_less((jobs, pool) in pools(), shift in 0u32..20) {
            let shared = Rivals::sharing(jobs.clone(), pool.clone());
            for choice in 0..4usize.pow(3) * 8 {
                let pages = [choice % 4, choice / 4 % 4, choice / 16 % 4];
                let spared = choice / 64;
                let within = pages.iter().sum::<usize>() as u64 <= pool.pages
                    && spared.count_ones() as usize <= pool.few;
                if within {
                    let rivals = Rivals::new(chosen(&jobs, &pool, pages, spared));
                    prop_assert!(shared.part <= rivals.part && shared.before_ps <= rivals.before_ps);
                    for window in [0, 1, 31, 32, 33, 63, 64, 65, 200].map(|w: u64| w << shift) {
                        prop_assert!(shared.cost_ps(window) <= rivals.cost_ps(window), "{window}");
                        prop_assert!(shared.cost_ps(window) <= shared.cost_ps(window + 1));
                    }
                }
            }
        }
    }

    #[test]
    fn the_grid_has_a_place_for_each_window() {
        let mut last = (0, 0, 0);
        for window in (1u64..5000).chain((13..64).map(|power| (1 << power) - 1)) {
            let (row, cell, from_ps) = on_grid(window);
            assert!(from_ps <= window && window - from_ps <= window / 32, "{window}: {from_ps}");
            assert!(cell < GRID && row < HORIZONS + 2);
            let same = (row, cell) == (last.0, last.1);
            assert_eq!(same, from_ps == last.2, "{window}");
            last = (row, cell, from_ps);
        }
    }

    #[test]
    fn many_windows_use_a_staircase_and_endless_ones_the_sum() {
        let job = |n: u64| Job { period_ps: 10 + n, reach_ps: n, cost_ps: 1 };
        let rivals = Rivals::new((0..20).map(job).collect());
        assert_eq!(rivals.cost_ps(100), rivals.sum(100));
        assert!(rivals.stairs.known(7).is_some_and(Option::is_some));
        assert_eq!(rivals.cost_ps(1 << 40), rivals.sum(1 << 40));
        assert!(rivals.stairs.known(40).is_some_and(Option::is_none));
    }
}
