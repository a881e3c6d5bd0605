//! Reading whole files, and writing them completely or not at all.

pub use crate::input::{gave_up, read_text, source, stop_waiting};

use crate::error::ModelError;
use crate::input::UntilStopped;
use crate::output;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::Permissions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
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

/// Reads a JSON document.
///
/// # Errors
/// [`ModelError::Read`], or [`ModelError::Parse`] with the line and column.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    parse_json(path, &read_text(path)?)
}

/// Parses the text of a JSON document; `path` names it.
///
/// # Errors
/// [`ModelError::Parse`] with the line and column.
pub fn parse_json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ModelError> {
    serde_json::from_str(text).map_err(|e| ModelError::from_json(path, &e))
}

/// Writes bytes to a temporary file beside `path`, then renames it: a reader sees the old file or
/// the whole new one, and a full disk leaves nothing behind. A symbolic link stays, and the file
/// that it names is replaced. The file of the same owner keeps its permissions. The path `-` is
/// standard output.
///
/// # Errors
/// [`ModelError::Write`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    if path == Path::new(STDOUT) {
        return to_stdout(bytes).map_err(|e| unwritten(path, e));
    }
    if is_stream(path) {
        return to_stream(path, bytes).map_err(|e| unwritten(path, e));
    }
    let _writing = writing();
    replace(path, bytes)
}

/// Writes the bytes that `fill` writes, as [`write_atomically`] does: for texts that are too long
/// to be kept beside their value. A call of [`stop_waiting`] ends it, and nothing is left.
///
/// # Errors
/// [`ModelError::Write`].
pub fn write_in_pieces(
    path: &Path,
    fill: &dyn Fn(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), ModelError> {
    if path == Path::new(STDOUT) || is_stream(path) {
        let mut bytes = Vec::new();
        fill(&mut bytes).map_err(|e| unwritten(path, e))?;
        return write_atomically(path, &bytes);
    }
    let _writing = writing();
    let place = place_of(path)?;
    let file = UntilStopped::new(temporary(&place)?);
    let mut file = BufWriter::with_capacity(output::PIECE, file);
    fill(&mut file).map_err(|e| unwritten(path, e))?;
    let file = file.into_inner().map_err(|e| unwritten(path, e.into_error()))?.out;
    file.persist(&place).map_err(|e| unwritten(path, e.error))?;
    note(path);
    Ok(())
}

/// Is it a device or a pipe (`-o /dev/stdout`)? Nothing may be renamed over it.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.exists() && !path.is_file() && !path.is_dir()
}

/// The system's number for symbolic links that form a circle.
const ELOOP: i32 = 40;
/// The name that stands for standard output.
const STDOUT: &str = "-";
/// Was a file written there?
static ON_STDOUT: AtomicBool = AtomicBool::new(false);
/// The files that the user wants, as opposed to scratch files; and whether one was written.
static WANTED: OnceLock<Vec<PathBuf>> = OnceLock::new();
static WROTE_WANTED: AtomicBool = AtomicBool::new(false);

/// Names the files that the user wants, for [`wrote_wanted`]; the first call counts.
pub fn want(paths: Vec<PathBuf>) {
    let _ = WANTED.set(paths);
}

/// Has a file been written that the user wants, or one to standard output? Allocates nothing.
#[must_use]
pub fn wrote_wanted() -> bool {
    on_stdout() || WROTE_WANTED.load(Ordering::Relaxed)
}

/// Notes that a file has taken its place.
fn note(path: &Path) {
    if WANTED.get().is_some_and(|wanted| wanted.iter().any(|p| p == path)) {
        WROTE_WANTED.store(true, Ordering::Relaxed);
    }
}

/// Has a file been written to standard output (`-o -`)? No other output may go there then.
#[must_use]
pub fn on_stdout() -> bool {
    ON_STDOUT.load(Ordering::Relaxed)
}

/// The file is noted once a pipe has a reader.
fn to_stream(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let stream = output::open_stream(path)?;
    note(path);
    output::to_stream(stream, bytes)
}

/// A closed pipe (`| head`) is not an error.
fn to_stdout(bytes: &[u8]) -> std::io::Result<()> {
    ON_STDOUT.store(true, Ordering::Relaxed);
    match output::to_stdout(bytes) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    let place = place_of(path)?;
    staged(&place, bytes)?.persist(&place).map_err(|e| unwritten(path, e.error))?;
    note(path);
    Ok(())
}

