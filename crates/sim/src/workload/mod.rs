//! The programs of the papers, recorded programs, and their descriptions in TOML.
//!
//! Problem: an experiment names programs ("m_jump beside three hogs"), not operations. Rule: a
//! [`WorkloadSpec`] names a kind and its parameters, with the papers' figures as defaults.
//! [`WorkloadSpec::build`] checks them and makes a [`Workload`]: the [`Program`], and the named
//! regions of its pages. Placement may put the regions into different frames, banks or page kinds.
//! [`describe`] lists the kinds with source, parameters and defaults.
//!
//! A stream depends on description, platform geometry and seed only. All arithmetic is on integers;
//! shares and rates written as fractions are rounded to whole numbers first.
//!
//! Not covered: instruction fetches of the synthetic programs (their code fits the first-level
//! cache); self-modifying behaviour, that is, programs that react to time. Patterns are in `walk`,
//! jobs in `jobs`, the papers' programs in `build` and `presets`.

mod build;
mod context;
mod copy;
mod error;
mod jobs;
mod matrix;
mod presets;
mod recording;
mod replay;
mod sections;
mod spec;
mod spread;
mod streams;
#[cfg(test)]
mod tests;
mod text;
mod walk;

pub use context::BuildContext;
pub use error::WorkloadError;
pub use spec::{Description, Job, Parameter, WorkloadSpec, describe};
pub use text::to_text;

/// The parameters of each kind.
pub mod params {
    pub use super::spec::{
        Access, BandwidthHog, Canny, Compute, Cortex, Distribution, Eembc, EembcTask, EntryPoint,
        Hog, Kernel, Latency, Libquantum, Lock, MJump, Matrix, Message, Mwalk, Pattern, Phases,
        Profile, ProfileLike, SceBenchmark, Section, Spread, SsdLoad, Subject, Synthetic, Trace,
        Video,
    };
}

use crate::program::Program;
use solocore_model::profile::PageName;
use std::ops::Range;

/// A program and its properties.
pub struct Workload {
    /// The program.
    pub program: Box<dyn Program>,
    /// Name of each page of a profiled program; empty for others.
    pub page_names: Vec<Option<PageName>>,
    /// It takes the memory lock (BWLOCK): its kernel must answer [`crate::program::Signal::Lock`].
    pub locks: bool,
    /// Its jobs end; without jobs it runs for ever.
    pub has_jobs: bool,
    regions: Vec<(String, Range<u32>)>,
}

impl Workload {
    /// The workload of a program that was made elsewhere: all its pages are `data`.
    pub(crate) fn bare(program: Box<dyn Program>) -> Self {
        let regions = vec![("data".to_owned(), 0..program.pages())];
        Self { program, page_names: Vec::new(), locks: false, has_jobs: false, regions }
    }

    /// Its pages by name, in order and without gaps: `data`, and where a program shares a buffer
    /// with a device or another program, `buffer`. A profiled program has a range for every run of
    /// pages of one region.
    #[must_use]
    pub fn regions(&self) -> Vec<(String, Range<u32>)> {
        self.regions.clone()
    }

    /// The pages of the first region of this name.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<Range<u32>> {
        self.regions.iter().find(|(n, _)| n == name).map(|(_, pages)| pages.clone())
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload")
            .field("regions", &self.regions)
            .field("has_jobs", &self.has_jobs)
            .finish_non_exhaustive()
    }
}
