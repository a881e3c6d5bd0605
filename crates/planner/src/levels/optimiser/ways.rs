//! Phase 3: the ways of the last-level cache for each core and level. Exact, for curves of any
//! form.
//!
//! # Problem
//! `W` ways go to one region per core (levels A and B), one of level C and the OS, and one of
//! locked message buffers. The paper solves a mixed integer program (section 6.1). A split is good
//! if
//! * on each core, the demand of level A with A-PETs, and the demand of A and B with B-PETs, fits
//!   (checks 0 and 1);
//! * level C passes: `U_C + S <= m` and `S + (f*h + H) < m`, `S` the demand of A and B on all cores
//!   with C-PETs (check 2), and each job of level C fits its period.
//!
//! # Rule
//! Given the ways of locked buffers, checks 0 and 1 separate the cores: each has a set of sizes
//! that pass, of any shape. The cores then meet only in the sum `S`. Its least value for each
//! number of ways is a min-plus convolution of the cores' curves. It takes at most `m*W^2/2`
//! additions, most often a few dozen, because only the ways beyond the least sizes are shared out.
//! Then every size of level C's region is tried. So all splits are covered without listing them,
//! and no curve need be convex. With every test `a <= limit`, sums of floating-point numbers must
//! stay [`MARGIN`] below the limit, so that rounding can only err to the safe side.
//!
//! # Not covered
//! More than [`MOST_WAYS`] ways or [`MOST_CORES`] cores. The locked buffers are chosen before
//! ([`super::tables`]).

/// Most ways.
pub const MOST_WAYS: usize = 16;

/// Most cores.
pub const MOST_CORES: usize = 16;

/// Sizes of a region: 0 to [`MOST_WAYS`].
pub const SIZES: usize = MOST_WAYS + 1;

/// Distance that a sum must keep below its limit; far above rounding, far below the accuracy of a
/// utilization.
pub const MARGIN: f64 = 1e-9;

/// A value for each check: level A, level B, level C.
pub type Checks = [f64; 3];

/// Demand of a core at each size of its region, and the savings by locked buffers.
#[derive(Debug, Clone, Copy)]
pub struct CoreDemand<'a> {
    /// By check and size, in utilization.
    pub demand: &'a [[f64; SIZES]; 3],
    /// By ways of locked buffers, then check.
    pub saved: &'a [Checks; SIZES],
}

/// Level C's demand by the size of its region.
pub trait LevelC {
    /// `U_C`.
    fn total(&mut self, ways: usize) -> f64;
    /// `f*h + H`; infinite if a job does not fit its period.
    fn margin(&mut self, ways: usize) -> f64;
}

/// Limits of the split.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// All ways, at most [`MOST_WAYS`].
    pub ways: usize,
    /// Fewest ways of level C.
    pub least_c: usize,
    /// Most ways of locked buffers.
    pub most_locked: usize,
}

/// Objective of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// Any good split.
    Feasible,
    /// Least total utilization of level C (the paper's objective); among equals, the least demand
    /// of levels A and B, which lowers the bound on tardiness.
    LeastLevelC,
    /// Fewest ways in all; among equals, the least utilization of level C.
    FewestWays,
}

/// A split of the ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Ways of each core; entries beyond the cores are 0.
    pub cores: [usize; MOST_CORES],
    /// Ways of level C and the OS.
    pub level_c: usize,
    /// Ways of locked buffers.
    pub locked: usize,
    /// Total utilization of level C.
    pub level_c_utilization: f64,
    /// Utilization of levels A and B on all cores, by C-PETs.
    pub taken: f64,
}

impl Split {
    /// Ways used in all.
    #[must_use]
    pub fn ways(&self) -> usize {
        self.cores.iter().sum::<usize>() + self.level_c + self.locked
    }
}

