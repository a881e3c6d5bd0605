//! Whom a service serves, and where.

use crate::clients::SlotTable;
use crate::regulate::lock::Serving;
use std::path::{Path, PathBuf};

/// A task in whose place solocore signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentTask {
    /// Its name.
    pub name: String,
    /// Calls of its functions hold the lock; else its jobs are signalled.
    pub locks: bool,
}

/// What the user chooses.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Where clients connect.
    pub socket: PathBuf,
    /// The group of users who may, beside root; empty: nobody else.
    pub group: String,
    /// The transfers of the time table.
    pub slots: SlotTable,
    /// Tasks that say nothing, and in whose place solocore signals.
    pub silent: Vec<SilentTask>,
}

impl ServiceOptions {
    /// For a group.
    pub fn new(socket: &Path, group: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            group: group.to_owned(),
            slots: SlotTable::default(),
            silent: Vec::new(),
        }
    }

    /// The same, and the transfers of a time table.
    #[must_use]
    pub fn with_slots(self, slots: &SlotTable) -> Self {
        Self { slots: slots.clone(), ..self }
    }

    /// The same, and tasks in whose place solocore signals.
    #[must_use]
    pub fn with_silent(self, silent: Vec<SilentTask>) -> Self {
        Self { silent, ..self }
    }

    /// Whom to serve, if anybody: the policy's clients, the table's transfers.
    pub(crate) fn serving(&self, policy: Option<&Serving>) -> Option<Serving> {
        policy.cloned().or_else(|| (!self.slots.slots.is_empty()).then(Serving::of_slots))
    }
}
