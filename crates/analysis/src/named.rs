//! The schedulability tests by their names on the command line and in Python.
//!
//! Problem: two front ends must give the same answer to the same set. Rule: both use an
//! [`Analyst`], which keeps the working memory of one test from set to set.

use crate::multiprocessor::{bar, bcl, bcl_iterative, ffdbf, gedf, gfb, response, tardiness};
use crate::uniprocessor::{edf, plain};
use crate::{Derivation, TaskSet, TaskSetError};

/// A test of sporadic task sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Test {
    /// One core, preemptive fixed priorities: exact response times.
    FpRta,
    /// One core, earliest deadline first: exact.
    Edf,
    /// Global EDF: Goossens, Funk, Baruah (density).
    GedfGfb,
    /// Global EDF: Bertogna, Cirinei, Lipari.
    GedfBcl,
    /// Global EDF: the same, iterated with slacks.
    GedfBclIterative,
    /// Global EDF: Baruah.
    GedfBar,
    /// Global EDF: forced-forward demand.
    GedfFfdbf,
    /// Global EDF: response times of Bertogna and Cirinei.
    GedfRta,
    /// Global EDF: all of them, best answer.
    Gedf,
    /// Global EDF: bounds of tardiness.
    Tardiness,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::FpRta,
        Self::Edf,
        Self::GedfGfb,
        Self::GedfBcl,
        Self::GedfBclIterative,
        Self::GedfBar,
        Self::GedfFfdbf,
        Self::GedfRta,
        Self::Gedf,
        Self::Tardiness,
    ];

    /// The name on the command line and in Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FpRta => "fp-rta",
            Self::Edf => "edf",
            Self::GedfGfb => "gedf-gfb",
            Self::GedfBcl => "gedf-bcl",
            Self::GedfBclIterative => "gedf-bcl-iterative",
            Self::GedfBar => "gedf-bar",
            Self::GedfFfdbf => "gedf-ffdbf",
            Self::GedfRta => "gedf-rta",
            Self::Gedf => "gedf",
            Self::Tardiness => "tardiness",
        }
    }
}

/// Runs one test on one set after the other, and keeps the test's working memory.
#[derive(Debug)]
pub struct Analyst {
    test: Test,
    scratch: plain::Scratch,
    /// Bounds of the last set, one per task.
    bounds: Vec<Option<u64>>,
}

impl Analyst {
    /// An analyst before its first set.
    #[must_use]
    pub fn new(test: Test) -> Self {
        Self { test, scratch: plain::Scratch::default(), bounds: Vec::new() }
    }

    /// The test that it runs.
    #[must_use]
    pub fn test(&self) -> Test {
        self.test
    }

    /// Bounds of the last set, one per task, in the unit of the set: response times, or tardiness
    /// for [`Test::Tardiness`]. `None` where the test gives no bound.
    #[must_use]
    pub fn bounds(&self) -> &[Option<u64>] {
        &self.bounds
    }

    /// The verdict; its bounds are in [`Self::bounds`] until the next call.
    ///
    /// # Errors
    /// The set has a fault for this test, or the test gave up.
    pub fn decide(&mut self, set: &TaskSet) -> Result<bool, TaskSetError> {
        self.bounds.clear();
        self.bounds.resize(set.tasks.len(), None);
        match self.test {
            Test::FpRta => plain::schedulable_into(set, &mut self.scratch, &mut self.bounds),
            Test::Edf => edf::schedulable(set),
            Test::GedfGfb => gfb::schedulable(set),
            Test::GedfBcl => bcl::schedulable(set),
            Test::GedfBclIterative => bcl_iterative::schedulable(set),
            Test::GedfBar => bar::schedulable(set),
            Test::GedfFfdbf => ffdbf::schedulable(set),
            Test::GedfRta => {
                let responses = response::responses(set)?;
                Ok(self.keep(responses))
            }
            Test::Gedf => {
                let answer = gedf::answer(set)?;
                self.keep(answer.responses);
                Ok(answer.by.is_some())
            }
            Test::Tardiness => {
                let bounds = tardiness::bounds(set, tardiness::PriorityPoint::Deadline)?;
                let none_late =
                    bounds.as_ref().is_some_and(|b| b.tardiness.iter().all(|t| *t == 0));
                self.keep(bounds.map(|b| b.tardiness));
                Ok(none_late)
            }
        }
    }

    /// Keeps the bounds, if there are any.
    fn keep(&mut self, bounds: Option<Vec<u64>>) -> bool {
        let known = bounds.is_some();
        if let Some(bounds) = bounds {
            self.bounds.clear();
            self.bounds.extend(bounds.into_iter().map(Some));
        }
        known
    }

    /// Derivation of the verdict on a set.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn explain(&self, set: &TaskSet) -> Result<Derivation, TaskSetError> {
        match self.test {
            Test::FpRta => plain::schedulable_explained(set),
            Test::Edf => edf::schedulable_explained(set),
            Test::GedfGfb => gfb::schedulable_explained(set),
            Test::GedfBcl => bcl::schedulable_explained(set),
            Test::GedfBclIterative => bcl_iterative::schedulable_explained(set),
            Test::GedfBar => bar::schedulable_explained(set),
            Test::GedfFfdbf => ffdbf::schedulable_explained(set),
            Test::GedfRta => response::schedulable_explained(set),
            Test::Gedf => gedf::schedulable_explained(set),
            Test::Tardiness => tardiness::bounds_explained(set, tardiness::PriorityPoint::Deadline),
        }
    }
}

#[cfg(all(test, feature = "clap"))]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn python_and_the_command_line_have_the_same_names() {
        let of = |t: &Test| t.to_possible_value().expect("none is hidden").get_name().to_owned();
        let named: Vec<String> = Test::value_variants().iter().map(of).collect();
        assert_eq!(named, Test::ALL.map(Test::name));
    }
}
