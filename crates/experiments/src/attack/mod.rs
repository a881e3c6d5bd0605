//! An adversary against the bounds: it searches for the programs, places and offsets that come
//! nearest to them, or exceed them.
//!
//! Problem: random systems with random pages come nowhere near a worst case, so that a bound can be
//! wrong and no test shows it. Rule: a point of the search is a whole system with the programs that
//! run it ([`genes`]). It has board, cores, period and budgets, the victim's job, its neighbours,
//! and the rows, banks and times of all accesses. Its value is the largest ratio of seen to bound
//! over all promises of the plan ([`evaluate`]). A climb ([`climb`]) per board looks for the
//! largest. The computation of a bound plays no part. A [`Search`] depends on its four numbers
//! alone.
//!
//! Where a plan gives no bound there is nothing to attack; the number of these is reported.
//! Not covered: DMA without partitions, locked pages, shared frames.

pub mod climb;
pub mod evaluate;
pub mod genes;
pub mod program;
pub mod system;

use crate::ExperimentError;
use climb::{Genes, climb};
use evaluate::{Outcome, evaluate};
use genes::{BOARDS, Cursor, decode, sizes, starts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use system::{POLICIES, Policy};

/// Results of the attacks on one board under one policy.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Systems that were tried.
    pub evaluations: u64,
    /// Systems that cannot be planned or simulated, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Systems without a bound.
    pub unbounded: u64,
    /// Most accesses of a core in one period beyond its budget.
    pub beyond_budget: u64,
    /// Seen over bound of each evaluation with a bound.
    pub ratios: Vec<f64>,
    /// Evaluations above 1, worst first: ratio, sentence, genes.
    pub violations: Vec<(f64, String, Genes)>,
    /// The closest evaluation: its value in the climb, and its genes.
    pub best: Option<(f64, Genes)>,
}

impl Found {
    /// Median of seen over bound; 0 without any.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }

    /// Largest seen over bound; 0 without any.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.ratios.iter().copied().fold(0.0, f64::max)
    }

    /// Joins the results on another board.
    pub fn merge(&mut self, other: Self) {
        self.evaluations += other.evaluations;
        self.unbounded += other.unbounded;
        self.beyond_budget = self.beyond_budget.max(other.beyond_budget);
        self.ratios.extend(other.ratios);
        self.violations.extend(other.violations);
        other.refused.into_iter().for_each(|(why, n)| *self.refused.entry(why).or_default() += n);
        if other.best.as_ref().map_or(0.0, |b| b.0) > self.best.as_ref().map_or(0.0, |b| b.0) {
            self.best = other.best;
        }
    }

    /// Number of systems that could not be planned or simulated.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }
}

/// A climb on one board under one policy.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Policy under which systems are planned.
    pub policy: Policy,
    /// Place of the board in [`BOARDS`].
    pub board: usize,
    /// Systems to try.
    pub attacks: u64,
    /// Seed of all draws.
    pub seed: u64,
}

/// Results of a [`Search`], for files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `solocore-attack/1`.
    pub format: String,
    /// Version of solocore: another one may compute other bounds.
    pub version: String,
    /// Name of the policy.
    pub policy: String,
    /// The board, a preset.
    pub board: String,
    /// The seed.
    pub seed: u64,
    /// Systems that were tried.
    pub attacks: u64,
    /// Systems without a bound, or that cannot be planned.
    pub without_bound: u64,
    /// Systems in which a time exceeded its bound.
    pub above_bound: u64,
    /// Median of seen over bound; absent where nothing had a bound.
    pub seen_over_bound_median: Option<f64>,
    /// Largest seen over bound.
    pub seen_over_bound_most: Option<f64>,
    /// Most accesses of a core in one period beyond its budget.
    pub beyond_budget: u64,
    /// The worst attack above a bound: its task and times, in words.
    pub worst: Option<String>,
    /// Genes of the worst attack above a bound, else of the closest one.
    pub closest: Option<Genes>,
}

impl Report {
    /// Head of the format.
    pub const FORMAT: &str = "solocore-attack/1";

    /// Is it of this search, by this version?
    #[must_use]
    pub fn is_of(&self, search: &Search) -> bool {
        self.format == Self::FORMAT
            && self.version == env!("CARGO_PKG_VERSION")
            && self.policy == search.policy.name()
            && self.board == BOARDS[search.board]
            && (self.seed, self.attacks) == (search.seed, search.attacks)
    }
}

