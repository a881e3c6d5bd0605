//! Claims over several seeds, and what becomes of them when the set-up is changed.
//!
//! Problem: one seed may be a lucky one, and a claim that no change refutes says nothing. Rule: of
//! a claim with several seeds the median counts, with the least and the largest beside it. Where
//! one seed in ten or more differs, the claim differs. [`tried`] runs an experiment again with each
//! [`Mutation`] that its claims name: their verdicts must fall.

use crate::claim::{Check, Paper, Verdict};
use crate::{Context, Experiment, ExperimentError, Mutation, Record};
use serde::Serialize;

/// A claim over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The experiment.
    pub experiment: String,
    /// The claim in the paper's terms.
    pub claim: String,
    /// The paper's number, and where it stands.
    pub paper: Paper,
    /// Least, median and largest of ours; `None` where a seed has no number.
    pub ours: Option<[f64; 3]>,
    /// The median over the paper's number.
    pub ratio: Option<f64>,
    /// The comparison.
    pub verdict: Verdict,
    /// Can a change of the set-up lower its verdict, or does it differ already?
    pub can_fail: bool,
    /// That change.
    pub mutation: Option<Mutation>,
    /// What came out with the first seed, or why the claim cannot be tested.
    pub found: String,
    /// Seeds.
    pub seeds: usize,
    /// Seeds with which it differs.
    pub differs: usize,
}

/// The claims of some records; records of one experiment stand together.
#[must_use]
pub fn compared(records: &[Record]) -> Vec<Compared> {
    let mut out = Vec::new();
    for same in records.chunk_by(|a, b| a.id == b.id) {
        for (at, first) in same[0].outcome.checks.iter().enumerate() {
            let checks: Vec<&Check> =
                same.iter().filter_map(|r| r.outcome.checks.get(at)).collect();
            out.push(one(&same[0].id, first, &checks));
        }
    }
    out
}

fn one(id: &str, first: &Check, checks: &[&Check]) -> Compared {
    let mut ours: Vec<f64> = checks.iter().filter_map(|c| c.ours).collect();
    ours.sort_by(f64::total_cmp);
    let median = |of: &[f64]| (of[(of.len() - 1) / 2] + of[of.len() / 2]) / 2.0;
    let whole = !ours.is_empty() && ours.len() == checks.len();
    let ours = whole.then(|| [ours[0], median(&ours), ours[ours.len() - 1]]);
    let differs = checks.iter().filter(|c| c.verdict == Verdict::Differs).count();
    let verdict = match (first.verdict, ours) {
        (Verdict::Untestable, _) => Verdict::Untestable,
        _ if 10 * differs >= checks.len() && differs > 0 => Verdict::Differs,
        (_, Some(ours)) => first.paper.verdict(ours[1]),
        _ => Verdict::Differs,
    };
    Compared {
        experiment: id.to_owned(),
        claim: first.claim.clone(),
        paper: first.paper.clone(),
        ours,
        ratio: ours.and_then(|o| first.paper.ratio(o[1])),
        verdict,
        can_fail: verdict == Verdict::Differs || first.mutation.is_some(),
        mutation: first.mutation,
        found: first.found.clone(),
        seeds: checks.len(),
        differs,
    }
}

/// How many claims have which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// In the paper's range, or within a quarter of its number.
    pub agrees: usize,
    /// In direction.
    pub direction: usize,
    /// Neither.
    pub differs: usize,
    /// Cannot be tested here.
    pub untestable: usize,
    /// Claims that can be tested and have a number in the paper.
    pub numbers: usize,
}

impl Counts {
    /// Counts claims.
    #[must_use]
    pub fn of(claims: &[Compared]) -> Self {
        let mut out = Self::default();
        for claim in claims {
            match claim.verdict {
                Verdict::Agrees => out.agrees += 1,
                Verdict::Direction => out.direction += 1,
                Verdict::Differs => out.differs += 1,
                Verdict::Untestable => out.untestable += 1,
            }
            out.numbers += usize::from(claim.paper.is_number());
        }
        out
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} claims: {} agree, {} agree in direction, {} differ, {} cannot be tested here. The \
            papers give a number for {}; {} of these agree ({}). Of those that can be tested, {} \
            agree at least in direction.",
            self.agrees + self.direction + self.differs + self.untestable,
            self.agrees,
            self.direction,
            self.differs,
            self.untestable,
            self.numbers,
            self.agrees,
            percent(self.agrees, self.numbers),
            percent(self.agrees + self.direction, self.agrees + self.direction + self.differs)
        )
    }
}

