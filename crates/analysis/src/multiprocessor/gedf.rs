//! All tests of global EDF, best answer.
//!
//! # Problem
//! The tests are incomparable; a set is schedulable if one of them shows it.
//!
//! # Rule
//! Cheapest first: density ([`gfb`](super::gfb)), response times ([`response`](super::response),
//! which accept all that [`bcl`](super::bcl) and [`bcl_iterative`](super::bcl_iterative) accept),
//! [`bar`](super::bar), [`ffdbf`](super::ffdbf). For deadlines beyond periods: the tests that cover
//! them. Once one test shows that no deadline is missed, each response is at most the deadline, and
//! the slacks of the response-time analysis hold even if that analysis alone does not show all
//! tasks.
//!
//! # Source
//! The modules named. Not covered: the same as in each of them.

use super::{bar, ffdbf, gfb, response};
use crate::derivation::Derivation;
use crate::task_set::{TaskSet, TaskSetError};

/// A test that showed a set schedulable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// [`gfb`](super::gfb).
    Gfb,
    /// [`response`](super::response).
    Response,
    /// [`bar`](super::bar).
    Bar,
    /// [`ffdbf`](super::ffdbf).
    Ffdbf,
}

/// Answer of all tests together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The first test that shows the set schedulable.
    pub by: Option<Test>,
    /// Response-time bounds in the set's unit, one per task; `None` if the set is not shown to be
    /// schedulable.
    pub responses: Option<Vec<u64>>,
}

impl Test {
    /// The test's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gfb => "gedf-gfb",
            Self::Response => "gedf-rta",
            Self::Bar => "gedf-bar",
            Self::Ffdbf => "gedf-ffdbf",
        }
    }
}

/// Does any test show the set schedulable? Any deadlines; with deadlines beyond periods fewer tests
/// apply.
///
/// # Errors
/// Impossible numbers, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(first(set).is_some())
}

/// The verdict with its test, and response-time bounds.
///
/// # Errors
/// As [`schedulable`].
pub fn answer(set: &TaskSet) -> Result<Answer, TaskSetError> {
    super::check(set)?;
    let by = first(set);
    let deadlines = || set.tasks.iter().map(|t| t.deadline).collect();
    let responses =
        by.map(|_| if constrained(set) { response::analyse(set, true).0 } else { deadlines() });
    Ok(Answer { by, responses })
}

/// As [`schedulable`], with the reasons: the derivations of all tests that apply.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    let verdict = schedulable(set)?;
    let mut derivation = Derivation::new("any of the tests below", "multiprocessor::gedf")
        .input("m", u64::from(set.cores))
        .because(gfb::schedulable_explained(set)?)
        .because(ffdbf::schedulable_explained(set)?);
    if constrained(set) {
        derivation = derivation
            .because(super::bcl::schedulable_explained(set)?)
            .because(super::bcl_iterative::schedulable_explained(set)?)
            .because(response::schedulable_explained(set)?)
            .because(bar::schedulable_explained(set)?);
    }
    Ok(derivation.result(verdict))
}

fn constrained(set: &TaskSet) -> bool {
    set.tasks.iter().all(|t| t.deadline <= t.period)
}

/// The first test that accepts a set that was checked.
fn first(set: &TaskSet) -> Option<Test> {
    let constrained = constrained(set);
    [Test::Gfb, Test::Response, Test::Bar, Test::Ffdbf].into_iter().find(|test| match test {
        Test::Gfb => gfb::holds(set),
        Test::Response => constrained && response::holds(set),
        Test::Bar => constrained && bar::holds(set),
        Test::Ffdbf => ffdbf::holds(set),
    })
}
