//! The record of a study under way, from which it can continue after a kill at any point.
//!
//! # Rule
//! A directory holds `study.json`, which defines the study (version, parameters, seed, schemes,
//! scenarios, utilizations, shard), and `journal.csv`, one line per finished point, appended as it
//! is done:
//!
//! `scenario,utilization in thousandths,systems,undecided,schedulable of each scheme...,check`
//!
//! `check` is a hash of the rest of the line. A kill can only leave the last line unfinished: it is
//! dropped, with a message, and its point is computed again, to the same result. Damage anywhere
//! else is refused. Tables and plots are written from the journal at the end, so a truncated one is
//! simply written again.

use crate::StudyError;
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use solocore_model::{ModelError, files};
use solocore_planner::levels::optimiser::Scheme;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// At the head of `study.json`.
const FORMAT: &str = "solocore-study/1";

/// Definition of a study. Two studies can be joined only if they agree in all except the shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `solocore-study/1`.
    pub format: String,
    /// Version of solocore: another one may draw other systems.
    pub version: String,
    /// SHA-256 of the parameters' values.
    pub parameters: String,
    /// Seed of all systems.
    pub seed: u64,
    /// Names of the schemes.
    pub schemes: Vec<String>,
    /// Names of the scenarios, of all shards.
    pub scenarios: Vec<String>,
    /// Utilizations in thousandths, ascending.
    pub utilizations: Vec<u32>,
    /// `[k, n]`: only every n-th scenario, from the k-th on, counted from 1.
    pub shard: Option<[u32; 2]>,
}

/// A finished point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Systems tried.
    pub systems: u32,
    /// Systems on which O|opt was neither found schedulable nor proven not to be.
    pub undecided: u32,
    /// Systems schedulable, by scheme.
    pub schedulable: Vec<u32>,
}

/// Points by scenario and utilization in thousandths.
pub type Points = BTreeMap<(Scenario, u32), Point>;

impl Manifest {
    /// A manifest of this version.
    #[must_use]
    pub fn new(
        parameters: String,
        seed: u64,
        schemes: &[Scheme],
        scenarios: &[Scenario],
        utilizations: Vec<u32>,
        shard: Option<[u32; 2]>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parameters,
            seed,
            schemes: schemes.iter().map(ToString::to_string).collect(),
            scenarios: scenarios.iter().map(ToString::to_string).collect(),
            utilizations,
            shard,
        }
    }

    /// Reads the manifest of a directory.
    ///
    /// # Errors
    /// When there is none, or it is of another format.
    pub fn read(dir: &Path) -> Result<Self, StudyError> {
        let path = dir.join("study.json");
        if !path.is_file() {
            return Err(fault(
                dir,
                "holds no study (no study.json); give the directory of an earlier `solocore study \
                    -o`",
            ));
        }
        let found: Self = files::read_json(&path)?;
        if found.format != FORMAT {
            return Err(fault(
                dir,
                &format!(
                    "has format `{}`, this version reads `{FORMAT}`; start again",
                    found.format
                ),
            ));
        }
        Ok(found)
    }

    /// The first difference to another, in words; `None` if they agree. The shard counts only if
    /// `shards_too`.
    #[must_use]
    pub fn difference(&self, other: &Self, shards_too: bool) -> Option<String> {
        let differ = [
            ("version", self.version != other.version),
            ("parameters", self.parameters != other.parameters),
            ("seed", self.seed != other.seed),
            ("schemes", self.schemes != other.schemes),
            ("scenarios", self.scenarios != other.scenarios),
            ("utilizations", self.utilizations != other.utilizations),
            ("shard", shards_too && self.shard != other.shard),
        ];
        let named: Vec<&str> = differ.into_iter().filter(|(_, d)| *d).map(|(n, _)| n).collect();
        (!named.is_empty()).then(|| named.join(", "))
    }

    /// The scenarios of this shard.
    ///
    /// # Errors
    /// When the manifest names a scenario that does not exist.
    pub fn own_scenarios(&self) -> Result<Vec<Scenario>, StudyError> {
        let mut out = Vec::new();
        for (at, name) in self.scenarios.iter().enumerate() {
            let own = self
                .shard
                .is_none_or(|[k, n]| (at as u64) % u64::from(n.max(1)) + 1 == u64::from(k));
            if own {
                out.extend(Scenario::parse(name)?);
            }
        }
        Ok(out)
    }
}

