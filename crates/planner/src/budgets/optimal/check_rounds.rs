//! The needs of a set of tasks on a core, as the check of a certificate sees it.
//!
//! Rule: the tasks outside of a set are on the other cores, in some partition. The facts give each
//! set a least budget and least ways. The least sums over all partitions of the other tasks stand
//! beside the set. Beside them, more facts about the set hold: it has fewer ways, a larger budget,
//! or is in no partition. The rounds are repeated until no set changes. Does not cover: the facts,
//! which `check` asks the analysis for.

use super::certificate::{Set, Ways};
use super::check_core::Cores;
use super::check_facts::Facts;
use super::check_speed::Wants;
use super::check_ways::{ByWays, Held, Sums, WIDTH};
use rayon::prelude::*;

/// Sums of speeds are rounded by less than this.
pub const ROUNDED: f64 = 5e-10;

/// Most rounds.
const MOST: u32 = 100;
/// Most sets of a system for which there is a table of budgets by ways.
const MOST_SETS: usize = 1 << 16;

/// The least cost of each set on one core and more.
type Costs = Vec<Vec<f64>>;

/// All sets; `None`: in no partition.
pub struct Sets {
    pub held: Vec<Option<Held>>,
    budgets: Costs,
    ways: Costs,
    speeds: Costs,
    bears: Costs,
    /// The same budgets by ways, if there are few sets.
    by_ways: Option<ByWays>,
}

impl Sets {
    /// Those that are possible by themselves, after all rounds.
    ///
    /// # Errors
    /// When the caller wants it to end.
    pub fn of(
        cores: &mut Cores,
        facts: &Facts,
        possible: impl Fn(&Cores, Set) -> bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let most = cores.ways.1;
        let first = |set: Set| Held {
            ways: Ways { least: 1, most },
            budget: cores.floor(set),
            breaks: u64::MAX,
            speed: cores.programs(set).len() as f64,
        };
        let held = (0..=cores.all()).map(|set| possible(cores, set).then(|| first(set))).collect();
        let none = Vec::new;
        let mut sets = Self {
            held,
            budgets: none(),
            ways: none(),
            speeds: none(),
            bears: none(),
            by_ways: None,
        };
        let few =
            sets.held.len() <= MOST_SETS && (cores.ways.0 as usize) < WIDTH && cores.ways.1 > 1;
        if few && cores.known {
            sets.by_ways = Some(ByWays::of(cores, &sets.held, stop)?);
        }
        sets.sum(cores, stop)?;
        let workers = rayon::current_num_threads();
        let mut workers: Vec<Cores> = (0..workers).map(|_| cores.again()).collect();
        for _ in 0..MOST {
            let before = sets.held.clone();
            for (set, after, own) in sets.round(&mut workers, facts) {
                sets.held[set as usize] = after;
                if let Some(by_ways) = sets.by_ways.as_mut().filter(|_| !own.is_empty()) {
                    by_ways.set(set, own);
                }
            }
            sets.sum(cores, stop)?;
            let ends = sets.held == before;
            match &mut sets.by_ways {
                Some(by_ways) => by_ways.again(cores, &sets.held, stop)?,
                None if ends && few => {
                    sets.by_ways = Some(ByWays::of(cores, &sets.held, stop)?);
                    continue;
                }
                None => {}
            }
            if ends {
                break;
            }
        }
        Ok(sets)
    }

    /// Looks at all sets that are left. Each comes with its state after the round (`None`: it has
    /// none), and with its budgets by ways, if these are known. Each worker has sets of its own.
    fn round(&self, workers: &mut [Cores], facts: &Facts) -> Vec<(Set, Option<Held>, Vec<f64>)> {
        let step = workers.len();
        let of = |(first, cores): (usize, &mut Cores)| -> Vec<_> {
            let sets = (first..self.held.len()).step_by(step);
            let look = |set: usize| {
                let (held, set) = (self.held[set]?, set as Set);
                let after = self.after(cores, facts, set, held);
                let (after, own) = match (&self.by_ways, after) {
                    (Some(by_ways), Some(held)) => {
                        let mut needed = |cores: &mut Cores, ways, own| {
                            self.reaching(cores, set, ways, own).map(|(_, budget)| budget)
                        };
                        by_ways.after(cores, facts, set, held, &mut needed)
                    }
                    (_, after) => (after, Vec::new()),
                };
                Some((set, after, own))
            };
            sets.filter_map(look).collect()
        };
        workers.par_iter_mut().enumerate().flat_map_iter(of).collect()
    }

