//! What the host says: a JSON file that `-plugin libsolocore_board_plugin.so,config=PATH` names.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// When the model of memory is on.
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

/// Which lines are fetched before they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// None.
    #[default]
    Off,
    /// The next line of the page at each miss of the first level.
    NextLine,
    /// Lines at the stride that two misses of a page repeat.
    Stride,
}

/// Whose counters the guest finds.
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
    /// vCPUs.
    pub cpus: usize,
    /// Decides what is left to chance: the ends of quanta, random replacement.
    #[serde(default)]
    pub seed: u64,
    /// How long a vCPU runs before the next does.
    #[serde(default = "quantum")]
    pub quantum_ns: u64,
    /// Picoseconds of an instruction whose references all hit; left out: the platform's cpi at its
    /// frequency.
    #[serde(default)]
    pub cpi_ps: Option<u64>,
    /// When the model of memory is on.
    #[serde(default)]
    pub model: ModelSwitch,
    /// Prefetcher of the private caches.
    #[serde(default)]
    pub prefetcher: PrefetcherKind,
    /// Do misses of the TLB read page tables through the caches?
    #[serde(default)]
    pub page_walks: bool,
    /// Counters.
    #[serde(default)]
    pub pmu: PmuKind,
    /// Has the shared cache allocation and monitoring (CAT, MBA, CMT, MBM)?
    #[serde(default)]
    pub allocation: bool,
    /// Where the counts go at exit.
    #[serde(default)]
    pub truth: Option<PathBuf>,
    /// Where a line goes each second of wall time.
    #[serde(default)]
    pub progress: Option<PathBuf>,
    /// Where every reference goes while the model is on, for a replay. For tests: a second is
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
    /// One line: the file and what is wrong with it.
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
