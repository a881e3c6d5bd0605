//! The state of a path, as recorded in a profile's list of inputs.
//!
//! Problem: the plugin takes the state of a file when the program first uses it, and a later
//! command checks whether it is unchanged. Rule: both use this module. It never blocks: only
//! regular files are opened. Not covered: times, owners and extended attributes.

use sha2::{Digest, Sha256};
use solocore_model::profile::FileState;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The content of a regular file; of anything else, its status.
#[must_use]
pub fn content(path: &Path) -> FileState {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => match digest(path) {
            Ok((size, sha256)) => FileState::File { size, sha256 },
            Err(e) => failed(&e),
        },
        Ok(meta) => status_of(&meta),
        Err(e) => failed(&e),
    }
}

/// Kind, size and permissions.
#[must_use]
pub fn status(path: &Path) -> FileState {
    fs::metadata(path).map_or_else(|e| failed(&e), |meta| status_of(&meta))
}

/// The names in a directory.
#[must_use]
pub fn entries(path: &Path) -> FileState {
    let list = || -> std::io::Result<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let letter = if kind.is_dir() { b'd' } else { u8::from(kind.is_file()) + b'0' };
            let mut line = vec![letter];
            line.extend_from_slice(entry.file_name().as_encoded_bytes());
            line.push(0);
            names.push(line);
        }
        names.sort_unstable();
        let mut hash = Sha256::new();
        names.iter().for_each(|line| hash.update(line));
        Ok(hex(&hash.finalize()))
    };
    list().map_or_else(|e| failed(&e), |sha256| FileState::Directory { sha256 })
}

/// Target of a symbolic link; of anything else, its status.
#[must_use]
pub fn link(path: &Path) -> FileState {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => {
            fs::read_link(path).map_or_else(|e| failed(&e), |target| FileState::Link { target })
        }
        Ok(meta) => status_of(&meta),
        Err(e) => failed(&e),
    }
}

/// The present state, found in the same way as `before`. If there was no entry, any entry is a
/// change.
#[must_use]
pub fn again(path: &Path, before: &FileState) -> FileState {
    match before {
        FileState::File { .. } | FileState::Refused => content(path),
        FileState::Directory { .. } => entries(path),
        FileState::Link { .. } => link(path),
        FileState::Absent | FileState::Status { .. } => status(path),
    }
}

/// SHA-256 of a file's content, in hexadecimal digits, and its size.
///
/// # Errors
/// When it cannot be read.
pub fn digest(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((size, hex(&hash.finalize()))),
            Ok(n) => {
                hash.update(&buffer[..n]);
                size += n as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn status_of(meta: &Metadata) -> FileState {
    let kind = if meta.is_file() {
        "file"
    } else if meta.is_dir() {
        "directory"
    } else {
        "other"
    };
    FileState::Status {
        kind: kind.to_owned(),
        size: meta.is_file().then_some(meta.len()),
        mode: meta.permissions().mode() & 0o7777,
    }
}

fn failed(error: &std::io::Error) -> FileState {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => FileState::Absent,
        _ => FileState::Refused,
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each change is seen by the function that found the state before it.
    #[test]
    fn changes_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("file"), dir.path().join("other"));
        fs::write(&file, "one").unwrap();
        let looks: [fn(&Path) -> FileState; 2] = [content, status];
        let [before, seen] = looks.map(|look| look(&file));
        let (listed, absent) = (entries(dir.path()), content(&other));
        assert_eq!(absent, FileState::Absent);
        assert_eq!(again(&file, &before), before);
        fs::write(&file, "two").unwrap();
        assert_ne!(again(&file, &before), before, "content");
        assert_eq!(again(&file, &seen), seen, "a status has no content");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_ne!(again(&file, &seen), seen, "permissions");
        assert_eq!(again(dir.path(), &listed), listed);
        std::os::unix::fs::symlink("file", &other).unwrap();
        assert_ne!(again(&other, &absent), absent, "it appeared");
        assert_ne!(again(dir.path(), &listed), listed, "a name more");
        let pointed = link(&other);
        assert_eq!(pointed, FileState::Link { target: "file".into() });
        fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink("gone", &other).unwrap();
        assert_ne!(again(&other, &pointed), pointed, "another target");
        assert_eq!(content(&other), FileState::Absent, "a link to nothing");
    }
}
