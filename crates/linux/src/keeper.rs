//! Settings of the kernel that are changed for a while, and put back whatever happens.
//!
//! Problem: a setting (sysctl, debugfs) outlives the process that changed it, and a process that is killed puts nothing back.
//! Rule: each old value is handed to a child process, the keeper, before the setting is changed. The keeper waits for the
//! end of its input, which comes when its parent ends, however it ends; it then writes the old values, last first.
//! `Changes` is dropped by closing that input and waiting for the keeper: there is one way back, not two.
//! Does not cover: a keeper that is killed as well. It ignores the signals of a terminal and of a polite end.

use crate::error::LinuxError;
use crate::sys;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The keeper is this program itself with this one argument; whoever uses this crate passes it on to [`keep`].
pub const ARGUMENT: &str = "keep-settings";

const DEBUGFS: &str = "debugfs:";

/// Changes of settings.
#[derive(Default)]
pub(crate) struct Changes {
    keeper: Option<(Child, Option<ChildStdin>)>,
    debugfs: Option<OwnedFd>,
}

impl Changes {
    /// Starts the keeper.
    pub fn begin() -> Result<Self, LinuxError> {
        let fail = |e: io::Error| LinuxError::of_io("the keeper of settings does not start", &e, "is /proc mounted?");
        let mut child = Command::new("/proc/self/exe")
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(fail)?;
        let input = child.stdin.take();
        // It says a line when it no longer listens to signals.
        let mut ready = [0; 6];
        child.stdout.take().map_or(Ok(()), |mut out| out.read_exact(&mut ready)).map_err(fail)?;
        Ok(Self { keeper: Some((child, input)), debugfs: sys::debugfs().ok() })
    }

    /// Changes a setting; `path` is a file, or `debugfs:` and a path there.
    pub fn set(&mut self, path: &str, value: &str) -> io::Result<()> {
        let old = read(self.debugfs.as_ref(), path)?;
        let old = old.trim();
        if old == value {
            return Ok(());
        }
        let Some((_, Some(input))) = &mut self.keeper else { return Err(io::ErrorKind::NotConnected.into()) };
        writeln!(input, "{path}\t{old}")?;
        write(self.debugfs.as_ref(), path, value)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some((mut child, input)) = self.keeper.take() {
            drop(input);
            let _ = child.wait();
        }
    }
}

fn open(debugfs: Option<&OwnedFd>, path: &str, for_writing: bool) -> io::Result<fs::File> {
    match path.strip_prefix(DEBUGFS) {
        None if for_writing => fs::OpenOptions::new().write(true).open(path),
        None => fs::File::open(path),
        Some(path) => {
            let dir = debugfs.ok_or_else(|| io::Error::other("debugfs cannot be opened"))?;
            sys::open_at(dir, path, for_writing)
        }
    }
}

fn read(debugfs: Option<&OwnedFd>, path: &str) -> io::Result<String> {
    let mut text = String::new();
    open(debugfs, path, false)?.read_to_string(&mut text)?;
    Ok(text)
}

fn write(debugfs: Option<&OwnedFd>, path: &str, value: &str) -> io::Result<()> {
    open(debugfs, path, true)?.write_all(value.as_bytes())
}

/// The keeper's whole life. Returns how many settings it could not put back.
pub fn keep() -> usize {
    sys::ignore_signals();
    println!("ready");
    let mut old = Vec::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Some((path, value)) = line.split_once('\t') {
            old.push((path.to_owned(), value.to_owned()));
        }
    }
    let debugfs = sys::debugfs().ok();
    let back = |(path, value): &(String, String)| match write(debugfs.as_ref(), path, value) {
        Ok(()) => true,
        Err(e) => {
            eprintln!("solocore: {path} cannot be put back to {value}: {e}; write it there by hand");
            false
        }
    };
    old.iter().rev().filter(|entry| !back(entry)).count()
}
