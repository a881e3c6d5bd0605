//! A task of MC2 and its levels.
//!
//! Problem: the tests of all levels read the same tasks. Rule: a task has a period and one
//! execution time per level; the time of level A is that of level B, scaled ([`PetScaling`]).

use serde::{Deserialize, Serialize};

/// A criticality level, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// Hard, time triggered, per core.
    A,
    /// Hard, rate monotonic, per core.
    B,
    /// Soft, global EDF.
    C,
}

/// Provisioned execution times of one task, in the caller's unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pets {
    /// For the guarantees of level A.
    pub a: u64,
    /// For the guarantees of level B: the longest that was observed.
    pub b: u64,
    /// For the guarantees of level C: the average.
    pub c: u64,
}

/// A task: implicit deadline, period in the unit of its PETs. Levels A and B release it at 0 and
/// then with its period; level C takes the period as the least time between releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelsTask {
    /// Period, and relative deadline. Not zero.
    pub period: u64,
    /// Execution times.
    pub pets: Pets,
}

impl Pets {
    /// The execution time that the guarantees of `level` assume.
    #[must_use]
    pub const fn at(&self, level: Level) -> u64 {
        match level {
            Level::A => self.a,
            Level::B => self.b,
            Level::C => self.c,
        }
    }

    /// Does caution grow with criticality, `C <= B <= A`? Measured PETs must. The tests themselves
    /// need only that the PET of level A, which makes the slots of the table, is the largest of a
    /// task of level A; inflated PETs may differ in the others.
    #[must_use]
    pub const fn ordered(&self) -> bool {
        self.c <= self.b && self.b <= self.a
    }
}

/// Ratio of level-A to level-B PETs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PetScaling {
    /// Numerator.
    pub numerator: u32,
    /// Denominator, not zero and not above the numerator.
    pub denominator: u32,
}

impl Default for PetScaling {
    /// 3/2, section 2 of the paper: "Level-A PETs are obtained by inflating Level-B PETs by 50%".
    fn default() -> Self {
        Self { numerator: 3, denominator: 2 }
    }
}

impl PetScaling {
    /// PETs from the longest and the average observation; level A is rounded up.
    ///
    /// `None` if the average is above the longest, the ratio is below one or has a zero, or level A
    /// does not fit in 64 bits.
    #[must_use]
    pub fn pets(&self, longest: u64, average: u64) -> Option<Pets> {
        if self.denominator == 0 || self.numerator < self.denominator || average > longest {
            return None;
        }
        let a = (u128::from(longest) * u128::from(self.numerator))
            .div_ceil(u128::from(self.denominator));
        Some(Pets { a: u64::try_from(a).ok()?, b: longest, c: average })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_rounds_up_and_refuses() {
        assert_eq!(PetScaling::default().pets(3, 1), Some(Pets { a: 5, b: 3, c: 1 }));
        assert_eq!(PetScaling::default().pets(u64::MAX, 1), None);
        assert_eq!(PetScaling::default().pets(3, 4), None);
        for (numerator, denominator) in [(1, 0), (0, 0), (1, 2)] {
            assert_eq!(PetScaling { numerator, denominator }.pets(3, 1), None);
        }
        let same = PetScaling { numerator: 7, denominator: 7 };
        assert_eq!(same.pets(u64::MAX, 0), Some(Pets { a: u64::MAX, b: u64::MAX, c: 0 }));
    }
}
