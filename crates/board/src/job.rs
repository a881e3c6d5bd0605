//! A user's request to a board, and the checks that need no guest.

use crate::error::BoardError;
use crate::image::{check_share, in_path};
use serde::{Deserialize, Serialize};
use solocore_model::units::Bytes;
use solocore_model::{ModelError, Platform};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Smallest memory in which a guest boots, bytes.
const LEAST_MEMORY: u64 = 256 << 20;
/// Memory of the kernel and of a starting program, bytes.
const KERNEL_MEMORY: u64 = 160 << 20;
/// Maximum number of CPUs of QEMU's machine without x2APIC.
const MOST_CPUS: u32 = 255;

/// Time during which the memory model computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Model {
    /// From the boot on.
    On,
    /// Never: only the board's clock counts time.
    Off,
    /// From the start of the program (or shell) to its end; `board ask` can switch it.
    #[default]
    Asked,
}

/// Lines that the private caches prefetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Prefetcher {
    /// No prefetching.
    #[default]
    Off,
    /// The line after each miss.
    NextLine,
    /// Lines at the distance of earlier misses.
    Stride,
}

/// Vendor of the counters in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Counters {
    /// Counters of AMD's Zen.
    #[default]
    Amd,
    /// Intel's architectural counters.
    Intel,
    /// No counters.
    None,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The board.
    pub platform: Platform,
    /// Version of the kernel, if the user chooses one.
    pub kernel: Option<String>,
    /// CPUs of the guest.
    pub cpus: u32,
    /// Its memory.
    pub memory: Bytes,
    /// Time during which the memory model computes.
    pub model: Model,
    /// Lines that the private caches prefetch.
    pub prefetcher: Prefetcher,
    /// Whether misses of the translation buffer read page tables through the caches.
    pub page_walks: bool,
    /// Vendor of the counters in the guest.
    pub counters: Counters,
    /// Whether the guest can share out the shared cache and its bandwidth (resctrl).
    pub allocation: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Longest wall time, boot included.
    pub time_limit: Option<Duration>,
    /// More files and directories for the guest.
    pub shares: Vec<PathBuf>,
    /// Directory for files that the guest wrote to /out.
    pub out: Option<PathBuf>,
    /// File for the kernel's messages.
    pub console: Option<PathBuf>,
    /// File for the board's counts; its snapshots lie beside it.
    pub truth: Option<PathBuf>,
    /// Program and arguments; none for a shell.
    pub command: Vec<String>,
}

impl Job {
    /// Whether the guest's console is this terminal: a shell for a user who types. The input of any
    /// other shell is a pipe in the guest as well.
    pub fn on_terminal(&self) -> bool {
        self.command.is_empty() && std::io::stdin().is_terminal()
    }

