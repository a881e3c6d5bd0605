//! MARACAS: Figs. 2, 4, 5, 6, 7, 8, 9, 10, and section V.

mod background;
mod balancing;
mod canny;
mod colours;
mod moves;
mod setup;
mod sync;
mod throttling;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] = &[
    sync::FIG2,
    background::FIG4,
    throttling::FIG5,
    throttling::FIG6,
    canny::FIG7,
    balancing::FIG8,
    colours::FIG9,
    colours::FIG10,
    moves::MOVES,
];
