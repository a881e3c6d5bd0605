//! A whole partition of the tasks, closed for all splits of the ways.
//!
//! Rule: where budgets are known by ways, limits of each number of ways exclude most splits one by
//! one. Those that are left are closed together by budgets: with the most ways that each core has
//! in any of them. If that breaks no limit, they are halved. Otherwise all splits are halved from
//! the beginning, and limits narrow the numbers of ways. A single split that neither [`Split`] nor
//! the sums of its budgets close ([`super::totals`]) is left to the caller. Does not cover: which
//! partitions there are ([`super::branch`]).

use super::branch::{Branch, MOST_OPEN};
use super::cover::MOST_LEAVES;
use super::rounds::Entry;
use super::sets::{End, Owned};
use super::split::{Split, others, with_speed};
use crate::budgets::optimal::certificate::{Leaf, Set, Ways};

impl Branch<'_, '_> {
    /// Closes a partition.
    pub fn partition(&mut self, placed: &[Set]) -> Result<(), End> {
        self.pause(1 << 4)?;
        let machine = self.sets.machine;
        let mut placed = placed.to_vec();
        placed.resize(machine.cores as usize, 0);
        let entries: Option<Vec<Entry>> =
            placed.iter().map(|&set| self.rounds.entries[set as usize]).collect();
        // The tasks may need all cores.
        let Some(entries) = entries else { return Ok(()) };
        // A way more is of no use to a core that has no tasks, or only programs that no speed is
        // asked of.
        let useful =
            |&set: &Set| set & machine.hard != 0 || (self.sets.question.speed > 0.0 && set != 0);
        let most = |(set, own): (&Set, &Entry)| if useful(set) { own.ways.most } else { 1 };
        let most: Vec<u32> = placed.iter().zip(&entries).map(most).collect();
        let least: Vec<u32> = entries.iter().map(|own| own.ways.least).collect();
        if self.by_ways() {
            let open = self.one_by_one(&placed, &least, &most);
            return self.closed(&placed, open);
        }
        self.splits(&placed, least, most)
    }

    /// Are splits closed one by one? Budgets are known by ways then, and no programs must reach a
    /// speed.
    pub fn by_ways(&self) -> bool {
        self.rounds.least.by_ways.is_some() && self.sets.question.speed <= 0.0
    }

    /// The splits of all ways with these numbers that facts about each number of ways do not close.
    fn one_by_one(&self, placed: &[Set], least: &[u32], most: &[u32]) -> Vec<Vec<u32>> {
        let shares: Vec<Vec<Owned>> = (0..placed.len())
            .map(|at| {
                let set = placed[at];
                let own = &self.rounds.by_ways[set as usize];
                self.sets.owned(set, own, Ways { least: least[at], most: most[at] })
            })
            .collect();
        // More ways than all useful ones together stay with some core.
        let all = self.sets.machine.ways.0.min(most.iter().sum());
        let mut open = Vec::new();
        each_split(&shares, all, &mut Vec::with_capacity(placed.len()), &mut |split| {
            let sum = split.iter().fold(0, |sum: u64, own| sum.saturating_add(own.budget));
            if split.iter().all(|own| sum - own.budget < own.breaks) {
                let ways: Vec<u32> = split.iter().map(|own| own.ways).collect();
                let budgets = split.iter().map(|own| own.budget).collect();
                if self.grown(placed, &ways, budgets).is_some() {
                    open.push(ways);
                }
            }
        });
        open
    }

    /// Budgets of these cores that need no more beside each other's, as far as facts about single
    /// cores say; `None` if one breaks a limit.
    fn grown(&self, placed: &[Set], ways: &[u32], mut budgets: Vec<u64>) -> Option<Vec<u64>> {
        loop {
            let mut grew = false;
            for (at, &set) in placed.iter().enumerate() {
                if set & self.sets.machine.hard == 0 {
                    continue;
                }
                let (just, beside) = (Ways::just(ways[at]), others(&budgets, at));
                if !self.sets.keeps(set, just, beside) {
                    return None;
                }
                let needs = self.sets.needs_above(set, just, beside, budgets[at]);
                grew |= needs > budgets[at];
                budgets[at] = needs;
            }
            if !grew {
                return Some(budgets);
            }
        }
    }

