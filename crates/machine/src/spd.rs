//! What the memory modules say of themselves: their SPD (serial presence detect).
//!
//! Problem: an EEPROM on the bus may be of any device, and a module's may be worn or wrong. Rule: a
//! device counts if a driver of memory modules has it, its type is known, and its checksum is
//! right. Times are the least that the module allows; the firmware may have set longer ones. A
//! smaller time makes the measured overhead larger, the safe side. Source: JEDEC 21-C,
//! Annex K (DDR3, section 2), Annex L (DDR4, section 8), and JESD400-5 (DDR5, sections 8 and 11);
//! Linux, drivers ee1004, spd5118 and at24 for the files. Does not cover: LPDDR, modules of ranks
//! that differ, registers of the controller.

use crate::root::Root;
use solocore_model::Time;

/// Folder of the devices of all I2C buses.
const DEVICES: &str = "sys/bus/i2c/devices";
/// Names that Linux gives to the EEPROM of a module.
const NAMES: [&str; 4] = ["ee1004", "spd5118", "spd", "eeprom"];

/// A module's own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spd {
    /// Its device, like `0-0050`.
    pub place: String,
    /// Like `DDR4`, as crate::dmi names them.
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// Most transfers a second, in millions.
    pub speed: u64,
    /// Ranks.
    pub ranks: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Bytes of a row of a rank.
    pub row: u64,
    /// The least times.
    pub least: Least,
}

/// The least times that a module allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Column command to data.
    pub cl: Time,
    /// Activate to column command.
    pub rcd: Time,
    /// Precharge to activate.
    pub rp: Time,
    /// Activate to precharge.
    pub ras: Time,
}

impl Least {
    /// The longer of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            cl: self.cl.max(other.cl),
            rcd: self.rcd.max(other.rcd),
            rp: self.rp.max(other.rp),
            ras: self.ras.max(other.ras),
        }
    }
}

/// The modules that can be read, by their devices.
pub fn read(root: &Root) -> Vec<Spd> {
    let of = |place: String| {
        let folder = format!("{DEVICES}/{place}");
        let name = root.text(&format!("{folder}/name"))?;
        if !NAMES.contains(&name.as_str()) {
            return None;
        }
        decode(&root.bytes(&format!("{folder}/eeprom"))?, place)
    };
    root.names(DEVICES).into_iter().filter_map(of).collect()
}

/// Where the data of these modules stand.
pub fn paths(modules: &[Spd]) -> String {
    let places: Vec<&str> = modules.iter().map(|m| m.place.as_str()).collect();
    format!("/{DEVICES}/{}/eeprom", places.join(","))
}

/// The data of a module; `None`: of another device, of another type, or with a wrong checksum.
fn decode(bytes: &[u8], place: String) -> Option<Spd> {
    let rom = Rom(bytes);
    let spd = match rom.byte(2)? {
        0x0b => rom.ddr3(place),
        0x0c => rom.ddr4(place),
        0x12 => rom.ddr5(place),
        _ => None,
    }?;
    (spd.size > 0 && spd.speed > 0).then_some(spd)
}

/// Units of times, and finer ones, in ps.
struct Units {
    unit: f64,
    finer: f64,
}

/// The bytes of an EEPROM.
struct Rom<'a>(&'a [u8]);

