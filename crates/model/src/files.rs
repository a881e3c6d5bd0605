//! Reading whole files and writing them all or not at all.

use crate::error::ModelError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;

/// Reads a file as text.
///
/// # Errors
/// [`ModelError::Read`] when it does not exist, may not be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ModelError> {
    std::fs::read_to_string(path)
        .map_err(|source| ModelError::Read { path: path.to_owned(), source })
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
/// the whole new one, and a full disk leaves nothing behind.
///
/// # Errors
/// [`ModelError::Write`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    // Some errors carry the name of the temporary file, which tells the user nothing.
    let fail = |source: std::io::Error| {
        let source = if source.raw_os_error().is_some() { source } else { source.kind().into() };
        ModelError::Write { path: path.to_owned(), source }
    };
    // A device or a pipe (`-o /dev/stdout`) cannot be renamed over.
    if path.exists() && !path.is_file() && !path.is_dir() {
        return std::fs::write(path, bytes).map_err(fail);
    }
    if path.is_dir() {
        return Err(fail(std::io::ErrorKind::IsADirectory.into()));
    }
    let dir = parent_dir(path);
    let mut file = tempfile::Builder::new()
        .prefix(".solocore-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(dir)
        .map_err(fail)?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    Ok(())
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

/// The directory a path lies in; `.` for a bare file name.
pub fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
