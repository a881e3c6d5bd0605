//! The check of a certificate.
//!
//! Rule: nothing of the search is believed. Pages and jobs come from `core_plan`, stalls and response
//! times from `solocore_analysis`. A fact must be a broken limit, found here. Then each partition of
//! the tasks is looked up: its sets, the least budgets that the facts give them, the ways that they
//! need beside these. Where that does not close it, each split of the ways must be closed so, or by
//! the steps of a leaf, each of which must be a broken limit again. The partitions are counted, and
//! their number must be that of all partitions. Does not cover: that bounds are monotone, on which
//! facts about larger sets, fewer ways and larger budgets rest (`analysis::interference`, test
//! `monotone`).

use super::certificate::{Certificate, Fact, Leaf, Set, Step, partitions};
use super::check_core::{Content, Cores};
use super::check_speed;
use super::problem::Problem;
use std::collections::HashMap;
use std::rc::Rc;

/// Checks a certificate; the number of partitions that it closes.
///
/// # Errors
/// The first fact that does not hold, or the first partition that is not closed.
pub fn check(
    problem: &Problem,
    certificate: &Certificate,
    stop: &dyn Fn() -> bool,
) -> Result<u128, String> {
    let mut checker = Checker::new(problem, certificate, stop)?;
    for &fact in &certificate.facts {
        checker.believe(fact)?;
    }
    let all = checker.cores.all();
    checker.larger(all);
    let (tasks, cores) = (all.count_ones(), checker.cores.count);
    let closed = checker.cover(all, &mut Vec::new())?;
    if closed == partitions(tasks, cores) {
        Ok(closed)
    } else {
        Err(format!("{closed} partitions are closed; all are {}", partitions(tasks, cores)))
    }
}

struct Checker<'a> {
    cores: Cores<'a>,
    stop: &'a dyn Fn() -> bool,
    alone: Vec<bool>,
    /// By set and ways: a sum of the others' budgets that breaks a limit.
    breaks: HashMap<(Set, u32), u64>,
    needs: HashMap<Set, u64>,
    leaves: HashMap<(&'a [Set], &'a [u32]), &'a [Step]>,
}

impl<'a> Checker<'a> {
    fn new(
        problem: &'a Problem<'a>,
        certificate: &'a Certificate,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let cores = Cores::of(problem, certificate)?;
        let key = |leaf: &'a Leaf| ((&leaf.sets[..], &leaf.ways[..]), &leaf.steps[..]);
        Ok(Self {
            alone: vec![false; cores.all() as usize + 1],
            cores,
            stop,
            breaks: HashMap::new(),
            needs: HashMap::new(),
            leaves: certificate.leaves.iter().map(key).collect(),
        })
    }

    /// Takes a fact, if it holds.
    fn believe(&mut self, fact: Fact) -> Result<(), String> {
        if (self.stop)() {
            return Err("the check was ended".to_owned());
        }
        let (set, most) = (fact.set(), self.cores.ways.1);
        if set == 0 || set & !self.cores.all() != 0 {
            return Err(format!("{fact:?} names no set of tasks"));
        }
        let (bus, least) = (self.cores.bus(), self.cores.least_others());
        let cores = &mut self.cores;
        let kept = match fact {
            Fact::Alone(_) => cores.keeps(set, most, bus, least, Some(Vec::new())),
            Fact::Breaks { ways, .. } if ways == 0 || ways > most => {
                return Err(format!("{fact:?} has ways that no core can have"));
            }
            Fact::Breaks { ways, others, .. } => {
                let jobs = cores.least_jobs(set, ways);
                cores.keeps(set, ways, bus, others.max(least), jobs)
            }
            Fact::Needs { budget, .. } => {
                let jobs = cores.least_jobs(set, most);
                budget < 2 || cores.keeps(set, most, budget - 1, least, jobs)
            }
        };
        if kept {
            return Err(format!("{fact:?} does not hold: all limits are kept"));
        }
        match fact {
            Fact::Alone(_) => self.alone[set as usize] = true,
            Fact::Breaks { ways, others, .. } => {
                let known = self.breaks.entry((set, ways)).or_insert(u64::MAX);
                *known = others.min(*known);
            }
            Fact::Needs { budget, .. } => {
                let known = self.needs.entry(set).or_insert(0);
                *known = budget.max(*known);
            }
        }
        Ok(())
    }

    /// A set that contains a set which is impossible alone is so, too.
    fn larger(&mut self, all: Set) {
        for set in 1..=all {
            let without = |bit: u32| set & !(1 << bit);
            let smaller = (0..Set::BITS).filter(|bit| set >> bit & 1 == 1).map(without);
            self.alone[set as usize] |= smaller.into_iter().any(|s| self.alone[s as usize]);
        }
    }

    /// The least sum of the others' budgets that breaks a limit of a set with these ways or more.
    fn breaks(&self, set: Set, ways: u32) -> u64 {
        let known = (ways..=self.cores.ways.1).filter_map(|w| self.breaks.get(&(set, w)));
        known.copied().min().unwrap_or(u64::MAX)
    }

    fn least_budget(&self, set: Set) -> u64 {
        self.cores.floor(set).max(self.needs.get(&set).copied().unwrap_or(0))
    }

    /// Closes all partitions of the rest beside these sets; their number.
    fn cover(&mut self, rest: Set, placed: &mut Vec<Set>) -> Result<u128, String> {
        if rest == 0 {
            return self.partition(placed).map(|()| 1);
        }
        let left = self.cores.count - placed.len() as u32;
        if left == 0 {
            return Ok(0);
        }
        let first = 1 << rest.trailing_zeros();
        let others = rest & !first;
        let (mut closed, mut more) = (0u128, 0);
        loop {
            let set = first | more;
            placed.push(set);
            closed += if self.hopeless(placed, set, rest & !set) {
                partitions((rest & !set).count_ones(), left - 1)
            } else {
                self.cover(rest & !set, placed)?
            };
            placed.pop();
            if more == others {
                return Ok(closed);
            }
            // The next subset of the others.
            more = more.wrapping_sub(others) & others;
        }
    }