/// The best split, or `None` if none is good.
pub fn search(
    cores: &[CoreDemand],
    level_c: &mut impl LevelC,
    limits: &Limits,
    goal: Objective,
) -> Option<Split> {
    if cores.len() > MOST_CORES || limits.ways > MOST_WAYS {
        return None;
    }
    let room = limits.ways.checked_sub(limits.least_c)?;
    let mut best: Option<Split> = None;
    for locked in 0..=limits.most_locked.min(room) {
        let Some((least, spare)) = least_sizes(cores, locked, room - locked) else { continue };
        let shared = SharedOut::new(cores, locked, &least, spare);
        for extra in (0..=spare).rev() {
            let ways = limits.least_c + extra;
            let total = level_c.total(ways);
            if !worth_trying(best.as_ref(), total, goal) {
                continue;
            }
            let sum = shared.least_sum(spare - extra);
            let limit = cores.len() as f64 - MARGIN;
            if total + sum > limit || sum + level_c.margin(ways) > limit {
                continue;
            }
            let split = |left: usize| Split {
                cores: shared.sizes(left, &least),
                level_c: ways,
                locked,
                level_c_utilization: total,
                taken: shared.least_sum(left),
            };
            match goal {
                Objective::Feasible => return Some(split(spare - extra)),
                Objective::LeastLevelC => {
                    let other = split(spare - extra);
                    if best.is_none_or(|best| lower(&other, &best)) {
                        best = Some(other);
                    }
                }
                Objective::FewestWays => {
                    let margin = level_c.margin(ways);
                    let good = |left: &usize| {
                        let sum = shared.least_sum(*left);
                        total + sum <= limit && sum + margin <= limit
                    };
                    let left = (0..=spare - extra).find(good).unwrap_or(spare - extra);
                    best = fewer(best, split(left));
                }
            }
        }
    }
    best
}

fn worth_trying(best: Option<&Split>, total: f64, goal: Objective) -> bool {
    goal != Objective::LeastLevelC || best.is_none_or(|b| total <= b.level_c_utilization)
}

/// Is a split better than another for level C? Demands of A and B that differ by rounding are
/// equal.
pub(crate) fn lower(split: &Split, than: &Split) -> bool {
    let (own, other) = (split.level_c_utilization, than.level_c_utilization);
    own < other || own <= other && split.taken < than.taken - MARGIN
}

fn fewer(best: Option<Split>, other: Split) -> Option<Split> {
    let key = |s: &Split| (s.ways(), s.level_c_utilization);
    match best {
        Some(best) if key(&best) <= key(&other) => Some(best),
        _ => Some(other),
    }
}

/// Does a core pass checks 0 and 1 with this number of ways?
fn passes(core: &CoreDemand, ways: usize, locked: usize) -> bool {
    let fits = |check: usize| core.demand[check][ways] - core.saved[locked][check] <= 1.0 - MARGIN;
    fits(0) && fits(1) && fits(2)
}

/// The least size of each core that passes, and the rest of `room`. `None` if there is not enough.
fn least_sizes(
    cores: &[CoreDemand],
    locked: usize,
    room: usize,
) -> Option<([usize; MOST_CORES], usize)> {
    let (mut least, mut spare) = ([0; MOST_CORES], room);
    for (core, least) in cores.iter().zip(&mut least) {
        *least = (0..=spare).find(|&ways| passes(core, ways, locked))?;
        spare -= *least;
    }
    Some((least, spare))
}

/// Ways beyond the least sizes, shared out so that the cores' demand with C-PETs is least.
struct SharedOut {
    /// By number of ways to share out.
    sums: [f64; SIZES],
    /// By core, then by ways to share out: the core's number of them.
    choices: [[u8; SIZES]; MOST_CORES],
    cores: usize,
}

