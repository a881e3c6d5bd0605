//! Journal on /run of the changes that are not put back yet, for a start after a kill of daemon and
//! keeper together.
//!
//! Problem: a whole control group is killed at once (the out-of-memory killer, `systemctl kill`),
//! and with it the keeper that knew the way back. Rule: each line goes to a file before the change
//! is made; the keeper holds a lock on it and removes it when all is put back. An unlocked file
//! belongs to a keeper that is dead, or that could not put everything back. The next start, or
//! `solocore restore`, does so, the latest file first. A restart of the machine clears /run and
//! every setting with it.
//! Does not cover: changes by others since then; the old values are put back all the same, as by
//! the keeper.

use super::entries::{Entry, entries, put_back};
use crate::error::LinuxError;
use crate::host::stopped;
use crate::sys;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Environment variable with the path of the keeper's journal.
pub(super) const VARIABLE: &str = "SOLOCORE_JOURNAL";
/// Directory of the journals.
const DIRECTORY: &str = "/run/solocore-journal";
/// Prefix of the name of a journal that is not whole yet.
const UNFINISHED: &str = ".";
/// Longest wait for the keepers of runs that were killed just now.
const PATIENCE: Duration = Duration::from_secs(10);

/// A journal that is written, or that the keeper holds.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// The path of a new journal, in its directory. Its name contains its time, so that the latest can
/// be put back first.
pub(super) fn place() -> io::Result<PathBuf> {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    let number = BEGUN.fetch_add(1, Ordering::SeqCst);
    let directory = Path::new(DIRECTORY);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let begun = crate::sys::tasks::monotonic_ns();
    Ok(directory.join(format!("{begun:020}-{}-{number}", std::process::id())))
}

impl Journal {
    /// A journal that its keeper has made.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Adds a line, in one piece.
    pub fn add(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())
    }

    /// Opens the journal that the keeper has written again.
    pub fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(self.path.clone())?;
        Ok(())
    }

    /// Writes a keeper's journal again, with these entries. One that cannot be replaced stays
    /// whole.
    pub fn rewrite(&mut self, entries: &[Entry]) {
        if let Ok(file) = replace(&self.path, entries) {
            self.file = file;
        }
    }

    /// Makes the journal of this process as a keeper; locked while it lives. The keeper makes it,
    /// as a daemon that is killed before it has a keeper would leave it.
    pub fn of_keeper() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).ok()?;
        sys::try_lock(&file).ok().filter(|&locked| locked)?;
        Some(Self { path, file })
    }

    /// Ends the journal: everything is put back but for `failed`, which the next start tries again.
    /// The other lines are removed, because another program may have changed those settings by
    /// then.
    pub fn end(self, failed: &[Entry]) {
        // A journal that is missing was put back already. One that cannot be replaced stays whole.
        let _ = match failed {
            [] => fs::remove_file(&self.path),
            _ => replace(&self.path, failed).map(drop),
        };
    }
}

/// Writes a journal with these entries, and then puts it in the place of the one that is there. It
/// is locked before it is seen, because an unlocked journal belongs to a dead run.
fn replace(path: &Path, entries: &[Entry]) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!("{UNFINISHED}{name}"));
    let replaced = locked(&new, entries).and_then(|file| fs::rename(&new, path).map(|()| file));
    replaced.inspect_err(|_| {
        // No half of a journal stays where /run is full.
        let _ = fs::remove_file(&new);
    })
}

/// Writes and locks a new file with these entries.
fn locked(new: &Path, entries: &[Entry]) -> io::Result<File> {
    let lines: String = entries.iter().map(|entry| entry.line() + "\n").collect();
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(lines.as_bytes())?;
    if !sys::try_lock(&file)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(file)
}

/// Whether an open journal is the one at its path still. Its keeper may have removed or replaced it
/// before it was locked here.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => number(open) == number(there),
        _ => false,
    }
}

