//! The numbers of the platform that a workload depends on.
//!
//! Problem: parameters in bytes, instructions and times become lines and cycles only on a platform.
//! Rule: a [`BuildContext`] holds the few numbers for that; a program depends on no other property
//! of the board.

use solocore_model::Platform;
use solocore_model::platform::Pace;
use std::path::{Path, PathBuf};

/// The numbers of the platform that a workload depends on.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Lines of a page.
    pub lines_per_page: u32,
    /// Bytes of a line, a power of two.
    pub line_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Clock of the core on which stated times hold; by default, of the slowest.
    pub frequency_hz: u64,
    /// Cycles per instruction, for parameters in instructions; by default, the most of all cores.
    pub cpi: f64,
    /// Pace of the core that runs a recorded program; by default, the slowest.
    pub pace: Pace,
    /// Time of a miss in stated execution times: `L_max` and a look-up of the shared cache, in ps.
    pub miss_ps: u64,
    /// Lines that the private caches hold; a recorded program reads them again when it resumes.
    pub private_lines: u64,
    /// Geometry that profiles must be for ([`Platform::geometry`]); `None` takes any.
    pub geometry: Option<String>,
    /// Another one that they may be for, that of the core of the task.
    pub own_geometry: Option<String>,
    /// Seed of random draws. Programs that shall differ need different seeds.
    pub seed: u64,
    /// Directory that file names are relative to.
    pub base_dir: PathBuf,
}

impl BuildContext {
    /// For a platform.
    #[must_use]
    pub fn new(platform: &Platform, seed: u64, base_dir: &Path) -> Self {
        Self {
            lines_per_page: platform.lines_per_page(),
            line_bytes: platform.llc.line.0,
            page_bytes: platform.page.0,
            frequency_hz: platform.frequency.0,
            cpi: platform.most_cpi(),
            pace: platform.slowest_pace(),
            miss_ps: platform.dram.latency_max.ps() + platform.cycles_to_ps(platform.llc.latency.0),
            private_lines: platform.private_lines(),
            geometry: Some(platform.geometry()),
            own_geometry: None,
            seed,
            base_dir: base_dir.to_owned(),
        }
    }

    /// The same for a program that stays on a core of the platform.
    #[must_use]
    pub fn on_core(self, platform: &Platform, core: u32) -> Self {
        Self {
            frequency_hz: platform.clock_of(core).0,
            cpi: platform.cpi_of(core),
            pace: platform.pace_of(core),
            private_lines: platform.private_of(core).lines(platform.llc.line),
            own_geometry: Some(platform.geometry_on(Some(core))),
            ..self
        }
    }

    /// Most lines of a program.
    pub(super) fn max_lines(&self) -> u64 {
        (u64::from(u32::MAX) * u64::from(self.lines_per_page)).min(1 << 40)
    }
}
