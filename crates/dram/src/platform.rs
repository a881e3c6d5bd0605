//! The memory of a platform: the devices that `dram.memory` names, with the platform's channels,
//! ranks, banks, row and capacity put in.
//!
//! Problem: the simulator and the bounds must use the same memory. Rule: banks are given out by
//! page (PALLOC, SCE section 2.1), so where the memory's own order puts the channel below the
//! column, and there are several channels, the channel goes above it. A page then lies in one bank
//! of one channel. A memory file whose map has XOR functions is taken as it is. Not covered:
//! channels, ranks or banks that are not powers of two.

use crate::map::AddressMap;
use crate::spec::Spec;
use solocore_model::{ModelError, Platform};

/// Reasons for which a platform has no memory of this kind.
#[derive(Debug, thiserror::Error)]
pub enum OfPlatform {
    /// A value of the platform file is impossible here.
    #[error("{key}: {message}")]
    Key {
        /// The key.
        key: &'static str,
        /// The fault and its remedy.
        message: String,
    },
    /// The memory that `dram.memory` names is missing or impossible.
    #[error(transparent)]
    Memory(#[from] ModelError),
}

fn key_error(key: &'static str, message: impl Into<String>) -> OfPlatform {
    OfPlatform::Key { key, message: message.into() }
}

impl Spec {
    /// The memory of a platform.
    ///
    /// # Errors
    /// The key at fault; a platform without `dram.memory` has no memory at command level.
    pub fn of_platform(p: &Platform) -> Result<Self, OfPlatform> {
        let Some(name) = &p.dram.memory else {
            return Err(key_error(
                "dram.memory",
                format!(
                    "the platform `{}` names none; add one, for instance memory = \"ddr3-1333\"",
                    p.name
                ),
            ));
        };
        fit(Self::find(name)?, p)
    }