    /// Checks that the board can meet the request.
    ///
    /// # Errors
    /// A part of the request is impossible; the message names the fault and the remedy.
    pub fn check(&self) -> Result<(), BoardError> {
        let most = self.platform.cores.min(MOST_CPUS);
        if !(1..=most).contains(&self.cpus) {
            return Err(BoardError::Input(format!(
                "--cpus {}: the board {} has {most} cores; give 1 to {most}",
                self.cpus, self.platform.name
            )));
        }
        if self.platform.page.0 != 4096 {
            return Err(BoardError::Input(format!(
                "{}: page = {}; a guest of x86-64 has pages of 4 KiB",
                self.platform.name, self.platform.page
            )));
        }
        if self.memory.0 < LEAST_MEMORY {
            return Err(too_little(self.memory, LEAST_MEMORY));
        }
        for share in &self.shares {
            check_share(share)?;
        }
        for (option, path) in
            [("--out", &self.out), ("--console", &self.console), ("--truth", &self.truth)]
        {
            let Some(path) = path else { continue };
            if (option == "--out" && path.exists() && !path.is_dir())
                || (option != "--out" && path.is_dir())
            {
                let (is, right) = match option {
                    "--out" => ("a file", "a directory"),
                    _ => ("a directory", "a file"),
                };
                return Err(BoardError::Input(format!(
                    "{option} {}: this is {is}; name {right}",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Checks that there is room for the guest's files, here and in the guest.
    ///
    /// # Errors
    /// [`BoardError::Machine`], with the memory that it takes.
    pub fn check_memory(&self, image: u64) -> Result<(), BoardError> {
        // The kernel holds the archive and its unpacked files at the same time.
        let need = 2 * image + KERNEL_MEMORY;
        if self.memory.0 < need {
            return Err(too_little(self.memory, need));
        }
        match available_memory() {
            Some(free) if free < self.memory.0 => Err(BoardError::Machine(format!(
                "--memory {}: this machine has {} MiB left; give the guest less",
                self.memory,
                free >> 20
            ))),
            _ => Ok(()),
        }
    }
}

fn too_little(memory: Bytes, need: u64) -> BoardError {
    let need = (need >> 20).next_multiple_of(64);
    BoardError::Machine(format!(
        "--memory {memory} is too little: the guest's kernel and files take {need} MiB; give it at \
            least that"
    ))
}

/// Available memory of this machine by its kernel's estimate, bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The program that a command names: a path from `directory`, or a name as a shell finds it.
/// `solocore` is this program itself where PATH has none.
///
/// # Errors
/// [`BoardError::Machine`] when there is none that can be run.
pub fn find_program(name: &str, directory: &Path) -> Result<PathBuf, BoardError> {
    use std::os::unix::fs::PermissionsExt;
    if !name.contains('/') {
        let own = || if name == "solocore" { std::env::current_exe().ok() } else { None };
        return own().or_else(|| in_path(name)).ok_or_else(|| {
            BoardError::Machine(format!(
                "{name}: there is no such program in PATH; install it or give its path"
            ))
        });
    }
    let path = directory.join(name);
    let kind = std::fs::metadata(&path).map_err(|e| {
        BoardError::Machine(format!("{name}: there is no such program ({e}); check the path"))
    })?;
    if !kind.is_file() || kind.permissions().mode() & 0o111 == 0 {
        return Err(BoardError::Machine(format!(
            "{name}: is not a program that can be run; check the path and its permissions"
        )));
    }
    Ok(path)
}

/// Reads a board by its preset's name or its file.
///
/// # Errors
/// As [`Platform::find`].
pub fn find_board(name: &str) -> Result<Platform, ModelError> {
    Platform::find(name, Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let platform = find_board("p4080").expect("a preset");
        Job {
            platform,
            kernel: None,
            cpus: 4,
            memory: Bytes(1 << 30),
            model: Model::default(),
            prefetcher: Prefetcher::default(),
            page_walks: true,
            counters: Counters::default(),
            allocation: false,
            seed: 1,
            time_limit: None,
            shares: Vec::new(),
            out: None,
            console: None,
            truth: None,
            command: vec!["true".to_owned()],
        }
    }

    #[test]
    fn impossible_guests_are_refused_on_one_line() {
        assert!(job().check().is_ok());
        type Break = fn(&mut Job);
        let broken: [(Break, &str); 5] = [
            (|j| j.cpus = 0, "--cpus 0"),
            (|j| j.cpus = 9, "1 to 8"),
            (|j| j.memory = Bytes(64 << 20), "256 MiB"),
            (|j| j.out = Some("/dev/null".into()), "--out"),
            (|j| j.console = Some("/".into()), "--console"),
        ];
        for (breaks, word) in broken {
            let mut job = job();
            breaks(&mut job);
            let error = job.check().expect_err(word).to_string();
            assert!(error.contains(word) && error.contains("; "), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn files_need_twice_their_size() {
        assert!(job().check_memory(100 << 20).is_ok());
        assert!(job().check_memory(500 << 20).is_err());
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let here = Path::new("/bin");
        assert!(
            find_program("sh", here).is_ok()
                && find_program("./sh", here).is_ok()
                && find_program("/bin/sh", here).is_ok()
        );
        for missing in ["no-such-program", "./no-such-program", "/etc/passwd", "/etc/"] {
            assert!(
                matches!(find_program(missing, here), Err(BoardError::Machine(_))),
                "{missing}"
            );
        }
    }
}
