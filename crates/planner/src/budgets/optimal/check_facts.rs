//! The facts of a certificate that hold, by sets of tasks.
//!
//! Rule: a fact is about a range of ways. It holds for each part of that range, and for nothing
//! else: with fewer ways the others have more pages. Does not cover: if a fact holds (`check`).

use super::certificate::{Fact, Set, Ways};
use std::collections::HashMap;

/// Facts by the tasks of one core.
#[derive(Default)]
pub struct Facts {
    /// By set: with these ways, a sum of the others' budgets that breaks a limit.
    breaks: HashMap<Set, Vec<(Ways, u64)>>,
    /// By set: with these ways, and beside this sum of the others' budgets, the least own one.
    needs: HashMap<Set, Vec<(Ways, u64, u64)>>,
}

impl Facts {
    /// Takes a fact that holds.
    pub fn add(&mut self, fact: Fact) {
        match fact {
            Fact::Alone(_) => {}
            Fact::Breaks { set, ways, others } => {
                self.breaks.entry(set).or_default().push((ways, others));
            }
            Fact::Needs { set, ways, others, budget } => {
                self.needs.entry(set).or_default().push((ways, others, budget));
            }
        }
    }

    /// The least sum of the others' budgets that breaks a limit of a set with each of these ways.
    pub fn breaks(&self, set: Set, ways: Ways) -> u64 {
        let known = self.breaks.get(&set).into_iter().flatten();
        known.filter(|(of, _)| of.contain(ways)).map(|&(_, n)| n).min().unwrap_or(u64::MAX)
    }

    /// The budget that a set needs with each of these ways, beside this sum of the others'; 1 if
    /// none is known.
    pub fn needs(&self, set: Set, ways: Ways, others: u64) -> u64 {
        let known = self.needs.get(&set).into_iter().flatten();
        let of = known.filter(|(of, beside, _)| of.contain(ways) && *beside <= others);
        of.map(|&(.., n)| n).max().unwrap_or(1)
    }

    /// The ways with which a set is not known to break a limit beside this sum of the others'
    /// budgets, from the first to the last; `None` if there are none.
    pub fn narrowed(&self, set: Set, ways: Ways, others: u64) -> Option<Ways> {
        if others >= self.breaks(set, ways) {
            return None;
        }
        let keeps = |&own: &u32| others < self.breaks(set, Ways::just(own));
        let least = (ways.least..=ways.most).find(keeps)?;
        let most = (least..=ways.most).rev().find(keeps)?;
        Some(Ways { least, most })
    }
}
