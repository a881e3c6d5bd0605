//! Settings of the kernel and of tasks that are changed for a while, and always put back.
//!
//! Problem: a setting (sysctl, debugfs, a task's affinity) outlives the process that changed it,
//! and a process that is killed puts nothing back.
//! Rule: each old value is handed to a child process, the keeper, before the setting is changed.
//! The keeper waits for the end of its input, which comes when its parent ends for any reason. It
//! then writes the old values, last first, and restores changed threads (host/threads.rs). A change
//! that fails is withdrawn from it. A file that has gone (the interrupt of a removed device) has
//! nothing to be put back. Dropping `Changes` closes that input and waits for the keeper: there is
//! only one way back.
//! Entries that are no longer needed go now and then (`compact`), from the keeper and the journal.
//! A keeper ignores the signals of a terminal and SIGTERM. Where it is killed as well, a journal on
//! /run holds the same lines (`journal`): the next start, or `solocore restore`, puts the old
//! values back.

mod compact;
mod entries;
mod journal;

pub use journal::{Restored, restore};

use self::compact::compacted;
use self::entries::{
    DIRECTORY, FORGET, GO_ON, SOCKET, THREAD, add, patiently, put_back, read, write,
};
use self::journal::Journal;
use super::threads::{Thread, ThreadChange, What};
use crate::error::LinuxError;
use crate::sys;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The keeper is this program itself with this one argument; the program that uses this crate
/// passes it on to [`keep`].
pub const ARGUMENT: &str = "keep-settings";

/// Line to the keeper: it is to drop entries that are no longer needed, and to answer with the
/// number of those that it keeps.
const COMPACT: &str = "@compact";
/// Lines after which the keeper is asked to do so, unless it kept more than half of them.
const LINES: usize = 1024;

/// Whether something has not been put back.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether every change of this process that has ended could be put back.
#[must_use]
pub fn all_put_back() -> bool {
    !FAILED.load(Ordering::SeqCst)
}

/// Changes of settings.
#[derive(Default)]
pub(crate) struct Changes {
    keeper: Option<Keeper>,
    /// The same lines, for a start after a kill of both.
    journal: Option<Journal>,
    /// Lines that the keeper and the journal have.
    lines: usize,
    /// Entries that the keeper needed when it was last asked to drop the others.
    needed: usize,
    debugfs: Option<OwnedFd>,
}

