//! The proof that no choice is better, as data, and its check.
//!
//! Problem: a search that says "there is nothing better" can be wrong in many ways, and nobody sees
//! it. Rule: a certificate states facts about single sets of tasks on one core. It also states
//! facts about single partitions of the tasks with their ways. [`check`](super::check) asks the
//! analysis of the plan for each fact, and goes through all partitions itself. It refuses the
//! certificate where a fact does not hold, or where the facts do not close a partition. A missing
//! fact closes nothing. The certificate proves: no choice keeps to the limits of [`Question`]. In a
//! choice, each task is on any core, or on its stated one, and the cores have the ways of the
//! shared cache in any way, one each at least. Pages are locked where they save most, and each
//! budget holds reads and writes together. Does not cover: other pages.

use super::analysed::Limits;
use super::problem::LEAST;

/// A set of tasks, a bit for each.
pub type Set = u32;

/// The tasks of a set, by bit.
pub fn bits(set: Set) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            bit
        })
    })
}

/// Limits that a choice is asked to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Limits of the bounds.
    pub limits: Limits,
    /// Accesses in a period that each best-effort program gets at least.
    pub t: u64,
    /// Sum of the speeds of the best-effort programs that is reached.
    pub speed: f64,
    /// The choices that it asks for.
    pub part: Part,
}

/// A part of all choices, by the shares of best-effort programs. A share is the budget of a core,
/// divided by the number of its programs. In a choice, cores without analysed tasks have one share
/// for all, or what their programs can use; beside analysed tasks, no share is less. So for each
/// choice there are a number and a program as follows: each share is that number at least, except
/// where programs cannot use it. A core without any task has that number, too, or what a counter
/// needs if that is less. The shares of cores without analysed tasks, and that of the program, are
/// not larger, except where a counter needs more. A part has the choices with one of these
/// programs, and with the numbers of an interval. If some budgets give each program of a choice the
/// floor of the problem, or a smaller number, no share is smaller in the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The least number, accesses in a period.
    pub least: u64,
    /// The largest one.
    pub most: u64,
    /// The program; none: any program.
    pub few: Set,
}

impl Part {
    /// All choices.
    pub const ALL: Self = Self { least: 1, most: u64::MAX, few: 0 };

    /// A number that exceeds those of the part, by more than the accuracy of shares.
    pub const fn exceeded(&self) -> u64 {
        self.most.saturating_add(self.most / 50).saturating_add(1)
    }

    /// Largest budget that programs of a core use there, by their number; `pure`: without analysed
    /// tasks. `own`: the programs, and the one that is asked for.
    pub fn bounded(&self, budget: u64, pure: bool, own: (u64, Set)) -> u64 {
        let (count, program) = own;
        if pure || program & self.few != 0 {
            budget.min(self.most.max(LEAST).saturating_mul(count))
        } else {
            budget
        }
    }
}

/// Do these parts have all choices? `programs`: those of the system; `bus`: the most that a core
/// has. The number of a choice may be a fraction, so an interval begins where the one before it
/// ends.
pub fn complete(parts: &[Part], programs: Set, bus: u64) -> bool {
    let spans = |few: Set| {
        let mut of: Vec<&Part> = parts.iter().filter(|part| part.few == few).collect();
        of.sort_by_key(|part| part.least);
        let reached = of.iter().try_fold(1, |reached: u64, part| {
            (part.least <= reached).then_some(reached.max(part.most))
        });
        !of.is_empty() && reached.is_some_and(|reached| reached >= bus)
    };
    spans(0) || (programs != 0 && bits(programs).all(|bit| spans(1 << bit)))
}

impl Question {
    /// Has the other one the same limits of bounds and budgets?
    pub fn has_limits_of(&self, other: &Self) -> bool {
        (self.limits, self.t) == (other.limits, other.t)
    }

    /// Does each choice that keeps to these limits keep to those of the other one?
    pub fn is_within(&self, other: &Self) -> bool {
        self.limits.deadline <= other.limits.deadline
            && self.limits.slowdown <= other.limits.slowdown
            && self.t >= other.t
            && self.speed >= other.speed
    }
}

/// Numbers of ways of a core. Fewer of them leave more to the others, so that nothing that is known
/// of one number holds for a smaller one where the others' jobs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ways {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl Ways {
    /// One number.
    pub const fn just(ways: u32) -> Self {
        Self { least: ways, most: ways }
    }

    /// Are all these numbers among those of `self`?
    pub const fn contain(self, other: Self) -> bool {
        self.least <= other.least && other.most <= self.most
    }
}

/// A fact about the tasks of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// A task breaks a limit beside cores that make next to no accesses: so in each larger set.
    Alone(Set),
    /// With these ways, any own budget, and others with this sum of budgets, a task breaks a limit.
    Breaks {
        /// The tasks.
        set: Set,
        /// Ways.
        ways: Ways,
        /// Accesses in a period.
        others: u64,
    },
    /// With these ways, others with this sum of budgets, and less than this own one, a task breaks
    /// a limit.
    Needs {
        /// The tasks.
        set: Set,
        /// Ways.
        ways: Ways,
        /// Accesses in a period.
        others: u64,
        /// Accesses in a period.
        budget: u64,
    },
}

