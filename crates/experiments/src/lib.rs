//! The experiments of the five papers on simulated boards.
//!
//! Problem: a paper's figure is a claim about one board on one day. Rule: each figure and table is
//! an [`Experiment`] that builds the paper's set-up on a simulated board, measures, and checks each
//! claim ([`outcome`]). The shapes and orders are the claims; absolute numbers belong to the
//! papers' boards. docs/reproduction.md is written by [`page`] from the outcomes.
//!
//! This is the laboratory: no crate that plans or runs a system depends on it. `solocore reproduce`
//! runs it, and `solocore bench ipc` draws with its [`chart`].
//!
//! [`attack`] is the other experiment: an adversary against the planner's bounds.
//!
//! Not covered: figures that show no measurement (architecture sketches), and MC2's Fig. 15
//! (`solocore study`). [`papers`] lists every figure and table with its treatment.

pub mod attack;
mod build_identity;
mod bwlock;
pub mod chart;
pub mod claim;
mod dynamic;
mod experiment;
pub mod fitted;
mod maracas;
mod mc2;
mod mutate;
pub mod mutation;
pub mod outcome;
pub mod page;
pub mod papers;
pub mod run;
mod sce;
#[cfg(test)]
mod sources;
pub mod store;
pub mod summary;

pub use chart::{Chart, Marks, Series};
pub use claim::{Check, Paper, Verdict};
pub use experiment::{Context, Experiment, ExperimentError, Scale};
pub use mutation::Mutation;
pub use outcome::{Cell, Outcome, Table};
pub use store::Record;
pub use summary::{Compared, Counts, Tried};

/// All experiments, in the order of the papers.
#[must_use]
pub fn all() -> Vec<Experiment> {
    [sce::ALL, bwlock::ALL, dynamic::ALL, maracas::ALL, mc2::ALL].concat()
}

/// The experiment of that name.
#[must_use]
pub fn find(id: &str) -> Option<Experiment> {
    all().into_iter().find(|e| e.id == id)
}

/// The experiments of some names, each once; a paper's name stands for all of its figures.
///
/// # Errors
/// When a name belongs to no experiment.
pub fn named<S: AsRef<str>>(names: &[S]) -> Result<Vec<Experiment>, ExperimentError> {
    let mut out: Vec<Experiment> = Vec::new();
    for name in names {
        let name = name.as_ref().to_lowercase();
        let family = format!("{name}-");
        let mut found: Vec<Experiment> = match find(&name) {
            Some(experiment) => vec![experiment],
            None => all().into_iter().filter(|e| e.id.starts_with(&family)).collect(),
        };
        if found.is_empty() {
            return Err(ExperimentError::Setup(format!(
                "no experiment is called `{}`; `solocore reproduce --list` names them all",
                name.escape_debug()
            )));
        }
        found.retain(|e| out.iter().all(|o| o.id != e.id));
        out.extend(found);
    }
    Ok(out)
}