/// `study.json` and an open journal.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Starts a study in a directory, which is created if needed.
    ///
    /// # Errors
    /// When the directory holds a study already, or cannot be written.
    pub fn create(dir: &Path, manifest: &Manifest, parameters: &str) -> Result<Self, StudyError> {
        std::fs::create_dir_all(dir)
            .map_err(|source| ModelError::Write { path: dir.to_owned(), source })?;
        if dir.join("study.json").exists() {
            return Err(fault(
                dir,
                "holds a study already; go on with it (--resume), or choose another directory",
            ));
        }
        let path = dir.join("journal.csv");
        files::write_atomically(&path, b"")?;
        files::write_atomically(&dir.join("parameters.toml"), parameters.as_bytes())?;
        files::write_json(&dir.join("study.json"), manifest)?;
        Self::open(path)
    }

    /// Continues a study; also returns the bytes of an unfinished line that were dropped.
    ///
    /// # Errors
    /// When its journal is damaged other than at its end.
    pub fn resume(dir: &Path, manifest: &Manifest) -> Result<(Self, Points, usize), StudyError> {
        let (points, whole, dropped) = read(dir, manifest)?;
        let path = dir.join("journal.csv");
        if dropped > 0 {
            files::write_atomically(&path, whole.as_bytes())?;
        }
        Ok((Self::open(path)?, points, dropped))
    }

    fn open(path: PathBuf) -> Result<Self, StudyError> {
        let opened = OpenOptions::new().append(true).open(&path);
        let file = opened.map_err(|source| ModelError::Write { path: path.clone(), source })?;
        Ok(Self { path, file })
    }

    /// Appends a point.
    ///
    /// # Errors
    /// When the disk is full; the line is then dropped by the next [`Journal::resume`].
    pub fn append(
        &mut self,
        scenario: Scenario,
        milli: u32,
        point: &Point,
    ) -> Result<(), StudyError> {
        let text = line(scenario, milli, point);
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| ModelError::Write { path: self.path.clone(), source }.into())
    }
}

/// The finished points of a directory, without changing it.
///
/// # Errors
/// When the journal is missing or damaged other than at its end.
pub fn points(dir: &Path, manifest: &Manifest) -> Result<Points, StudyError> {
    read(dir, manifest).map(|(points, _, _)| points)
}

/// Points, the text they were read from, and the bytes after it.
fn read(dir: &Path, manifest: &Manifest) -> Result<(Points, String, usize), StudyError> {
    let path = dir.join("journal.csv");
    let bytes =
        std::fs::read(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let invalid = |number: usize, what: &str| -> StudyError {
        let message = format!("{what}; the journal is damaged, start again in another directory");
        ModelError::Invalid { path: path.clone(), line: Some(number), message }.into()
    };
    let text = String::from_utf8(bytes[..whole].to_vec()).map_err(|_| invalid(1, "not text"))?;
    let own: Vec<Scenario> = manifest.own_scenarios()?;
    let mut points = Points::new();
    for (at, row) in text.lines().enumerate() {
        let (scenario, milli, point) = parse(row, manifest.schemes.len())
            .ok_or_else(|| invalid(at + 1, "not a point, or changed"))?;
        if !own.contains(&scenario) || manifest.utilizations.binary_search(&milli).is_err() {
            return Err(invalid(at + 1, "a point that is not of this study"));
        }
        if points.insert((scenario, milli), point).is_some() {
            return Err(invalid(at + 1, "a point that was there already"));
        }
    }
    Ok((points, text, bytes.len() - whole))
}

/// A line of the journal.
#[must_use]
pub fn line(scenario: Scenario, milli: u32, point: &Point) -> String {
    let mut text = format!("{},{milli},{},{}", scenario.index(), point.systems, point.undecided);
    for count in &point.schedulable {
        text += &format!(",{count}");
    }
    let check = hash(&text);
    format!("{text},{check:016x}\n")
}

/// The point of a line, without its end; `None` if it is damaged, or has another number of schemes.
#[must_use]
pub fn parse(row: &str, schemes: usize) -> Option<(Scenario, u32, Point)> {
    let (text, check) = row.rsplit_once(',')?;
    if format!("{:016x}", hash(text)) != check {
        return None;
    }
    let numbers: Vec<u32> = text.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let (head, schedulable) = numbers.split_at_checked(4)?;
    let scenario = Scenario::from_index(u16::try_from(head[0]).ok()?)?;
    let sound = schedulable.len() == schemes && schedulable.iter().all(|&s| s <= head[2]);
    let point = Point { systems: head[2], undecided: head[3], schedulable: schedulable.to_vec() };
    sound.then_some((scenario, head[1], point))
}

/// FNV-1a, 64 bits: against accidents, not against intent.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

pub(crate) fn fault(dir: &Path, message: &str) -> StudyError {
    StudyError::Directory { path: dir.to_owned(), message: message.to_owned() }
}