impl Fact {
    /// Its set.
    pub const fn set(self) -> Set {
        match self {
            Self::Alone(set) | Self::Breaks { set, .. } | Self::Needs { set, .. } => set,
        }
    }
}

/// A core needs this budget at least, beside those of the steps before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Place of the core's set.
    pub place: usize,
    /// Accesses in a period; `None`: no budget suffices.
    pub budget: Option<u64>,
}

/// Why budgets with a sum of an interval keep no limits, or give best effort too little speed. The
/// steps hold beside the least sum: a core with less than the budget of a step leaves the others
/// the rest of that sum. A step without a budget means all that the largest sum leaves its core.
/// The speed is at most that of cores that pay `price` for each access, and get it back for all
/// accesses of the largest sum. Each core has the budget then that gains most.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// The least sum, accesses in a period.
    pub least: u64,
    /// The largest sum.
    pub most: u64,
    /// The steps; at most the last one has no budget.
    pub steps: Vec<Step>,
    /// Speed for an access in a period, not negative; less than 10^5 for all of the largest sum.
    pub price: f64,
}

/// A partition with numbers of ways of each core, and what closes all splits with these: steps, all
/// sums of budgets, or fair budgets.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The sets of the cores; those without tasks come last.
    pub sets: Vec<Set>,
    /// Ways of the cores.
    pub ways: Vec<Ways>,
    /// Steps from the least budgets on; none: the speed is out of reach, or something else closes
    /// the partition.
    pub steps: Vec<Step>,
    /// All sums of budgets, the least first; empty where something else closes the partition.
    pub totals: Vec<Total>,
    /// Budgets that give each program more than the number of the part; empty where something else
    /// closes the partition.
    pub fair: Vec<u64>,
}

/// A proof that no choice keeps to the limits of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The limits.
    pub question: Question,
    /// Number of the task of each bit.
    pub tasks: Vec<usize>,
    /// Facts about sets.
    pub facts: Vec<Fact>,
    /// Parts of the choices that are closed one by one, with the partitions that no fact about a
    /// set closes there.
    pub parts: Vec<(Part, Vec<Leaf>)>,
}

/// Number of partitions of `tasks` tasks into at most `sets` sets.
pub fn partitions(tasks: u32, sets: u32) -> u128 {
    // By the number of sets: a further task is alone, or with the tasks of one of them.
    let mut count = vec![0u128; sets as usize + 1];
    count[0] = 1;
    for _ in 0..tasks {
        for k in (1..count.len()).rev() {
            count[k] = count[k].saturating_mul(k as u128).saturating_add(count[k - 1]);
        }
        count[0] = 0;
    }
    count.iter().fold(0, |sum, &n| sum.saturating_add(n))
}

#[cfg(test)]
mod tests {
    use super::{Part, Ways, complete, partitions};

    /// A gap between two parts, or a program without parts, leaves choices out.
    #[test]
    fn parts_without_a_gap_have_all_choices() {
        let part = |least, most, few| Part { least, most, few };
        assert!(complete(&[Part::ALL], 0, 100) && complete(&[Part::ALL], 0b11, 100));
        assert!(!complete(&[], 0, 100) && !complete(&[], 0b11, 100));
        let halves = [part(20, 100, 1), part(1, 20, 1)];
        assert!(complete(&halves, 1, 100) && !complete(&halves, 0b11, 100));
        assert!(!complete(&halves, 1, 101) && !complete(&halves[..1], 1, 100));
        assert!(complete(&[&halves[..], &[part(1, 200, 2)]].concat(), 0b11, 100));
        assert!(!complete(&[part(1, 19, 1), part(20, 100, 1)], 1, 100));
        assert!(!complete(&[part(1, 100, 0b11)], 0b11, 100));
    }

    /// A fact about a range of ways holds for a part of it, and for nothing else: with fewer ways
    /// the others have more pages, and with more the core itself has.
    #[test]
    fn facts_hold_for_their_ways_only() {
        let range = Ways { least: 3, most: 6 };
        assert!(
            range.contain(range) && range.contain(Ways::just(3)) && range.contain(Ways::just(6))
        );
        for other in [Ways::just(2), Ways::just(7), Ways { least: 2, most: 6 }] {
            assert!(!range.contain(other), "{other:?}");
        }
    }

    #[test]
    fn partitions_are_counted() {
        assert_eq!([partitions(0, 0), partitions(0, 3), partitions(3, 0)], [1, 1, 0]);
        // All placements on equal cores: Stirling numbers of the second kind.
        assert_eq!(partitions(4, 2), 1 + 7);
        assert_eq!(partitions(5, 5), 52);
        assert_eq!(partitions(16, 4), 1 + 32_767 + 7_141_686 + 171_798_901);
    }
}
