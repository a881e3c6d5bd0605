//! Programs of this machine that fetch and unpack: curl, xz, dpkg-deb.
//!
//! Rule: a helper is checked a few times a second, so that Ctrl-C ends it and progress shows. The
//! error for a missing helper names its package.

use crate::error::BoardError;
use crate::watch::Watch;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(30);

/// Runs a helper to its end. `look` is called meanwhile.
///
/// # Errors
/// [`BoardError::Machine`] when it is not installed or fails, with the last line that it wrote.
pub fn run(
    command: &mut Command,
    package: &str,
    watch: &mut dyn Watch,
    mut look: impl FnMut(&mut dyn Watch),
) -> Result<(), BoardError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child =
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|e| {
            match e.kind() {
                std::io::ErrorKind::NotFound => BoardError::Machine(format!(
                    "{name} is not installed; install it with: apt-get install {package}"
                )),
                _ => BoardError::Machine(format!(
                    "{name} does not start: {e}; check that it can be run"
                )),
            }
        })?;
    let failed = |e: std::io::Error| BoardError::Machine(format!("{name}: {e}; try again"));
    let status = loop {
        if watch.stopped() {
            // It may have ended by the same signal.
            let _ = child.kill();
            let _ = child.wait();
            return Err(BoardError::Interrupted);
        }
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        look(watch);
        std::thread::sleep(LOOK);
    };
    look(watch);
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    if let Some(mut errors) = child.stderr.take() {
        let _ = errors.read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
    if watch.stopped() {
        return Err(BoardError::Interrupted);
    }
    Err(BoardError::Machine(format!("{name} failed: {last}; try again")))
}
