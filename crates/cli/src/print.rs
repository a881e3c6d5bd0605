//! Standard output: where all results go.

use crate::fail::{Failure, note_printed};
use serde::Serialize;
use solocore_model::{files, output};
use std::io::{BufWriter, Write};

/// Prints results, unless a file went to standard output (`-o -`); a closed pipe (`| head`) is not
/// an error.
pub fn print(text: &str) -> Result<(), Failure> {
    if files::on_stdout() {
        return Ok(());
    }
    print_if_read(text).map(drop)
}

/// As [`print`], of the JSON text of a value, which may be long: as `files::to_json` has it, or
/// else in one line.
pub fn print_json<T: Serialize>(value: &T, indented: bool) -> Result<(), Failure> {
    if files::on_stdout() {
        return Ok(());
    }
    note_printed();
    let mut out = BufWriter::with_capacity(output::PIECE, output::Stdout);
    let done = files::json_into(&mut out, value, indented).and_then(|()| out.flush());
    // What is left after a fault must not be written again.
    drop(out.into_parts());
    was_read(done).map(drop)
}

/// As [`print`]; false if the pipe is closed: nothing else would end a command that prints until it
/// is told to stop.
pub fn print_if_read(text: &str) -> Result<bool, Failure> {
    if !text.is_empty() {
        note_printed();
    }
    was_read(output::to_stdout(text.as_bytes()))
}

fn was_read(written: std::io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::Machine(format!(
            "standard output: cannot write: {e}; free some space or print elsewhere"
        ))),
    }
}