/// The file that a write to `path` replaces: symbolic links are followed, also one whose file is
/// not there yet.
///
/// # Errors
/// [`ModelError::Write`]: links form a circle, or another user has put a link into a directory that
/// all may write to, where it may name any file.
pub fn place_of(path: &Path) -> Result<PathBuf, ModelError> {
    /// As many links as the kernel follows.
    const LINKS: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::symlink_metadata(&place) else { return Ok(place) };
        if !link.is_symlink() {
            return Ok(place);
        }
        let dir = parent_dir(&place).to_owned();
        if !is_trusted(link.uid(), &dir) {
            return Err(unwritten(path, std::io::ErrorKind::PermissionDenied.into()));
        }
        place = dir.join(std::fs::read_link(&place).map_err(|e| unwritten(path, e))?);
    }
    Err(unwritten(path, std::io::Error::from_raw_os_error(ELOOP)))
}

/// Whether a link of this owner may be followed in this directory: the kernel's rule of
/// `fs.protected_symlinks`, which a write by renaming would evade.
fn is_trusted(owner: u32, dir: &Path) -> bool {
    /// Mode of a directory in which all may write, and each may remove only what is theirs.
    const SHARED: u32 = 0o1002;
    let Ok(dir) = std::fs::metadata(dir) else { return false };
    let own = || std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == owner);
    dir.mode() & SHARED != SHARED || dir.uid() == owner || own()
}

/// Checks that a file can be written at `path` later, and changes nothing. A file without any right
/// to write is one that its owner protects.
///
/// # Errors
/// [`ModelError::Write`].
pub fn check_place(path: &Path) -> Result<(), ModelError> {
    if path == Path::new(STDOUT) || is_stream(path) {
        return Ok(());
    }
    let place = place_of(path)?;
    if place.is_dir() {
        return Err(unwritten(path, std::io::ErrorKind::IsADirectory.into()));
    }
    if std::fs::metadata(&place).is_ok_and(|found| found.permissions().readonly()) {
        return Err(unwritten(path, std::io::ErrorKind::PermissionDenied.into()));
    }
    tempfile::tempfile_in(parent_dir(&place)).map_err(|e| unwritten(path, e))?;
    Ok(())
}

/// Checks that files can be written into the directory `path` later, which may have to be made, and
/// changes nothing.
///
/// # Errors
/// [`ModelError::Write`].
pub fn check_directory(path: &Path) -> Result<(), ModelError> {
    let there = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let tried = if there.is_dir() {
        tempfile::tempfile_in(there).map(drop)
    } else {
        Err(std::io::ErrorKind::NotADirectory.into())
    };
    tried.map_err(|e| unwritten(path, e))
}

/// Writes several files, each as [`write_atomically`] does, all of them or none. Files that exist
/// already, and links, are replaced only where `overwrite` says so. Devices, pipes and standard
/// output, whose bytes nobody can take back, come last.
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
        let place = if overwrite { place_of(path)? } else { path.to_path_buf() };
        let (file, old) = (staged(&place, bytes)?, std::fs::read(&place).ok());
        ready.push((*path, place, file, old));
    }
    let mut done: Vec<(PathBuf, Option<Vec<u8>>)> = Vec::new();
    for (path, place, file, old) in ready {
        let moved = if overwrite { file.persist(&place) } else { file.persist_noclobber(&place) };
        if let Err(error) = moved {
            done.into_iter().for_each(|(place, old)| put_back(&place, old));
            return Err(unwritten(path, error.error));
        }
        done.push((place, old));
    }
    all.iter().for_each(|(path, _)| note(path));
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
    let mut file = temporary(path)?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(|e| unwritten(path, e))?;
    Ok(file)
}

