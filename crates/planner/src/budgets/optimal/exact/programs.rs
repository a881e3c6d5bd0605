//! Budgets that best-effort programs need for a wanted sum of their speeds.
//!
//! Rule: a program has at most the time, the ways and the accesses that `speed` gives it, with the
//! largest budget that its core can have. What the others cannot reach of the sum, the programs of
//! a core must: that needs a budget. Cores without analysed tasks give each program the same number
//! of accesses, or at least what it can use. So one number must reach what the programs beside
//! analysed tasks cannot. Does not cover: how a core gets more than its least budget.

use super::machine::{Content, Machine};
use super::sets::last_failing;
use crate::budgets::optimal::certificate::{Part, Set, bits};
use crate::budgets::optimal::problem::LEAST;

/// The programs of a core.
#[derive(Debug)]
pub struct Share<'a> {
    pub set: Set,
    pub content: &'a Content,
    /// Ways of the programs, at most.
    pub ways: u32,
    /// Largest budget that the core can have.
    pub most: u64,
    /// The choices that are asked for.
    pub part: Part,
}

impl Machine<'_> {
    /// Sum of the speeds of the programs of a core with this budget, at most.
    pub fn speed(&self, share: &Share, budget: u64) -> f64 {
        let (problem, content) = (self.problem, share.content);
        let programs = (share.set & self.programs).count_ones();
        let period = problem.base.regulation.period_ps as f64;
        let accesses = |bit: usize| {
            let own = (u64::from(programs), 1 << bit);
            let most = share.part.bounded(budget, share.set & self.hard == 0, own);
            (most as f64 - content.taken).max(0.0) / f64::from(programs)
        };
        let time = content.time.max(0.0) / f64::from(programs);
        let of = |bit: usize| {
            let need = problem.needs.iter().find(|need| need.task == self.tasks[bit])?;
            Some(need.speed(time, accesses(bit), period, share.ways / programs.max(1)))
        };
        bits(share.set & self.programs).filter_map(of).sum()
    }

    /// Accesses in a period that each program of a set can use on a core without analysed tasks.
    pub fn usable(&self, set: Set) -> u64 {
        let on: Vec<usize> = bits(set).map(|bit| self.tasks[bit]).collect();
        self.problem.usable(0, &on)
    }

    /// Budgets of a core from which on its programs get no faster, by program.
    pub fn full(&self, share: &Share) -> Vec<f64> {
        let (problem, content) = (self.problem, share.content);
        let programs = (share.set & self.programs).count_ones();
        let (count, period) = (f64::from(programs), problem.base.regulation.period_ps as f64);
        let time = content.time.max(0.0) / count.max(1.0);
        let of = |bit: usize| {
            let need = problem.needs.iter().find(|need| need.task == self.tasks[bit])?;
            let enough = need.enough(time, period, share.ways / programs.max(1));
            Some(content.taken + count * enough)
        };
        bits(share.set & self.programs).filter_map(of).collect()
    }

    /// Budgets of a core at which one more access begins to be worth more or less.
    pub fn turns(&self, share: &Share) -> Vec<f64> {
        let programs = share.set & self.programs;
        let of = |bit: usize| {
            let own = (u64::from(programs.count_ones()), 1 << bit);
            share.part.bounded(u64::MAX, share.set & self.hard == 0, own) as f64
        };
        let bounds = bits(programs).map(of);
        self.full(share).into_iter().chain(bounds).chain([share.content.taken]).collect()
    }

    /// Least budgets of cores with programs, in order, so that the speeds have this sum; `None` if
    /// the largest budgets do not suffice.
    pub fn budgets_for(&self, shares: &[Share], speed: f64) -> Option<Vec<u64>> {
        let most: Vec<f64> = shares.iter().map(|s| self.speed(s, s.most)).collect();
        let all: f64 = most.iter().sum();
        if all < speed {
            return None;
        }
        let mixed = |share: &Share| share.set & self.hard != 0;
        let by_others: f64 =
            shares.iter().zip(&most).filter(|(s, _)| mixed(s)).map(|(_, most)| most).sum();
        let programs = |share: &Share| u64::from((share.set & self.programs).count_ones());
        // A core may have more than its `t`, as a counter can enforce no less.
        let pure = |t: u64| -> f64 {
            let budget = |share: &Share| t.saturating_mul(programs(share)).max(LEAST);
            let of = |share: &Share| self.speed(share, budget(share));
            shares.iter().filter(|s| !mixed(s)).map(of).sum()
        };
        // A little less, as sums are rounded.
        let t = self.least(self.problem.bus, speed - by_others - 1e-9, pure);
        // Programs on a core of their own may get no more than they can use.
        let given = |share: &Share| {
            let each = if mixed(share) { t } else { t.min(self.usable(share.set)) };
            each.saturating_mul(programs(share))
        };
        let budget = |(share, most): (&Share, &f64)| {
            let wanted = speed - (all - most) - 1e-9;
            let own = self.least(share.most, wanted, |budget| self.speed(share, budget));
            own.max(given(share)).min(self.problem.bus)
        };
        Some(shares.iter().zip(&most).map(budget).collect())
    }

    /// The least number up to `most` that may reach this sum.
    pub fn least(&self, most: u64, wanted: f64, reached: impl Fn(u64) -> f64) -> u64 {
        if wanted <= 0.0 || reached(1) >= wanted {
            return 1;
        }
        last_failing(1, most.max(2), |n| reached(n) >= wanted) + 1
    }
}
