//! Single-core equivalence: Figs. 1, 2, 3, 4, 6, 7 and 11, 9, 10, 12, Tables 1 and 2.

mod bandwidth;
mod banks;
mod curve;
mod estimates;
mod lockdown;
mod scatter;
mod setup;
mod spikes;
mod table1;
mod table2;
mod tables;
mod vision;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] = &[
    spikes::FIG1,
    banks::FIG2,
    bandwidth::FIG3,
    bandwidth::FIG4,
    lockdown::FIG6,
    curve::FIG7,
    tables::FIG9,
    estimates::FIG10,
    curve::FIG12,
    table1::TABLE1,
    table2::TABLE2,
];