/// The keeper, a child process.
struct Keeper {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// The next line of its answers.
    fn answer(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

impl Changes {
    /// Starts the keeper.
    pub fn begin() -> Result<Self, LinuxError> {
        let fail = |e: io::Error| {
            LinuxError::of_io("the keeper of settings does not start", &e, "is /proc mounted?")
        };
        // Without a writable /run there is none; a kill of the keeper then loses the way back.
        let place = journal::place().ok();
        let mut child = Command::new("/proc/self/exe")
            .arg(ARGUMENT)
            .envs(place.as_ref().map(|path| (journal::VARIABLE, path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // A terminal's kill of the foreground group does not reach it.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail(io::ErrorKind::NotConnected.into()));
        };
        let mut keeper = Keeper { child, input, answers: BufReader::new(output) };
        // The keeper writes a line once it ignores signals and has made its journal.
        keeper.answer().map_err(fail)?;
        let journal = place.and_then(|path| Journal::open(path).ok());
        Ok(Self {
            keeper: Some(keeper),
            journal,
            lines: 0,
            needed: 0,
            debugfs: sys::debugfs().ok(),
        })
    }

    /// Changes a setting; `path` is a file, or `debugfs:` and a path there. Returns whether the
    /// value differs from the old one.
    pub fn set(&mut self, path: &str, value: &str) -> io::Result<bool> {
        let old = read(self.debugfs.as_ref(), path)?;
        let old = old.trim();
        if old == value {
            return Ok(false);
        }
        self.set_with_way_back(path, value, old)?;
        Ok(true)
    }

    /// Changes a setting that is put back by writing another value than the one it reads.
    pub fn set_with_way_back(&mut self, path: &str, value: &str, back: &str) -> io::Result<()> {
        self.tell(&format!("{path}\t{back}"))?;
        let written = patiently(|| write(self.debugfs.as_ref(), path, value));
        if written.is_err() {
            self.tell(FORGET)?;
        }
        written
    }

    /// Changes a setting, does this, and puts it back. `body` hands nothing over.
    pub fn set_during<T>(
        &mut self,
        path: &str,
        value: &str,
        back: &str,
        body: impl FnOnce() -> T,
    ) -> io::Result<T> {
        self.set_with_way_back(path, value, back)?;
        let done = body();
        self.set_without_way_back(path, back)?;
        // A later change by somebody else is not undone at the end.
        self.tell(FORGET)?;
        Ok(done)
    }

    /// Changes a setting that vanishes when another one is put back.
    pub fn set_without_way_back(&self, path: &str, value: &str) -> io::Result<()> {
        patiently(|| write(self.debugfs.as_ref(), path, value))
    }

    /// Hands over the present value of a setting, before a change.
    pub fn note_setting(&mut self, path: &str, back: &str) -> io::Result<()> {
        self.tell(&format!("{path}\t{back}"))
    }

    /// Hands over a directory of the kernel (a control group) that is about to be made.
    pub fn made_directory(&mut self, path: &str) -> io::Result<()> {
        self.tell(&format!("{DIRECTORY}{path}"))
    }

    /// Hands over the path of a socket that is about to be made. Its maker removes it; the keeper
    /// does so when its maker was killed.
    pub fn makes_socket(&mut self, path: &Path) -> io::Result<()> {
        self.tell(&format!("{SOCKET}{}", path.display()))
    }

    /// Announces that jobs of this solocore will be stopped for a while (stopped.rs): all stopped
    /// jobs go on at the end.
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

    /// Binds a thread to these CPUs.
    pub fn bind(&mut self, thread: &Thread, cpus: Vec<u32>) -> io::Result<()> {
        let what = What::Cpus(sys::tasks::affinity_of(thread.tid)?, cpus);
        self.change(&ThreadChange { tid: thread.tid, start: thread.start, what })
    }

    /// Hands over the present state of a thread, before a change.
    pub fn note(&mut self, change: &ThreadChange) -> io::Result<()> {
        self.tell(&format!("{THREAD}{}", change.encode()))
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        // A line that withdraws the last one must find it.
        if line != FORGET && self.lines >= LINES.max(2 * self.needed) {
            self.compact()?;
        }
        let Some(keeper) = &mut self.keeper else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // In one piece, so that a kill leaves no half of a line.
        let line = format!("{line}\n");
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(&line))?;
        self.lines += 1;
        keeper.input.write_all(line.as_bytes())
    }

    /// Lets the keeper drop the entries that are no longer needed, and opens its new journal.
    fn compact(&mut self) -> io::Result<()> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        keeper.input.write_all(format!("{COMPACT}\n").as_bytes())?;
        let kept = keeper.answer()?;
        self.journal.as_mut().map_or(Ok(()), Journal::reopen)?;
        self.needed = kept.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        self.lines = self.needed;
        Ok(())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(Keeper { mut child, input, .. }) = self.keeper.take() {
            drop(input);
            if !child.wait().is_ok_and(|status| status.success()) {
                FAILED.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// Runs the keeper until its end. Returns the number of settings that it could not put back.
pub fn keep() -> usize {
    sys::ignore_signals();
    let mut journal = Journal::of_keeper();
    // A daemon that was killed meanwhile reads nothing; what it left is still put back.
    let _ = writeln!(io::stdout(), "ready");
    let mut entries = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if line == COMPACT {
            entries = compacted(entries, ThreadChange::has_ended);
            journal.iter_mut().for_each(|journal| journal.rewrite(&entries));
            let _ = writeln!(io::stdout(), "{}", entries.len());
        } else {
            add(&mut entries, &line);
        }
    }
    let failed = put_back(entries);
    // The next start tries again to put back the failed ones.
    if let Some(journal) = journal {
        journal.end(&failed);
    }
    failed.len()
}
