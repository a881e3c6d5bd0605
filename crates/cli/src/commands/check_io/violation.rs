//! What a check of a table finds, and how much it looked at.

use solocore_model::Time;

/// A rule that a table breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In nanoseconds from the start.
    pub time_ns: u64,
    /// Which rule.
    pub rule: &'static str,
    /// Lines of the table, the later activity's first.
    pub lines: Vec<usize>,
    /// Both activities and the time.
    pub message: String,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Instances of activities unrolled.
    pub instances: u64,
    /// Resources whose hyperperiod is too long to unroll; they were checked pair by pair as well.
    pub long: usize,
}

/// Nanoseconds for people.
pub fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}
