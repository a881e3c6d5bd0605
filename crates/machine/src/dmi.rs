//! The memory modules that the firmware lists in its SMBIOS table.
//!
//! Problem: the table is the firmware's, and firmware errs: lengths, strings and speeds may be
//! anything. Rule: a structure ends after its formatted area and its strings, even if it claims
//! otherwise; fields beyond a structure's length do not exist. A module counts if it has a size and
//! its array is the system's memory. Source: DMTF DSP0134 (SMBIOS 3.7), sections 6.1.2 and 6.1.3
//! (structures and strings), 7.17 (type 16, Physical Memory Array), 7.18 (type 17, Memory Device).
//! Does not cover: the entry point's address and checksum: the kernel shows the table it points to.

/// Its path.
pub const PATH: &str = "sys/firmware/dmi/tables/DMI";

/// A populated slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its place: device locator and bank locator.
    pub place: [String; 2],
    /// Like `DDR4`; `None`: the firmware says unknown, or a type that is not DRAM.
    pub kind: Option<&'static str>,
    /// Bytes.
    pub size: u64,
    /// Millions of transfers a second as configured, or else at most.
    pub speed: Option<u64>,
    /// Ranks.
    pub ranks: Option<u32>,
}

/// A structure: its type, formatted area and strings.
struct Structure<'a> {
    kind: u8,
    formatted: &'a [u8],
    strings: Vec<&'a [u8]>,
}

impl Structure<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.formatted.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u64> {
        Some(u64::from(self.byte(at)?) | u64::from(self.byte(at + 1)?) << 8)
    }

    fn double(&self, at: usize) -> Option<u64> {
        Some(self.word(at)? | self.word(at + 2)? << 16)
    }

    /// Strings are numbered from 1 (section 6.1.3).
    fn string(&self, at: usize) -> String {
        let number = usize::from(self.byte(at).unwrap_or(0));
        let text = number.checked_sub(1).and_then(|n| self.strings.get(n)).copied();
        let clean = |&b: &u8| if (b' '..=b'~').contains(&b) { char::from(b) } else { '?' };
        text.unwrap_or_default().iter().map(clean).collect::<String>().trim().to_owned()
    }
}

/// Splits a table; the rest after a structure that is cut off is left out.
fn structures(mut table: &[u8]) -> Vec<Structure<'_>> {
    let mut all = Vec::new();
    while let [kind, length, ..] = *table {
        let length = usize::from(length);
        let Some(formatted) = table.get(..length).filter(|_| length >= 4) else { break };
        let rest = &table[length..];
        let Some(end) = rest.windows(2).position(|pair| pair == [0, 0]) else { break };
        let strings = rest[..end].split(|&b| b == 0).collect();
        all.push(Structure { kind, formatted, strings });
        table = &rest[end + 2..];
        // End-of-table (section 7.45).
        if kind == 127 {
            break;
        }
    }
    all
}

/// The populated slots of the system's memory, in the table's order.
pub fn modules(table: &[u8]) -> Vec<Module> {
    let all = structures(table);
    let arrays: Vec<&Structure> = all.iter().filter(|s| s.kind == 16).collect();
    // Use 03h: system memory (section 7.17.2).
    let system = |handle| {
        arrays.is_empty() || arrays.iter().any(|a| a.word(2) == handle && a.byte(5) == Some(3))
    };
    all.iter().filter(|s| s.kind == 17 && system(s.word(4))).filter_map(module).collect()
}

fn module(s: &Structure) -> Option<Module> {
    Some(Module {
        place: [s.string(0x10), s.string(0x11)],
        kind: s.byte(0x12).and_then(type_name),
        size: size(s).filter(|&bytes| bytes > 0)?,
        speed: speed(s, 0x20, 0x58).or_else(|| speed(s, 0x15, 0x54)),
        ranks: s.byte(0x1b).map(|b| u32::from(b & 0x0f)).filter(|&ranks| ranks > 0),
    })
}

/// Sections 7.18.4 and 7.18.5: in MiB, in KiB with the top bit, 7FFFh in the extended field.
fn size(s: &Structure) -> Option<u64> {
    match s.word(0x0c)? {
        0 | 0xffff => None,
        0x7fff => Some((s.double(0x1c)? & 0x7fff_ffff) << 20),
        kib if kib & 0x8000 != 0 => Some((kib & 0x7fff) << 10),
        mib => Some(mib << 20),
    }
}