impl SharedOut {
    fn new(cores: &[CoreDemand], locked: usize, least: &[usize; MOST_CORES], spare: usize) -> Self {
        let mut out =
            Self { sums: [0.0; SIZES], choices: [[0; SIZES]; MOST_CORES], cores: cores.len() };
        for (k, core) in cores.iter().enumerate() {
            let mut own = [f64::INFINITY; SIZES];
            for (extra, own) in own.iter_mut().enumerate().take(spare + 1) {
                let ways = least[k] + extra;
                if passes(core, ways, locked) {
                    *own = core.demand[2][ways] - core.saved[locked][2];
                }
            }
            // In place: sums with fewer ways are not yet replaced when counting down.
            for all in (0..=spare).rev() {
                let (mut sum, mut choice) = (f64::INFINITY, 0);
                for (extra, own) in own.iter().enumerate().take(all + 1) {
                    let with = out.sums[all - extra] + own;
                    if with < sum {
                        (sum, choice) = (with, extra);
                    }
                }
                out.sums[all] = sum;
                out.choices[k][all] = u8::try_from(choice).unwrap_or(0);
            }
        }
        out
    }

    fn least_sum(&self, ways: usize) -> f64 {
        self.sums[ways]
    }

    fn sizes(&self, ways: usize, least: &[usize; MOST_CORES]) -> [usize; MOST_CORES] {
        let (mut sizes, mut left) = (*least, ways);
        for k in (0..self.cores).rev() {
            let extra = usize::from(self.choices[k][left]);
            sizes[k] += extra;
            left -= extra;
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    struct Table {
        total: [f64; SIZES],
        margin: [f64; SIZES],
    }

    impl LevelC for Table {
        fn total(&mut self, ways: usize) -> f64 {
            self.total[ways]
        }
        fn margin(&mut self, ways: usize) -> f64 {
            self.margin[ways]
        }
    }

    struct Problem {
        demand: [[[f64; SIZES]; 3]; 4],
        saved: [[Checks; SIZES]; 4],
        level_c: Table,
        limits: Limits,
    }

    impl Problem {
        /// Curves around the edge; exponentials with `convex`, else of any form.
        fn draw(stream: &mut ChaCha8Rng, convex: bool) -> Self {
            let hard = stream.random_range(0.3..1.0);
            let mut curve = |scale: f64| -> [f64; SIZES] {
                let (flat, steep, q) = (
                    scale * stream.random_range(0.2..0.8),
                    scale * stream.random_range(0.1..1.0),
                    stream.random_range(0.5..0.95),
                );
                std::array::from_fn(|w| {
                    let noise = if convex { 0.0 } else { scale * stream.random_range(-0.3..0.3) };
                    (flat + steep * super::super::curve::power(q, w) + noise).max(0.0)
                })
            };
            let demand = std::array::from_fn(|_| [curve(hard), curve(hard), curve(hard * 0.7)]);
            let level_c = Table { total: curve(2.5 * hard), margin: curve(2.0) };
            let step = stream.random_range(0.0..0.05);
            let saved = std::array::from_fn(|_| {
                std::array::from_fn(|l| [step * l as f64, step * (l / 2) as f64, step * l as f64])
            });
            Self {
                demand,
                saved,
                level_c,
                limits: Limits { ways: 16, least_c: 0, most_locked: 16 },
            }
        }

        fn cores(&self) -> [CoreDemand<'_>; 4] {
            std::array::from_fn(|k| CoreDemand { demand: &self.demand[k], saved: &self.saved[k] })
        }

        fn good(&self, cores: &[usize; 4], level_c: usize, locked: usize) -> bool {
            let demand = |k: usize, check: usize| {
                self.demand[k][check][cores[k]] - self.saved[k][locked][check]
            };
            let fits = (0..4).all(|k| (0..3).all(|check| demand(k, check) <= 1.0 - MARGIN));
            let sum: f64 = (0..4).map(|k| demand(k, 2)).sum();
            fits && self.level_c.total[level_c] + sum <= 4.0 - MARGIN
                && sum + self.level_c.margin[level_c] <= 4.0 - MARGIN
        }

        /// All C(22, 6) splits one by one: least utilization of level C, fewest ways, and the
        /// number of good splits.
        fn enumerate(&self) -> (Option<f64>, Option<usize>, u32) {
            let (mut least, mut fewest, mut count) = (None::<f64>, None::<usize>, 0);
            for code in 0..17usize.pow(4) {
                let cores: [usize; 4] =
                    std::array::from_fn(|k| code / 17usize.pow(u32::try_from(k).unwrap()) % 17);
                let used: usize = cores.iter().sum();
                for level_c in 0..=16usize.saturating_sub(used) {
                    for locked in 0..=16usize.saturating_sub(used + level_c) {
                        if used > 16 {
                            continue;
                        }
                        count += 1;
                        if self.good(&cores, level_c, locked) {
                            least = Some(least.map_or(self.level_c.total[level_c], |l| {
                                l.min(self.level_c.total[level_c])
                            }));
                            fewest = Some(fewest.map_or(used + level_c + locked, |f| {
                                f.min(used + level_c + locked)
                            }));
                        }
                    }
                }
            }
            (least, fewest, count)
        }
    }

    /// Problems to enumerate; more by SOLOCORE_STUDY_ENUMERATE for the nightly run.
    fn problems() -> u64 {
        std::env::var("SOLOCORE_STUDY_ENUMERATE").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
    }

    #[test]
    fn equal_to_all_splits_one_by_one() {
        let mut good = 0;
        for at in 0..problems() {
            let mut stream = ChaCha8Rng::seed_from_u64(at);
            let mut problem = Problem::draw(&mut stream, at % 4 == 0);
            let (least, fewest, count) = problem.enumerate();
            assert_eq!(count, 74_613);
            let limits = problem.limits;
            for goal in [Objective::Feasible, Objective::LeastLevelC, Objective::FewestWays] {
                let cores: Vec<([[f64; SIZES]; 3], [Checks; SIZES])> =
                    (0..4).map(|k| (problem.demand[k], problem.saved[k])).collect();
                let cores: Vec<CoreDemand> =
                    cores.iter().map(|(demand, saved)| CoreDemand { demand, saved }).collect();
                let found = search(&cores, &mut problem.level_c, &limits, goal);
                assert_eq!(found.is_some(), least.is_some(), "{at} {goal:?}");
                let Some(split) = found else { continue };
                let sizes = std::array::from_fn(|k| split.cores[k]);
                assert!(
                    split.ways() <= 16 && problem.good(&sizes, split.level_c, split.locked),
                    "{at} {split:?}"
                );
                match goal {
                    Objective::LeastLevelC => {
                        assert_eq!(Some(split.level_c_utilization), least, "{at}")
                    }
                    Objective::FewestWays => assert_eq!(Some(split.ways()), fewest, "{at}"),
                    Objective::Feasible => good += 1,
                }
            }
        }
        let all = problems();
        assert!(good > all / 10 && good < all, "{good} of {all}: the problems are all of one kind");
    }

    #[test]
    fn limits_are_kept() {
        let mut problem = Problem::draw(&mut ChaCha8Rng::seed_from_u64(1), true);
        problem.demand = [[[0.1; SIZES]; 3]; 4];
        problem.level_c.margin = [0.1; SIZES];
        problem.level_c.total = [0.1; SIZES];
        let cores = problem.demand.map(|demand| (demand, [[0.0; 3]; SIZES]));
        let cores: Vec<CoreDemand> =
            cores.iter().map(|(demand, saved)| CoreDemand { demand, saved }).collect();
        let mut ask =
            |limits: Limits| search(&cores, &mut problem.level_c, &limits, Objective::FewestWays);
        assert_eq!(ask(Limits { ways: 16, least_c: 3, most_locked: 0 }).unwrap().ways(), 3);
        assert_eq!(ask(Limits { ways: 2, least_c: 3, most_locked: 0 }), None);
        assert_eq!(ask(Limits { ways: 17, least_c: 0, most_locked: 0 }), None);
        assert_eq!(problem.cores().len(), 4);
    }
}
