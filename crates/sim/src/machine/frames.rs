//! Page frames by their place in DRAM.
//!
//! Rule: bank and row of an address are linear in its bits over GF(2), also where the map has XOR
//! functions. So the frames of a bank and row are one solution plus every combination of the frame
//! bits that change neither; elimination finds both.

use super::Layout;

impl Layout {
    /// Bank and row of a frame's first line, as one number.
    fn spot(&self, frame: u64) -> u64 {
        let place = self.map.place(frame * self.page);
        u64::from(place.channel * self.channel_banks + place.bank) << 32 | u64::from(place.row)
    }

    /// Row of the first line of a frame.
    #[must_use]
    pub fn row(&self, frame: u64) -> u32 {
        self.map.place(frame * self.page).row
    }

    /// Rows of each bank.
    #[must_use]
    pub fn rows(&self) -> u32 {
        let bits = (0..self.frames.trailing_zeros()).map(|bit| self.row(1 << bit));
        bits.fold(0, |all, row| all | row) + 1
    }

    /// The frames that begin in this bank and row, in order; empty where there is no such row.
    #[must_use]
    pub fn frames_of(&self, bank: u32, row: u32) -> Vec<u64> {
        let wanted = u64::from(bank) << 32 | u64::from(row);
        // Each pair: a spot with a leading bit of its own, and the frame bits that reach it.
        let mut basis: Vec<(u64, u64)> = Vec::new();
        let mut free = Vec::new();
        let reduced = |basis: &[(u64, u64)], mut spot: u64, mut frame: u64| {
            for &(s, f) in basis {
                if spot ^ s < spot {
                    (spot, frame) = (spot ^ s, frame ^ f);
                }
            }
            (spot, frame)
        };
        for bit in 0..self.frames.trailing_zeros() {
            match reduced(&basis, self.spot(1 << bit), 1 << bit) {
                (0, frame) => free.push(frame),
                pair => {
                    basis.push(pair);
                    basis.sort_unstable_by_key(|&(spot, _)| std::cmp::Reverse(spot));
                }
            }
        }
        let (0, first) = reduced(&basis, wanted, 0) else { return Vec::new() };
        let combination = |n: u64| {
            let chosen = free.iter().enumerate().filter(|(i, _)| n >> i & 1 == 1);
            chosen.fold(first, |frame, (_, &bits)| frame ^ bits)
        };
        let mut frames: Vec<u64> = (0..1 << free.len()).map(combination).collect();
        frames.sort_unstable();
        frames
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::MachineConfig;
    use solocore_model::Platform;
    use std::path::Path;

    #[test]
    fn frames_of_a_row_are_those_that_lie_there() {
        for (name, _) in solocore_model::platform::PRESETS {
            let p = Platform::find(name, Path::new(".")).unwrap();
            let mut config = MachineConfig::of(&p, 1).unwrap();
            for order in [None, Some(["bank", "bank_group", "rank", "row", "column", "channel"])] {
                if let Some(order) = order {
                    config.memory.map.order = order.map(str::to_owned).to_vec();
                }
                let layout = config.layout().unwrap();
                if !layout.one_bank() {
                    continue;
                }
                let each = u64::from(layout.banks()) * u64::from(layout.rows());
                for (bank, row) in [(0, 0), (layout.banks() - 1, 5), (1, layout.rows() - 1)] {
                    let frames = layout.frames_of(bank, row);
                    assert_eq!(frames.len() as u64 * each, layout.frames(), "{name}");
                    assert!(
                        frames.iter().all(|&f| layout.bank(f) == bank && layout.row(f) == row),
                        "{name}"
                    );
                }
                assert_eq!(layout.frames_of(0, layout.rows()), Vec::<u64>::new(), "{name}");
                assert_eq!(layout.frames_of(layout.banks(), 0), Vec::<u64>::new(), "{name}");
            }
        }
    }
}