    /// Is no partition with these sets possible? `set` is the last one.
    fn hopeless(&self, placed: &[Set], set: Set, rest: Set) -> bool {
        let most = self.cores.ways.1;
        if self.alone[set as usize] || !self.cores.allowed(set) {
            return true;
        }
        let left = u64::from(self.cores.count) - placed.len() as u64;
        let sum: u64 = placed.iter().map(|&s| self.least_budget(s)).sum::<u64>() + left;
        let breaks =
            |&s: &Set| self.cores.analysed(s) && sum - self.least_budget(s) >= self.breaks(s, most);
        (left == 0 && rest != 0) || placed.iter().any(breaks)
    }

    /// Closes a partition.
    fn partition(&mut self, placed: &[Set]) -> Result<(), String> {
        if (self.stop)() {
            return Err("the check was ended".to_owned());
        }
        let mut placed = placed.to_vec();
        placed.resize(self.cores.count as usize, 0);
        let most = self.cores.ways.1;
        let Some(budgets) = self.budgets(&placed, &vec![most; placed.len()], true) else {
            return Ok(());
        };
        let mut least = Vec::with_capacity(placed.len());
        for (at, &set) in placed.iter().enumerate() {
            let beside: u64 = sum_without(&budgets, at);
            let works = |ways: &u32| !self.cores.analysed(set) || beside < self.breaks(set, *ways);
            let Some(ways) = (1..=most).find(works) else { return Ok(()) };
            least.push(ways);
        }
        self.splits(&placed, &least, &mut Vec::new())
    }

    /// Least budgets of the cores, with what their programs need; `None`: no budgets suffice.
    /// `loosely`: programs may use all ways of their core.
    fn budgets(&mut self, placed: &[Set], ways: &[u32], loosely: bool) -> Option<Vec<u64>> {
        let least: Vec<u64> = placed.iter().map(|&set| self.least_budget(set)).collect();
        let wanted = self.cores.question.speed;
        if wanted <= 0.0 {
            return Some(least);
        }
        // A core has no more than the others bear.
        let most = |own: usize| {
            let of = |(at, &set): (usize, &Set)| {
                if at == own || !self.cores.analysed(set) {
                    return None;
                }
                let both = sum_without(&least, at).saturating_sub(least[own]);
                Some(self.breaks(set, ways[at]).saturating_sub(both).saturating_sub(1))
            };
            placed.iter().enumerate().filter_map(of).min().unwrap_or(u64::MAX)
        };
        let most: Vec<u64> = (0..placed.len()).map(most).collect();
        let contents: Vec<Rc<Content>> =
            placed.iter().zip(ways).map(|(&set, &ways)| self.cores.content(set, ways)).collect();
        let wants = check_speed::Wants { cores: &self.cores, placed, ways, loosely, most: &most };
        let needed = wants.budgets(&contents, wanted)?;
        Some(least.iter().zip(needed).map(|(&least, needed)| least.max(needed)).collect())
    }

    /// Closes all splits of the ways that begin with `ways`.
    fn splits(&mut self, placed: &[Set], least: &[u32], ways: &mut Vec<u32>) -> Result<(), String> {
        let at = ways.len();
        if at == placed.len() {
            return self.leaf(placed, ways);
        }
        let taken: u32 = ways.iter().sum::<u32>() + least[at + 1..].iter().sum::<u32>();
        let Some(most) = self.cores.ways.0.checked_sub(taken) else { return Ok(()) };
        // More ways never raise a bound: only cores that gain from them get those left over.
        let speed = self.cores.question.speed > 0.0;
        let gains = |set: Set| self.cores.analysed(set) || (speed && set != 0);
        let last = !placed[at + 1..].iter().any(|&set| gains(set));
        let own = if !gains(placed[at]) {
            1..=1.min(most)
        } else if last {
            least[at].max(most)..=most
        } else {
            least[at]..=most
        };
        for own in own {
            ways.push(own);
            self.splits(placed, least, ways)?;
            ways.pop();
        }
        Ok(())
    }

    /// Closes a partition with its ways.
    fn leaf(&mut self, placed: &[Set], ways: &[u32]) -> Result<(), String> {
        let Some(mut budgets) = self.budgets(placed, ways, false) else { return Ok(()) };
        let refuse = |why: &str| Err(format!("sets {placed:?} with ways {ways:?}: {why}"));
        let Some(&steps) = self.leaves.get(&(placed, ways)) else {
            return refuse("nothing closes them");
        };
        let bus = self.cores.bus();
        for step in steps {
            let at = step.place;
            let Some(&set) = placed.get(at) else { return refuse("a step names no core") };
            let own = step.budget.map_or(bus, |budget| budget.saturating_sub(1));
            let jobs = self.cores.jobs_beside(placed, ways, &budgets, at);
            let beside = sum_without(&budgets, at);
            if self.cores.keeps(set, ways[at], own, beside, jobs) {
                return refuse("a step does not hold");
            }
            match step.budget {
                None => return Ok(()),
                Some(budget) => budgets[at] = budget.max(budgets[at]),
            }
        }
        refuse("their steps close nothing")
    }
}

fn sum_without(budgets: &[u64], place: usize) -> u64 {
    budgets.iter().enumerate().filter(|&(at, _)| at != place).map(|(_, &budget)| budget).sum()
}
