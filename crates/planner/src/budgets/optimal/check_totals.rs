//! The sums of the budgets of a choice, as the check of a certificate sees them.
//!
//! Rule: the intervals of a leaf must have all sums. In an interval, a core with less than the
//! budget of a step leaves the others the rest of the least sum, at least, and must break a limit
//! beside that. The speed is bounded by a price: every core pays it for its accesses, and gets it
//! back for all of the largest sum. So the bound is that refund, and the largest gain of each core.
//! Between two turns of its speed a core gains most at one of them. Does not cover: the least
//! budgets and the speed of a core (`check_speed`).

use super::certificate::{Leaf, Set, Total};
use super::check_core::{Content, Cores};
use super::check_speed::{ROUNDED, Wants};
use super::problem::LEAST;
use std::sync::Arc;

/// Most that all accesses of a sum may be worth: sums of such numbers are rounded by far less than
/// [`ROUNDED`].
pub const MOST_PAID: f64 = 1e5;

/// Cores with their tasks and ways.
pub struct Chosen<'a> {
    pub placed: &'a [Set],
    pub ways: &'a [u32],
    /// May programs use all ways of their core?
    pub loosely: bool,
    pub contents: &'a [Arc<Content>],
    /// Budgets that the cores have at least.
    pub least: &'a [u64],
}

impl Chosen<'_> {
    /// Does a leaf close all budgets?
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn closed(&self, cores: &mut Cores, leaf: &Leaf) -> Result<(), String> {
        if leaf.fair.is_empty() { self.sums(cores, &leaf.totals) } else { self.fair(cores, leaf) }
    }

    /// Do these budgets give each program more than the number of the part? Then each choice does
    /// so, up to the problem's floor. A choice with just the floor is in the next part, too.
    fn fair(&self, cores: &mut Cores, leaf: &Leaf) -> Result<(), String> {
        let (part, floor) = (cores.question.part, cores.problem.floor);
        let number = part.exceeded();
        let at = self.placed.iter().position(|set| set & part.few != 0);
        let Some(at) = at.filter(|_| part.most <= floor) else {
            return Err("the part has choices with as little for each program".to_owned());
        };
        if self.loosely || leaf.fair.len() != self.placed.len() || cores.known {
            return Err("these are not the budgets of its cores".to_owned());
        }
        let wants = self.wants(cores);
        if !wants.uses(at, &self.contents[at], number) {
            return Err("the program cannot use more".to_owned());
        }
        for (at, (&set, &own)) in self.placed.iter().zip(&leaf.fair).enumerate() {
            let programs = cores.programs(set);
            let idle = programs.is_empty() && !cores.analysed(set);
            let few = idle && !cores.problem.base.other_programs;
            let each = if few { number.min(LEAST) } else { number };
            let count = programs.len().max(usize::from(idle)) as u64;
            let beside = leaf.fair.iter().sum::<u64>().saturating_sub(own);
            if own < each.saturating_mul(count).max(1) || own > cores.bus() {
                return Err("a program has no more than the number of the part".to_owned());
            }
            if !cores.keeps(set, self.ways[at], own, beside, None) {
                return Err("its budgets break a limit".to_owned());
            }
        }
        Ok(())
    }

    fn wants<'c>(&'c self, cores: &'c Cores) -> Wants<'c> {
        let (placed, ways, loosely) = (self.placed, self.ways, self.loosely);
        Wants { cores, placed, ways, loosely, most: &[] }
    }

    /// Do these intervals close all sums of budgets?
    fn sums(&self, cores: &mut Cores, totals: &[Total]) -> Result<(), String> {
        let mut reached = self.least.iter().sum::<u64>();
        for total in totals {
            if total.least > reached {
                return Err(format!("sums from {reached} to {} are left out", total.least));
            }
            self.interval(cores, total)?;
            reached = reached.max(total.most);
        }
        if reached < cores.bus().saturating_mul(self.placed.len() as u64) {
            return Err(format!("sums above {reached} are left out"));
        }
        Ok(())
    }

    fn interval(&self, cores: &mut Cores, total: &Total) -> Result<(), String> {
        let mut budgets = self.least.to_vec();
        for step in &total.steps {
            let at = step.place;
            let Some(&set) = self.placed.get(at) else { return Err("a step names no core".into()) };
            let others: u64 = budgets.iter().sum::<u64>() - budgets[at];
            let room = total.most.saturating_sub(others).min(cores.bus());
            let own = step.budget.map_or(room, |budget| budget.saturating_sub(1));
            let beside = total.least.saturating_sub(own);
            if cores.known || cores.keeps(set, self.ways[at], own, beside, None) {
                return Err("a step of a sum does not hold".to_owned());
            }
            match step.budget {
                None => return Ok(()),
                Some(budget) => budgets[at] = budget.max(budgets[at]),
            }
        }
        let speed = self.speed_at_most(cores, &budgets, total);
        let over = budgets.iter().sum::<u64>() > total.most;
        if over || speed < cores.question.speed - ROUNDED {
            return Ok(());
        }
        Err(format!("the speed may be {speed}"))
    }

    /// The speed of all programs with these budgets or larger ones, which have the largest sum.
    fn speed_at_most(&self, cores: &Cores, budgets: &[u64], total: &Total) -> f64 {
        let paid = total.price * total.most as f64;
        // More would lose the speed to rounding.
        if !(0.0..MOST_PAID).contains(&paid) {
            return f64::INFINITY;
        }
        let wants = self.wants(cores);
        let gain = |at: usize| {
            let content = &self.contents[at];
            let of = |turn: f64| {
                // A turn between two whole budgets: the speed of the larger one, and the price of
                // the smaller one.
                let paid = turn.floor().max(budgets[at] as f64);
                let speed = wants.speed(at, content, (turn.ceil() as u64).max(budgets[at]));
                speed - total.price * paid
            };
            let turns = wants.turns(at, content);
            let all = turns.into_iter().chain([budgets[at] as f64, cores.bus() as f64]);
            all.map(of).fold(f64::NEG_INFINITY, f64::max)
        };
        let gains: f64 = (0..budgets.len()).map(gain).sum();
        paid + gains
    }
}
