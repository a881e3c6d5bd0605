//! A claim of a paper as a comparison: the paper's number, ours, and a verdict.
//!
//! Problem: "holds" says nothing of how near a figure comes, and a check that no result can refuse
//! says nothing at all. Rule: a claim states what the paper states ([`Stated`]) and where; ours is
//! one number; the [`Verdict`] follows from the two alone. Where the paper gives a number, ours
//! agrees within a quarter of it, or of its distance from no effect (the smaller one): 1.36 times
//! is an effect of 0.36. Less than a tenth of the effect is none. Where it gives a shape or an
//! order only, the most that ours can reach is [`Verdict::Direction`]. Each claim names the
//! [`Mutation`] by which its verdict must fall.
//!
//! Not covered: the papers' plots. The numbers are those of their texts and tables.

use crate::Mutation;
use serde::{Deserialize, Serialize};

/// Largest difference of a number that agrees: a quarter.
const WITHIN: f64 = 0.25;
/// An effect of less than this part of the paper's is none.
const LEAST: f64 = 0.1;

/// How ours compares with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing here could refuse the claim, or the set-up puts it in.
    Untestable,
    /// The other direction, or less than a tenth of the effect.
    Differs,
    /// The same direction, but another size; or the paper states no size.
    Direction,
    /// In the paper's range, or within a quarter of its number.
    Agrees,
}

impl Verdict {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Direction => "direction agrees",
            Self::Differs => "differs",
            Self::Untestable => "cannot be tested here",
        }
    }
}

/// What the paper states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stated {
    /// A number. `neutral`: what it would be without the effect; without it there is no direction.
    Number {
        /// The paper's.
        value: f64,
        /// No effect.
        neutral: Option<f64>,
    },
    /// A range of the paper's own; an end that is not there is open.
    Range {
        /// Least.
        low: Option<f64>,
        /// Largest.
        high: Option<f64>,
        /// No effect.
        neutral: Option<f64>,
    },
    /// More than this. The paper gives no size: the limit is that of no effect, or of ours.
    More {
        /// The limit.
        than: f64,
    },
    /// Less than this, in the same manner.
    Less {
        /// The limit.
        than: f64,
    },
    /// Nothing that can be compared here.
    Nothing,
}

/// What the paper states, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    /// The statement.
    #[serde(flatten)]
    pub stated: Stated,
    /// Figure, table or section.
    pub at: String,
}

impl Paper {
    fn new(stated: Stated, at: &str) -> Self {
        Self { stated, at: at.to_owned() }
    }

    /// A number of the paper, and what it would be without the effect.
    #[must_use]
    pub fn number(value: f64, neutral: f64, at: &str) -> Self {
        Self::new(Stated::Number { value, neutral: Some(neutral) }, at)
    }

    /// A number of the paper that has no direction: ours agrees or differs.
    #[must_use]
    pub fn absolute(value: f64, at: &str) -> Self {
        Self::new(Stated::Number { value, neutral: None }, at)
    }

    /// At least `low`, by the paper.
    #[must_use]
    pub fn at_least(low: f64, neutral: f64, at: &str) -> Self {
        Self::new(Stated::Range { low: Some(low), high: None, neutral: Some(neutral) }, at)
    }

    /// At most `high`, by the paper.
    #[must_use]
    pub fn at_most(high: f64, at: &str) -> Self {
        Self::new(Stated::Range { low: None, high: Some(high), neutral: None }, at)
    }

    /// More than `than`, without a number of the paper.
    #[must_use]
    pub fn more(than: f64, at: &str) -> Self {
        Self::new(Stated::More { than }, at)
    }

    /// Less than `than`, without a number of the paper.
    #[must_use]
    pub fn less(than: f64, at: &str) -> Self {
        Self::new(Stated::Less { than }, at)
    }

    /// The verdict on a number of ours; a number that is not finite was not measured, and differs.
    #[must_use]
    pub fn verdict(&self, ours: f64) -> Verdict {
        if !ours.is_finite() && self.stated != Stated::Nothing {
            return Verdict::Differs;
        }
        let within = |low: Option<f64>, high: Option<f64>| {
            low.is_none_or(|l| ours >= l) && high.is_none_or(|h| ours <= h)
        };
        let (agrees, direction) = match self.stated {
            Stated::Number { value, neutral } => {
                let ratio = self.ratio(ours).unwrap_or(f64::NAN);
                ((ratio - 1.0).abs() <= WITHIN, same_side(ours, value, neutral))
            }
            Stated::Range { low, high, neutral } => {
                let end = low.or(high).unwrap_or(f64::NAN);
                (within(low, high), same_side(ours, end, neutral))
            }
            Stated::More { than } => (false, ours > than),
            Stated::Less { than } => (false, ours < than),
            Stated::Nothing => return Verdict::Untestable,
        };
        match (agrees, direction) {
            (true, _) => Verdict::Agrees,
            (_, true) => Verdict::Direction,
            _ => Verdict::Differs,
        }
    }

    /// Ours over the paper's number, or the effect of ours over that of the paper where that is
    /// less than the number; `None` where the paper has no number.
    #[must_use]
    pub fn ratio(&self, ours: f64) -> Option<f64> {
        let Stated::Number { value, neutral } = self.stated else { return None };
        let effect = neutral.map(|n| value - n).filter(|e| e.abs() < value.abs());
        match (effect, neutral) {
            (Some(effect), Some(neutral)) => Some((ours - neutral) / effect),
            _ => Some(ours / value),
        }
    }

