//! What a search knows of a set of tasks, for its threads.
//!
//! Rule: a limit that is broken beside a sum of the others' budgets is broken beside a larger one,
//! and with each number of ways among those that it was looked for with. So an answer about some
//! ways and a sum often answers the next question. Values that take long to make are kept until
//! there are too many. Does not cover: how an answer is found ([`super::sets`]).

use crate::budgets::optimal::certificate::{Fact, Set, Ways};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The limits of one set.
#[derive(Debug, Default)]
pub struct Known {
    /// By ways, the largest sum of the others' budgets that keeps to the limits, and the least one
    /// that breaks one.
    edges: Vec<(Ways, u64, u64)>,
    /// By ways, own budgets that are needed.
    needs: Vec<(Ways, Vec<Need>)>,
    /// Own budgets that suffice beside a sum of the others' budgets.
    suffice: Vec<(Ways, u64, u64)>,
    /// Rises with each question.
    asked: u32,
    last: Option<u64>,
}

/// An own budget that is needed beside a sum of the others' budgets.
#[derive(Clone, Copy, Debug)]
struct Need {
    others: u64,
    budget: u64,
    /// The question: for an earlier one, it is needed, and more may be.
    asked: u32,
}

impl Known {
    /// Does it keep to the limits beside this sum; `None` if that is not known?
    pub fn keeps(&self, ways: Ways, others: u64) -> Option<bool> {
        let mut keeps = None;
        for &(of, most, least) in &self.edges {
            if of.contain(ways) && others >= least {
                return Some(false);
            }
            if ways.contain(of) && others <= most {
                keeps = Some(true);
            }
        }
        keeps
    }

    /// The least sum that is known to break a limit with these ways; [`u64::MAX`] if none is.
    pub fn breaks(&self, ways: Ways) -> u64 {
        let of = self.edges.iter().filter(|edge| edge.0.contain(ways));
        of.map(|edge| edge.2).min().unwrap_or(u64::MAX)
    }

    /// Takes an answer.
    pub fn learn(&mut self, ways: Ways, others: u64, keeps: bool) {
        let at = self.edges.iter().position(|edge| edge.0 == ways).unwrap_or_else(|| {
            self.edges.push((ways, 0, u64::MAX));
            self.edges.len() - 1
        });
        let (_, most, least) = &mut self.edges[at];
        if keeps {
            *most = others.max(*most);
        } else {
            *least = others.min(*least);
        }
    }

    /// The larger one of a budget and of the known need beside this sum; is it known to be all that
    /// can be found?
    pub fn needs(&self, ways: Ways, others: u64, budget: u64) -> (u64, bool) {
        let (mut floor, mut enough) = (budget, false);
        for (of, needs) in self.needs.iter().filter(|(of, _)| of.contain(ways)) {
            let after = needs.partition_point(|need| need.others <= others);
            if let Some(need) = after.checked_sub(1).map(|at| needs[at]) {
                floor = floor.max(need.budget);
                enough |= *of == ways && need.others == others && need.asked == self.asked;
            }
        }
        let suffices = |&(of, beside, budget): &(Ways, u64, u64)| {
            of == ways && beside >= others && floor >= budget
        };
        (floor, enough || self.suffice.iter().any(suffices))
    }

    /// The budget that was found last.
    pub const fn last_need(&self) -> Option<u64> {
        self.last
    }

    /// Takes a budget that is needed. Beside larger sums, no less is needed.
    pub fn needed(&mut self, ways: Ways, others: u64, budget: u64) {
        self.last = Some(budget);
        let asked = self.asked;
        let of = self.needs.iter().position(|need| need.0 == ways).unwrap_or_else(|| {
            self.needs.push((ways, Vec::new()));
            self.needs.len() - 1
        });
        let needs = &mut self.needs[of].1;
        let at = needs.partition_point(|need| need.others < others);
        let before = at.checked_sub(1).map_or(0, |at| needs[at].budget);
        let budget = budget.max(before);
        match needs.get_mut(at).filter(|need| need.others == others) {
            Some(known) => *known = Need { budget: budget.max(known.budget), asked, others },
            None => needs.insert(at, Need { others, budget, asked }),
        }
        for later in &mut needs[at + 1..] {
            later.budget = later.budget.max(budget);
        }
    }

    /// Takes a budget that suffices, or beside which none does.
    pub fn suffices(&mut self, ways: Ways, others: u64, budget: u64) {
        self.suffice.retain(|&(of, beside, more)| of != ways || beside > others || more < budget);
        self.suffice.push((ways, others, budget));
    }

