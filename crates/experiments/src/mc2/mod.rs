//! MC2 on OS isolation: Figs. 8, 10, 12, 13, 14 and Table 1, on its board, the i.MX6 Quad.
//!
//! Set-up of all (section 2, Fig. 3): core k has bank k for levels A and B; banks 4 to 7 are those
//! of level C and of the OS. Ways of the shared cache are split in the same manner; where the
//! boundaries lie is each experiment's, as in the paper. Each task is on its core: the experiments
//! measure the effects of tasks on each other through memory, and the levels' scheduling changes
//! nothing in that, so priorities stand for levels. Bank interleaving is off, so the bank is the
//! top of the address and a task with one bank reaches every set of the cache.
//!
//! Fig. 11 is Fig. 10 with its absolute times, and Fig. 15 is `solocore study`.

mod dma;
mod ipc;
mod matrix;
pub mod samples;
mod setup;
mod sharing;
mod video;

use crate::Experiment;

/// The experiments of the paper.
pub const ALL: &[Experiment] =
    &[ipc::FIG8, video::FIG10, matrix::FIG12, dma::FIG13, dma::FIG14, sharing::TABLE1];