/// The journals of a directory, the first one first.
fn journals(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let whole = |e: &DirEntry| !e.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.flatten().filter(whole).map(|e| e.path()).collect();
    paths.sort_unstable();
    Ok(paths)
}

/// Result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Journals of dead runs that were put back.
    pub journals: usize,
    /// Number of entries in them.
    pub entries: usize,
    /// Number of these that could not be put back; they stay in their journals.
    pub failed: usize,
    /// Journals of runs that are still alive.
    pub in_use: usize,
}

/// Undoes the changes that dead runs left, the latest first.
///
/// Waits for the keepers of dead runs: until they have ended, the settings are not the machine's
/// own.
///
/// # Errors
/// The journals cannot be read, or such a keeper does not end.
pub fn restore() -> Result<Restored, LinuxError> {
    let (directory, since) = (Path::new(DIRECTORY), Instant::now());
    while let Some(journal) = under_way(directory) {
        if since.elapsed() > PATIENCE {
            return Err(LinuxError::Machine(format!(
                "the settings of an earlier solocore are still being put back ({}); end its keeper \
                    (`solocore keep-settings`), then `solocore restore`",
                journal.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    restore_from(directory)
}

/// A journal of a dead run whose keeper still works.
fn under_way(directory: &Path) -> Option<PathBuf> {
    let of_dead = |path: &PathBuf| {
        let starter = path.file_name()?.to_str()?.split('-').nth(1)?.parse().ok()?;
        Some(stopped::is_dead(starter))
    };
    let held =
        |path: &PathBuf| File::open(path).is_ok_and(|f| sys::try_lock(&f).is_ok_and(|free| !free));
    let all = journals(directory).unwrap_or_default();
    all.into_iter().filter(|path| of_dead(path) == Some(true)).find(held)
}

fn restore_from(directory: &Path) -> Result<Restored, LinuxError> {
    let fail =
        |e: io::Error| LinuxError::of_io(&directory.display().to_string(), &e, "run as root");
    let paths = match journals(directory) {
        Ok(paths) => paths,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(e) => return Err(fail(e)),
    };
    let mut restored = Restored::default();
    for path in paths.into_iter().rev() {
        let file = match File::open(&path) {
            Ok(file) => file,
            // Its keeper has put everything back already.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(fail(e)),
        };
        if !sys::try_lock(&file).map_err(fail)? {
            restored.in_use += 1;
            continue;
        }
        if !is_at(&file, &path) {
            restored.in_use += usize::from(path.exists());
            continue;
        }
        let entries = entries(BufReader::new(&file).lines().map_while(Result::ok));
        restored.journals += 1;
        restored.entries += entries.len();
        let failed = put_back(entries);
        restored.failed += failed.len();
        Journal { path, file }.end(&failed);
    }
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_a_dead_run_left_is_put_back_the_latest_first() {
        let dir = tempfile::tempdir().unwrap();
        let (journals, setting) = (dir.path().join("journals"), dir.path().join("setting"));
        fs::create_dir(&journals).unwrap();
        write(&setting, "3");
        // The first run found 1 and made it 2, the second made it 3. A withdrawn line does not
        // count, and half a line is ignored.
        let line = |old: &str| format!("{}\t{old}\n", setting.display());
        write(&journals.join("1-7-0"), &line("1"));
        write(&journals.join("2-8-0"), &format!("{}{}@forget\n/half", line("2"), line("9")));
        let restored = restore_from(&journals).unwrap();
        assert_eq!(restored, Restored { journals: 2, entries: 2, failed: 0, in_use: 0 });
        assert_eq!(fs::read_to_string(&setting).unwrap(), "1");
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
        assert_eq!(restore_from(&journals).unwrap(), Restored::default());
    }

    #[test]
    fn only_what_failed_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let (setting, stuck) = (dir.path().join("setting"), dir.path().join("stuck"));
        write(&setting, "2");
        fs::create_dir(&stuck).unwrap();
        let journals = dir.path().join("journals");
        fs::create_dir(&journals).unwrap();
        let journal = journals.join("1-7-0");
        let line = |path: &Path| format!("{}\t1\n", path.display());
        write(&journal, &(line(&setting) + &line(&stuck) + &line(&setting)));
        let one = Restored { journals: 1, entries: 3, failed: 1, in_use: 0 };
        assert_eq!(restore_from(&journals).unwrap(), one);
        assert_eq!(fs::read_to_string(&journal).unwrap(), line(&stuck));
        // Somebody wants another value meanwhile.
        write(&setting, "5");
        write(&journals.join(".2-8-0"), &line(&setting));
        assert_eq!(restore_from(&journals).unwrap(), Restored { entries: 1, ..one });
        assert_eq!(fs::read_to_string(&setting).unwrap(), "5");
        // It can be put back at last.
        fs::remove_dir(&stuck).unwrap();
        write(&stuck, "2");
        assert_eq!(restore_from(&journals).unwrap().failed, 0);
        assert_eq!(fs::read_to_string(&stuck).unwrap(), "1");
        assert!(!journal.exists());
    }

    #[test]
    fn a_journal_that_cannot_be_replaced_leaves_no_other() {
        let dir = tempfile::tempdir().unwrap();
        // No file takes the place of a directory.
        let path = dir.path().join("1-7-0");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, &[]).is_err());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [path]);
    }

    #[test]
    fn a_journal_that_is_written_anew_stays_locked_and_is_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-7-0");
        write(&path, "/a\t1\n/a\t1\n");
        let old = File::open(&path).unwrap();
        assert!(is_at(&old, &path));
        let mut of_daemon = Journal::open(path.clone()).unwrap();
        let mut of_keeper = Journal::open(path.clone()).unwrap();
        of_keeper.rewrite(&entries(["/a\t1".to_owned()].into_iter()));
        assert!(!is_at(&old, &path), "another file is there now");
        assert!(!sys::try_lock(&File::open(&path).unwrap()).unwrap(), "its keeper lives");
        of_daemon.reopen().unwrap();
        of_daemon.add("/b\t2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "/a\t1\n/b\t2\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(of_keeper);
        assert!(sys::try_lock(&File::open(&path).unwrap()).unwrap());
    }

    #[test]
    fn the_keeper_of_a_dead_run_is_waited_for_while_it_works() {
        let dir = tempfile::tempdir().unwrap();
        let held = |starter: u32| {
            let path = dir.path().join(format!("1-{starter}-0"));
            write(&path, "");
            let file = File::open(&path).unwrap();
            assert!(sys::try_lock(&file).unwrap());
            (path, file)
        };
        assert_eq!(under_way(&dir.path().join("none")), None);
        let _lives = held(std::process::id());
        assert_eq!(under_way(dir.path()), None, "its run goes on");
        let (path, keeper) = held(u32::MAX - 9);
        assert_eq!(under_way(dir.path()), Some(path));
        drop(keeper);
        assert_eq!(under_way(dir.path()), None, "its keeper has ended");
    }

    #[test]
    fn a_run_that_goes_on_is_left_alone_and_what_fails_stays() {
        let dir = tempfile::tempdir().unwrap();
        let setting = dir.path().join("setting");
        write(&setting, "2");
        let journals = dir.path().join("journals");
        fs::create_dir(&journals).unwrap();
        let (lives, fails) = (journals.join("1-7-0"), journals.join("2-8-0"));
        write(&lives, &format!("{}\t1\n", setting.display()));
        write(&fails, &format!("{}\tx\n", dir.path().display()));
        let keeper = File::open(&lives).unwrap();
        assert!(sys::try_lock(&keeper).unwrap());
        let restored = restore_from(&journals).unwrap();
        assert_eq!((restored.in_use, restored.failed), (1, 1));
        assert!(lives.exists() && fails.exists());
        assert_eq!(fs::read_to_string(&setting).unwrap(), "2");
        assert_eq!(restore_from(&dir.path().join("none")).unwrap(), Restored::default());
    }
}
