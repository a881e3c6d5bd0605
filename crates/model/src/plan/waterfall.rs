//! From a task's time alone to its bound: the addition of each step of the analysis.
//!
//! Problem: a profile counts 8,954 misses and a plan 204,878, and the source of the difference
//! cannot be seen. Rule: the bound on a response time is a sum of terms, in the order of [`Cause`].
//! The terms sum exactly to the bound as the plan has it, in whole nanoseconds. Does not cover:
//! tasks without a bound, and levels of MC2, which are bounded by stated times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Terms of a bound, in the order in which they are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The time alone: with the whole shared cache and row hits in DRAM, or the stated time.
    Alone,
    /// Only locked pages count as cached. The term is negative where they save more than the whole
    /// cache does.
    Cache,
    /// A DRAM access takes `L_max`, not the time of a row hit.
    Latency,
    /// Other cores' accesses, refreshes, and the core's own budget hold the job up.
    Others,
    /// Accesses under way, and the budget used up before: once per busy window.
    Once,
    /// Other tasks of the core, earlier jobs of the task itself, and what preemptions make it load
    /// again.
    Preemption,
}

impl Cause {
    /// Its word in a plan's file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Cache => "cache",
            Self::Latency => "latency",
            Self::Others => "others",
            Self::Once => "once",
            Self::Preemption => "preemption",
        }
    }

    /// Its name in a few words, for a table.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alone => "time alone",
            Self::Cache => "only locked pages are cached",
            Self::Latency => "L_max for each access, not a row hit",
            Self::Others => "other cores and the budget",
            Self::Once => "once per busy window",
            Self::Preemption => "tasks of the same core",
        }
    }
}

/// One term of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The term.
    pub term: Cause,
    /// Part of the bound that this term adds; it may be negative.
    pub ns: i64,
    /// DRAM accesses of a job up to this term. Absent where the term changes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
}

/// Terms in whole nanoseconds of terms in picoseconds. They sum to the sum of `terms_ps`, rounded
/// up; each differs from its own by less than one nanosecond.
#[must_use]
pub fn whole_ns(terms_ps: &[i128]) -> Vec<i64> {
    let (mut sum, mut before) = (0, 0);
    let mut out = Vec::new();
    for term in terms_ps {
        sum += term;
        let now = -(-sum).div_euclid(1000);
        out.push(i64::try_from(now - before).unwrap_or(i64::MAX));
        before = now;
    }
    out
}
