//! Budgets beside analysed tasks, by the speed that they give to best effort.
//!
//! Problem: one factor for all cores raises some that gain nothing, and takes the accesses that
//! others could use. Rule: a program beside analysed tasks gains up to the budget from which on the
//! core's time limits it. These cores are raised one by one, each to the largest budget that all
//! limits bear. Several orders are tried ([`orders`]), each with several shares of the programs on
//! cores of their own ([`Exchange::shares_alone`]). Then a core gives a part of its budget up, and
//! the others are raised again, as long as the mean speed grows. The analysis decides about each
//! step ([`Attempt::least`]), so the result keeps to the limits. Each program keeps the share that
//! the other objectives leave it (`Problem::floor`), unless it had less before, or cannot use it.
//! Programs beside analysed tasks have no smaller share than those on cores of their own, as the
//! choices of a proof (`certificate::Part`). Does not cover: another part for writes.

use super::analysed::Limits;
use super::attempt::Attempt;
use super::speed::{Need, Share, mean};

/// Budgets are raised to this part of themselves.
const FINE: u64 = 500;
/// A mean speed is larger if it is so by this part.
const GAIN: f64 = 1e-4;
/// Times that the part of a budget that a core gives up is halved.
const HALVES: u32 = 5;
/// Number of cores up to which each order is tried.
const ALL_ORDERS: usize = 3;

/// A core with programs beside analysed tasks.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    pub core: usize,
    /// A larger budget gives no more speed, accesses in a period.
    pub most: u64,
}

/// Budgets with their mean speed.
#[derive(Clone)]
pub struct Choice {
    /// Floors of the cores, accesses in a period.
    floors: Vec<u64>,
    /// The least budgets with these floors, accesses in a period.
    pub budgets: Vec<u64>,
    pub speed: f64,
}

/// The search for the budgets of an attempt.
pub struct Exchange<'e, 'a> {
    pub attempt: &'e mut Attempt<'a>,
    pub limits: Limits,
    pub shares: Vec<Share<'a>>,
    pub mixed: Vec<Mixed>,
}

impl Attempt<'_> {
    /// [`Attempt::raised`], or larger budgets where these give best effort more speed. `least`: the
    /// least budgets with the largest `t`. `thorough`: by the sum of all budgets, too, which takes
    /// twice as long.
    pub fn raised_by_speed(&mut self, least: Vec<u64>, limits: Limits, thorough: bool) -> Vec<u64> {
        let together = self.raised(least.clone(), limits);
        let shares = self.shares();
        let mut exchange = Exchange { attempt: self, limits, shares, mixed: Vec::new() };
        exchange.mixed = exchange.mixed(&least);
        if exchange.mixed.is_empty() {
            return together;
        }
        let before = exchange.speed(&together);
        match exchange.best(&least, thorough).filter(|best| best.gains(before)) {
            // The rest of the cores must not be stopped without need.
            Some(best) => self.raised(best.budgets, limits),
            None => together,
        }
    }
}

impl Choice {
    pub fn gains(&self, before: f64) -> bool {
        self.speed > before * (1.0 + GAIN)
    }
}

impl Exchange<'_, '_> {
    pub fn speed(&mut self, budgets: &[u64]) -> f64 {
        mean(&self.shares, self.attempt.with(budgets))
    }

    /// The cores with programs beside analysed tasks.
    fn mixed(&mut self, least: &[u64]) -> Vec<Mixed> {
        let (candidate, problem) = (self.attempt.candidate, self.attempt.problem);
        let mixed = |&core: &usize| candidate.mixed(core as u32, problem.work);
        let cores: Vec<usize> = (0..least.len()).filter(mixed).collect();
        let of = |core| Mixed { core, most: self.most(core, least) };
        cores.into_iter().map(of).collect()
    }

    /// The least budget of a core with which its programs are as fast as with all that the bus
    /// carries.
    fn most(&mut self, core: usize, least: &[u64]) -> u64 {
        let mut tried = least.to_vec();
        let (mut fails, mut works) = (0, self.attempt.problem.bus);
        tried[core] = works;
        let most = self.speed(&tried) * (1.0 - 1e-12);
        while works - fails > 1 {
            tried[core] = u64::midpoint(fails, works);
            if self.speed(&tried) >= most { works = tried[core] } else { fails = tried[core] }
        }
        works
    }

    /// Shares of programs on cores of their own: as large as now, as large as each of them can use
    /// on average, and the least, accesses in a period.
    fn shares_alone(&self) -> Vec<u64> {
        let (candidate, problem) = (self.attempt.candidate, self.attempt.problem);
        let alone = |core: &u32| !candidate.analysed(*core, problem.work);
        let of = |need: &Need| {
            let core = Some(candidate.placement[need.task]).filter(alone)?;
            Some((need.most_on(core).ceil() as u64).max(problem.floor))
        };
        let mut out: Vec<u64> = problem.needs.iter().filter_map(of).collect();
        if !out.is_empty() {
            out.push(problem.floor);
        }
        out.push(problem.bus);
        out.sort_unstable_by(|a, b| b.cmp(a));
        out.dedup();
        out
    }

