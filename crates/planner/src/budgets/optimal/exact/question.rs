//! A question that the exact search answers: is there a choice that keeps to these limits?
//!
//! Rule: an answer "no" proves that no choice of cores and ways is better than one that is known,
//! by more than [`TOLERANCE`]. A better class comes first, then the objective. Does not cover: the
//! speed of best effort where it only breaks a tie.

use super::machine::Machine;
use crate::budgets::optimal::analysed::{Limits, WHOLE};
use crate::budgets::optimal::certificate::{Part, Question, Set};
use crate::budgets::optimal::outcome::Value;
use crate::budgets::optimal::problem::{LEAST, Problem};
use solocore_model::system::Objective;

/// A choice counts as better if its objective is better by this part.
pub const TOLERANCE: f64 = 0.01;
/// Sums of speeds are rounded by less than this.
pub const ROUNDED: f64 = 1e-9;

impl Question {
    /// The questions that must be answered "no" to prove that nothing is better than this value.
    pub fn of(problem: &Problem, value: &Value) -> Vec<Self> {
        let wish = problem.wished();
        let limits = |slowdown| Limits { deadline: WHOLE, slowdown };
        let part = Part::ALL;
        let plain = |slowdown, t| Self { limits: limits(slowdown), t, speed: 0.0, part };
        if !value.meets() {
            return vec![plain(u64::MAX, 1)];
        }
        if !value.keeps_wish() {
            return vec![plain(wish, 1)];
        }
        let full = value.class > 2.0;
        let t = if full { problem.floor } else { 1 };
        let less = 1.0 - TOLERANCE;
        // Rounded up: a choice that is better by more than the tolerance keeps to it.
        let limit = |worst: f64| (worst * less * WHOLE as f64).ceil().max(0.0) as u64;
        match problem.objective {
            Objective::Margin => {
                let limits = Limits { deadline: limit(-value.objective), slowdown: wish };
                let tighter = Self { limits, t, speed: 0.0, part };
                if full { vec![tighter] } else { vec![plain(wish, problem.floor), tighter] }
            }
            Objective::Bounds => {
                let slowdown = limit(-value.objective).min(wish);
                let tighter = plain(slowdown, t);
                if full { vec![tighter] } else { vec![plain(wish, problem.floor), tighter] }
            }
            _ => {
                let speed = value.objective * problem.needs.len() as f64 / less - ROUNDED;
                vec![Self { limits: limits(wish), t: 1, speed, part }]
            }
        }
    }

    /// Least budget of a core with these tasks, as `attempt` gives it.
    pub fn floor(&self, machine: &Machine, set: Set) -> u64 {
        let programs = u64::from((set & machine.programs).count_ones());
        let analysed = set & machine.hard != 0;
        let all = match (programs, analysed, machine.problem.base.other_programs) {
            (0, false, true) => self.t,
            (0, false, false) => self.t.max(self.part.least).min(LEAST),
            _ => self.t.max(self.share(machine, set)).saturating_mul(programs),
        };
        all.clamp(1, machine.problem.bus)
    }

    /// Least share of the programs of a set.
    fn share(&self, machine: &Machine, set: Set) -> u64 {
        let least = self.part.least;
        // Programs can always use as much as a counter can enforce.
        if least <= LEAST || set & machine.hard != 0 {
            return least;
        }
        least.min(machine.usable(set))
    }
}
