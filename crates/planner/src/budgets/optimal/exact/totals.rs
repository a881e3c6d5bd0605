//! The budgets of a whole choice, closed by their sum.
//!
//! Problem: with programs beside analysed tasks on several cores, each core alone may have a large
//! budget, but not all together. Limits of single cores do not close such a choice. Rule: a bound
//! depends on the own budget and on the sum of the others'. So each core has a least budget beside
//! a sum of all budgets, which grows with it. For an interval of sums, these are the least ones of
//! its beginning, and the programs share out the rest of its end. A price for accesses bounds their
//! speed ([`Total`]). An interval that this does not close is halved. Does not cover: intervals of
//! less than a part in [`FINE`].

use super::branch::Branch;
use super::machine::Content;
use super::programs::Share;
use super::question::ROUNDED;
use crate::budgets::optimal::certificate::{Set, Step, Total};
use crate::budgets::optimal::check_totals::MOST_PAID;
use std::sync::Arc;

/// Least part of itself to which an interval of sums is halved.
const FINE: u64 = 4000;
/// Most intervals of a choice that are halved.
const MOST: u32 = 400;

/// The cores of a choice.
struct Chosen<'c> {
    placed: &'c [Set],
    ways: &'c [u32],
    contents: Vec<Arc<Content>>,
}

/// Least budgets of the cores, with the steps that say so.
#[derive(Clone)]
struct Known {
    budgets: Vec<u64>,
    /// By core; `None`: no step is needed.
    steps: Vec<Option<u64>>,
}

/// Budgets of a core at which an access begins to be worth more or less, with the speed of each.
type Worth = Vec<(f64, f64)>;

impl Branch<'_, '_> {
    /// Closes all budgets of these cores from the least ones on, by their sums; `None` if they stay
    /// open.
    pub fn totals(&self, placed: &[Set], ways: &[u32], least: &[u64]) -> Option<Vec<Total>> {
        if self.sets.question.speed <= 0.0 {
            return None;
        }
        let of = |(&set, &ways)| self.sets.content(set, ways);
        let contents = placed.iter().zip(ways).map(of).collect();
        let chosen = Chosen { placed, ways, contents };
        let (first, bus) = (least.iter().sum(), self.sets.machine.problem.bus);
        let most = bus.saturating_mul(placed.len() as u64);
        let known = Known { budgets: least.to_vec(), steps: vec![None; placed.len()] };
        let (mut out, mut left) = (Vec::new(), MOST);
        self.between(&chosen, [first, most], known, (&mut left, &mut out)).then_some(out)
    }

    /// Closes all sums of an interval: together, or in two parts.
    fn between(
        &self,
        chosen: &Chosen,
        [least, most]: [u64; 2],
        mut known: Known,
        (left, out): (&mut u32, &mut Vec<Total>),
    ) -> bool {
        let broken = self.raise(chosen, [least, most], &mut known);
        let (price, speed) = self.speed_at_most(chosen, most, &known.budgets);
        let wanted = self.sets.question.speed - 2.0 * ROUNDED;
        let over = known.budgets.iter().sum::<u64>() > most;
        if broken.is_some() || over || speed < wanted {
            let steps = known.steps.iter().enumerate();
            let steps = steps.filter_map(|(place, budget)| {
                budget.map(|budget| Step { place, budget: Some(budget) })
            });
            let broken = broken.map(|place| Step { place, budget: None });
            let steps = steps.chain(broken).collect();
            out.push(Total { least, most, steps, price });
            return true;
        }
        if most - least <= 1 + least / FINE || *left == 0 {
            return false;
        }
        *left -= 1;
        let middle = ((least.max(1) as f64 * most as f64).sqrt() as u64).clamp(least + 1, most - 1);
        self.between(chosen, [least, middle], known.clone(), (left, out))
            && self.between(chosen, [middle, most], known, (left, out))
    }

    /// Raises the budgets to the least ones beside a sum of all; the core that has none, up to
    /// the part of the largest sum that the others leave it.
    fn raise(&self, chosen: &Chosen, [least, most]: [u64; 2], known: &mut Known) -> Option<usize> {
        let (hard, bus) = (self.sets.machine.hard, self.sets.machine.problem.bus);
        for (at, &set) in chosen.placed.iter().enumerate().filter(|(_, set)| **set & hard != 0) {
            let sum: u64 = known.budgets.iter().sum();
            let room = most.saturating_sub(sum - known.budgets[at]).min(bus);
            let own = known.budgets[at];
            if own > room {
                return None;
            }
            match self.sets.least_of(set, chosen.ways[at], least, [own, room]) {
                None => return Some(at),
                Some(found) if found > own => {
                    known.budgets[at] = found;
                    known.steps[at] = Some(found);
                }
                Some(_) => {}
            }
        }
        None
    }

    /// The speed of all programs, at most, with this sum of budgets, and the price that shows it.
    fn speed_at_most(&self, chosen: &Chosen, most: u64, least: &[u64]) -> (f64, f64) {
        let all: Vec<Worth> =
            (0..least.len()).map(|at| self.worth(chosen, at, least[at])).collect();
        let slopes = |worth: &Worth| {
            let pairs = worth.windows(2);
            let slope = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            pairs.map(slope).filter(|slope| slope.is_finite()).collect::<Vec<f64>>()
        };
        let small = |price: &f64| price * (most as f64) < MOST_PAID;
        let prices = all.iter().flat_map(slopes).filter(small).chain([0.0]);
        let with = |price: f64| {
            let own = |worth: &Worth| {
                // A turn may lie below its whole number by less than one.
                let gain = |&(budget, speed): &(f64, f64)| speed - price * (budget - 1.0);
                worth.iter().map(gain).fold(f64::NEG_INFINITY, f64::max)
            };
            (price, price * most as f64 + all.iter().map(own).sum::<f64>())
        };
        prices.map(with).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, f64::INFINITY))
    }

    fn worth(&self, chosen: &Chosen, at: usize, least: u64) -> Worth {
        let machine = self.sets.machine;
        let (set, content) = (chosen.placed[at], &*chosen.contents[at]);
        let part = self.sets.question.part;
        let share =
            Share { set, content, ways: content.free_ways, most: machine.problem.bus, part };
        let speed = |budget: f64| (budget, machine.speed(&share, budget as u64));
        let mut points: Vec<f64> = vec![least as f64, machine.problem.bus as f64];
        if set & machine.programs != 0 {
            let inside = |turn: &f64| *turn > least as f64 && *turn < machine.problem.bus as f64;
            points.extend(machine.turns(&share).into_iter().map(f64::ceil).filter(inside));
        }
        points.sort_by(f64::total_cmp);
        points.dedup();
        points.into_iter().map(speed).collect()
    }
}
