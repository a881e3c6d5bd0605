//! All threads of a process, also those that begin while the others are looked at.
//!
//! Problem: a process may start a thread between the listing of its threads and the change of the
//! last one, and that thread would stay as it was. Rule: the threads are listed again until no
//! new one is found, [`PASSES`] times at most. From then on, new ones inherit the change. A thread
//! that has ended meanwhile is left out, except the first one of its process.

use super::threads::{self, Thread, start_of};
use std::collections::BTreeSet;
use std::path::Path;

/// Most listings, one after the other.
const PASSES: u32 = 8;

/// Does something with each thread of a process.
///
/// # Errors
/// The first refusal for a thread that lives.
pub(crate) fn each_thread<E>(
    pid: u32,
    each: impl FnMut(&Thread) -> Result<(), E>,
) -> Result<(), E> {
    each_of(|| threads::all(Path::new("/proc"), Some(pid)), each)
}

fn each_of<E>(
    mut list: impl FnMut() -> Vec<Thread>,
    mut each: impl FnMut(&Thread) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = BTreeSet::new();
    for _ in 0..PASSES {
        let mut new = list();
        new.retain(|thread| done.insert((thread.tid, thread.start)));
        if new.is_empty() {
            break;
        }
        for thread in new {
            let lives = || start_of(thread.tgid, thread.tid) == Some(thread.start);
            match each(&thread) {
                Err(refused) if thread.tid == thread.tgid || lives() => return Err(refused),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, start: u64) -> Thread {
        Thread { tid, tgid: 7, parent: 1, start, kernel: false }
    }

    #[test]
    fn threads_that_begin_meanwhile_are_found_once_each() {
        let mut seen = Vec::new();
        let mut listed = 0;
        let list = || {
            listed += 1;
            // Two more each time, three times; then another thread has the number of the first.
            let mut all: Vec<Thread> = (0..listed.min(3) * 2).map(|n| thread(10 + n, 1)).collect();
            all.extend((listed > 3).then(|| thread(10, 2)));
            all
        };
        each_of(list, |t| {
            seen.push((t.tid, t.start));
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(seen, [(10, 1), (11, 1), (12, 1), (13, 1), (14, 1), (15, 1), (10, 2)]);
    }

    #[test]
    fn a_process_that_always_starts_threads_ends_the_search() {
        let mut listed = 0;
        let list = || {
            listed += 1;
            vec![thread(100 + listed, 1)]
        };
        assert_eq!(each_of(list, |_| Ok::<(), ()>(())), Ok(()));
        assert_eq!(listed, PASSES);
    }

    #[test]
    fn a_thread_that_has_ended_is_no_refusal() {
        let dead = Thread { tgid: u32::MAX - 9, ..thread(u32::MAX - 8, 1) };
        let mut tried = 0;
        let done = each_of(
            || vec![dead.clone()],
            |_| {
                tried += 1;
                Err("refused")
            },
        );
        assert_eq!((done, tried), (Ok(()), 1));
        let first = Thread { tid: dead.tgid, ..dead };
        assert_eq!(each_of(|| vec![first.clone()], |_| Err("refused")), Err("refused"));
        let me = std::process::id();
        assert_eq!(each_thread(me, |t| if t.tid == me { Err(t.tid) } else { Ok(()) }), Err(me));
    }
}