    /// Does the paper state a size?
    #[must_use]
    pub const fn is_number(&self) -> bool {
        matches!(self.stated, Stated::Number { .. } | Stated::Range { .. })
    }
}

/// Is there an effect in the same direction, of a tenth of the paper's at least?
fn same_side(ours: f64, value: f64, neutral: Option<f64>) -> bool {
    neutral.is_some_and(|n| (ours - n) / (value - n) >= LEAST)
}

impl std::fmt::Display for Paper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.stated {
            Stated::Number { value, .. } => write!(f, "{}", short(value)),
            Stated::Range { low: Some(low), high: Some(high), .. } => {
                write!(f, "{} to {}", short(low), short(high))
            }
            Stated::Range { low: Some(low), .. } => write!(f, "at least {}", short(low)),
            Stated::Range { high: Some(high), .. } => write!(f, "at most {}", short(high)),
            Stated::More { than } => write!(f, "no number; above {}", short(than)),
            Stated::Less { than } => write!(f, "no number; below {}", short(than)),
            Stated::Range { .. } | Stated::Nothing => f.write_str("-"),
        }?;
        write!(f, " ({})", self.at)
    }
}

/// A number with about three digits.
#[must_use]
pub fn short(value: f64) -> String {
    // No negative zero.
    let value = value + 0.0;
    match value.abs() {
        v if v == 0.0 || v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A claim of the paper, and how it compares here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The claim in the paper's terms.
    pub claim: String,
    /// The paper's number, and where it stands.
    pub paper: Paper,
    /// Ours, in the same unit; `None` where it cannot be tested, or was not measured.
    pub ours: Option<f64>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
    /// The comparison.
    pub verdict: Verdict,
    /// The change of the set-up that must lower the verdict.
    pub mutation: Option<Mutation>,
    /// What came out here, or why the claim cannot be tested.
    pub found: String,
    /// Is the verdict `agrees` or `direction`?
    pub holds: bool,
}

impl Check {
    /// Compares ours with the paper's.
    #[must_use]
    pub fn new(claim: &str, paper: Paper, ours: f64, mutation: Mutation, found: String) -> Self {
        let verdict = paper.verdict(ours);
        Self {
            claim: claim.to_owned(),
            ours: Some(ours).filter(|v| v.is_finite()),
            ratio: paper.ratio(ours).filter(|r| r.is_finite()),
            paper,
            verdict,
            mutation: Some(mutation),
            found,
            holds: verdict > Verdict::Differs,
        }
    }

    /// A claim that nothing here could refuse.
    #[must_use]
    pub fn untestable(claim: &str, at: &str, why: &str) -> Self {
        Self {
            claim: claim.to_owned(),
            paper: Paper::new(Stated::Nothing, at),
            ours: None,
            ratio: None,
            verdict: Verdict::Untestable,
            mutation: None,
            found: why.to_owned(),
            holds: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_agrees_within_a_quarter_of_its_effect() {
        let sift = Paper::number(1.36, 1.0, "Table 2");
        for (ours, verdict) in [
            (1.36, Verdict::Agrees),
            (1.28, Verdict::Agrees),
            (1.44, Verdict::Agrees),
            (1.46, Verdict::Direction),
            (1.05, Verdict::Direction),
            (1.03, Verdict::Differs),
            (1.0, Verdict::Differs),
            (f64::NAN, Verdict::Differs),
            (f64::INFINITY, Verdict::Differs),
        ] {
            assert_eq!(sift.verdict(ours), verdict, "{ours}");
        }
        // What is left of a slowdown: a quarter of the number, not of the 0.79 that are gone.
        let left = Paper::number(0.21, 1.0, "");
        assert_eq!(left.verdict(0.27), Verdict::Direction);
        assert_eq!(left.verdict(0.25), Verdict::Agrees);
        assert_eq!(left.verdict(1.2), Verdict::Differs);
        let cycles = Paper::absolute(228.0, "");
        assert_eq!(cycles.verdict(234.0), Verdict::Agrees);
        assert_eq!(cycles.verdict(300.0), Verdict::Differs);
    }

    #[test]
    fn without_a_number_only_the_direction_can_agree() {
        assert_eq!(Paper::more(1.0, "").verdict(9.0), Verdict::Direction);
        assert_eq!(Paper::more(1.0, "").verdict(1.0), Verdict::Differs);
        assert_eq!(Paper::less(1.0, "").verdict(1.0), Verdict::Differs);
        assert_eq!(Paper::at_most(16384.0, "").verdict(16384.0), Verdict::Agrees);
        assert_eq!(Paper::at_most(16384.0, "").verdict(16385.0), Verdict::Differs);
        assert_eq!(Paper::at_least(3.0, 1.0, "").verdict(2.0), Verdict::Direction);
        assert_eq!(Paper::at_least(3.0, 1.0, "").verdict(1.0), Verdict::Differs);
        let none = Check::untestable("a claim", "Fig. 1", "it is put in");
        assert!(!none.holds && none.verdict == Verdict::Untestable);
    }
}