    /// Floors of all cores, where the least budgets are these and programs on cores of their own
    /// have this share at most.
    fn floors(&self, least: &[u64], share: u64) -> Vec<u64> {
        let (candidate, problem) = (self.attempt.candidate, self.attempt.problem);
        let programs = |core: usize| candidate.best_effort(core as u32, problem.work);
        let analysed = |core: usize| candidate.analysed(core as u32, problem.work);
        let of = |(core, &own): (usize, &u64)| match programs(core) {
            _ if analysed(core) => 1,
            // An empty core, or one that no deadline bears.
            0 => own,
            _ if own == problem.bus => own,
            count => own.min(share.saturating_mul(count)),
        };
        let mut out: Vec<u64> = least.iter().enumerate().map(of).collect();
        let alone = (0..out.len()).filter(|&core| !analysed(core) && programs(core) > 0);
        let share = alone.map(|core| out[core].div_ceil(programs(core))).max().unwrap_or(1);
        for &Mixed { core, most } in &self.mixed {
            let each = |share: u64| share.saturating_mul(programs(core));
            out[core] = each(share).max(each(problem.floor).min(most)).min(least[core]);
        }
        out
    }

    /// The least budgets with these floors, which are not below `known`.
    pub fn at(&mut self, floors: Vec<u64>, known: &[u64]) -> Option<Choice> {
        let from = floors.iter().zip(known).map(|(&floor, &known)| floor.max(known)).collect();
        let budgets = self.attempt.least(from, self.limits)?;
        let speed = self.speed(&budgets);
        Some(Choice { floors, budgets, speed })
    }

    /// A choice with the largest budget of a core that all limits bear, beside the same floors.
    fn with_most(&mut self, mut found: Choice, Mixed { core, most }: Mixed) -> Choice {
        let with = |choice: &Choice, floor: u64| {
            let mut floors = choice.floors.clone();
            floors[core] = floor;
            floors
        };
        let (mut works, mut fails) = (found.budgets[core], most);
        if works >= most {
            return found;
        }
        if let Some(all) = self.at(with(&found, most), &found.budgets) {
            return all;
        }
        while fails - works > 1 + works / FINE {
            let middle = ((works as f64 * fails as f64).sqrt() as u64).clamp(works + 1, fails - 1);
            match self.at(with(&found, middle), &found.budgets) {
                Some(more) => (works, found) = (middle, more),
                None => fails = middle,
            }
        }
        found
    }

    /// The best choice, where the least budgets with the largest `t` are these.
    fn best(&mut self, least: &[u64], thorough: bool) -> Option<Choice> {
        let mut found: Option<(Choice, Choice)> = None;
        for share in self.shares_alone() {
            let floors = self.floors(least, share);
            // From other floors, the accuracy of budgets may exceed a limit.
            let first = self.at(floors.clone(), &floors);
            let Some(first) = first.or_else(|| self.at(least.to_vec(), least)) else { continue };
            for order in orders(&self.mixed) {
                let raise = |made, core| self.with_most(made, core);
                let made = order.into_iter().fold(first.clone(), raise);
                if found.as_ref().is_none_or(|(best, _)| made.gains(best.speed)) {
                    found = Some((made, first.clone()));
                }
            }
        }
        let (mut best, first) = found?;
        let cores = &self.mixed;
        let pairs = cores.iter().flat_map(|&less| cores.iter().map(move |&more| (less, more)));
        let pairs: Vec<_> = pairs.filter(|(less, more)| less.core != more.core).collect();
        for half in 1..=HALVES {
            while let Some(better) =
                pairs.iter().find_map(|&pair| self.exchanged(&best, &first, pair, half))
            {
                best = better;
            }
        }
        // Reads and writes together only: else no sum says what the others take.
        let by_sum = thorough && self.attempt.part.is_none();
        let better = if by_sum { self.by_total(&best, least) } else { None };
        Some(better.unwrap_or(best))
    }

    /// A better choice in which one core has given this part of its budget up for another one.
    fn exchanged(
        &mut self,
        best: &Choice,
        first: &Choice,
        (less, more): (Mixed, Mixed),
        half: u32,
    ) -> Option<Choice> {
        let own = best.budgets[less.core];
        let part = own.saturating_sub(first.budgets[less.core]) >> half;
        if part == 0 || best.budgets[more.core] >= more.most {
            return None;
        }
        let mut floors = best.floors.clone();
        floors[less.core] = own - part;
        let lowered = self.at(floors, &first.budgets)?;
        let made = self.with_most(lowered, more);
        let rest = self.mixed.clone().into_iter().filter(|mixed| mixed.core != less.core);
        let made = rest.fold(made, |made, core| self.with_most(made, core));
        Some(made).filter(|made| made.gains(best.speed))
    }
}

/// The orders in which cores are raised: each, where they are few, or each core first.
fn orders(mixed: &[Mixed]) -> Vec<Vec<Mixed>> {
    let mut out = Vec::new();
    for at in 0..mixed.len() {
        let (first, rest) = (mixed[at], [&mixed[..at], &mixed[at + 1..]].concat());
        let after = if mixed.len() > ALL_ORDERS { vec![rest] } else { orders(&rest) };
        let after = if after.is_empty() { vec![Vec::new()] } else { after };
        out.extend(after.into_iter().map(|rest| [vec![first], rest].concat()));
    }
    out
}
