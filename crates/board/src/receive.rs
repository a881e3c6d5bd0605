//! Files that the guest wrote to /out, taken to a directory of the host.
//!
//! Rule: a file gets its name once it is complete. A path of the guest that leads out of the
//! directory is refused.

use crate::error::BoardError;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use tempfile::NamedTempFile;

/// Files that the guest sends.
#[derive(Debug)]
pub struct Files {
    directory: Option<PathBuf>,
    open: Option<(NamedTempFile, PathBuf, u64)>,
}

impl Files {
    /// Files for a directory; without a directory they are dropped.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, open: None }
    }

    /// Begins a file.
    pub fn begin(&mut self, path: &Path, mode: u32, size: u64) -> Result<(), BoardError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        if path.as_os_str().is_empty()
            || !path.components().all(|c| matches!(c, Component::Normal(_)))
        {
            return Err(BoardError::Machine(format!(
                "the guest sent a file with an impossible name: {}; run it again",
                path.display()
            )));
        }
        let place = directory.join(path);
        let fail = |e: std::io::Error| BoardError::file(&place, "write", &e);
        let parent = solocore_model::files::parent_dir(&place);
        std::fs::create_dir_all(parent).map_err(fail)?;
        let permissions = std::fs::Permissions::from_mode(mode & 0o777 | 0o600);
        let file = tempfile::Builder::new()
            .prefix(".solocore-")
            .permissions(permissions)
            .tempfile_in(parent)
            .map_err(fail)?;
        self.open = Some((file, place, size));
        self.data(&[])
    }

    /// Adds bytes to the file.
    pub fn data(&mut self, bytes: &[u8]) -> Result<(), BoardError> {
        let Some((mut file, place, left)) = self.open.take() else { return Ok(()) };
        file.write_all(bytes).map_err(|e| BoardError::file(&place, "write", &e))?;
        let left = left.saturating_sub(bytes.len() as u64);
        if left == 0 {
            file.persist(&place).map_err(|e| BoardError::file(&place, "write", &e.error))?;
        } else {
            self.open = Some((file, place, left));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut files = Files::new(Some(directory.path().join("new")));
        files.begin(Path::new("a/b"), 0o755, 5).expect("begun");
        files.data(b"123").expect("written");
        let place = directory.path().join("new/a/b");
        assert!(!place.exists());
        files.data(b"45").expect("written");
        assert_eq!(std::fs::read(&place).expect("there"), b"12345");
        files.begin(Path::new("empty"), 0o600, 0).expect("begun");
        assert!(directory.path().join("new/empty").exists());
    }

    #[test]
    fn no_file_leaves_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut files = Files::new(Some(directory.path().to_owned()));
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(files.begin(Path::new(path), 0o600, 0).is_err(), "{path}");
        }
    }
}