    /// Do all lines of a page lie in one bank, so that banks can be given out by page?
    pub fn one_bank_a_page(&self, page: u64) -> bool {
        let Ok(map) = AddressMap::new(&self.organisation, &self.map) else { return false };
        let bank = |address: u64| {
            let place = map.place(address);
            (place.channel, place.bank)
        };
        // Place is linear in the address bits, so the result for the first page holds for every
        // page.
        let line = self.organisation.line_bytes();
        (0..page / line.max(1)).all(|i| bank(i * line) == bank(0))
    }
}

impl Spec {
    /// For each bit of a bank's number, over all channels, the address bits whose parity it is: by
    /// their lowest bits, and those of the channel last. So banks that follow each other are of one
    /// channel, as far as it has them. Empty for a memory of one bank, or without a map.
    pub fn bank_functions(&self) -> Vec<u64> {
        let (o, none) = (&self.organisation, Vec::new());
        let Ok(map) = AddressMap::new(o, &self.map) else { return none };
        let bits = o.channel_banks().trailing_zeros();
        // Place is linear in the address bits.
        let number = |address: u64| {
            let place = map.place(address);
            u64::from(place.bank) | u64::from(place.channel) << bits
        };
        let all = bits + o.channels.trailing_zeros();
        let function = |bit: u32| {
            let uses = |at: &u32| number(1 << at) >> bit & 1 == 1;
            (0..48).filter(uses).fold(0u64, |mask, at| mask | 1 << at)
        };
        let mut functions: Vec<u64> = (0..all).map(function).collect();
        let (banks, channels) = functions.split_at_mut(bits as usize);
        for part in [banks, channels] {
            part.sort_unstable_by_key(|mask| mask.trailing_zeros());
        }
        functions
    }
}

fn fit(mut spec: Spec, p: &Platform) -> Result<Spec, OfPlatform> {
    let (d, o) = (&p.dram, &mut spec.organisation);
    for (key, value) in
        [("dram.channels", d.channels), ("dram.ranks", d.ranks), ("dram.banks", d.banks)]
    {
        if !value.is_power_of_two() {
            return Err(key_error(
                key,
                format!(
                    "{value}; the request-level memory takes powers of two, so choose one or use \
                        the fluid machine"
                ),
            ));
        }
    }
    o.channels = d.channels;
    o.ranks = d.ranks;
    o.bank_groups = o.bank_groups.min(d.banks);
    o.banks = d.banks / o.bank_groups;
    let device_bytes = u64::from(o.bus_bits / 8);
    o.columns = u32::try_from(d.row.0 / device_bytes).map_err(|_| {
        key_error("dram.row", format!("{}; give a row of at most 16384 columns", d.row))
    })?;
    let row_set = u64::from(o.channels) * u64::from(o.channel_banks()) * d.row.0;
    let rows = d.capacity.0 / row_set;
    if !rows.is_power_of_two() || rows * row_set != d.capacity.0 {
        return Err(key_error(
            "dram.capacity",
            format!(
                "{} over channels, ranks, banks and row is not a power-of-two number of rows; \
                    correct one",
                d.capacity
            ),
        ));
    }
    o.rows = u32::try_from(rows)
        .map_err(|_| key_error("dram.capacity", format!("{rows} rows; at most 2^20")))?;
    if o.line_bytes() < p.llc.line.0 {
        return Err(key_error(
            "llc.line",
            format!(
                "{} is more than the {} bytes of a burst of dram.memory",
                p.llc.line,
                o.line_bytes()
            ),
        ));
    }
    let m = &mut spec.map;
    let plain = [&m.row, &m.bank, &m.bank_group, &m.rank, &m.column, &m.channel]
        .iter()
        .all(|f| f.is_empty());
    let place = |m: &[String], name: &str| m.iter().position(|f| f == name);
    if plain
        && d.channels > 1
        && let (Some(channel), Some(column)) =
            (place(&m.order, "channel"), place(&m.order, "column"))
        && channel > column
    {
        let field = m.order.remove(channel);
        m.order.insert(column, field);
    }
    spec.check().map_err(|(key, message)| key_error("dram.memory", format!("{key}: {message}")))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_tell_banks_as_the_map_does() {
        let mut tried = 0;
        for name in ["core-i5-2500k", "imx6q", "xeon-gold-6338", "xeon-w3530"] {
            let platform = Platform::find(name, std::path::Path::new(".")).expect("a preset");
            let Ok(spec) = Spec::of_platform(&platform) else { continue };
            let functions = spec.bank_functions();
            assert_eq!(1 << functions.len(), platform.total_banks(), "{name}");
            let map = AddressMap::new(&spec.organisation, &spec.map).expect("checked");
            let of = |address: u64| {
                let bit = |(i, m): (usize, &u64)| u64::from((address & m).count_ones() & 1) << i;
                functions.iter().enumerate().map(bit).sum::<u64>()
            };
            let mut banks = std::collections::BTreeMap::new();
            for n in 0..4096u64 {
                // Spread over the memory: multiples of a large odd number.
                let address =
                    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % spec.organisation.capacity()) & !63;
                let place = map.place(address);
                let place = (place.channel, place.bank);
                assert_eq!(*banks.entry(of(address)).or_insert(place), place, "{name} {address:x}");
            }
            assert_eq!(banks.len(), platform.total_banks() as usize, "{name}: all were met");
            tried += 1;
        }
        assert!(tried > 1);
        // Its channel is chosen by the lowest of these bits.
        let board = Platform::find("p4080", std::path::Path::new(".")).expect("a preset");
        let functions = Spec::of_platform(&board).expect("a memory").bank_functions();
        assert_eq!(functions, [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 13]);
        let board = Platform::find("core-i5-2500k", std::path::Path::new(".")).expect("a preset");
        let spec = Spec::of_platform(&board).expect("a memory");
        assert_eq!(spec.bank_functions(), [1 << 13, 1 << 14, 1 << 15, 1 << 16]);
    }
}