    /// Sets with these budgets by ways.
    #[cfg(test)]
    pub fn with(cores: &Cores, own: Vec<Vec<f64>>) -> Self {
        let held = |own: &Vec<f64>| {
            let (ways, budget) = super::exact_tests::needs(own)?;
            Some(Held { ways, budget, breaks: u64::MAX, speed: 0.0 })
        };
        let held = own.iter().map(held).collect();
        let [budgets, ways, speeds, bears] = [const { Vec::new() }; 4];
        let by_ways = Some(ByWays::with(cores, own));
        let mut made = Self { held, budgets, ways, speeds, bears, by_ways };
        made.sum(cores, &|| false).expect("nobody ends it");
        made
    }

    fn sum(&mut self, cores: &Cores, stop: &dyn Fn() -> bool) -> Result<(), String> {
        let costs = |of: &dyn Fn(&Held) -> f64| -> Vec<f64> {
            self.held.iter().map(|held| held.as_ref().map_or(f64::INFINITY, of)).collect()
        };
        let count = cores.count as usize;
        let sums = |costs: Vec<f64>| partitions(costs, count, |a, b| a + b, stop);
        let (mut budgets, mut ways) = (Vec::new(), Vec::new());
        if self.by_ways.is_none() {
            budgets = sums(costs(&|held| held.budget as f64))?;
            ways = sums(costs(&|held| f64::from(held.ways.least)))?;
        }
        let (mut speeds, mut bears) = (Vec::new(), Vec::new());
        if cores.question.speed > 0.0 {
            speeds = sums(costs(&|held| -held.speed))?;
            let endless = |held: &Held| held.breaks == u64::MAX;
            let bearable = costs(&|held| {
                if endless(held) { f64::NEG_INFINITY } else { -(held.breaks as f64) }
            });
            bears = partitions(bearable, count, f64::max, stop)?;
        }
        (self.budgets, self.ways, self.speeds, self.bears) = (budgets, ways, speeds, bears);
        Ok(())
    }

    /// The budgets by ways, if there are few sets.
    pub fn by_ways(&self) -> Option<&ByWays> {
        self.by_ways.as_ref()
    }

    /// Least sum of the budgets of some cores with these tasks; infinite where they cannot have
    /// them.
    pub fn budgets(&self, cores: u32, set: Set) -> f64 {
        match &self.by_ways {
            Some(by_ways) => by_ways.any(cores, set).0,
            None => cost(&self.budgets, cores, set, 0.0),
        }
    }

    /// Beside each of these sets, by its number of ways, the least sum of the others' budgets, with
    /// all ways ([`ByWays::beside`]); `None` if there are many sets.
    pub fn beside_by_ways(&self, cores: &Cores, placed: &[Set], rest: Set) -> Option<Vec<Sums>> {
        self.by_ways.as_ref().map(|by_ways| by_ways.beside(cores, placed, rest))
    }

    /// Least sum of the ways of some cores with these tasks; infinite where they cannot have them.
    pub fn ways(&self, cores: u32, set: Set) -> f64 {
        match &self.by_ways {
            Some(by_ways) => by_ways.any(cores, set).1,
            None => cost(&self.ways, cores, set, 0.0),
        }
    }

    /// Largest sum of speeds.
    pub fn speed(&self, cores: u32, set: Set) -> f64 {
        -cost(&self.speeds, cores, set, 0.0)
    }

    /// Largest budget of one more core with which these cores break no limit.
    pub fn bears(&self, cores: u32, set: Set) -> u64 {
        let least = -cost(&self.bears, cores, set, f64::NEG_INFINITY);
        if least < f64::INFINITY { (least as u64).saturating_sub(1) } else { u64::MAX }
    }

