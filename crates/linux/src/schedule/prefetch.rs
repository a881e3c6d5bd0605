//! Locked pages of a partition, read when its window begins.
//!
//! Problem: a plan counts on hits in the locked pages of a partition as soon as its window begins,
//! and other partitions or programs may have pushed their lines out since its last window. Rule
//! (single-core-equivalence, sections 2.3 and 5): the keeper of windows reads the pages on the
//! window's core, before it lets the partition's jobs go on; the plan charges this time to each
//! window. A reader of locked pages leaves their addresses here ([`Pages`]), as it costs too much
//! time to look them up then. Where the pages have ways of their own, the keeper joins their group
//! for the reads, because a line goes into the ways of the thread that reads it. Does not cover: a
//! process that starts inside its window, which has no pages before; pages that a process has not
//! used yet.

use crate::sys::tasks;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

const PAGE: usize = 4096;

/// A process and the addresses of its locked pages that it has used.
type Used = (u32, Vec<u64>);

/// The locked pages of a task's present process.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<Option<Arc<Used>>>);

impl Pages {
    /// Notes the pages that a process has used.
    pub fn set(&self, process: u32, addresses: Vec<u64>) {
        let used = Some(Arc::new((process, addresses)));
        // The former ones are freed after the lock, which a keeper of windows may want.
        let _former = {
            let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, used)
        };
    }

    /// The pages; none in the moment in which others are noted: a keeper of windows never waits.
    fn get(&self) -> Option<Arc<Used>> {
        match self.0.try_lock() {
            Ok(now) => now.clone(),
            Err(TryLockError::Poisoned(now)) => now.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A task's locked pages, and the way into their part of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The pages.
    pub pages: Arc<Pages>,
    /// Files by which a thread joins the group with the ways of these pages, and the first group;
    /// `None`: the pages have colours of their own.
    pub group: Option<(PathBuf, PathBuf)>,
}

/// The locked pages of tasks in windows, by task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefetch(BTreeMap<String, Source>);

impl FromIterator<(String, Source)> for Prefetch {
    fn from_iter<I: IntoIterator<Item = (String, Source)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl Prefetch {
    /// Reads the pages of these tasks of one core on the CPU of the calling thread. Returns the
    /// number of pages that were read.
    pub fn read<'a>(&self, tasks: impl Iterator<Item = &'a str>) -> u64 {
        let sources: Vec<&Source> = tasks.filter_map(|task| self.0.get(task)).collect();
        let used: Vec<Arc<Used>> = sources.iter().filter_map(|s| s.pages.get()).collect();
        if used.is_empty() {
            return 0;
        }
        let group = sources.iter().find_map(|s| s.group.as_ref());
        if group.is_some_and(|(own, _)| join(own).is_err()) {
            return 0;
        }
        let read = used.iter().map(|used| read_pages(used.0, &used.1)).sum();
        // A thread that stayed would put its own lines there.
        if let Some((_, first)) = group {
            let _ = join(first);
        }
        read
    }
}

/// Reads pages of a process from outside; returns how many were there.
fn read_pages(process: u32, addresses: &[u64]) -> u64 {
    let mut page = [0u8; PAGE];
    let mut read = |&&address: &&u64| tasks::read_of(process, address, &mut page).is_ok();
    addresses.iter().filter(|address| read(address)).count() as u64
}

/// The calling thread joins a group of the hardware.
pub(super) fn join(tasks_file: &Path) -> io::Result<()> {
    std::fs::write(tasks_file, format!("{}\n", tasks::thread_number()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(group: Option<(PathBuf, PathBuf)>) -> Source {
        Source { pages: Arc::default(), group }
    }

    /// Fails when a page is not read, or one is counted that is not there.
    #[test]
    fn pages_of_a_process_are_read_and_absent_ones_are_not_counted() {
        let memory = vec![1u8; 3 * PAGE];
        let address = memory.as_ptr() as u64;
        let (own, other) = (source(None), source(None));
        let all: Prefetch =
            [("a".to_owned(), own.clone()), ("b".to_owned(), other.clone())].into_iter().collect();
        assert_eq!(all.read(["a", "b", "c"].into_iter()), 0, "no pages are known yet");
        own.pages.set(std::process::id(), vec![address, address + PAGE as u64, 0x10]);
        assert_eq!(all.read(["a", "b"].into_iter()), 2);
        other.pages.set(u32::MAX, vec![address]);
        assert_eq!(all.read(["b"].into_iter()), 0, "there is no such process");
        assert_eq!(all.read(["c"].into_iter()), 0);
        assert_eq!(memory[PAGE], 1);
    }

    /// Fails when lines go into other ways than those of the pages, or a thread stays in their
    /// group.
    #[test]
    fn ways_of_the_pages_are_those_of_the_reader_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let group = (place.path().join("own"), place.path().join("first"));
        let memory = [1u8; PAGE];
        let task = source(Some(group.clone()));
        task.pages.set(std::process::id(), vec![memory.as_ptr() as u64]);
        let all: Prefetch = [("a".to_owned(), task)].into_iter().collect();
        assert_eq!(all.read(["a"].into_iter()), 1);
        let me = format!("{}\n", tasks::thread_number());
        let said = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((said(&group.0), said(&group.1)), (me.clone(), me));
        let nowhere = place.path().join("no/group");
        let lost = source(Some((nowhere, group.1)));
        lost.pages.set(std::process::id(), vec![memory.as_ptr() as u64]);
        let all: Prefetch = [("a".to_owned(), lost)].into_iter().collect();
        assert_eq!(all.read(["a"].into_iter()), 0, "lines would go into the ways of others");
    }
}
