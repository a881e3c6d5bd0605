//! Dynamic budgeting: Figs. 3 and 4 with Table II, and Table I.
//!
//! The paper's machine is a Xeon X5650 with data caching turned off; here all pages of all programs
//! are uncached. Programs are tasks with the relative miss rates of AutoBench, whose cores wait for
//! every access.

mod pairs;
mod setup;
mod several;
mod single;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] = &[pairs::TABLE1, single::FIG3, several::FIG4];
