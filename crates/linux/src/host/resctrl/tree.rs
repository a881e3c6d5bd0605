//! The files of resctrl: their folder, and how they are read and written.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Mount point of resctrl.
const ROOT: &str = "/sys/fs/resctrl";
/// Environment variable with another folder, for tests.
const VARIABLE: &str = "SOLOCORE_RESCTRL";

/// The mount point, or the folder that the environment names.
pub(crate) fn root() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| ROOT.into(), PathBuf::from)
}

/// The files of resctrl, or an imitation. Paths are relative.
pub(crate) trait Tree {
    fn read(&self, path: &str) -> io::Result<String>;
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;
    fn make(&mut self, group: &str) -> io::Result<()>;
    fn remove(&mut self, group: &str) -> io::Result<()>;
    /// Names of the directories in the root.
    fn directories(&self) -> Vec<String>;
}

/// The kernel's own files.
pub(crate) struct Mounted(pub PathBuf);

impl Tree for Mounted {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        // In one piece: the kernel parses each write by itself.
        fs::OpenOptions::new().write(true).open(self.0.join(path))?.write_all(text.as_bytes())
    }

    fn make(&mut self, group: &str) -> io::Result<()> {
        fs::create_dir(self.0.join(group))
    }

    fn remove(&mut self, group: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(group))
    }

    fn directories(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let directories = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let mut names: Vec<String> =
            directories.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// The kernel's reason for its last refusal, in parentheses; empty if there is none.
pub(super) fn said(tree: &dyn Tree) -> String {
    let said = tree.read("info/last_cmd_status").unwrap_or_default();
    let lines = said.lines().map(str::trim).filter(|l| !l.is_empty() && *l != "ok");
    let said = lines.collect::<Vec<_>>().join("; ");
    if said.is_empty() { said } else { format!(" ({said})") }
}

/// The keeper. It hears of each change before it is made, so that the change is always undone.
pub(crate) trait Record {
    /// A group that is about to be made.
    fn group(&mut self, name: &str) -> io::Result<()>;
    /// A line of the first group's schemata, before its change.
    fn line(&mut self, line: &str) -> io::Result<()>;
}