fn percent(part: usize, of: usize) -> String {
    format!("{:.0} %", 100.0 * part as f64 / of.max(1) as f64)
}

/// A claim before a change of the set-up, and after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The experiment.
    pub experiment: String,
    /// The claim.
    pub claim: String,
    /// The change.
    pub mutation: Mutation,
    /// The verdict without it.
    pub before: Verdict,
    /// The verdict with it.
    pub after: Verdict,
    /// What was found with it.
    pub found: String,
}

impl Tried {
    /// Did the verdict fall?
    #[must_use]
    pub fn fell(&self) -> bool {
        self.after < self.before
    }
}

/// Runs an experiment as it is, and once with each change that its claims name. A claim that
/// differs as it is has failed already and is left out.
///
/// # Errors
/// Those of the experiment.
pub fn tried(context: &Context, experiment: &Experiment) -> Result<Vec<Tried>, ExperimentError> {
    let before = (experiment.run)(context)?.checks;
    let named = before.iter().filter(|c| c.holds).filter_map(|c| c.mutation);
    let mut mutations: Vec<Mutation> = named.collect();
    mutations.sort_unstable();
    mutations.dedup();
    let mut out = Vec::new();
    for mutation in mutations {
        let changed = Context { mutation: Some(mutation), ..*context };
        let after = (experiment.run)(&changed)?.checks;
        for (a, b) in before.iter().zip(&after) {
            if a.holds && a.mutation == Some(mutation) {
                out.push(Tried {
                    experiment: experiment.id.to_owned(),
                    claim: a.claim.clone(),
                    mutation,
                    before: a.verdict,
                    after: b.verdict,
                    found: b.found.clone(),
                });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The claim with these numbers of ours.
    fn with(paper: &Paper, ours: &[f64]) -> Compared {
        let check = |&ours| Check::new("a", paper.clone(), ours, Mutation::Quiet, String::new());
        let checks: Vec<Check> = ours.iter().map(check).collect();
        one("x", &checks[0], &checks.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_lucky_seed_counts_no_more_than_the_others() {
        let paper = Paper::number(2.0, 1.0, "");
        let found = with(&paper, &[2.1, 1.3, 2.0]);
        assert_eq!((found.ours, found.verdict), (Some([1.3, 2.0, 2.1]), Verdict::Agrees));
        assert_eq!(with(&paper, &[2.0, 1.3, 1.4]).verdict, Verdict::Direction);
        assert_eq!(with(&paper, &[2.0, 2.0, 0.9]).verdict, Verdict::Differs);
        assert_eq!(with(&paper, &[2.0, f64::NAN]).verdict, Verdict::Differs);
        let mut twenty = [2.0; 20];
        twenty[3] = 0.5;
        assert_eq!(with(&paper, &twenty).verdict, Verdict::Agrees, "one of twenty");
        twenty[7] = 0.5;
        assert_eq!(with(&paper, &twenty).verdict, Verdict::Differs, "two of twenty");
    }

    #[test]
    fn counts_have_each_claim_once() {
        let paper = Paper::number(2.0, 1.0, "");
        let mut claims = vec![with(&paper, &[2.0]), with(&paper, &[9.0]), with(&paper, &[0.0])];
        let none = Check::untestable("a", "b", "c");
        claims.push(one("x", &none, &[&none]));
        let counts = Counts::of(&claims);
        assert_eq!(
            counts,
            Counts { agrees: 1, direction: 1, differs: 1, untestable: 1, numbers: 3 }
        );
        assert!(!claims[3].can_fail && claims[2].can_fail);
    }
}
