//! Budgets of a candidate by their sum, for the speed of best effort.
//!
//! Problem: raising one core after the other, and exchanging parts of budgets, ends where each
//! single step costs more than it gains. Rule: a bound depends on the own budget and on those of
//! the others, mostly by their sum. So for a sum of all budgets, each core has a least budget, and
//! the programs share out the rest: the accesses that are worth most come first. The best sum is
//! looked for by steps that grow smaller. The analysis decides about the result
//! ([`Exchange::at`]), so it keeps to the limits. Does not cover: several best sums. The
//! search ends at one of those near the known budgets.

use super::exchange::{Choice, Exchange};
use super::speed::Share;

/// First step of a sum, as a part of it, and the part from which on it is not halved.
const STEPS: (f64, f64) = (0.25, 0.0005);
/// Sums that are tried first, relative to the known one.
const FIRST: [f64; 6] = [1.0, 0.7, 0.85, 1.2, 1.5, 2.0];

/// Programs that share out accesses: those of a core, or all on cores without analysed tasks.
struct Item {
    /// Cores, with the number of their programs.
    cores: Vec<(usize, u64)>,
    /// Accesses of each program.
    least: f64,
    /// Accesses of each program at which the worth of an access changes, rising, with the speed.
    points: Vec<(f64, f64)>,
}

impl Item {
    fn programs(&self) -> f64 {
        self.cores.iter().map(|&(_, count)| count as f64).sum()
    }
}

/// A part of an item's accesses, and the worth of each of them.
struct Piece {
    item: usize,
    accesses: f64,
    worth: f64,
}

impl Exchange<'_, '_> {
    /// A choice that is better than this one, with the same least shares, and another sum of
    /// budgets. `least`: the least budgets with the largest `t`.
    pub fn by_total(&mut self, best: &Choice, least: &[u64]) -> Option<Choice> {
        let own = best.budgets.iter().sum::<u64>() as f64;
        let (mut sum, mut speed, mut found) = (own, best.speed, best.budgets.clone());
        for factor in FIRST {
            if let Some((more, budgets)) = self.shared_out(own * factor, best, least)
                && more > speed
            {
                (sum, speed, found) = (own * factor, more, budgets);
            }
        }
        let mut step = STEPS.0;
        while step > STEPS.1 {
            let next = [sum * (1.0 + step), sum / (1.0 + step)].into_iter().find_map(|other| {
                let (more, budgets) = self.shared_out(other, best, least)?;
                (more > speed).then_some((other, more, budgets))
            });
            match next {
                Some(better) => (sum, speed, found) = better,
                None => step /= 2.0,
            }
        }
        let known = vec![1; found.len()];
        self.at(found, &known).filter(|made| made.gains(best.speed))
    }

    /// Budgets with this sum, and the speed of all programs; `None`: a core has no budget beside
    /// the rest of the sum.
    fn shared_out(&mut self, sum: f64, best: &Choice, least: &[u64]) -> Option<(f64, Vec<u64>)> {
        let (candidate, work) = (self.attempt.candidate, self.attempt.problem.work);
        let analysed = |core: usize| candidate.analysed(core as u32, work);
        let cores = 0..best.budgets.len();
        let own = |core: usize| match analysed(core) {
            true => self.least_of_sum(core, sum, &best.budgets),
            false => Some(best.budgets[core]),
        };
        let mut budgets: Vec<u64> = cores.map(own).collect::<Option<_>>()?;
        let mut items = self.items(&budgets, least);
        for item in &items {
            for &(core, count) in &item.cores {
                budgets[core] = (item.least * count as f64).ceil() as u64;
            }
        }
        let mut left = sum - budgets.iter().sum::<u64>() as f64;
        if left < 0.0 {
            return None;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            for pair in item.points.windows(2) {
                let accesses = (pair[1].0 - pair[0].0) * item.programs();
                pieces.push(Piece {
                    item: at,
                    accesses,
                    worth: (pair[1].1 - pair[0].1) / accesses,
                });
            }
        }
        pieces.sort_by(|a, b| b.worth.total_cmp(&a.worth).then(a.item.cmp(&b.item)));
        for piece in pieces {
            let taken = piece.accesses.min(left);
            left -= taken;
            items[piece.item].least += taken / items[piece.item].programs();
        }
        // No program beside analysed tasks has less than those on cores of their own.
        let alone = |item: &Item| !analysed(item.cores[0].0);
        let few = items.iter().filter(|item| !alone(item)).map(|item| item.least);
        let few = few.fold(f64::INFINITY, f64::min);
        for item in &items {
            let each = if alone(item) { item.least.min(few) } else { item.least };
            for &(core, count) in &item.cores {
                budgets[core] = budgets[core].max((each * count as f64) as u64);
            }
        }
        let speed = self.speed(&budgets);
        Some((speed, budgets))
    }