    /// Closes all splits with at least and at most these numbers together by budgets, from these
    /// ones on. The core whose numbers are to be halved if that fails; `None`: they are closed, or
    /// a single split is left to the caller.
    fn together(
        &mut self,
        placed: &[Set],
        least: &[u32],
        most: &[u32],
        budgets: Vec<u64>,
    ) -> Result<Option<usize>, End> {
        self.pause(1)?;
        let mut split = Split::new(self.sets, placed, most, &budgets);
        // Budgets are found only where all ways are given out.
        let exact = most.iter().sum::<u32>() <= self.sets.machine.ways.0;
        let steps = match split.broken(&budgets) {
            Some(step) => Some(vec![step]),
            None if exact => split.refuted(budgets.clone()),
            None => None,
        };
        let closed = match steps {
            Some(steps) => Some((steps, Vec::new())),
            None if exact => self.totals(placed, most, &budgets).map(|all| (Vec::new(), all)),
            None => None,
        };
        if let Some((steps, totals)) = closed {
            let ways = least.iter().zip(most).map(|(&least, &most)| Ways { least, most });
            let (sets, ways, fair) = (placed.to_vec(), ways.collect(), Vec::new());
            self.leaves.push(Leaf { sets, ways, steps, totals, fair });
            return if self.leaves.len() > MOST_LEAVES { Err(End::Open) } else { Ok(None) };
        }
        let range = |at: usize| most[at] - least[at];
        let widest = (0..placed.len()).max_by_key(|&at| (range(at), std::cmp::Reverse(at)));
        let widest = widest.filter(|&at| range(at) > 0 && !exact);
        if widest.is_none() {
            self.left.push((placed.to_vec(), most.to_vec()));
        }
        if self.left.len() as u64 > MOST_OPEN { Err(End::Open) } else { Ok(widest) }
    }

    /// Closes these splits by budgets: together, or else in two parts.
    fn closed(&mut self, placed: &[Set], open: Vec<Vec<u32>>) -> Result<(), End> {
        let Some(first) = open.first() else { return Ok(()) };
        let bound = |of: fn(u32, u32) -> u32| -> Vec<u32> {
            let both = |own: Vec<u32>, more: &Vec<u32>| {
                own.iter().zip(more).map(|(&own, &more)| of(own, more)).collect()
            };
            open.iter().fold(first.clone(), both)
        };
        let (least, most) = (bound(u32::min), bound(u32::max));
        let Some(budgets) = self.budgets(placed, &least, &most) else { return Ok(()) };
        let Some(at) = self.together(placed, &least, &most, budgets)? else { return Ok(()) };
        let middle = u32::midpoint(least[at], most[at]);
        let (below, above) = open.into_iter().partition(|ways| ways[at] <= middle);
        self.closed(placed, above)?;
        self.closed(placed, below)
    }

    /// Closes all splits of all ways with at least and at most these numbers.
    fn splits(
        &mut self,
        placed: &[Set],
        mut least: Vec<u32>,
        mut most: Vec<u32>,
    ) -> Result<(), End> {
        let Some(budgets) = self.narrowed(placed, &mut least, &mut most) else { return Ok(()) };
        let Some(at) = self.together(placed, &least, &most, budgets)? else { return Ok(()) };
        let middle = u32::midpoint(least[at], most[at]);
        let (mut above, mut below) = (least.clone(), most.clone());
        (above[at], below[at]) = (middle + 1, middle);
        self.splits(placed, above, most)?;
        self.splits(placed, least, below)
    }

