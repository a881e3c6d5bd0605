//! Settings of the kernel and of tasks that are changed for a while, and put back whatever happens.
//!
//! Problem: a setting (sysctl, debugfs, a task's affinity) outlives the process that changed it,
//! and a process that is killed puts nothing back.
//! Rule: each old value is handed to a child process, the keeper, before the setting is changed.
//! The keeper waits for the end of its input, which comes when its parent ends, however it ends; it
//! then writes the old values, last first, and then puts back what was changed of threads
//! (host/threads.rs). What could not be changed is taken from it again. A file that has gone (an
//! interrupt whose device was taken out) has nothing to be put back. `Changes` is dropped by
//! closing that input and waiting for the keeper: there is one way back, not two.
//! Does not cover: a keeper that is killed as well. It ignores the signals of a terminal and of a
//! polite end.

use super::stopped;
use super::threads::{self, ThreadChange};
use crate::error::LinuxError;
use crate::sys;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The keeper is this program itself with this one argument; whoever uses this crate passes it on
/// to [`keep`].
pub const ARGUMENT: &str = "keep-settings";

const DEBUGFS: &str = "debugfs:";
/// Says that the last setting was not changed after all.
const FORGET: &str = "@forget";
/// Begins the path of a directory that was made.
const DIRECTORY: &str = "@directory\t";
/// Begins the number of a solocore whose stopped jobs are to go on.
const GO_ON: &str = "@go-on\t";
/// Begins what was changed of a thread.
const THREAD: &str = "@thread\t";

/// Changes of settings.
#[derive(Default)]
pub(crate) struct Changes {
    keeper: Option<(Child, Option<ChildStdin>)>,
    debugfs: Option<OwnedFd>,
}

impl Changes {
    /// Starts the keeper.
    pub fn begin() -> Result<Self, LinuxError> {
        let fail = |e: io::Error| {
            LinuxError::of_io("the keeper of settings does not start", &e, "is /proc mounted?")
        };
        let mut child = Command::new("/proc/self/exe")
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // A terminal's kill of the foreground group does not reach it.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let input = child.stdin.take();
        // It says a line when it no longer listens to signals.
        let mut ready = [0; 6];
        child.stdout.take().map_or(Ok(()), |mut out| out.read_exact(&mut ready)).map_err(fail)?;
        Ok(Self { keeper: Some((child, input)), debugfs: sys::debugfs().ok() })
    }

    /// Changes a setting; `path` is a file, or `debugfs:` and a path there. Is it another value
    /// than before?
    pub fn set(&mut self, path: &str, value: &str) -> io::Result<bool> {
        let old = read(self.debugfs.as_ref(), path)?;
        let old = old.trim();
        if old == value {
            return Ok(false);
        }
        self.set_with_way_back(path, value, old)?;
        Ok(true)
    }

    /// Changes a setting that is put back by writing something else than what it reads.
    pub fn set_with_way_back(&mut self, path: &str, value: &str, back: &str) -> io::Result<()> {
        self.tell(&format!("{path}\t{back}"))?;
        let written = write(self.debugfs.as_ref(), path, value);
        if written.is_err() {
            self.tell(FORGET)?;
        }
        written
    }

    /// Changes a setting that goes when another one is put back.
    pub fn set_without_way_back(&self, path: &str, value: &str) -> io::Result<()> {
        write(self.debugfs.as_ref(), path, value)
    }

    /// Hands over what a setting is like; nothing is changed yet.
    pub fn note_setting(&mut self, path: &str, back: &str) -> io::Result<()> {
        self.tell(&format!("{path}\t{back}"))
    }

    /// Hands over a directory of the kernel (a control group) that is about to be made.
    pub fn made_directory(&mut self, path: &str) -> io::Result<()> {
        self.tell(&format!("{DIRECTORY}{path}"))
    }

    /// Jobs of this solocore will be stopped for a while (stopped.rs): whatever is stopped at the
    /// end goes on.
    pub fn stops_jobs(&mut self) -> io::Result<()> {
        self.tell(&format!("{GO_ON}{}", std::process::id()))
    }

