//! Reading whole files, and writing them completely or not at all.

use crate::error::ModelError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Held while a file takes its place.
static WRITES: Mutex<()> = Mutex::new(());

/// Keeps files from being written while it is held; `None`: a file is being written. For a thread
/// that ends the process.
pub fn without_writes() -> Option<MutexGuard<'static, ()>> {
    WRITES.try_lock().ok()
}

/// Held by a writer; a panic of another does not matter.
fn writing() -> MutexGuard<'static, ()> {
    WRITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the longest file that is read: a plan that carries its profiles has some hundred
/// megabytes.
const LONGEST: u64 = 1 << 30;

/// Reads a file as text.
///
/// # Errors
/// [`ModelError::Read`] when it does not exist, may not be read, or is not UTF-8;
/// [`ModelError::Invalid`] when it is a device, which may have no end, or longer than 1 GiB.
pub fn read_text(path: &Path) -> Result<String, ModelError> {
    let unread = |source| ModelError::Read { path: path.to_owned(), source };
    let refused = |message: &str| ModelError::Invalid {
        path: path.to_owned(),
        line: None,
        message: message.to_owned(),
    };
    let file = std::fs::File::open(path).map_err(unread)?;
    let kind = file.metadata().map_err(unread)?.file_type();
    let device = kind.is_block_device() || (kind.is_char_device() && !file.is_terminal());
    if device {
        return Err(refused("is a device; name a file"));
    }
    let mut text = String::new();
    // One byte more shows that the file is longer.
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > LONGEST {
        return Err(refused("is longer than 1 GiB; name a file of solocore"));
    }
    Ok(text)
}

/// Reads a JSON document.
///
/// # Errors
/// [`ModelError::Read`], or [`ModelError::Parse`] with the line and column.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| ModelError::from_json(path, &e))
}

/// Writes bytes to a temporary file beside `path`, then renames it: a reader sees the old file or
/// the whole new one, and a full disk leaves nothing behind. The path `-` is standard output.
///
/// # Errors
/// [`ModelError::Write`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    if path == Path::new(STDOUT) {
        return to_stdout(bytes).map_err(|e| unwritten(path, e));
    }
    if is_stream(path) {
        return std::fs::write(path, bytes).map_err(|e| unwritten(path, e));
    }
    let _writing = writing();
    replace(path, bytes)
}

/// Is it a device or a pipe (`-o /dev/stdout`)? Nothing may be renamed over it.
fn is_stream(path: &Path) -> bool {
    path.exists() && !path.is_file() && !path.is_dir()
}

/// The name that stands for standard output.
const STDOUT: &str = "-";
/// Was a file written there?
static ON_STDOUT: AtomicBool = AtomicBool::new(false);

/// Has a file been written to standard output (`-o -`)? No other output may go there then.
#[must_use]
pub fn on_stdout() -> bool {
    ON_STDOUT.load(Ordering::Relaxed)
}

/// A closed pipe (`| head`) is no error.
fn to_stdout(bytes: &[u8]) -> std::io::Result<()> {
    ON_STDOUT.store(true, Ordering::Relaxed);
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    staged(path, bytes)?.persist(path).map_err(|e| unwritten(path, e.error))?;
    Ok(())
}

/// Writes several files, each as [`write_atomically`] does, all of them or none. Files that exist
/// already are replaced only where `overwrite` says so. Devices, pipes and standard output, whose
/// bytes nobody can take back, come last.
///
/// # Errors
/// [`ModelError::Write`] with the file that failed; the others are then as they were.
pub fn write_together(all: &[(&Path, &[u8])], overwrite: bool) -> Result<(), ModelError> {
    let (streams, files): (Vec<_>, Vec<_>) =
        all.iter().partition(|(path, _)| *path == Path::new(STDOUT) || is_stream(path));
    replace_all(&files, overwrite)?;
    streams.into_iter().try_for_each(|(path, bytes)| write_atomically(path, bytes))
}

fn replace_all(all: &[&(&Path, &[u8])], overwrite: bool) -> Result<(), ModelError> {
    let _writing = writing();
    let mut ready = Vec::new();
    for (path, bytes) in all {
        ready.push((*path, staged(path, bytes)?, std::fs::read(path).ok()));
    }
    let mut done: Vec<(&Path, Option<Vec<u8>>)> = Vec::new();
    for (path, file, old) in ready {
        let moved = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
        if let Err(error) = moved {
            done.into_iter().for_each(|(path, old)| put_back(path, old));
            return Err(unwritten(path, error.error));
        }
        done.push((path, old));
    }
    Ok(())
}

/// Faults in putting a file back are not reported: the first error is.
fn put_back(path: &Path, old: Option<Vec<u8>>) {
    match old {
        Some(bytes) => drop(replace(path, &bytes)),
        None => drop(std::fs::remove_file(path)),
    }
}

/// The bytes in a temporary file beside `path`.
fn staged(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, ModelError> {
    if path.is_dir() {
        return Err(unwritten(path, std::io::ErrorKind::IsADirectory.into()));
    }
    let mut file = tempfile::Builder::new()
        .prefix(".solocore-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(parent_dir(path))
        .map_err(|e| unwritten(path, e))?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(|e| unwritten(path, e))?;
    Ok(file)
}

/// The error of a file that cannot be written. Some errors carry the name of the temporary file, which
/// is of no use to the user.
pub fn unwritten(path: &Path, source: std::io::Error) -> ModelError {
    let source = match (source.kind(), source.raw_os_error()) {
        (kind @ std::io::ErrorKind::NotFound, _) => {
            std::io::Error::new(kind, "its directory does not exist")
        }
        (_, Some(_)) => source,
        (kind, None) => kind.into(),
    };
    ModelError::Write { path: path.to_owned(), source }
}

/// Writes a value as indented JSON with a final newline, all or nothing.
///
/// # Errors
/// [`ModelError::Write`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ModelError> {
    write_atomically(path, to_json(value).as_bytes())
}

/// The JSON text of a value, indented, with a final newline.
///
/// # Panics
/// Never for the types of this crate: their maps have string keys.
pub fn to_json<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("types here always serialise");
    text.push('\n');
    text
}

/// The directory of a path; `.` for a bare file name.
pub fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_not_read() {
        for device in ["/dev/zero", "/dev/urandom", "/dev/null"] {
            let error = read_text(Path::new(device)).unwrap_err().to_string();
            assert_eq!(error, format!("{device}: is a device; name a file"));
        }
    }

    #[test]
    fn a_device_among_files_stays_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let [file, device] = ["file", "device"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        write_together(&[(&device, b"text"), (&file, b"text")], true).unwrap();
        assert_eq!(std::fs::read_link(&device).unwrap(), Path::new("/dev/null"));
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }

    #[test]
    fn files_are_written_together_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let both = |text: &'static [u8], replace| {
            write_together(&[(&a, text), (&b, text)], replace).is_ok()
        };
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        std::fs::write(&b, "old").unwrap();
        assert!(!both(b"new", false), "b exists");
        assert_eq!((read(&a), read(&b).as_deref()), (None, Some("old")));
        assert!(both(b"new", true));
        assert_eq!((read(&a).as_deref(), read(&b).as_deref()), (Some("new"), Some("new")));
        std::fs::remove_file(&a).unwrap();
        std::fs::create_dir(dir.path().join("c")).unwrap();
        let c = dir.path().join("c");
        assert!(write_together(&[(&a, b"x"), (&c, b"x")], true).is_err(), "c is a directory");
        assert_eq!(read(&a), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing temporary is left");
    }
}
