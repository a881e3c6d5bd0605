//! The files on which a profile rests, by which its validity can be checked.
//!
//! Problem: the files that a program opens are known only after it ran. Rule: the profile names
//! each file that the run used, with its state before the program changed it. A profile of several
//! inputs has the results of each. Not covered: time, random numbers, devices, `/proc`, `/sys` and
//! sockets; [`RestsOn::not_covered`] names those that the run used.

use super::measured::{Measured, Raised};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Sources of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Files that the run used; empty in older profiles.
    #[serde(default, skip_serializing_if = "RestsOn::is_empty")]
    pub rests_on: RestsOn,
    /// Costs of more than one process; zero for one.
    #[serde(default, skip_serializing_if = "Processes::is_one")]
    pub processes: Processes,
    /// Results of each input, in the order of the inputs; empty for a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRun>,
    /// The input (its place in `inputs`) that gave the worst of each quantity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<Worst>,
    /// Amounts by which counters of a machine raised the emulator's numbers.
    #[serde(default, skip_serializing_if = "Raised::is_nothing")]
    pub raised: Raised,
    /// Callers or calls of functions are missing, because there was no room for all of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chains_cut: bool,
    /// Values of those counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

impl Origin {
    /// Are there no sources?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Charges where a job has several processes: a switch between two of them brings lines back
/// that the other displaced. No locked page saves these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processes {
    /// Most switches between processes of a job.
    pub switches: u64,
    /// Reads that leave the private caches because of these switches, in all.
    pub reads: u64,
    /// Lines that are written back because of these switches, in all.
    pub writes: u64,
}

impl Processes {
    /// Are there no charges?
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::default()
    }
}

/// Files, and other inputs that cannot be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestsOn {
    /// Files and directories by path.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Other inputs of the run. They cannot be compared later.
    #[serde(default)]
    pub not_covered: Vec<String>,
    /// Reason for which the list is incomplete; the profile must then not be used again. `null` if
    /// it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_whole: Option<String>,
}

impl RestsOn {
    /// Is the list empty?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RestsOn {
    /// The program of this name, and libraries; the program comes first. Empty where the program is
    /// not among the files.
    #[must_use]
    pub fn program_files(&self, program: &Path) -> Vec<InputFile> {
        let content = |f: &&InputFile| matches!(f.state, FileState::File { .. });
        let named = |f: &&InputFile| f.path.file_name() == program.file_name();
        let Some(first) = self.files.iter().filter(content).find(named) else { return Vec::new() };
        let libraries = self.files.iter().filter(content).filter(|f| f.is_library());
        let libraries = libraries.filter(|f| f.path != first.path);
        std::iter::once(first).chain(libraries).cloned().collect()
    }
}

/// A path, and its state before the run changed anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Absolute path.
    pub path: PathBuf,
    /// The entry that was there.
    #[serde(flatten)]
    pub state: FileState,
}

impl InputFile {
    /// Whether its name is that of a shared library: `libm.so.6`, `ld-linux-x86-64.so.2`.
    #[must_use]
    pub fn is_library(&self) -> bool {
        let name = self.path.file_name().map(|n| n.to_string_lossy().into_owned());
        let version = |v: &str| v.chars().all(|c| c.is_ascii_digit() || c == '.');
        name.is_some_and(|n| n.rsplit_once(".so").is_some_and(|(_, v)| version(v)))
    }
}

/// Kind of entry at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum FileState {
    /// Nothing: a file that appears later changes the run.
    Absent,
    /// A regular file, by its content.
    File {
        /// Bytes.
        size: u64,
        /// SHA-256 of the content, in hexadecimal digits.
        sha256: String,
    },
    /// A directory, by its list of names and their kinds.
    Directory {
        /// SHA-256 of the sorted list.
        sha256: String,
    },
    /// The run asked only for the status.
    Status {
        /// `file`, `directory` or `other`.
        kind: String,
        /// Bytes, of a regular file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link that the run read.
    Link {
        /// Target of the link.
        target: PathBuf,
    },
    /// This user may not read it.
    Refused,
}

/// Results of one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputRun {
    /// Arguments that the input added to the command.
    pub arguments: Vec<String>,
    /// Cycles with every shared-cache access free.
    pub private_cycles: u64,
    /// Reads that left the private caches.
    pub llc_reads: u64,
    /// Dirty lines written to the shared cache.
    pub llc_writes: u64,
    /// DRAM accesses with the whole shared cache.
    pub misses: u64,
    /// Distinct lines touched.
    pub lines: u64,
}

/// The worst of a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    /// `private_cycles`, `llc_reads`, `llc_writes`, `misses`, `lines`, or `time` (the trace is of
    /// this input).
    pub quantity: String,
    /// Place of the input in `inputs`, from 0.
    pub input: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_are_told_from_data() {
        let file = |path: &str| InputFile {
            path: path.into(),
            state: FileState::File { size: 1, sha256: path.to_owned() },
        };
        let absent = InputFile { path: "/x/canny".into(), state: FileState::Absent };
        let names =
            ["/etc/ld.so.cache", "/lib/libm.so.6", "/lib/ld-linux.so", "/d/canny", "/d/a.pgm"];
        let files = std::iter::once(absent).chain(names.map(file)).collect();
        let all = RestsOn { files, ..RestsOn::default() };
        let found = |program: &str| -> Vec<String> {
            let files = all.program_files(Path::new(program));
            files.iter().map(|f| f.path.display().to_string()).collect()
        };
        assert_eq!(found("./canny"), ["/d/canny", "/lib/libm.so.6", "/lib/ld-linux.so"]);
        assert_eq!(found("sobel"), [""; 0], "another program's libraries say nothing");
    }
}
