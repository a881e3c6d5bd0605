//! A task's locked pages in frames of colours that no other page gets.
//!
//! Problem: a bound counts on hits in these pages, so a process in which some of them lie elsewhere
//! breaks the promise. Rule: at the end of each process that has them, the library in it has put each page into its
//! frame, and those that the process has not freed are verified (`solocore_space::locked`). While a process goes on, it may not have
//! used all pages yet. Then a page in a frame of another colour counts if there is one twice in a
//! row, and so does a page that the process will never have. So a process that never ends is judged
//! as well. At each look the pages that the process has used are read from outside, so that their
//! lines come back that other programs have pushed out. Source: single-core-equivalence, section
//! 2.3. Does not cover: processes that are killed before they have used all of their pages.

use super::prefetch::Pages;
use crate::sys::tasks;
use solocore_model::run::RunLocked;
use solocore_space::locked::Found;
use std::sync::Arc;

const PAGE: usize = 4096;

/// Observations of a task's locked pages.
#[derive(Debug, Default)]
pub(super) struct Lockdown {
    run: RunLocked,
    spent_ns: u64,
    /// Pages that the process has used.
    used: Arc<Pages>,
    last: Option<u32>,
    /// The process had a page elsewhere at the last look.
    misplaced: bool,
    /// The process that had no place for a page at the last look.
    lacking: Option<u32>,
    /// A process has ended: the counts are those at its end.
    ended: bool,
}

impl Lockdown {
    /// Of a task with this number of locked pages in these colours, first and count.
    pub fn new(task: &str, pages: u64, colours: (u32, u32)) -> Self {
        let (task, colours) = (task.to_owned(), Some(colours));
        Self { run: RunLocked { task, pages, colours, ..RunLocked::default() }, ..Self::default() }
    }

    /// Counts so far.
    pub fn run(&self) -> RunLocked {
        self.run.clone()
    }

    /// The pages for the begins of windows.
    pub fn used(&self) -> Arc<Pages> {
        Arc::clone(&self.used)
    }

    /// A process is about to end.
    pub fn ended(&mut self, found: &Found) {
        self.count(found);
        self.ended = true;
        self.run.moved = found.moved;
        let (pid, planned, verified) = (found.pid, found.planned, found.verified);
        let (known, used) = (found.found, found.present.len() as u64);
        // The program may have freed some: these were in their frames for as long as it had them.
        let placed = found.moved.unwrap_or(verified);
        if placed < planned {
            self.fault(format!(
                "{placed} of {planned} locked pages were put into their colours by the end of \
                    process {pid} ({known} found, {used} used); profile the program again as it \
                    runs here"
            ));
        } else if verified < used {
            self.fault(format!(
                "{verified} of {used} locked pages were in their colours when process {pid} ended; \
                    set vm.compaction_proactiveness=0"
            ));
        }
        if found.strays > 0 {
            let strays = found.strays;
            self.fault(format!(
                "{strays} other pages of process {pid} were in the colours of locked pages; set \
                    vm.compaction_proactiveness=0"
            ));
        }
    }

    /// A process goes on. One that has used none of the pages yet, or is being killed, has none.
    pub fn look(&mut self, found: &Found) {
        self.look_for_places(found);
        if found.present.is_empty() {
            return;
        }
        let same = self.last == Some(found.pid);
        if self.ended {
            self.meet(found.pid);
        } else {
            self.count(found);
        }
        let elsewhere = (found.present.len() as u64).saturating_sub(found.verified);
        if elsewhere > 0 && same && self.misplaced {
            let pid = found.pid;
            self.fault(format!(
                "{elsewhere} locked pages of process {pid} were in frames of other colours; set \
                    vm.compaction_proactiveness=0"
            ));
        }
        self.misplaced = elsewhere > 0;
        self.used.set(found.pid, found.present.clone());
        read(found.pid, &found.present, &mut self.run, &mut self.spent_ns);
    }

    /// A shell that becomes the program has no place for its pages either, but soon the program
    /// has.
    fn look_for_places(&mut self, found: &Found) {
        let (pid, planned, lost) = (found.pid, found.planned, found.lost);
        let lacking = (lost > 0).then_some(pid);
        if lacking.is_some() && self.lacking == lacking {
            self.fault(format!(
                "{lost} of {planned} locked pages have no place in process {pid}; profile the program \
                    again as it runs here"
            ));
        }
        self.lacking = lacking;
    }

    fn count(&mut self, found: &Found) {
        self.meet(found.pid);
        self.run.found = found.found;
        self.run.present = found.present.len() as u64;
        self.run.verified = Some(found.verified);
    }

