//! Scenarios: one choice from each of the seven categories of the paper's Table 3, 3*3*3*2*2*3*2 =
//! 648 in all.
//!
//! A name lists the choices, separated by commas: `C-Light,Long,Light,Quick,Small,High,Many`.
//! Letters may be of either case, the abbreviations of Fig. 15 (`Sm.`, `Lar.`, `Med.`) are
//! understood, and `*` stands for every choice of its category.

use crate::StudyError;
use crate::random::Range;
use std::fmt;

/// Choices per category, in the order of the table.
const CHOICES: [&[&str]; 7] = [
    &["C-Light", "C-Heavy", "All-Mod."],
    &["Short", "Moderate", "Long"],
    &["Light", "Medium", "Heavy"],
    &["Quick", "Slow"],
    &["Small", "Large"],
    &["Low", "Medium", "High"],
    &["Few", "Many"],
];

/// Names of the categories.
const CATEGORIES: [&str; 7] = [
    "criticality utilization",
    "period",
    "task utilization",
    "max reload time",
    "IPC size",
    "I/O bandwidth",
    "direct I/O tasks",
];

/// Number of scenarios.
pub const SCENARIOS: u16 = 648;

/// One of the 648. Scenarios are in the order of the table, the last category varying fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scenario {
    index: u16,
}

impl Scenario {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SCENARIOS).map(|index| Self { index })
    }

    /// The scenario with a number below [`SCENARIOS`].
    #[must_use]
    pub fn from_index(index: u16) -> Option<Self> {
        (index < SCENARIOS).then_some(Self { index })
    }

    /// Its number: part of the seed of its systems, never to change.
    #[must_use]
    pub fn index(self) -> u16 {
        self.index
    }

    /// The choice made in each category.
    #[must_use]
    pub fn choices(self) -> [usize; 7] {
        let mut rest = usize::from(self.index);
        let mut out = [0; 7];
        for (choice, of) in out.iter_mut().zip(CHOICES).rev() {
            *choice = rest % of.len();
            rest /= of.len();
        }
        out
    }

    /// Scenarios of a name; several if it has a `*`.
    ///
    /// # Errors
    /// [`StudyError::Input`] naming the category and its choices.
    pub fn parse(name: &str) -> Result<Vec<Self>, StudyError> {
        let parts: Vec<&str> =
            name.trim().trim_matches(['(', ')']).split(',').map(str::trim).collect();
        if parts.len() != CHOICES.len() {
            return Err(StudyError::Input(format!(
                "scenario `{name}` has {} of 7 choices; write one for each of: {}, like \
                 C-Light,Long,Light,Quick,Small,High,Many",
                parts.len(),
                CATEGORIES.join(", ")
            )));
        }
        let mut wanted = [None; 7];
        for (category, (part, want)) in parts.iter().zip(&mut wanted).enumerate() {
            if *part != "*" {
                *want = Some(choice(category, part).ok_or_else(|| {
                    StudyError::Input(format!(
                        "scenario `{name}`: `{part}` is not a {}; choose from {}, or * for all",
                        CATEGORIES[category],
                        CHOICES[category].join(", ")
                    ))
                })?);
            }
        }
        let fits = |s: &Self| {
            s.choices().iter().zip(wanted).all(|(have, want)| want.is_none_or(|w| w == *have))
        };
        Ok(Self::all().filter(fits).collect())
    }

    /// Percent of the utilization at level A, B, C.
    #[must_use]
    pub fn criticality(self) -> [Range; 3] {
        [
            [[35.0, 45.0], [35.0, 45.0], [10.0, 30.0]],
            [[10.0, 30.0], [10.0, 30.0], [50.0, 70.0]],
            [[28.0, 39.0], [28.0, 39.0], [28.0, 39.0]],
        ][self.choices()[0]]
    }

    /// Periods of levels A and B, one of two each, in milliseconds.
    #[must_use]
    pub fn bound_periods(self) -> [[u32; 2]; 2] {
        [[[12, 24], [24, 48]], [[20, 40], [40, 80]], [[48, 96], [96, 192]]][self.choices()[1]]
    }

    /// Periods of level C, in milliseconds.
    #[must_use]
    pub fn global_periods(self) -> Range {
        [[12.0, 100.0], [20.0, 100.0], [50.0, 500.0]][self.choices()[1]]
    }

    /// Utilization of a task of level A, B, C.
    #[must_use]
    pub fn task_utilization(self) -> [Range; 3] {
        [
            [[0.001, 0.03], [0.001, 0.05], [0.001, 0.1]],
            [[0.02, 0.1], [0.05, 0.2], [0.1, 0.4]],
            [[0.1, 0.2], [0.2, 0.4], [0.4, 0.6]],
        ][self.choices()[2]]
    }

    /// Largest reload time of a job, as a share of its execution time.
    #[must_use]
    pub fn reload(self) -> Range {
        [[0.01, 0.1], [0.25, 0.5]][self.choices()[3]]
    }

    /// Bytes of a message, one of two.
    #[must_use]
    pub fn message_bytes(self) -> [u32; 2] {
        [[128, 256], [4096, 8192]][self.choices()[4]]
    }

    /// Are messages large?
    #[must_use]
    pub fn large_messages(self) -> bool {
        self.choices()[4] == 1
    }

    /// I/O bandwidth in 10^6 bytes per second. The table closes these ranges on the right; that has
    /// no weight.
    #[must_use]
    pub fn io_bandwidth(self) -> Range {
        [[0.0, 20.0], [40.0, 60.0], [180.0, 200.0]][self.choices()[5]]
    }

    /// Is the I/O bandwidth high?
    #[must_use]
    pub fn high_bandwidth(self) -> bool {
        self.choices()[5] == 2
    }

    /// Share of the I/O tasks that receive data directly by DMA.
    #[must_use]
    pub fn direct(self) -> Range {
        [[0.0, 0.3], [0.7, 1.0]][self.choices()[6]]
    }

    /// A name for files: the choices, joined by underscores.
    #[must_use]
    pub fn file_name(self) -> String {
        self.to_string().replace('.', "").replace(',', "_")
    }
}