    /// The least budgets with the most ways of each core, after the limits of the sets narrowed the
    /// numbers of ways; `None` if nothing is left, or a limit is broken.
    fn narrowed(&self, placed: &[Set], least: &mut [u32], most: &mut [u32]) -> Option<Vec<u64>> {
        let all = self.sets.machine.ways.0;
        loop {
            let sum: u32 = least.iter().sum();
            for (most, least) in most.iter_mut().zip(&*least) {
                *most = (all + least).checked_sub(sum)?.min(*most);
            }
            // All ways are given out.
            let room: u32 = most.iter().sum();
            for (least, most) in least.iter_mut().zip(&*most) {
                *least = (all + most).checked_sub(room).map_or(*least, |l| l.max(*least));
                if *least > *most {
                    return None;
                }
            }
            let budgets = self.budgets(placed, least, most)?;
            let mut grew = false;
            for (at, &set) in placed.iter().enumerate() {
                let beside = others(&budgets, at);
                if set & self.sets.machine.hard == 0 {
                    continue;
                }
                let ways = Ways { least: least[at], most: most[at] };
                if !self.sets.keeps(set, ways, beside) {
                    return None;
                }
                while least[at] < most[at] && !self.sets.keeps(set, Ways::just(least[at]), beside) {
                    least[at] += 1;
                    grew = true;
                }
                while most[at] > least[at] && !self.sets.keeps(set, Ways::just(most[at]), beside) {
                    most[at] -= 1;
                    grew = true;
                }
            }
            if !grew {
                return Some(budgets);
            }
        }
    }

    /// Least budgets of cores with these ways; `None` if the speed is out of reach.
    fn budgets(&self, placed: &[Set], least: &[u32], most: &[u32]) -> Option<Vec<u64>> {
        let (machine, question) = (self.sets.machine, self.sets.question);
        let of = |at: usize| Ways { least: least[at], most: most[at] };
        // The need of each beside those of the others.
        let mut budgets = vec![1; placed.len()];
        for _ in 0..2 {
            for (at, &set) in placed.iter().enumerate() {
                budgets[at] = self.sets.needs(set, of(at), others(&budgets, at));
            }
        }
        if question.speed <= 0.0 {
            return Some(budgets);
        }
        let mut breaks = vec![u64::MAX; placed.len()];
        for (at, &set) in placed.iter().enumerate() {
            if set & machine.hard != 0 {
                breaks[at] = self.sets.breaks(set, of(at));
            }
        }
        let bounds = room(&breaks, &budgets);
        let contents: Vec<_> =
            placed.iter().zip(most).map(|(&set, &ways)| self.sets.content(set, ways)).collect();
        // Locked pages leave more ways or fewer: only where all ways are given out is it known.
        let exact = most.iter().sum::<u32>() <= machine.ways.0;
        let free = |at: usize| {
            if exact { contents[at].free_ways } else { machine.stated_ways(most[at]) }
        };
        with_speed(machine, &contents, placed, &question, free, |at| bounds[at], &mut budgets)?;
        Some(budgets)
    }
}

/// All splits of this number of ways, with a share for each core.
fn each_split(
    shares: &[Vec<Owned>],
    left: u32,
    split: &mut Vec<Owned>,
    of: &mut dyn FnMut(&[Owned]),
) {
    let Some(own) = shares.get(split.len()) else {
        if left == 0 {
            of(split);
        }
        return;
    };
    let last = split.len() + 1 == shares.len();
    for share in own.iter().filter(|own| own.ways <= left && (!last || own.ways == left)) {
        split.push(*share);
        each_split(shares, left - share.ways, split, of);
        split.pop();
    }
}

/// Largest budget of each core: so much as no other core breaks a limit for it.
fn room(breaks: &[u64], budgets: &[u64]) -> Vec<u64> {
    let beside = |own: usize, at: usize| {
        let both = others(budgets, at).saturating_sub(budgets[own]);
        breaks[at].saturating_sub(both).saturating_sub(1)
    };
    let of = |own: usize| {
        let others = (0..breaks.len()).filter(|&at| at != own && breaks[at] < u64::MAX);
        others.map(|at| beside(own, at)).min().unwrap_or(u64::MAX)
    };
    (0..breaks.len()).map(of).collect()
}
