//! Standard output: where all results go.

use crate::fail::{Failure, note_printed};
use solocore_model::{files, output};

/// Prints results, unless a file went to standard output (`-o -`); a closed pipe (`| head`) is not
/// an error.
pub fn print(text: &str) -> Result<(), Failure> {
    if files::on_stdout() {
        return Ok(());
    }
    print_if_read(text).map(drop)
}

/// As [`print`]; false if the pipe is closed: nothing else would end a command that prints until it
/// is told to stop.
pub fn print_if_read(text: &str) -> Result<bool, Failure> {
    if !text.is_empty() {
        note_printed();
    }
    match output::to_stdout(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::Machine(format!(
            "standard output: cannot write: {e}; free some space or print elsewhere"
        ))),
    }
}