    /// Largest sum of the speeds of a set's programs with these ways and this budget.
    pub fn reached(&self, cores: &mut Cores, set: Set, ways: u32, budget: u64) -> f64 {
        if cores.programs(set).is_empty() {
            return 0.0;
        }
        let content = cores.content(set, ways);
        let (placed, ways, most) = (&[set][..], &[ways][..], &[budget][..]);
        Wants { cores, placed, ways, loosely: true, most }.speed(0, &content, budget)
    }

    /// A set after a round.
    fn after(&self, cores: &mut Cores, facts: &Facts, set: Set, before: Held) -> Option<Held> {
        let (rest, others) = (cores.all() & !set, cores.count - 1);
        let beside = self.budgets(others, rest).max(cores.least_others() as f64);
        let left = f64::from(cores.ways.0) - self.ways(others, rest);
        if beside == f64::INFINITY || left < f64::from(before.ways.least) {
            return None;
        }
        let (mut held, beside) = (before, beside as u64);
        held.ways.most = held.ways.most.min(left as u32);
        if cores.analysed(set) {
            held.ways = facts.narrowed(set, held.ways, beside)?;
            held.breaks = facts.breaks(set, held.ways);
            held.budget = held.budget.max(facts.needs(set, held.ways, beside));
        }
        let (speed, budget) = self.reaching(cores, set, held.ways, held.budget)?;
        Some(Held { speed: held.speed.min(speed), budget, ..held })
    }

    /// The largest speed of the programs of a set with these ways, and the budget that they need,
    /// `own` at least; `None`: they are too slow.
    pub fn reaching(
        &self,
        cores: &mut Cores,
        set: Set,
        ways: Ways,
        own: u64,
    ) -> Option<(f64, u64)> {
        if cores.question.speed <= 0.0 {
            return Some((f64::INFINITY, own));
        }
        let (rest, others) = (cores.all() & !set, cores.count - 1);
        let wanted = cores.question.speed - self.speed(others, rest);
        if cores.programs(set).is_empty() {
            return (wanted <= ROUNDED).then_some((0.0, own));
        }
        let most = self.bears(others, rest).min(cores.bus());
        let content = cores.content(set, ways.most);
        let (placed, of_core, bounds) = (&[set][..], &[ways.most][..], &[most][..]);
        // How many ways locked pages leave is known of one number of ways.
        let loosely = ways.least < ways.most;
        let wants = Wants { cores, placed, ways: of_core, loosely, most: bounds };
        let reached = |budget: u64| wants.speed(0, &content, budget);
        let speed = reached(most);
        if speed < wanted - ROUNDED || own > most {
            return None;
        }
        Some((speed, own.max(wants.needed(wanted - 2.0 * ROUNDED, reached))))
    }
}

/// The cost of a set on a number of cores; `nothing`: that of no cores.
fn cost(costs: &Costs, cores: u32, set: Set, nothing: f64) -> f64 {
    match (cores as usize).checked_sub(1) {
        None => {
            if set == 0 {
                nothing
            } else {
                f64::INFINITY
            }
        }
        Some(at) => costs[at][set as usize],
    }
}

/// Least costs of all sets on one core, two, and so on: each set that has a cost is put beside the
/// sets of later tasks on one core less.
fn partitions(
    own: Vec<f64>,
    cores: usize,
    join: impl Fn(f64, f64) -> f64,
    stop: &dyn Fn() -> bool,
) -> Result<Costs, String> {
    let all = own.len() - 1;
    let mut out = vec![own];
    while out.len() < cores {
        let (own, fewer) = (&out[0], &out[out.len() - 1]);
        let mut next = vec![f64::INFINITY; own.len()];
        next[0] = join(own[0], fewer[0]);
        for part in (1..=all).filter(|&part| own[part] < f64::INFINITY) {
            if part % 256 == 0 && stop() {
                return Err("the check was ended".to_owned());
            }
            let first = part & part.wrapping_neg();
            let later = all & !part & !(first - 1);
            let mut rest = later;
            loop {
                let joined = join(own[part], fewer[rest]);
                let known = &mut next[part | rest];
                *known = known.min(joined);
                if rest == 0 {
                    break;
                }
                rest = (rest - 1) & later;
            }
        }
        out.push(next);
    }
    Ok(out)
}
