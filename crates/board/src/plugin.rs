//! The QEMU plugin that makes the machine a board: its file and its configuration.

use crate::error::BoardError;
use crate::job::{Counters, Job, Model, Prefetcher};
use serde::Serialize;
use solocore_plugin::BOARD;
use std::path::{Path, PathBuf};

/// Name of the file with the plugin's counts.
pub const TRUTH: &str = "truth.json";
/// Simulated time that a CPU runs before the next one's turn.
const QUANTUM_NS: u64 = 10_000;

/// Configuration that the plugin reads at its start, as JSON.
#[derive(Debug, Serialize)]
pub struct Config {
    platform: PathBuf,
    cpus: u32,
    seed: u64,
    quantum_ns: u64,
    /// Time of an instruction whose references all hit the first-level caches. Left out where types
    /// of cores differ: the plugin then takes each core's from the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpi_ps: Option<u64>,
    model: Model,
    prefetcher: Prefetcher,
    page_walks: bool,
    pmu: Counters,
    allocation: bool,
    /// File for the counts.
    truth: PathBuf,
    /// File to which it adds a line each second: simulated ns, wall ns, model.
    progress: PathBuf,
}

impl Config {
    /// The configuration of a run with its files in `directory`.
    pub fn new(job: &Job, directory: &Path) -> Self {
        let platform = &job.platform;
        Self {
            platform: directory.join("platform.toml"),
            cpus: job.cpus,
            seed: job.seed,
            quantum_ns: QUANTUM_NS,
            cpi_ps: (!platform.cores_differ())
                .then(|| cpi_ps(platform.cpi_of(0), platform.frequency.0)),
            model: job.model,
            prefetcher: job.prefetcher,
            page_walks: job.page_walks,
            pmu: job.counters,
            allocation: job.allocation,
            truth: directory.join(TRUTH),
            progress: directory.join("progress"),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked platform: 0.1 ps to 1 ms"
)]
fn cpi_ps(cpi: f64, hertz: u64) -> u64 {
    ((cpi * 1e12 / hertz as f64).round() as u64).max(1)
}

/// The plugin's file; `None` where `SOLOCORE_BOARD_PLUGIN` is `none`: the machine is then plain
/// QEMU, without the board's clock and memory.
///
/// # Errors
/// [`BoardError::Machine`] if the file is missing.
pub fn find() -> Result<Option<PathBuf>, BoardError> {
    if BOARD.named().as_deref() == Some(Path::new("none")) {
        return Ok(None);
    }
    Ok(Some(BOARD.find()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_takes_its_cycles() {
        assert_eq!(cpi_ps(1.0, 1_000_000_000), 1000);
        assert_eq!(cpi_ps(1.0, 1_500_000_000), 667);
        assert_eq!(cpi_ps(0.5, 4_000_000_000), 125);
    }
}
