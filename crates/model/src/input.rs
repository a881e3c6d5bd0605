//! The texts of input files, read whole.
//!
//! Problem: the name of an input may be that of a device without an end, of a pipe that nobody
//! writes to, or of a file that holds no text. Rule: devices and what is longer than 1 GiB are
//! refused. Pipes and terminals are read in a thread of their own, so that [`stop_waiting`] ends
//! the wait for them. `-` is standard input. Does not cover: files on a disk that does not answer.

use crate::error::ModelError;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Bytes of the longest file that is read: a plan that carries its profiles has some hundred
/// megabytes.
const LONGEST: u64 = 1 << 30;
/// Time between two looks at [`STOPS`].
const LOOK: Duration = Duration::from_millis(50);

/// The text of standard input, which can be read only once.
static STDIN: OnceLock<String> = OnceLock::new();
/// Number of requests for the end of all waiting.
static STOPS: AtomicUsize = AtomicUsize::new(0);
/// An input or an output was given up for that reason.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Ends the wait for pipes and terminals, from now on; files are still read.
pub fn stop_waiting() {
    STOPS.fetch_add(1, Ordering::SeqCst);
}

/// Number of calls of [`stop_waiting`].
pub(crate) fn stops() -> usize {
    STOPS.load(Ordering::SeqCst)
}

/// Whether an input or an output was given up because of [`stop_waiting`]. An error may have other
/// words for it by the time that it is printed.
#[must_use]
pub fn gave_up() -> bool {
    GAVE_UP.load(Ordering::SeqCst)
}

/// Reads a file as text; `-` is standard input.
///
/// # Errors
/// [`ModelError::Read`] when it does not exist, may not be read, or was given up;
/// [`ModelError::Invalid`] when it is not UTF-8, a device, which may have no end, or longer than
/// 1 GiB.
pub fn read_text(path: &Path) -> Result<String, ModelError> {
    if source(path) == path {
        return read(path);
    }
    if let Some(text) = STDIN.get() {
        return Ok(text.clone());
    }
    let text = read(path)?;
    Ok(STDIN.get_or_init(|| text).clone())
}

fn read(path: &Path) -> Result<String, ModelError> {
    let kind = std::fs::metadata(source(path)).map_err(|e| unread(path, e))?.file_type();
    let bytes = if kind.is_file() || kind.is_dir() { bytes(path)? } else { waited_for(path)? };
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let message = format!(
            "byte {} of the file is not UTF-8 text; save it as UTF-8, or name another file",
            at + 1
        );
        ModelError::invalid_at(path, &String::from_utf8_lossy(e.as_bytes()), at, message)
    })
}

/// The file to open for the name of an input: `-` is standard input.
#[must_use]
pub fn source(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// The bytes of a file or stream.
fn bytes(path: &Path) -> Result<Vec<u8>, ModelError> {
    let refused = |message: &str| ModelError::Invalid {
        path: path.to_owned(),
        line: None,
        message: message.to_owned(),
    };
    let file = File::open(source(path)).map_err(|e| unread(path, e))?;
    let kind = file.metadata().map_err(|e| unread(path, e))?.file_type();
    let device = kind.is_block_device() || (kind.is_char_device() && !file.is_terminal());
    if device {
        return Err(refused("is a device; name a file"));
    }
    let mut bytes = Vec::new();
    // One byte more shows that the file is longer.
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| unread(path, e))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refused("is longer than 1 GiB; name a file of solocore"));
    }
    Ok(bytes)
}

/// As [`bytes`], of something that may never have any.
fn waited_for(path: &Path) -> Result<Vec<u8>, ModelError> {
    let from = path.to_owned();
    until_stopped(0, move || bytes(&from)).map_err(|e| unread(path, e))?
}

/// Does what may wait for the other end of a pipe for ever, in a thread of its own. It is given up
/// once there were more than `heeded` calls of [`stop_waiting`].
///
/// # Errors
/// `Interrupted` when it was given up; no thread can be started.
pub(crate) fn until_stopped<T: Send + 'static>(
    heeded: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (give, take) = sync_channel(1);
    // It is not joined: nothing ends its wait.
    std::thread::Builder::new().spawn(move || drop(give.send(work())))?;
    loop {
        match take.recv_timeout(LOOK) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) if stops() <= heeded => {}
            Err(_) => {
                GAVE_UP.store(true, Ordering::SeqCst);
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

/// A writer that gives up once [`stop_waiting`] was called after it was made.
pub(crate) struct UntilStopped<W> {
    /// The writer behind it.
    pub out: W,
    heeded: usize,
}

impl<W> UntilStopped<W> {
    pub fn new(out: W) -> Self {
        Self { out, heeded: stops() }
    }
}

impl<W: Write> Write for UntilStopped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if stops() > self.heeded {
            GAVE_UP.store(true, Ordering::SeqCst);
            // Callers repeat a write with the error `Interrupted`.
            return Err(io::Error::other("interrupted"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn unread(path: &Path, source: io::Error) -> ModelError {
    ModelError::Read { path: path.to_owned(), source }
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
    fn what_is_no_text_is_said_to_be_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"a = 1\nb = \xff\n").unwrap();
        let error = read_text(&file).unwrap_err().to_string();
        assert!(error.contains("file:2: byte 11 of the file is not UTF-8"), "{error}");
    }
}
