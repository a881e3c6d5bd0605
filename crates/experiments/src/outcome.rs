//! The result of an experiment: a table, a chart, and a verdict on each claim of the paper.

use crate::Mutation;
use crate::chart::Chart;
use crate::claim::{Check, Paper, Verdict};
use serde::{Deserialize, Serialize};

/// One cell of a [`Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A count or a time in whole units.
    Int(u64),
    /// A ratio or a time with fractions.
    Real(f64),
    /// A name.
    Text(String),
}

/// Figures with a unit in each column's name, as written to the CSV file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Names of the columns, units included: `latency_ns`.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// The result of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// All figures.
    pub table: Table,
    /// Drawings of them; several charts are the insets of one figure.
    pub charts: Vec<Chart>,
    /// Claims.
    pub checks: Vec<Check>,
    /// Differences from the paper's set-up, with reasons: sentences.
    pub differs: Vec<String>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&c| c.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When its length is not the number of columns: a mistake in the experiment's code.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row for {:?}", self.columns);
        self.rows.push(row);
    }

    /// The table as CSV.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let record = |cells: &[Cell]| cells.iter().map(Cell::to_string).collect::<Vec<_>>();
        // Writing into memory cannot fail.
        let _ = writer.write_record(&self.columns);
        for row in &self.rows {
            let _ = writer.write_record(record(row));
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

impl Outcome {
    /// An outcome with only a table.
    #[must_use]
    pub const fn new(table: Table) -> Self {
        Self { table, charts: Vec::new(), checks: Vec::new(), differs: Vec::new() }
    }

    /// Adds a claim: the paper's number, ours, the change that must lower its verdict, and what was
    /// found in words.
    pub fn claim(
        &mut self,
        claim: &str,
        paper: Paper,
        ours: f64,
        mutation: Mutation,
        found: String,
    ) {
        self.checks.push(Check::new(claim, paper, ours, mutation, found));
    }

    /// Adds a claim about a quotient of times that the paper prints. Without an effect it would
    /// be 1.
    pub fn claim_times(
        &mut self,
        claim: &str,
        at: &'static str,
        paper: f64,
        ours: f64,
        mutation: Mutation,
    ) {
        let found = format!("{ours:.2} times; the paper {paper:.2}");
        self.claim(claim, Paper::number(paper, 1.0, at), ours, mutation, found);
    }

    /// Adds a claim that cannot be tested here, where the paper makes it, and why.
    pub fn untestable(&mut self, claim: &str, at: &str, why: &str) {
        self.checks.push(Check::untestable(claim, at, why));
    }

    /// Notes a difference from the paper.
    pub fn differs(&mut self, what: &str) {
        self.differs.push(what.to_owned());
    }

    /// Is there a claim that holds, and none that differs?
    #[must_use]
    pub fn holds(&self) -> bool {
        let differs = |c: &Check| c.verdict == Verdict::Differs;
        self.checks.iter().any(|c| c.holds) && !self.checks.iter().any(differs)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            // Four decimals: measurements have no more.
            Self::Real(v) => write!(f, "{v:.4}"),
            Self::Text(v) => f.write_str(v),
        }
    }
}

impl From<u64> for Cell {
    fn from(v: u64) -> Self {
        Self::Int(v)
    }
}

impl From<u32> for Cell {
    fn from(v: u32) -> Self {
        Self::Int(v.into())
    }
}

impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        Self::Int(v as u64)
    }
}

impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        Self::Real(v)
    }
}

impl From<&str> for Cell {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}

impl From<String> for Cell {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}

/// A row of cells of mixed types.
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::outcome::Cell::from($cell)),*] };
}