    fn meet(&mut self, pid: u32) {
        self.run.processes += u64::from(self.last.replace(pid) != Some(pid));
    }

    /// The first reason stays.
    fn fault(&mut self, why: String) {
        self.run.fault.get_or_insert(why);
    }
}

/// Reads pages of a process from outside, line by line, so that their lines are in the shared
/// cache.
pub(super) fn read(pid: u32, addresses: &[u64], run: &mut RunLocked, spent_ns: &mut u64) {
    let mut page = [0u8; PAGE];
    for &address in addresses {
        let begun = tasks::monotonic_ns();
        if tasks::read_of(pid, address, &mut page).is_ok() {
            run.reads += 1;
            *spent_ns += tasks::monotonic_ns().saturating_sub(begun);
        }
    }
    run.mean_read_ns = *spent_ns / run.reads.max(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that does not exist: none of its pages can be read.
    fn found(verified: u64, used: u64) -> Found {
        let present = (0..used).map(|n| 0x1000 * n).collect();
        Found { pid: u32::MAX, planned: 4, found: 4, present, verified, ..Found::default() }
    }

    #[test]
    fn fewer_pages_than_planned_at_an_end_are_a_fault() {
        let mut lockdown = Lockdown::new("t", 4, (14, 2));
        lockdown.look(&found(2, 2));
        lockdown.ended(&Found { moved: Some(4), ..found(4, 4) });
        let run = lockdown.run();
        assert_eq!((run.pages, run.found, run.present, run.processes), (4, 4, 4, 1));
        assert_eq!((run.moved, run.verified, run.colours), (Some(4), Some(4), Some((14, 2))));
        assert_eq!((run.fault, run.reads), (None, 0));
        lockdown.look(&Found { pid: u32::MAX - 1, ..found(1, 1) });
        let run = lockdown.run();
        assert_eq!((run.verified, run.processes), (Some(4), 2), "counts are those of an end");
        let mut crowded = Lockdown::new("t", 4, (14, 2));
        crowded.ended(&Found { strays: 5, ..found(4, 4) });
        assert!(crowded.run().fault.unwrap().starts_with("5 other pages of process"));
        lockdown.ended(&Found { moved: Some(4), ..found(1, 1) });
        assert_eq!(lockdown.run().fault, None, "it has freed three");
        let mut elsewhere = Lockdown::new("t", 4, (14, 2));
        elsewhere.ended(&Found { moved: Some(4), ..found(2, 3) });
        assert!(elsewhere.run().fault.unwrap().starts_with("2 of 3 locked pages were in"));
        lockdown.ended(&found(3, 3));
        let why = lockdown.run().fault.unwrap();
        assert!(why.starts_with("3 of 4 locked pages") && why.contains("4 found, 3 used"), "{why}");
        lockdown.ended(&found(0, 0));
        assert_eq!(lockdown.run().fault, Some(why), "the first reason stays");
    }

    #[test]
    fn a_page_on_its_way_is_no_fault_and_one_that_stays_elsewhere_is() {
        let mut lockdown = Lockdown::new("t", 4, (14, 2));
        lockdown.look(&found(1, 2));
        lockdown.look(&found(2, 2));
        lockdown.look(&found(2, 3));
        assert_eq!(lockdown.run().fault, None);
        lockdown.look(&Found { pid: u32::MAX - 1, ..found(2, 3) });
        assert_eq!(lockdown.run().fault, None, "another process");
        lockdown.look(&Found { pid: u32::MAX - 1, ..found(3, 4) });
        let why = lockdown.run().fault.unwrap();
        assert!(why.contains("1 locked pages of process") && why.contains("compaction"), "{why}");
    }

    /// A program that goes on from job to job is killed as the run ends.
    #[test]
    fn pages_that_a_process_will_never_have_are_a_fault_before_its_end() {
        let mut lockdown = Lockdown::new("t", 4, (14, 2));
        let lost = || Found { found: 3, lost: 1, ..found(0, 0) };
        lockdown.look(&lost());
        lockdown.look(&found(2, 2));
        lockdown.look(&lost());
        lockdown.look(&Found { pid: u32::MAX - 1, ..lost() });
        assert_eq!(lockdown.run().fault, None, "a shell that becomes the program; another process");
        lockdown.look(&Found { pid: u32::MAX - 1, ..lost() });
        let why = lockdown.run().fault.unwrap();
        assert!(why.starts_with("1 of 4 locked pages have no place in process"), "{why}");
    }
}
