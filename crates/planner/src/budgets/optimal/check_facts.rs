//! The facts of a certificate that hold, by sets of tasks.
//!
//! Rule: the analysis is asked for each fact ([`Believed`]). A fact is about a range of ways. It
//! holds for each part of that range, and for nothing else: with fewer ways the others have more
//! pages. Does not cover: what facts about single sets close (`check`).

use super::certificate::{Certificate, Fact, Set, Ways};
use super::check_core::Cores;
use rayon::prelude::*;
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

/// The facts of a certificate, each of which was found to hold.
pub struct Believed {
    /// Does a set break a limit beside cores that make next to no accesses?
    pub alone: Vec<bool>,
    pub facts: Facts,
}

/// Facts that a thread takes at once.
const FACTS: usize = 1 << 13;

impl Believed {
    /// Asks for all facts.
    ///
    /// # Errors
    /// The first fact that does not hold.
    pub fn of(
        cores: &Cores,
        certificate: &Certificate,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, String> {
        certificate.facts.par_chunks(FACTS).try_for_each(|facts| {
            let mut cores = cores.again();
            facts.iter().try_for_each(|&fact| {
                if stop() {
                    return Err("the check was ended".to_owned());
                }
                holds(&mut cores, fact)
            })
        })?;
        let all = cores.all();
        let mut made = Self { alone: vec![false; all as usize + 1], facts: Facts::default() };
        for &fact in &certificate.facts {
            match fact {
                Fact::Alone(set) => made.alone[set as usize] = true,
                _ => made.facts.add(fact),
            }
        }
        // A set that contains a set which is impossible alone is so, too.
        for set in 1..=all {
            let without = |bit: u32| set & !(1 << bit);
            let smaller = (0..Set::BITS).filter(|bit| set >> bit & 1 == 1).map(without);
            made.alone[set as usize] |= smaller.into_iter().any(|s| made.alone[s as usize]);
        }
        Ok(made)
    }
}

/// Asks the analysis for a fact.
fn holds(cores: &mut Cores, fact: Fact) -> Result<(), String> {
    let (set, most) = (fact.set(), cores.ways.1);
    if set == 0 || set & !cores.all() != 0 {
        return Err(format!("{fact:?} names no set of tasks"));
    }
    let (bus, least) = (cores.bus(), cores.least_others());
    let kept = match fact {
        Fact::Alone(_) => {
            let nobody = cores.rivals(Vec::new());
            cores.keeps(set, most, bus, least, nobody)
        }
        Fact::Breaks { ways, .. } | Fact::Needs { ways, .. }
            if ways.least == 0 || ways.least > ways.most || ways.most > most =>
        {
            return Err(format!("{fact:?} has ways that no core can have"));
        }
        Fact::Breaks { ways, others, .. } => {
            let jobs = cores.least_jobs(set, ways.least);
            cores.keeps(set, ways.most, bus, others.max(least), jobs)
        }
        Fact::Needs { ways, others, budget, .. } => {
            let jobs = cores.least_jobs(set, ways.least);
            budget < 2 || cores.keeps(set, ways.most, budget - 1, others.max(least), jobs)
        }
    };
    if kept { Err(format!("{fact:?} does not hold: all limits are kept")) } else { Ok(()) }
}
