//! Whom a service serves, and where.

use crate::clients::SlotTable;
use crate::regulate::lock::Serving;
use std::path::{Path, PathBuf};

/// What the user chooses.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Where clients connect.
    pub socket: PathBuf,
    /// Whose members may, beside root; empty: nobody else.
    pub group: String,
    /// The transfers of the time table.
    pub slots: SlotTable,
    /// Tasks that solocore starts, whose jobs it signals where somebody must.
    pub started: Vec<String>,
}

impl ServiceOptions {
    /// For a group.
    pub fn new(socket: &Path, group: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            group: group.to_owned(),
            slots: SlotTable::default(),
            started: Vec::new(),
        }
    }

    /// The same, and the transfers of a time table.
    #[must_use]
    pub fn with_slots(self, slots: &SlotTable) -> Self {
        Self { slots: slots.clone(), ..self }
    }

    /// Whom to serve, if anybody: the policy's clients, the table's transfers.
    pub(crate) fn serving(&self, policy: Option<&Serving>) -> Option<Serving> {
        policy.cloned().or_else(|| (!self.slots.slots.is_empty()).then(Serving::of_slots))
    }
}
