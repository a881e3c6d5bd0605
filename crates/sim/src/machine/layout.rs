//! Banks and colours of page frames.

use super::config::{MachineConfig, MachineError, config_error, sets};
use solocore_dram::AddressMap;

/// Banks and colour of each page frame.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) map: AddressMap,
    pub(super) page: u64,
    line: u64,
    pub(super) channel_banks: u32,
    banks: u32,
    pub(super) frames: u64,
    colours: u64,
    one_bank: bool,
}

impl Layout {
    /// Page frames of the memory.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Banks over all channels and ranks.
    #[must_use]
    pub fn banks(&self) -> u32 {
        self.banks
    }

    /// Page colours of the shared cache: pages of different colours share no set.
    #[must_use]
    pub fn colours(&self) -> u64 {
        self.colours
    }

    /// Does every page lie in one bank? If not, the address map interleaves channels, ranks or
    /// banks below the page, and banks cannot be given out by page.
    #[must_use]
    pub fn one_bank(&self) -> bool {
        self.one_bank
    }

    /// Bank of the first line of a frame: channel, rank, bank group, bank, from the top.
    #[must_use]
    pub fn bank(&self, frame: u64) -> u32 {
        self.bank_at(frame * self.page)
    }

    /// All banks of a frame, in order.
    #[must_use]
    pub fn banks_of(&self, frame: u64) -> Vec<u32> {
        let lines =
            (0..self.page / self.line).map(|i| self.bank_at(frame * self.page + i * self.line));
        let mut banks: Vec<u32> = lines.collect();
        banks.sort_unstable();
        banks.dedup();
        banks
    }

    /// Colour of a frame.
    #[must_use]
    pub fn colour(&self, frame: u64) -> u64 {
        frame % self.colours
    }

    fn bank_at(&self, address: u64) -> u32 {
        let place = self.map.place(address);
        place.channel * self.channel_banks + place.bank
    }
}

impl MachineConfig {
    /// Banks and colours of pages on this machine.
    ///
    /// # Errors
    /// When the memory's address map is impossible.
    pub fn layout(&self) -> Result<Layout, MachineError> {
        let o = &self.memory.organisation;
        let map = AddressMap::new(o, &self.memory.map)
            .map_err(|(key, message)| config_error("dram.memory", format!("{key}: {message}")))?;
        let lines = self.page / self.llc.line.0;
        let sets = sets(self.llc.size.0, self.llc.ways, self.llc.line.0)
            / u64::from(self.llc.slices.max(1));
        let mut layout = Layout {
            map,
            page: self.page,
            line: self.llc.line.0,
            channel_banks: o.channel_banks(),
            banks: o.channels * o.channel_banks(),
            frames: o.capacity() / self.page,
            colours: (sets / lines).max(1),
            one_bank: true,
        };
        // Place is linear in the address bits, so the result for the first page holds for every
        // page.
        layout.one_bank = layout.banks_of(0).len() == 1;
        Ok(layout)
    }
}
