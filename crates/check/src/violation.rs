//! A broken rule, and its report.
//!
//! Problem: every checker reports alike. Rule: the first violation names time, core, rule and
//! numbers.

use serde::Serialize;
use std::fmt;

/// The first rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Time of the violation, ns; 0: before any thread ran.
    pub time_ns: u64,
    /// Number of the core.
    pub core: u32,
    /// Name of the rule.
    pub rule: &'static str,
    /// The violation in words, with its numbers.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns on core {}: {}: {}", self.time_ns, self.core, self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

impl Violation {
    pub(crate) fn of(time_ns: u64, core: u32, rule: &'static str, what: String) -> Self {
        Self { time_ns, core, rule, what }
    }
}

/// The rule of a trace that cannot be checked.
pub const UNCHECKABLE: &str = "trace";
