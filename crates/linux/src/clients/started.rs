//! Jobs of programs that solocore starts itself: their begin and end are signalled by the daemon.
//!
//! Problem: dynamic budgets are in force while a job runs, and an unmodified program says nothing.
//! Rule: one run of a command is a job, so the thread that starts it and waits for its end writes
//! the page that a client would (client/c/solocore_page.h). A program that attaches as the task
//! signals in its place, for as long as it is attached.
//! Source: dynamic-budgeting, section IV.

use super::door::start_of;
use super::table::{Owner, Page, Scope, Table};
use crate::contract::sc_page;
use crate::error::LinuxError;
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

/// A task whose jobs solocore signals: its number, and its page.
pub(super) struct Own {
    pub task: u32,
    pub slot: u32,
}

/// Pages of tasks that solocore starts, the first ones.
pub(super) fn signals(
    table: &mut Table,
    started: &[String],
) -> Result<(Vec<Own>, JobSignals), LinuxError> {
    let (mut own, mut signals) = (Vec::new(), JobSignals::new());
    let number = std::process::id();
    for (slot, name) in (0u32..).zip(started) {
        let Some(task) = table.serving.tasks.iter().position(|t| t == name) else { continue };
        let task = u32::try_from(task).unwrap_or(u32::MAX);
        let started = start_of(number, number).unwrap_or(0);
        let scope = Scope::Thread;
        let owner = Owner { scope, number, started, endless: false, task: Some(task), slot: None };
        signals.insert(name.clone(), Arc::new(JobSignal::new(table.admit(slot, owner)?)));
        own.push(Own { task, slot });
    }
    Ok((own, signals))
}
