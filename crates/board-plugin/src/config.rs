//! Configuration by the host: a JSON file that `-plugin libsolocore_board_plugin.so,config=PATH`
//! names.

use serde::Deserialize;
use solocore_cache::prefetch::PrefetcherKind;
use std::path::{Path, PathBuf};

/// Time during which the model of memory is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSwitch {
    /// From the start.
    On,
    /// Never: only the clock runs.
    Off,
    /// Off until the guest asks.
    #[default]
    Asked,
}

/// Vendor of the counters in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmuKind {
    /// AMD, six counters.
    #[default]
    Amd,
    /// Intel, architectural version 2.
    Intel,
    /// None.
    None,
}

/// The configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A platform file.
    pub platform: PathBuf,
    /// Number of vCPUs.
    pub cpus: usize,
    /// Seed of everything random: the ends of quanta, random replacement.
    #[serde(default)]
    pub seed: u64,
    /// Time that a vCPU runs before the next one does, ns.
    #[serde(default = "quantum")]
    pub quantum_ns: u64,
    /// Picoseconds of an instruction whose references all hit; left out: the platform's cpi at its
    /// frequency.
    #[serde(default)]
    pub cpi_ps: Option<u64>,
    /// Time during which the model of memory is on.
    #[serde(default)]
    pub model: ModelSwitch,
    /// Prefetcher of the private caches.
    #[serde(default)]
    pub prefetcher: PrefetcherKind,
    /// Whether misses of the TLB read page tables through the caches.
    #[serde(default)]
    pub page_walks: bool,
    /// Counters.
    #[serde(default)]
    pub pmu: PmuKind,
    /// Whether there is shared cache allocation and monitoring (CAT, MBA, CMT, MBM).
    #[serde(default)]
    pub allocation: bool,
    /// File for the counts at exit.
    #[serde(default)]
    pub truth: Option<PathBuf>,
    /// File for a line each second of wall time.
    #[serde(default)]
    pub progress: Option<PathBuf>,
    /// File for every reference while the model is on, for a replay. For tests: a second takes
    /// gigabytes.
    #[serde(default)]
    pub trace: Option<PathBuf>,
}

fn quantum() -> u64 {
    10_000
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// One line: the file and its fault.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let config: Self =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if !(1..=64).contains(&config.cpus) {
            return Err(format!("{}: cpus = {}; give 1 to 64", path.display(), config.cpus));
        }
        if !(1_000..=1_000_000).contains(&config.quantum_ns) {
            return Err(format!(
                "{}: quantum_ns = {}; give 1000 to 1000000",
                path.display(),
                config.quantum_ns
            ));
        }
        if config.cpi_ps.is_some_and(|c| !(1..=1_000_000).contains(&c)) {
            return Err(format!("{}: cpi_ps: give 1 to 1000000", path.display()));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn the_least_file_has_the_defaults() {
        let c = read(r#"{"platform": "p.toml", "cpus": 4}"#).unwrap();
        assert_eq!(
            (c.quantum_ns, c.cpi_ps, c.model, c.pmu),
            (10_000, None, ModelSwitch::Asked, PmuKind::Amd)
        );
    }

    #[test]
    fn wrong_values_are_named_on_one_line() {
        for (text, expect) in [
            (r#"{"platform": "p.toml", "cpus": 0}"#, "cpus"),
            (r#"{"platform": "p.toml", "cpus": 4, "quantum_ns": 1}"#, "quantum_ns"),
            (r#"{"platform": "p.toml", "cpus": 4, "model": "perhaps"}"#, "perhaps"),
            (r#"{"platform": "p.toml", "cpus": 4, "modle": "on"}"#, "modle"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expect) && error.lines().count() == 1, "{error}");
        }
    }
}
