//! Jobs of programs that solocore starts itself: their begin and end are signalled by the daemon.
//!
//! Problem: dynamic budgets are in force while a job runs, and an unmodified program says nothing.
//! Rule: one run of a command is a job, so the thread that starts it and waits for its end writes
//! the page that a client would (client/c/solocore_page.h). A program that attaches as the task
//! signals in its place, for as long as it is attached.
//! Source: dynamic-budgeting, section IV.

use super::table::Page;
use crate::contract::sc_page;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromZeros;

/// JobSignals of tasks, by name.
pub(crate) type JobSignals = BTreeMap<String, Arc<JobSignal>>;

/// A task's page, written here.
pub(crate) struct JobSignal {
    page: Page,
    begun: AtomicU64,
}

impl JobSignal {
    pub(super) fn new(page: Page) -> Self {
        Self { page, begun: AtomicU64::new(0) }
    }

    /// A job begins. The kernel refuses no write to a page that it gave out.
    pub fn begin(&self) {
        let jobs = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = self.page.fill(&sc_page { jobs: jobs << 1 | 1, ..sc_page::new_zeroed() });
    }

    /// It has ended.
    pub fn end(&self) {
        let jobs = self.begun.load(Ordering::SeqCst);
        let _ = self.page.fill(&sc_page { jobs: jobs << 1, ..sc_page::new_zeroed() });
    }
}