    /// Needs are found to a smaller part of themselves from now on.
    pub fn finer(&mut self) {
        self.asked += 1;
    }

    /// The limits are tighter from now on.
    pub fn tighter(&mut self) {
        self.finer();
        self.suffice = Vec::new();
        self.edges.retain(|edge| edge.2 < u64::MAX);
        self.edges.iter_mut().for_each(|edge| edge.1 = 0);
    }

    /// The facts about broken limits of `set`. `floor`: the least budget that it has anyway.
    pub fn facts(&self, set: Set, floor: u64) -> Vec<Fact> {
        let mut breaks: Vec<Fact> = Vec::new();
        for &(ways, _, others) in self.edges.iter().filter(|edge| edge.2 < u64::MAX) {
            breaks.push(Fact::Breaks { set, ways, others });
        }
        let mut needs: Vec<Fact> = Vec::new();
        for &(ways, ref known) in &self.needs {
            for &Need { others, budget, .. } in known.iter().filter(|need| need.budget > floor) {
                needs.push(Fact::Needs { set, ways, others, budget });
            }
        }
        // More of the others' budgets say something only where they make it need more.
        needs.dedup_by(|next, before| match (next, before) {
            (Fact::Needs { ways, budget, .. }, Fact::Needs { ways: with, budget: least, .. }) => {
                ways == with && budget <= least
            }
            _ => false,
        });
        breaks.extend(needs);
        breaks.sort_by_key(|fact| match *fact {
            Fact::Breaks { ways, .. } | Fact::Needs { ways, .. } => Some(ways),
            Fact::Alone(_) => None,
        });
        breaks
    }
}

/// A table of values by key. Each thread has one: no thread waits for others then, and a thread
/// frees the values that it made.
type Table<K, V> = Mutex<HashMap<K, Arc<V>>>;

/// Values that are kept until there are too many.
#[derive(Debug)]
pub struct Kept<K, V> {
    parts: Vec<Table<K, V>>,
    /// Most values of a part.
    most: usize,
}

impl<K: Hash + Eq, V> Kept<K, V> {
    /// At most this number of values, for the threads of the caller together.
    pub fn of(most: usize) -> Self {
        let threads = rayon::current_num_threads() + 1;
        Self { parts: (0..threads).map(|_| Mutex::default()).collect(), most: most / threads }
    }

    /// The value of a key, made if the thread has not made it before.
    pub fn of_or(&self, key: K, made: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let others = self.parts.len() - 1;
        let part = &self.parts[rayon::current_thread_index().unwrap_or(others).min(others)];
        let lock = || part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Arc::clone(known);
        }
        let made = made();
        let mut part = lock();
        if part.len() >= self.most {
            part.clear();
        }
        part.insert(key, Arc::clone(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// With one number of ways, a sum that breaks a limit, and the own budget that is needed beside
    /// a sum. A range keeps to a limit if any of its numbers does.
    fn truth(breaks: [u64; 4], ways: Ways, others: u64) -> (bool, u64) {
        let own = (ways.least..=ways.most).map(|ways| breaks[ways as usize - 1]);
        let most = own.max().unwrap_or(0);
        (others < most, 1 + 100 * others / most)
    }

    proptest! {
        /// No answer says more than those before it.
        #[test]
        fn answers_follow_from_earlier_ones(
            breaks in prop::array::uniform4(1u64..40),
            asked in prop::collection::vec((1u32..5, 0u32..4, 0u64..60, 0u8..8), 1..60),
        ) {
            let mut known = Known::default();
            for (least, more, others, what) in asked {
                let ways = Ways { least, most: (least + more).min(4) };
                let (keeps, need) = truth(breaks, ways, others);
                if let Some(answer) = known.keeps(ways, others) {
                    prop_assert_eq!(answer, keeps);
                }
                prop_assert!(known.breaks(ways) > others || !keeps);
                let (floor, enough) = known.needs(ways, others, 1);
                prop_assert!(floor <= need);
                prop_assert!(!enough || known.needs(ways, others, need).1);
                match what {
                    0..3 => known.learn(ways, others, keeps),
                    3..6 => known.needed(ways, others, need),
                    6 => known.suffices(ways, others, need),
                    _ => known.tighter(),
                }
                for fact in known.facts(1, 1) {
                    match fact {
                        Fact::Breaks { ways, others, .. } => {
                            prop_assert!(!truth(breaks, ways, others).0);
                        }
                        Fact::Needs { ways, others, budget, .. } => {
                            prop_assert!(truth(breaks, ways, others).1 >= budget);
                        }
                        Fact::Alone(_) => {}
                    }
                }
            }
        }
    }
}