    /// The least budget of a core with which it keeps to the limits, where the others have the rest
    /// of a sum.
    fn least_of_sum(&mut self, core: usize, sum: f64, like: &[u64]) -> Option<u64> {
        let bus = self.attempt.problem.bus;
        let others: u64 = like.iter().sum::<u64>() - like[core];
        let mut keeps = |own: u64| {
            let rest = (sum - own as f64).max(0.0) / others.max(1) as f64;
            let mut budgets: Vec<u64> =
                like.iter().map(|&budget| ((budget as f64 * rest).ceil() as u64).max(1)).collect();
            budgets[core] = own;
            self.attempt.keeps(core, &budgets, self.limits)
        };
        let (mut fails, mut works) = (0, bus);
        // The budget so far is often near.
        for near in [like[core] - like[core] / 50, like[core] + like[core] / 50] {
            if near > fails && near < works {
                if keeps(near) { works = near } else { fails = near }
            }
        }
        if works == bus && !keeps(works) {
            return None;
        }
        while works - fails > 1 {
            let middle =
                ((fails.max(1) as f64 * works as f64).sqrt() as u64).clamp(fails + 1, works - 1);
            if keeps(middle) { works = middle } else { fails = middle }
        }
        Some(works)
    }

    /// The programs beside these budgets of analysed tasks.
    fn items(&self, budgets: &[u64], least: &[u64]) -> Vec<Item> {
        let (candidate, problem) = (self.attempt.candidate, self.attempt.problem);
        let count = |core: usize| candidate.best_effort(core as u32, problem.work);
        let mut items = Vec::new();
        let mixed = |core: usize| self.mixed.iter().find(|mixed| mixed.core == core);
        let alone: Vec<(usize, u64)> = (0..budgets.len())
            .filter(|&core| mixed(core).is_none() && count(core) > 0)
            .map(|core| (core, count(core)))
            .collect();
        if !alone.is_empty() {
            let own = alone.iter().map(|&(core, count)| least[core] as f64 / count as f64);
            let least = own.fold(problem.floor as f64, f64::min);
            items.push(self.item(alone, least));
        }
        for mixed in &self.mixed {
            let (core, count) = (mixed.core, count(mixed.core));
            let floor = problem.floor.saturating_mul(count).min(mixed.most).min(least[core]);
            let least = budgets[core].max(floor) as f64 / count as f64;
            items.push(self.item(vec![(core, count)], least));
        }
        items
    }

    fn item(&self, cores: Vec<(usize, u64)>, least: f64) -> Item {
        let period = self.attempt.problem.base.regulation.period_ps as f64;
        let bus = self.attempt.problem.bus as f64;
        let on: Vec<&Share> = self
            .shares
            .iter()
            .filter(|share| cores.iter().any(|&(core, _)| core == share.core as usize))
            .collect();
        let turns = on.iter().flat_map(|share| share.turns(period));
        let inside = |turn: &f64| *turn > least && *turn < bus;
        let mut points: Vec<f64> = turns.filter(inside).chain([least]).collect();
        points.sort_by(f64::total_cmp);
        points.dedup();
        let speed = |&each: &f64| on.iter().map(|share| share.speed_of(each, period)).sum();
        let points = points.iter().map(|each| (*each, speed(each))).collect();
        Item { cores, least, points }
    }
}
