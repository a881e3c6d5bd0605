//! Unmodified programs: solocore writes their pages for them.
//!
//! Problem: dynamic budgets are in force while a job runs, and the bandwidth lock while a program
//! holds it; an unmodified program signals neither. Rule: solocore owns its page. Where one run of
//! a command is a job, the thread that starts it and waits for its end writes the page as a client
//! would (client/c/solocore_page.h); else probes do (`functions`). A program that attaches as the
//! task signals by itself, for as long as it is attached.
//! Source: dynamic-budgeting, section IV; bwlock, section 4.2.

use super::table::{self, Owner, Page, Scope, Table};
use crate::contract::sc_page;
use crate::error::LinuxError;
use crate::host::threads::start_of;
use libbpf_rs::MapHandle;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromZeros;

/// A task for which solocore signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentTask {
    /// Name of the task.
    pub name: String,
    /// Whether it holds the lock; else its jobs are signalled.
    pub locks: bool,
    /// Whether it does so all the time that it runs, and not only in calls of its functions.
    pub holds: bool,
}

/// Pages of tasks, by name.
pub(crate) type OwnPages = BTreeMap<String, Arc<OwnPage>>;

/// A task's page that solocore writes.
pub(crate) struct OwnPage {
    page: Page,
    begun: AtomicU64,
    /// The word of its sections: one that never ends, or none.
    sections: u64,
    /// Map of the regulating programs that names the page's owner, and the page's slot.
    programs: Option<(MapHandle, u32)>,
}

impl OwnPage {
    fn new(page: Page) -> Self {
        Self { page, begun: AtomicU64::new(0), sections: 0, programs: None }
    }

    /// A page whose owner is in a section all the time. It counts only while the owner runs.
    fn holding(page: Page) -> Result<Self, LinuxError> {
        let held = Self { sections: 1 << 32 | 1, ..Self::new(page) };
        held.page.fill(&held.with_jobs(0))?;
        Ok(held)
    }

    fn with_jobs(&self, jobs: u64) -> sc_page {
        sc_page { jobs, sections: self.sections, ..sc_page::new_zeroed() }
    }

    /// A page that no regulating program reads: it serves statistics of jobs.
    pub fn unread() -> Result<Self, LinuxError> {
        Page::new().map(Self::new)
    }

    /// Begins a job. The kernel accepts every write to a page that it allocated.
    pub fn begin(&self) {
        let jobs = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = self.page.fill(&self.with_jobs(jobs << 1 | 1));
    }

    /// Ends the job.
    pub fn end(&self) {
        let jobs = self.begun.load(Ordering::SeqCst);
        let _ = self.page.fill(&self.with_jobs(jobs << 1));
    }

    /// Descriptor of the page, for the probes that write it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.page.descriptor()
    }

    /// Sets the owner: a process and its descendants, or the processes that a thread starts.
    /// `whose` is its number and its start time, in hundredths of a second since boot.
    pub fn belongs_to(&self, whose: (u32, u64)) -> Result<(), LinuxError> {
        match &self.programs {
            Some((programs, slot)) => table::own(programs, *slot, whose),
            None => Ok(()),
        }
    }
}

/// A task for which solocore signals: its number, if it has jobs, and the slot of its page.
pub(super) struct Own {
    pub task: Option<u32>,
    pub slot: u32,
}

/// Puts the pages of such tasks into the first slots.
pub(super) fn pages(
    table: &mut Table,
    silent: &[SilentTask],
) -> Result<(Vec<Own>, OwnPages), LinuxError> {
    let (mut own, mut pages) = (Vec::new(), OwnPages::new());
    for (slot, silent) in (0u32..).zip(silent) {
        let (task, page) = if silent.locks {
            let (page, programs) = table.admit_program(slot, silent.holds)?;
            let page = if silent.holds { OwnPage::holding(page)? } else { OwnPage::new(page) };
            (None, OwnPage { programs: Some((programs, slot)), ..page })
        } else {
            let Some(task) = table.serving.tasks.iter().position(|t| *t == silent.name) else {
                continue;
            };
            let task = u32::try_from(task).unwrap_or(u32::MAX);
            let page = Page::new()?;
            table.admit(slot, of_solocore(task), &page)?;
            (Some(task), OwnPage::new(page))
        };
        pages.insert(silent.name.clone(), Arc::new(page));
        own.push(Own { task, slot });
    }
    Ok((own, pages))
}

/// The page of a task's jobs is found by the number of the task. Its owner as a client is this
/// process.
fn of_solocore(task: u32) -> Owner {
    let number = std::process::id();
    let started = start_of(number, number).unwrap_or(0);
    let scope = Scope::Thread;
    Owner { scope, number, started, endless: false, task: Some(task), slot: None }
}