impl Rom<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    /// Some bits of a byte.
    fn bits(&self, at: usize, shift: u32, count: u32) -> Option<u32> {
        Some(u32::from(self.byte(at)?) >> shift & ((1 << count) - 1))
    }

    fn word(&self, at: usize) -> Option<u64> {
        Some(u64::from(self.byte(at)?) | u64::from(self.byte(at + 1)?) << 8)
    }

    /// Is the checksum of the bytes before `end` the one at `at`?
    fn sound(&self, end: usize, at: usize) -> Option<()> {
        let sum = self.0.get(..end)?.iter().fold(0_u16, |sum, &byte| {
            (0..8).fold(sum ^ u16::from(byte) << 8, |sum, _| {
                if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
            })
        });
        (self.word(at)? == u64::from(sum)).then_some(())
    }

    /// A time of a number of units at one place, and of finer units with a sign at another.
    fn time(&self, (at, fine): (usize, usize), units: &Units) -> Option<Time> {
        let fine = f64::from(self.byte(fine)?.cast_signed());
        ps(f64::from(self.byte(at)?) * units.unit + fine * units.finer)
    }

    /// The times of columns, activates and precharges at three places each, and of a row at 12 bits
    /// that begin in the lower half of a byte.
    fn least(&self, places: [(usize, usize); 3], ras: usize, units: &Units) -> Option<Least> {
        let [cl, rcd, rp] = places.map(|place| self.time(place, units));
        let ras = self.bits(ras, 0, 4)? << 8 | u32::from(self.byte(ras + 1)?);
        Some(Least { cl: cl?, rcd: rcd?, rp: rp?, ras: ps(f64::from(ras) * units.unit)? })
    }

    /// Section 2 of Annex K.
    fn ddr3(&self, place: String) -> Option<Spd> {
        self.sound(if self.bits(0, 7, 1)? == 1 { 117 } else { 126 }, 126)?;
        let units = Units {
            unit: 1000.0 * f64::from(self.byte(10)?) / f64::from(self.byte(11)?),
            finer: f64::from(self.byte(9)? >> 4) / f64::from(self.byte(9)? & 15),
        };
        let clock = self.time((12, 34), &units)?;
        let least = self.least([(16, 35), (18, 36), (20, 37)], 21, &units)?;
        let ranks = self.bits(7, 3, 3)? + 1;
        let (width, bus) = (4 << self.bits(7, 0, 3)?, 8 << self.bits(8, 0, 3)?);
        let chip = (256_u64 << 20) << self.bits(4, 0, 4)?;
        let banks = 8 << self.bits(4, 4, 3)?;
        let columns = 9 + self.bits(5, 0, 3)?;
        of(place, "DDR3", clock, least, Shape { ranks, width, bus, chip, banks, columns })
    }

    /// Section 8 of Annex L.
    fn ddr4(&self, place: String) -> Option<Spd> {
        const UNITS: Units = Units { unit: 125.0, finer: 1.0 };
        self.sound(126, 126)?;
        // Other units are reserved.
        if self.byte(17)? != 0 {
            return None;
        }
        let clock = self.time((18, 125), &UNITS)?;
        let least = self.least([(24, 123), (25, 122), (26, 121)], 27, &UNITS)?;
        let stacked = self.bits(6, 0, 2)? == 2;
        let dies = if stacked { self.bits(6, 4, 3)? + 1 } else { 1 };
        let ranks = (self.bits(12, 3, 3)? + 1) * dies;
        let (width, bus) = (4 << self.bits(12, 0, 3)?, 8 << self.bits(13, 0, 3)?);
        let chip = match self.bits(4, 0, 4)? {
            code @ 0..=7 => (256_u64 << 20) << code,
            8 => 12 << 30,
            9 => 24 << 30,
            _ => return None,
        };
        let banks = (4 << self.bits(4, 4, 2)?) << self.bits(4, 6, 2)?;
        let columns = 9 + self.bits(5, 0, 3)?;
        of(place, "DDR4", clock, least, Shape { ranks, width, bus, chip, banks, columns })
    }

    /// Sections 8 and 11 of JESD400-5. A rank is that of a subchannel, as in the rest of solocore.
    fn ddr5(&self, place: String) -> Option<Spd> {
        self.sound(510, 510)?;
        let time = |at: usize| ps(self.word(at)? as f64);
        let least = Least { cl: time(30)?, rcd: time(32)?, rp: time(34)?, ras: time(36)? };
        let gigabits = match self.bits(4, 0, 5)? {
            1 => 4,
            2 => 8,
            3 => 12,
            4 => 16,
            5 => 24,
            6 => 32,
            7 => 48,
            8 => 64,
            _ => return None,
        };
        let dies = match self.bits(4, 5, 3)? {
            // Two dies that do not share their interface are two ranks, which byte 234 counts.
            0 | 1 => 1,
            2 => 2,
            code @ 3..=5 => 1 << (code - 1),
            _ => return None,
        };
        let shape = Shape {
            ranks: (self.bits(234, 3, 3)? + 1) * dies,
            width: 4 << self.bits(6, 5, 3)?,
            bus: 8 << self.bits(235, 0, 3)?,
            chip: gigabits << 30,
            banks: (1 << self.bits(7, 0, 3)?) << self.bits(7, 5, 3)?,
            columns: 10 + self.bits(5, 5, 3)?,
        };
        let mut spd = of(place, "DDR5", time(20)?, least, shape)?;
        spd.size *= u64::from(self.bits(235, 5, 2)? + 1);
        Some(spd)
    }
}

/// Ranks, width of a chip and of the bus in bits, bits of a chip, banks, and bits of a column.
struct Shape {
    ranks: u32,
    width: u64,
    bus: u64,
    chip: u64,
    banks: u32,
    columns: u32,
}

fn of(place: String, kind: &'static str, clock: Time, least: Least, shape: Shape) -> Option<Spd> {
    let Shape { ranks, width, bus, chip, banks, columns } = shape;
    let chips = bus.checked_div(width)?;
    Some(Spd {
        place,
        kind,
        size: chips * (chip / 8) * u64::from(ranks),
        speed: 2_000_000_u64.checked_div(clock.ps())?,
        ranks,
        banks,
        row: (bus / 8) << columns,
        least,
    })
}

/// Picoseconds that are a time of memory: above zero, at most a microsecond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range is tested")]
fn ps(value: f64) -> Option<Time> {
    (value > 0.0 && value <= 1e6).then(|| Time::from_ps(value.round() as u64))
}

#[cfg(test)]
#[path = "spd_tests.rs"]
mod tests;
