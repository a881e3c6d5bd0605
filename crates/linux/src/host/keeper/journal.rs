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

use super::entries::{entries, put_back};
use crate::error::LinuxError;
use crate::host::stopped;
use crate::sys;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Environment variable with the path of the keeper's journal.
pub(super) const VARIABLE: &str = "SOLOCORE_JOURNAL";
/// Directory of the journals.
const DIRECTORY: &str = "/run/solocore-journal";
/// Longest wait for the keepers of runs that were killed just now.
const PATIENCE: Duration = Duration::from_secs(10);

/// A journal that is written, or that the keeper holds.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// The path of a new journal, in its directory. Its name contains its time, so that the latest can be
/// put back first.
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

    /// Makes the journal of this process as a keeper; locked while it lives. The keeper makes it, as a
    /// daemon that is killed before it has a keeper would leave it.
    pub fn of_keeper() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).ok()?;
        sys::try_lock(&file).ok().filter(|&locked| locked)?;
        Some(Self { path, file })
    }

    /// Removes the journal: everything is put back.
    pub fn end(self) {
        // A journal that is missing was put back already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Journals of dead runs that were put back.
    pub journals: usize,
    /// Number of entries in them.
    pub entries: usize,
    /// Number of these that could not be put back; their journals stay.
    pub failed: usize,
    /// Journals of runs that are still alive.
    pub in_use: usize,
}

/// Undoes the changes that dead runs left, the latest first.
///
/// Waits for the keepers of dead runs: until they have ended, the settings are not the machine's own.
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
    let all = fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path());
    all.filter(|path| of_dead(path) == Some(true)).find(held)
}

fn restore_from(directory: &Path) -> Result<Restored, LinuxError> {
    let fail =
        |e: io::Error| LinuxError::of_io(&directory.display().to_string(), &e, "run as root");
    let mut paths: Vec<PathBuf> = match fs::read_dir(directory) {
        Ok(all) => all.flatten().map(|e| e.path()).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(e) => return Err(fail(e)),
    };
    paths.sort_unstable();
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
        let entries = entries(BufReader::new(&file).lines().map_while(Result::ok));
        restored.journals += 1;
        restored.entries += entries.len();
        let failed = put_back(entries);
        restored.failed += failed;
        if failed == 0 {
            Journal { path, file }.end();
        }
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
