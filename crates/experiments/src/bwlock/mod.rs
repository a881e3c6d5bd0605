//! BWLOCK: Figs. 1 and 3 (a) to (d), and the overhead of section 4.3.
//!
//! The paper's machine is the Xeon W3530 with one DDR3-1066 module, prefetchers off; so is the
//! simulated one, which has none.

mod contention;
mod locks;
mod overhead;
mod setup;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] =
    &[contention::FIG1, locks::FIG3A, locks::FIG3B, locks::FIG3C, locks::FIG3D, overhead::OVERHEAD];