/// An empty file beside `path`, which is to take its place when it is complete. It has the
/// permissions of the file there, if that has the same owner: a file that another user has put
/// there decides nothing.
///
/// # Errors
/// [`ModelError::Write`].
pub fn temporary(path: &Path) -> Result<NamedTempFile, ModelError> {
    if path.is_dir() {
        return Err(unwritten(path, std::io::ErrorKind::IsADirectory.into()));
    }
    let fail = |e| unwritten(path, e);
    let file = tempfile::Builder::new()
        .prefix(".solocore-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(parent_dir(path))
        .map_err(fail)?;
    let owner = file.as_file().metadata().map_err(fail)?.uid();
    let old =
        std::fs::symlink_metadata(path).ok().filter(|old| old.is_file() && old.uid() == owner);
    if let Some(old) = old {
        let same = Permissions::from_mode(old.mode() & 0o777);
        file.as_file().set_permissions(same).map_err(fail)?;
    }
    Ok(file)
}

/// The error of a file that cannot be written. Some errors carry the name of the temporary file,
/// which is of no use to the user.
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

/// Writes the JSON text of a value with a final newline: as [`to_json`], or else in one line.
///
/// # Errors
/// Those of the writer.
pub fn json_into<T: Serialize>(
    out: &mut dyn Write,
    value: &T,
    indented: bool,
) -> std::io::Result<()> {
    if indented {
        serde_json::to_writer_pretty(&mut *out, value)?;
    } else {
        serde_json::to_writer(&mut *out, value)?;
    }
    out.write_all(b"\n")
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
    fn a_device_among_files_stays_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let [file, device] = ["file", "device"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        write_together(&[(&device, b"text"), (&file, b"text")], true).unwrap();
        assert_eq!(std::fs::read_link(&device).unwrap(), Path::new("/dev/null"));
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions_and_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, new] = ["file", "link", "new"].map(|name| dir.path().join(name));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write_atomically(&link, b"one").unwrap();
        assert_eq!((std::fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"one"[..], 0o600));
        write_together(&[(&link, b"two")], true).unwrap();
        assert_eq!((std::fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"two"[..], 0o600));
        assert!(std::fs::read_link(&link).is_ok());
        std::fs::remove_file(&file).unwrap();
        write_atomically(&link, b"three").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"three", "the link named no file");
        std::os::unix::fs::symlink("new", &new).unwrap();
        assert!(write_atomically(&new, b"x").unwrap_err().to_string().contains("links"));
        assert!(write_together(&[(&link, b"x")], false).is_err(), "a link is there");
    }

    #[test]
    fn a_look_at_a_place_finds_faults_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("file"), "old").unwrap();
        std::fs::write(at("kept"), "old").unwrap();
        std::fs::set_permissions(at("kept"), Permissions::from_mode(0o444)).unwrap();
        for (place, good) in [
            ("file", true),
            ("new", true),
            ("folder", false),
            ("kept", false),
            ("none/new", false),
            ("file/new", false),
        ] {
            assert_eq!(check_place(&at(place)).is_ok(), good, "{place}");
        }
        for (place, good) in
            [("folder", true), ("none/new", true), ("file", false), ("file/x", false)]
        {
            assert_eq!(check_directory(&at(place)).is_ok(), good, "{place}");
        }
        for place in ["-", "/dev/null"] {
            check_place(Path::new(place)).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(std::fs::read(at("file")).unwrap(), b"old");
    }

    #[test]
    fn links_of_others_in_a_shared_directory_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::fs::metadata(dir.path()).unwrap().uid();
        let shared = |mode| std::fs::set_permissions(dir.path(), Permissions::from_mode(mode));
        shared(0o1777).unwrap();
        assert!(is_trusted(own, dir.path()) && !is_trusted(own + 1, dir.path()));
        shared(0o755).unwrap();
        assert!(is_trusted(own + 1, dir.path()));
    }

    #[test]
    fn pieces_are_the_whole_text_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let values: Vec<u32> = (0..200_000).collect();
        for indented in [true, false] {
            write_in_pieces(&path, &|out| json_into(out, &values, indented)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), if indented { values.len() + 2 } else { 1 });
            assert_eq!(parse_json::<Vec<u32>>(&path, &text).unwrap(), values);
            assert!(!indented || text == to_json(&values));
        }
        let old = std::fs::read(&path).unwrap();
        let broken = |out: &mut dyn Write| {
            out.write_all(b"a part")?;
            Err(std::io::Error::other("broken"))
        };
        assert!(write_in_pieces(&path, &broken).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), old);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing temporary is left");
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
