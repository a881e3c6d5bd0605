//! Findings of a check of a table, and its extent.

use solocore_model::Time;

/// A rule that a table breaks, and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Time from the start, in nanoseconds.
    pub time_ns: u64,
    /// Name of the rule.
    pub rule: &'static str,
    /// Lines of the table, the later activity's first.
    pub lines: Vec<usize>,
    /// Text with both activities and the time.
    pub message: String,
}

/// Extent of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Instances of activities unrolled.
    pub instances: u64,
    /// Number of resources with a hyperperiod that is too long to unroll; they were checked pair by
    /// pair as well.
    pub long: usize,
}

/// A time in nanoseconds, for people.
pub fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}
