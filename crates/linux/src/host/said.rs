//! Words to the user on stderr.

use std::fmt::Display;
use std::io::Write;

/// Says a line on stderr. One that nobody reads any more (a closed terminal, a pipe to `tee` that
/// has ended) takes nothing: `eprintln!` would panic there, and the run, or the way back of the
/// settings, would end.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
