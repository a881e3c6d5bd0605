//! Standard output: where all results go.

use crate::fail::{Failure, note_printed};
use solocore_model::files;
use std::io::Write;

/// Prints results, unless a file went to standard output (`-o -`); a closed pipe (`| head`) is no
/// error.
pub fn print(text: &str) -> Result<(), Failure> {
    if files::on_stdout() {
        return Ok(());
    }
    if !text.is_empty() {
        note_printed();
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Machine(format!(
            "standard output: cannot write: {e}; free some space or print elsewhere"
        ))),
        _ => Ok(()),
    }
}
