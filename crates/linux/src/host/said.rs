//! Words to the user while settings are put back.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line on stderr. One that nobody reads any more (a closed terminal, a pipe to `tee` that
/// has ended) takes nothing: `eprintln!` would panic there, and the rest would not be put back.
pub(crate) fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "solocore: {line}");
}