/// Section 7.18.4: 0 is unknown, FFFFh in the extended field.
fn speed(s: &Structure, at: usize, extended: usize) -> Option<u64> {
    let speed = match s.word(at)? {
        0xffff => s.double(extended)? & 0x7fff_ffff,
        speed => speed,
    };
    (speed > 0).then_some(speed)
}

/// Table 78 of section 7.18.2. It does not distinguish LPDDR4X and DDR3L from others.
fn type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0x12 => "DDR",
        0x13 | 0x14 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    })
}

/// The channel of a module, by its locators; modules with the same text share one.
///
/// Firmware writes `ChannelA-DIMM0`, `P0 CHANNEL A`, `Node0_Channel1_Dimm0`, `CPU1_DIMM_A1`, `A1`.
/// The name is the text before the channel, and the channel's letters or digits.
pub fn channel(module: &Module) -> Option<String> {
    let [device, bank] = module.place.each_ref().map(|p| p.to_ascii_lowercase());
    after_channel(&bank)
        .or_else(|| after_channel(&device))
        .or_else(|| after_dimm(&device))
        .or_else(|| lettered(&device).map(str::to_owned))
}

fn after_channel(text: &str) -> Option<String> {
    let (before, after) = text.split_once("channel")?;
    let after = after.trim_start_matches([' ', '-', '_', ':']);
    let name: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!name.is_empty()).then(|| format!("{before}{name}"))
}

fn after_dimm(text: &str) -> Option<String> {
    let (before, after) = text.split_once("dimm")?;
    let letter = lettered(after.trim_start_matches([' ', '-', '_']))?;
    Some(format!("{before}{letter}"))
}

/// `a` of `a1`.
fn lettered(text: &str) -> Option<&str> {
    let (letter, number) = text.split_at_checked(1)?;
    let good = letter.starts_with(|c: char| c.is_ascii_alphabetic())
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit());
    good.then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_told_by_locators() {
        for (device, bank, expected) in [
            ("ChannelA-DIMM0", "BANK 0", Some("a")),
            ("Controller0-ChannelA-DIMM0", "BANK 0", Some("controller0-a")),
            ("DIMM 0", "P0 CHANNEL B", Some("p0 b")),
            ("DIMM_A1", "_Node0_Channel1_Dimm0", Some("_node0_1")),
            ("CPU1_DIMM_A1", "", Some("cpu1_a")),
            ("P1-DIMMC2", "", Some("p1-c")),
            ("B4", "", Some("b")),
            ("DIMM 0", "", None),
            ("PROC 1 DIMM 3", "", None),
            ("", "", None),
            ("é1", "Channel", None),
        ] {
            let place = [device.to_owned(), bank.to_owned()];
            let found = channel(&Module { place, ..Module::default() });
            assert_eq!(found.as_deref(), expected, "{device} {bank}");
        }
    }

    #[test]
    fn a_table_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
        let mut table = vec![16, 8, 1, 0, 3, 3, 6, 0, 0, 0];
        let mut device = vec![0u8; 0x22];
        device[..6].copy_from_slice(&[17, 0x22, 2, 0, 1, 0]);
        device[0x0c..0x0e].copy_from_slice(&4096u16.to_le_bytes());
        device[0x10] = 1;
        device[0x12] = 0x18;
        device[0x15..0x17].copy_from_slice(&1333u16.to_le_bytes());
        device[0x1b] = 2;
        table.extend(&device);
        table.extend(b"ChannelA-DIMM0\0\0");
        let found = modules(&table);
        assert_eq!(found.len(), 1);
        let place = ["ChannelA-DIMM0".to_owned(), String::new()];
        let expected =
            Module { place, kind: Some("DDR3"), size: 4 << 30, speed: Some(1333), ranks: Some(2) };
        assert_eq!(found[0], expected);
        for cut in 0..table.len() {
            assert!(modules(&table[..cut]).is_empty(), "{cut}");
        }
        // Flash memory (use 04h) is not part of the system memory.
        table[5] = 4;
        assert!(modules(&table).is_empty());
    }
}
