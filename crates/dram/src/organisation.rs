//! The parts of a memory, from channels to columns.

use serde::Deserialize;

/// Sizes of the memory's parts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Organisation {
    /// Independent channels.
    pub channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Bank groups of a rank; 1 where the standard has none.
    pub bank_groups: u32,
    /// Banks of a bank group.
    pub banks: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Columns of a row, of one device.
    pub columns: u32,
    /// Width of a channel's data bus.
    pub bus_bits: u32,
    /// Transfers of one column command, two a clock cycle.
    pub burst: u32,
}

impl Organisation {
    /// Bytes that one column command moves.
    pub fn line_bytes(&self) -> u64 {
        u64::from(self.bus_bits / 8) * u64::from(self.burst)
    }

    /// Lines of a row.
    pub fn lines_per_row(&self) -> u32 {
        self.columns / self.burst
    }

    /// Bank groups of a channel, over its ranks.
    pub fn channel_groups(&self) -> u32 {
        self.ranks * self.bank_groups
    }

    /// Banks of a rank.
    pub fn rank_banks(&self) -> u32 {
        self.bank_groups * self.banks
    }

    /// Banks of a channel, over its ranks.
    pub fn channel_banks(&self) -> u32 {
        self.ranks * self.rank_banks()
    }

    /// Bytes of the whole memory.
    pub fn capacity(&self) -> u64 {
        let lines = u64::from(self.rows) * u64::from(self.lines_per_row());
        u64::from(self.channels) * u64::from(self.channel_banks()) * lines * self.line_bytes()
    }
}
