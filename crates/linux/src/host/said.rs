//! Words to the user on stderr, and those that wait for it.

use std::fmt::Display;
use std::io::Write;

/// Maximum number of messages that wait.
const WAITING: usize = 200;
/// What the reader learns of those that found no place.
const LOST: &str = "more messages came than can wait; these are lost";

/// Says a line on stderr. One that nobody reads any more (a closed terminal, a pipe to `tee` that
/// has ended) takes nothing: `eprintln!` would panic there, and the run, or the way back of the
/// settings, would end.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Leaves messages with those that wait to be taken. Once its regulation has failed, a run that
/// goes on for its program takes none, and they would fill the memory. So those that find no place
/// are lost, and one message says that there were some.
pub(crate) fn leave(waiting: &mut Vec<String>, new: Vec<String>) {
    let room = WAITING.saturating_sub(waiting.len());
    let first_lost = new.len() > room && waiting.len() <= WAITING;
    waiting.extend(new.into_iter().take(room));
    if first_lost {
        waiting.push(LOST.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails where messages that nobody takes grow without an end, or some are lost without a word.
    #[test]
    fn messages_that_nobody_takes_are_few() {
        let mut waiting = Vec::new();
        for number in 0..1000 {
            leave(&mut waiting, vec![number.to_string(); 3]);
        }
        assert_eq!((waiting.len(), waiting[199].as_str()), (WAITING + 1, "66"));
        assert_eq!(waiting[WAITING], LOST);
        waiting.clear();
        leave(&mut waiting, vec!["new".to_owned()]);
        assert_eq!(waiting, ["new"]);
    }
}
