//! Single-core equivalence: Figs. 1, 2, 3, 4, 6, 7 and 11, 12, Table 2.

mod banks;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] = &[banks::FIG2];