    /// Changes a thread.
    pub fn change(&mut self, change: &ThreadChange) -> io::Result<()> {
        self.note(change)?;
        let made = change.make();
        if made.is_err() {
            self.tell(FORGET)?;
        }
        made
    }

    /// Hands over what a thread was like; nothing is changed yet.
    pub fn note(&mut self, change: &ThreadChange) -> io::Result<()> {
        self.tell(&format!("{THREAD}{}", change.encode()))
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let Some((_, Some(input))) = &mut self.keeper else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // In one piece, so that a kill leaves no half of a line.
        input.write_all(format!("{line}\n").as_bytes())
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
    // An empty list is written as an empty line: nothing at all would be no write.
    // resctrl takes whole lines only.
    let value =
        if value.is_empty() || path.ends_with("/schemata") { &format!("{value}\n") } else { value };
    open(debugfs, path, true)?.write_all(value.as_bytes())
}

/// What the keeper puts back.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Setting(String, String),
    Directory(String),
    GoOn(u32),
    Thread(ThreadChange),
}

/// The entries of the keeper's input, without those that were taken back.
fn entries(lines: impl Iterator<Item = String>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in lines {
        if line == FORGET {
            entries.pop();
        } else if let Some(change) = line.strip_prefix(THREAD) {
            entries.extend(ThreadChange::decode(change).map(Entry::Thread));
        } else if let Some(starter) = line.strip_prefix(GO_ON) {
            entries.extend(starter.parse().map(Entry::GoOn));
        } else if let Some(path) = line.strip_prefix(DIRECTORY) {
            entries.push(Entry::Directory(path.to_owned()));
        } else if let Some((path, value)) = line.split_once('\t') {
            entries.push(Entry::Setting(path.to_owned(), value.to_owned()));
        }
    }
    entries
}

/// Removes a directory of the kernel's that was made.
fn remove(path: &str) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The keeper's whole life. Returns how many settings it could not put back.
pub fn keep() -> usize {
    sys::ignore_signals();
    println!("ready");
    let entries = entries(io::stdin().lock().lines().map_while(Result::ok));
    let debugfs = sys::debugfs().ok();
    let mut failed = 0;
    let mut changes = Vec::new();
    for entry in entries.into_iter().rev() {
        match entry {
            Entry::Thread(change) => changes.push(change),
            Entry::GoOn(starter) => stopped::let_go_on(starter),
            Entry::Directory(path) => {
                if let Err(e) = remove(&path) {
                    eprintln!("solocore: {path} cannot be removed: {e}; remove it by hand (rmdir)");
                    failed += 1;
                }
            }
            Entry::Setting(path, value) => {
                // An interrupt goes with its device, a control group with its maker; settings of
                // debugfs do not.
                let gone = |e: &io::Error| {
                    e.kind() == io::ErrorKind::NotFound && !path.starts_with(DEBUGFS)
                };
                if let Err(e) = write(debugfs.as_ref(), &path, &value)
                    && !gone(&e)
                {
                    eprintln!(
                        "solocore: {path} cannot be put back to {value}: {e}; write it there by \
                            hand"
                    );
                    failed += 1;
                }
            }
        }
    }
    failed + threads::put_back(&changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_changed_is_not_put_back() {
        let lines = [
            "/a\t1",
            "/b\t2 3",
            "@forget",
            "noise",
            "/c\t",
            "@directory\t/d",
            "@go-on\t42",
            "@go-on\t",
            "@thread\t7\t99\tcpus\t0-1\t1",
        ];
        let found = entries(lines.map(str::to_owned).into_iter());
        let change = ThreadChange::decode("7\t99\tcpus\t0-1\t1").unwrap();
        let setting = |path: &str, value: &str| Entry::Setting(path.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [
                setting("/a", "1"),
                setting("/c", ""),
                Entry::Directory("/d".to_owned()),
                Entry::GoOn(42),
                Entry::Thread(change)
            ]
        );
    }
}
