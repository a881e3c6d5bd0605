//! Entries that a keeper no longer needs.
//!
//! Problem: each attachment of a client and each widened affinity adds an entry, so that a program
//! that repeats them would make keeper and journal grow without limit. Rule: the daemon counts its
//! lines, and asks the keeper now and then to compact its entries (`keeper::COMPACT`). Of equal
//! entries the first stays, as it is undone last. Of the changes that led a thread to the same
//! state the latest stays; an earlier one stays, too, if the next change begins at that state, as
//! the way back passes it. A thread has [`STATES`] changes at most. One that has ended needs none:
//! nobody inherits from it. Does not cover: a thread that has had more than [`STATES`] states, and
//! its children. They are put back to the earliest state that is still known.

use super::entries::Entry;
use crate::host::threads::{ThreadChange, What};
use std::collections::{HashMap, HashSet};

/// Most changes of one thread.
const STATES: usize = 16;

/// The entries that are still needed, in their order.
pub(super) fn compacted(
    mut entries: Vec<Entry>,
    has_ended: impl Fn(&ThreadChange) -> bool,
) -> Vec<Entry> {
    let mut seen = HashSet::new();
    entries.retain(|entry| matches!(entry, Entry::Thread(_)) || seen.insert(entry.line()));
    let mut threads: HashMap<(u32, u64), Option<Vec<What>>> = HashMap::new();
    entries.reverse();
    entries.retain(|entry| match entry {
        Entry::Thread(change) => {
            let later = threads.entry((change.tid, change.start));
            is_needed(change, later.or_insert_with(|| (!has_ended(change)).then(Vec::new)))
        }
        _ => true,
    });
    entries.reverse();
    entries
}

/// Whether a change is needed beside the later ones of its thread; `None`: the thread has ended.
fn is_needed(change: &ThreadChange, later: &mut Option<Vec<What>>) -> bool {
    let Some(later) = later else { return false };
    // The last one of these is the next in time.
    let mut until_left = later.iter().rev().take_while(|what| !what.follows(&change.what));
    if later.len() >= STATES || until_left.any(|what| what.replaces(&change.what)) {
        return false;
    }
    later.push(change.what.clone());
    true
}

#[cfg(test)]
mod tests {
    use super::super::entries::entries;
    use super::*;

    fn compact(lines: &[String]) -> Vec<String> {
        let ended = |change: &ThreadChange| change.tid == 9;
        compacted(entries(lines.iter().cloned()), ended).iter().map(Entry::line).collect()
    }

    fn bound(tid: u32, old: &str, new: &str) -> String {
        format!("@thread\t{tid}\t1\tcpus\t{old}\t{new}")
    }

    #[test]
    fn a_loop_of_changes_leaves_one_and_a_dead_thread_none() {
        let mut lines = vec!["/a\t1".to_owned(), bound(7, "0-3", "2-3")];
        for _ in 0..1000 {
            lines.extend([bound(8, "0-3", "3"), bound(9, "0-3", "3")]);
            lines.extend(["/a\t2".to_owned(), "/a\t1".to_owned()]);
        }
        lines.push("@thread\t8\t1\tsched\t0\t0\t1\t89".to_owned());
        let left = [
            "/a\t1".to_owned(),
            bound(7, "0-3", "2-3"),
            "/a\t2".to_owned(),
            bound(8, "0-3", "3"),
            "@thread\t8\t1\tsched\t0\t0\t1\t89".to_owned(),
        ];
        assert_eq!(compact(&lines), left);
        assert_eq!(compact(&left), left, "nothing more goes");
    }

    #[test]
    fn the_way_back_stays() {
        // The latest change to a state says where to go from there, and a sight of it does not.
        let lines = [bound(7, "0-3", "2-3"), bound(7, "1-2", "2-3"), bound(7, "2-3", "2-3")];
        assert_eq!(compact(&lines), [bound(7, "1-2", "2-3"), bound(7, "2-3", "2-3")]);
        // Another state of the thread may be that of its children.
        let lines = [bound(7, "0-3", "2-3"), bound(7, "2-3", "3")];
        assert_eq!(compact(&lines), lines);
        // From CPU 3 by CPU 2 to CPU 3: without the first, the thread would stay on CPU 3.
        let lines = [bound(7, "0-3", "3"), bound(7, "3", "2"), bound(7, "2", "3")];
        assert_eq!(compact(&lines), lines);
        // A slot that is given and taken in a limited group.
        let lines = [bound(7, "0-3", "2-3"), bound(7, "2-3", "3"), bound(7, "2-3", "3")];
        assert_eq!(compact(&lines), lines[..2]);
    }

    #[test]
    fn a_thread_has_a_limit_of_states() {
        let lines: Vec<String> = (0..100).map(|cpu| bound(7, "0-200", &cpu.to_string())).collect();
        assert_eq!(compact(&lines), lines[100 - STATES..]);
    }
}
