//! The clock of each core.

use super::Platform;
use crate::units::Frequency;

impl Platform {
    /// Clock of a core.
    pub fn clock_of(&self, core: u32) -> Frequency {
        self.type_of(core).map_or(self.frequency, |kind| kind.frequency)
    }

    /// Clock of its fastest core.
    pub fn fastest(&self) -> Frequency {
        self.core_types.iter().map(|kind| kind.frequency).max().unwrap_or(self.frequency)
    }

    /// Clock of each core, where they have types; empty otherwise.
    pub fn clocks(&self) -> Vec<Frequency> {
        let typed = if self.core_types.is_empty() { 0 } else { self.cores };
        (0..typed).map(|core| self.clock_of(core)).collect()
    }
}