/// The choice of that name in a category.
fn choice(category: usize, name: &str) -> Option<usize> {
    let plain = name.trim_end_matches('.').to_lowercase();
    let whole =
        CHOICES[category].iter().position(|c| c.trim_end_matches('.').to_lowercase() == plain);
    let short = match plain.as_str() {
        "sm" => "small",
        "lar" => "large",
        "med" => "medium",
        "mod" => "moderate",
        _ => return whole,
    };
    whole.or_else(|| CHOICES[category].iter().position(|c| c.to_lowercase() == short))
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<&str> = self.choices().iter().zip(CHOICES).map(|(&c, of)| of[c]).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_go_there_and_back() {
        let names: HashSet<String> = Scenario::all().map(|s| s.to_string()).collect();
        assert_eq!(names.len(), 648);
        for s in Scenario::all() {
            assert_eq!(Scenario::parse(&s.to_string()).unwrap(), [s]);
            assert_eq!(Scenario::from_index(s.index()), Some(s));
        }
        assert_eq!(Scenario::from_index(648), None);
    }

    #[test]
    fn the_papers_ways_of_writing() {
        let one = Scenario::parse("(C-Light, Short, Med., Slow, Lar., High, Many)").unwrap();
        assert_eq!(one[0].to_string(), "C-Light,Short,Medium,Slow,Large,High,Many");
        assert_eq!(Scenario::parse("all-mod,long,light,quick,sm.,low,few").unwrap().len(), 1);
        assert_eq!(Scenario::parse("*,*,*,*,*,*,*").unwrap().len(), 648);
        assert_eq!(Scenario::parse("*,Long,Heavy,Slow,Large,High,*").unwrap().len(), 6);
    }

    #[test]
    fn unknown_choices_are_named() {
        let message =
            Scenario::parse("C-Light,Long,Huge,Quick,Small,High,Many").unwrap_err().to_string();
        assert!(
            message.contains("`Huge`") && message.contains("Light, Medium, Heavy"),
            "{message}"
        );
        assert!(Scenario::parse("C-Light").unwrap_err().to_string().contains("1 of 7"));
        assert!(Scenario::parse("").is_err());
    }
}
