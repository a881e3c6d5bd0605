//! The directory of QEMU and kernels.
//!
//! Problem: two processes may fetch at once, and each may be killed half-way. Rule: the process
//! that fetches holds a lock. A package is unpacked beside its place and renamed, so that a
//! directory with the final name is complete. Partly fetched packages are kept, and the next fetch
//! resumes them.

use crate::error::BoardError;
use crate::watch::Watch;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory that is kept between runs.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

/// The exclusive right to fetch, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Cache {
    /// `SOLOCORE_BOARD_CACHE`, or `solocore/board` in the user's cache directory.
    ///
    /// # Errors
    /// [`BoardError::Machine`] where there is neither.
    pub fn find() -> Result<Self, BoardError> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = set("SOLOCORE_BOARD_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("solocore/board")))
            .or_else(|| set("HOME").map(|d| d.join(".cache/solocore/board")))
            .ok_or_else(|| {
                BoardError::Machine(
                    "there is no cache directory; set SOLOCORE_BOARD_CACHE".to_owned(),
                )
            })?;
        let root = std::path::absolute(&root).map_err(|e| BoardError::file(&root, "use", &e))?;
        Ok(Self { root })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A directory in it, made if necessary.
    pub fn directory(&self, name: &str) -> Result<PathBuf, BoardError> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).map_err(|e| BoardError::file(&path, "make", &e))?;
        Ok(path)
    }

    /// The names of the complete entries of a directory in it, sorted.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.retain(|n| !n.starts_with('.'));
        names.sort();
        names
    }

    /// Waits until no other process fetches.
    pub fn lock(&self, watch: &mut dyn Watch) -> Result<Lock, BoardError> {
        let path = self.directory("")?.join("lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|e| BoardError::file(&path, "open", &e))?;
        let mut said = false;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if watch.stopped() {
                return Err(BoardError::Interrupted);
            }
            if !said {
                watch.stage("waiting for another solocore that fetches");
                said = true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Lock { _file: file })
    }

    /// An empty directory beside the final places, removed when it is dropped. Directories that a
    /// killed process left are removed as well.
    pub fn scratch(&self, _lock: &Lock) -> Result<tempfile::TempDir, BoardError> {
        let home = self.directory("")?;
        for entry in std::fs::read_dir(&home).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        tempfile::Builder::new()
            .prefix(SCRATCH)
            .tempdir_in(&home)
            .map_err(|e| BoardError::file(&home, "write", &e))
    }

    /// Moves a finished directory to its final place.
    pub fn keep(&self, made: &Path, directory: &str, name: &str) -> Result<PathBuf, BoardError> {
        let place = self.directory(directory)?.join(name);
        std::fs::rename(made, &place).map_err(|e| BoardError::file(&place, "write", &e))?;
        Ok(place)
    }
}

const SCRATCH: &str = ".scratch-";
