//! Words to the user on stderr, and those that wait for it.

use std::fmt::Display;
use std::io::Write;

/// Maximum number of messages that wait.
const WAITING: usize = 200;

/// Says a line on stderr. One that nobody reads any more (a closed terminal, a pipe to `tee` that
/// has ended) takes nothing: `eprintln!` would panic there, and the run, or the way back of the
/// settings, would end.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Leaves messages with those that wait to be taken. Too many are lost: once its regulation has
/// failed, a run that goes on for its program takes none, and they would fill the memory.
pub(crate) fn leave(waiting: &mut Vec<String>, new: Vec<String>) {
    let room = WAITING.saturating_sub(waiting.len());
    waiting.extend(new.into_iter().take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails where messages that nobody takes grow without an end.
    #[test]
    fn messages_that_nobody_takes_are_few() {
        let mut waiting = Vec::new();
        for number in 0..1000 {
            leave(&mut waiting, vec![number.to_string(); 3]);
        }
        assert_eq!((waiting.len(), waiting[199].as_str()), (200, "66"));
        waiting.clear();
        leave(&mut waiting, vec!["new".to_owned()]);
        assert_eq!(waiting, ["new"]);
    }
}
