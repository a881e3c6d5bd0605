//! Standard output, devices and pipes, which take bytes one after the other.
//!
//! Problem: nobody may read a pipe, or its reader may have stopped reading. Rule: each write is
//! made in a thread of its own, so that a call of `stop_waiting` ends the wait. A call from before
//! the write does not end it: a run that was asked to end still prints its summary. Does not cover:
//! files on a disk that does not answer.

use crate::input;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes to standard output.
///
/// # Errors
/// Those of the write, also that of a closed pipe; `Interrupted` when it was given up.
pub fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let bytes = bytes.to_vec();
    input::until_stopped(input::stops(), move || {
        let mut out = io::stdout().lock();
        out.write_all(&bytes).and_then(|()| out.flush())
    })?
}

/// Bytes of a long text that are written at once.
pub const PIECE: usize = 1 << 22;

/// Standard output for a long text, to be written in pieces of [`PIECE`] bytes.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match to_stdout(bytes) {
            Ok(()) => Ok(bytes.len()),
            // Callers repeat a write with the error `Interrupted`.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                Err(io::Error::other("interrupted"))
            }
            Err(e) => Err(e),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a device or a pipe for writing, once a pipe has a reader.
///
/// # Errors
/// As for [`to_stdout`].
pub fn open_stream(path: &Path) -> io::Result<File> {
    let path = path.to_owned();
    input::until_stopped(input::stops(), move || File::options().write(true).open(path))?
}

/// Writes to an open device or pipe.
///
/// # Errors
/// As for [`to_stdout`].
pub(crate) fn to_stream(mut stream: File, bytes: &[u8]) -> io::Result<()> {
    let bytes = bytes.to_vec();
    input::until_stopped(input::stops(), move || stream.write_all(&bytes))?
}
