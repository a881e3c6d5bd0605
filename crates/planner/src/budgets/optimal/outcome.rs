//! A candidate with its budgets and bounds, and the order of such outcomes.
//!
//! Rule: deadlines come first, then the wanted slowdown, then the objective, then the speed of best
//! effort. Does not cover: the way to an outcome, which is `attempt`'s.

use super::analysed::WHOLE;
use super::candidate::Candidate;
use crate::core_plan::CorePlan;
use crate::resources::Resources;
use std::cmp::Ordering;

/// Value of a candidate: greater is better, in this order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Value {
    /// 2: deadlines and the wanted slowdown are met; 1: only deadlines; 0: not all deadlines. One
    /// half more where best effort has its floor besides.
    pub class: f64,
    /// Value of the objective; where deadlines are missed, the factor by which they are
    /// exceeded, negative.
    pub objective: f64,
    /// Speed of the best-effort programs.
    pub speed: f64,
}

impl Value {
    /// Is every deadline met?
    pub fn meets(&self) -> bool {
        self.class >= 1.0
    }

    /// The largest factor of all deadlines that still matters beside this value: its own factor
    /// times this one, in the unit of [`Limits`](super::analysed::Limits). [`WHOLE`]: none matters.
    /// If it is not known how late this one is, the result exceeds each factor that is tried.
    pub fn latest(&self, times: f64) -> u64 {
        if self.meets() {
            return WHOLE;
        }
        (-self.objective * times * WHOLE as f64).ceil() as u64
    }

    /// Is the wanted slowdown kept, too?
    pub fn keeps_wish(&self) -> bool {
        self.class >= 2.0
    }

    /// Is this the better one?
    pub fn better(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Greater)
    }
}

/// A candidate with its budgets and bounds.
#[derive(Debug)]
pub struct Outcome {
    /// Core of each task, and ways of each core.
    pub candidate: Candidate,
    /// The cores' bounds.
    pub cores: Vec<CorePlan>,
    /// The resources, with the budgets.
    pub resources: Resources,
    /// The candidate's value.
    pub value: Value,
    /// The core that kept it from a better one, where that is known.
    pub critical: Option<u32>,
    /// Part of the budgets for writes, in thousandths.
    pub part: Option<u64>,
}
