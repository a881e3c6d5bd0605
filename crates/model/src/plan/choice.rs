//! A choice of the planner in words.
//!
//! Rule: each choice has its reason, and the price of the next best. Does not cover: numbers that a
//! program could compare.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A choice, and the price of the next best.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The subject of the choice: a task, ways, a budget, a region, a buffer, the scheme.
    pub of: String,
    /// The choice.
    pub chosen: String,
    /// Reason for the choice.
    pub why: String,
    /// The next best, and its price.
    pub next_best: String,
}

impl Choice {
    /// One line of a plan's reasons.
    pub fn line(&self) -> String {
        format!("{}: {}: {}; next best: {}", self.of, self.chosen, self.why, self.next_best)
    }
}
