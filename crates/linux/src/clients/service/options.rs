//! Options of a service: its socket, its users and its tasks.

use crate::clients::silent::SilentTask;
use crate::clients::slots::SlotTable;
use crate::regulate::lock::Serving;
use std::path::{Path, PathBuf};

/// Options that the user chooses.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Path of the socket of clients.
    pub socket: PathBuf,
    /// Group whose members are allowed, beside root; empty: root only.
    pub group: String,
    /// The transfers of the time table.
    pub slots: SlotTable,
    /// Unmodified tasks, for which solocore signals.
    pub silent: Vec<SilentTask>,
}

impl ServiceOptions {
    /// Options for a group.
    pub fn new(socket: &Path, group: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            group: group.to_owned(),
            slots: SlotTable::default(),
            silent: Vec::new(),
        }
    }

    /// The same options, with the transfers of a time table.
    #[must_use]
    pub fn with_slots(self, slots: &SlotTable) -> Self {
        Self { slots: slots.clone(), ..self }
    }

    /// The same options, with tasks for which solocore signals.
    #[must_use]
    pub fn with_silent(self, silent: Vec<SilentTask>) -> Self {
        Self { silent, ..self }
    }

    /// The clients to serve, if there are any: those of the policy and of the table's transfers.
    pub(crate) fn serving(&self, policy: Option<&Serving>) -> Option<Serving> {
        policy.cloned().or_else(|| (!self.slots.slots.is_empty()).then(Serving::of_slots))
    }
}
