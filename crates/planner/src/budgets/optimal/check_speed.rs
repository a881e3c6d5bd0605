//! Budgets that best effort needs, as the check of a certificate sees it.
//!
//! Rule: a speed is that of `speed`, with the largest budget that a core can have. A budget is
//! needed where less of it does not reach the wanted sum, even with all others at their most. Cores
//! without analysed tasks have one number of accesses for each program, or at least what it can
//! use.

use super::certificate::Set;
use super::check_core::{Content, Cores};
use super::problem::LEAST;
use super::speed::Need;
use std::sync::Arc;

/// Sums of speeds are rounded by less than this.
pub const ROUNDED: f64 = 1e-9;

/// Cores with programs.
pub struct Wants<'a> {
    pub cores: &'a Cores<'a>,
    pub placed: &'a [Set],
    pub ways: &'a [u32],
    /// May programs use all ways of their core?
    pub loosely: bool,
    /// Largest budgets of the cores.
    pub most: &'a [u64],
}

impl Wants<'_> {
    /// Sum of the speeds of a core's programs with this budget.
    pub fn speed(&self, at: usize, content: &Content, budget: u64) -> f64 {
        let programs = self.cores.programs(self.placed[at]);
        let count = programs.len().max(1);
        let (_, taken) = content.left;
        let accesses = |task: usize| {
            let most = self.bounded(at, task, budget.min(self.cores.bus()));
            (most as f64 - taken).max(0.0) / count as f64
        };
        let (time, period, ways) = self.parts(at, content);
        self.needs(&programs).map(|n| n.speed(time, accesses(n.task), period, ways)).sum()
    }

    /// Budgets of a core between which the speed of its programs is linear.
    pub fn turns(&self, at: usize, content: &Content) -> Vec<f64> {
        let programs = self.cores.programs(self.placed[at]);
        let (_, taken) = content.left;
        let (time, period, ways) = self.parts(at, content);
        let of = |n: &Need| {
            let full = taken + n.enough(time, period, ways) * programs.len() as f64;
            [full, self.bounded(at, n.task, self.cores.bus()) as f64]
        };
        self.needs(&programs).flat_map(of).chain([taken]).collect()
    }

    /// Can a program of a core without analysed tasks use this many accesses in a period? On a core
    /// with them: does it get faster up to that many for each program?
    pub fn uses(&self, at: usize, content: &Content, number: u64) -> bool {
        let programs = self.cores.programs(self.placed[at]);
        if !self.cores.analysed(self.placed[at]) {
            return self.cores.problem.usable(0, &programs) >= number;
        }
        let (count, (time, period, ways)) = (programs.len() as f64, self.parts(at, content));
        let each = number as f64 - content.left.1 / count;
        self.needs(&programs).any(|n| n.enough(time, period, ways) >= each)
    }

    fn needs(&self, programs: &[usize]) -> impl Iterator<Item = &Need> {
        self.cores.problem.needs.iter().filter(|n| programs.contains(&n.task))
    }

    /// The part of a budget that a program of a core may count on.
    fn bounded(&self, at: usize, task: usize, budget: u64) -> u64 {
        let count = self.cores.programs(self.placed[at]).len().max(1) as u64;
        let pure = !self.cores.analysed(self.placed[at]);
        self.cores.question.part.bounded(budget, pure, (count, self.cores.set_of(task)))
    }

    /// Part of the time and ways of each program of a core, and the period in ps.
    fn parts(&self, at: usize, content: &Content) -> (f64, f64, u32) {
        let base = &self.cores.problem.base;
        let own = if base.pages.is_own() {
            self.cores.own_ways(self.ways[at])
        } else {
            base.platform.llc.ways / base.cores
        };
        let per_way = (base.platform.pages_per_way() as usize).max(1);
        let used = u32::try_from(content.locked.div_ceil(per_way)).unwrap_or(u32::MAX);
        let free = if self.loosely { own } else { own.saturating_sub(used) };
        let count = self.cores.programs(self.placed[at]).len().max(1);
        let time = content.left.0.max(0.0) / count as f64;
        (time, base.regulation.period_ps as f64, free / count as u32)
    }

    /// Least budgets of all cores for this sum of speeds (1 where nothing is needed); `None`: it is
    /// out of reach.
    pub fn budgets(&self, contents: &[Arc<Content>], wanted: f64) -> Option<Vec<u64>> {
        let all: Vec<usize> = (0..self.placed.len()).collect();
        let top: Vec<f64> =
            all.iter().map(|&at| self.speed(at, &contents[at], self.most[at])).collect();
        let sum: f64 = top.iter().sum();
        if sum < wanted {
            return None;
        }
        let count = |at: usize| self.cores.programs(self.placed[at]).len() as u64;
        let pure: Vec<usize> =
            all.iter().copied().filter(|&at| !self.cores.analysed(self.placed[at])).collect();
        let mixed: f64 = sum - pure.iter().map(|&at| top[at]).sum::<f64>();
        // A core may have more than its `t`, as a counter can enforce no less.
        let by_pure = |t: u64| -> f64 {
            let budget = |at: usize| t.saturating_mul(count(at)).max(LEAST);
            let of = |&at: &usize| self.speed(at, &contents[at], budget(at));
            pure.iter().map(of).sum()
        };
        let t = self.needed(wanted - mixed - 2.0 * ROUNDED, by_pure);
        let of = |&at: &usize| {
            if count(at) == 0 {
                return 1;
            }
            let by_own = |budget: u64| self.speed(at, &contents[at], budget);
            let own = self.needed(wanted - (sum - top[at]) - 2.0 * ROUNDED, by_own);
            // A core without analysed tasks may give its programs no more than they can use.
            let on = self.cores.programs(self.placed[at]);
            let usable = self.cores.problem.usable(0, &on);
            let each = if pure.contains(&at) { t.min(usable) } else { t };
            own.max(each.saturating_mul(count(at))).min(self.cores.bus())
        };
        Some(all.iter().map(of).collect())
    }

    /// The least number with which a growing sum is reached; the bus where it is not.
    pub fn needed(&self, wanted: f64, reached: impl Fn(u64) -> f64) -> u64 {
        let (mut low, mut high) = (1, self.cores.bus());
        if wanted <= 0.0 {
            return 1;
        }
        while low < high {
            let middle = u64::midpoint(low, high);
            if reached(middle) >= wanted { high = middle } else { low = middle + 1 }
        }
        low
    }
}