impl Search {
    /// Climbs. Genes of `kept` (position, choice) keep their choices. `step` is told the share
    /// done, 0 to 1, and stops the search by returning false.
    ///
    /// # Errors
    /// [`ExperimentError::Interrupted`] when `step` returned false; a directory for variants of
    /// boards cannot be made.
    ///
    /// # Panics
    /// If `board` or a place in `kept` does not exist.
    pub fn run(
        &self,
        kept: &[(usize, u16)],
        step: &dyn Fn(f64) -> bool,
    ) -> Result<Found, ExperimentError> {
        let Self { policy, board, attacks, seed } = *self;
        let dir = tempfile::tempdir()
            .map_err(|e| ExperimentError::Setup(format!("no temporary directory: {e}")))?;
        let (mut found, mut stopped) = (Found::default(), false);
        let index = u16::try_from(board).unwrap_or(u16::MAX);
        // At least half of the evaluations search.
        let mut starts = starts(policy, index, seed);
        starts.truncate(usize::try_from(attacks / 2).unwrap_or(usize::MAX).max(1));
        let mut value = |genes: &Genes| {
            stopped = stopped || !step(found.evaluations as f64 / attacks as f64);
            if stopped {
                return 0.0;
            }
            let attack = decode(policy, dir.path(), &mut Cursor::new(genes));
            found.evaluations += 1;
            match evaluate(&attack, dir.path()) {
                Outcome::Refused(why) => {
                    *found.refused.entry(why).or_default() += 1;
                    0.0
                }
                Outcome::Unbounded => {
                    found.unbounded += 1;
                    0.0
                }
                Outcome::Bounded { ratio, pressure, what, beyond_budget } => {
                    found.beyond_budget = found.beyond_budget.max(beyond_budget);
                    found.ratios.push(ratio);
                    if ratio > 1.0 {
                        found.violations.push((ratio, what, genes.clone()));
                    }
                    pressure
                }
            }
        };
        for genes in &mut starts {
            kept.iter().for_each(|&(gene, choice)| genes[gene] = choice);
        }
        let fixed: Vec<usize> = std::iter::once(0).chain(kept.iter().map(|k| k.0)).collect();
        let (best, top) = climb(&sizes(policy), &fixed, &starts, attacks, seed, &mut value);
        if stopped {
            return Err(ExperimentError::Interrupted);
        }
        found.violations.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.best = Some((top, best));
        Ok(found)
    }

    /// [`run`](Self::run) for files.
    ///
    /// # Errors
    /// As there.
    pub fn report(&self, step: &dyn Fn(f64) -> bool) -> Result<Report, ExperimentError> {
        let found = self.run(&[], step)?;
        let some = !found.ratios.is_empty();
        let worst = found.violations.first();
        let best = found.best.as_ref().filter(|_| some);
        Ok(Report {
            format: Report::FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: self.policy.name().to_owned(),
            board: BOARDS[self.board].to_owned(),
            seed: self.seed,
            attacks: found.evaluations,
            without_bound: found.unbounded + found.refusals(),
            above_bound: found.violations.len() as u64,
            seen_over_bound_median: some.then(|| found.median()),
            seen_over_bound_most: some.then(|| found.most()),
            beyond_budget: found.beyond_budget,
            worst: worst.map(|(_, what, _)| what.clone()),
            closest: worst.map(|w| &w.2).or(best.map(|b| &b.1)).cloned(),
        })
    }
}

/// Boards that a policy can be planned for: levels need ways that are assigned.
#[must_use]
pub fn boards(policy: Policy) -> Vec<usize> {
    let ways = |board: &usize| ["imx6q", "p4080", "xeon-gold-6338"].contains(&BOARDS[*board]);
    (0..BOARDS.len()).filter(|board| policy != Policy::Levels || ways(board)).collect()
}

/// The place of a board by its name.
///
/// # Errors
/// When there is no such board.
pub fn board_named(name: &str) -> Result<usize, ExperimentError> {
    BOARDS.iter().position(|b| *b == name).ok_or_else(|| {
        let name = name.escape_debug();
        ExperimentError::Setup(format!("no board `{name}`; take one of: {}", BOARDS.join(", ")))
    })
}
