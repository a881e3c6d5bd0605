//! The place of an address: fields in an order, or XOR functions of physical address bits.
//!
//! Rule: a line address is the address over the bytes of a line. `order` cuts it into fields, from
//! the top. A field may instead be given as one mask of physical address bits for each of its bits,
//! lowest bit first. The bit is the parity of the masked address, as in the hash functions of real
//! controllers. The functions of all fields together must be a bijection of the line addresses: a
//! square matrix over GF(2) of full rank.

use crate::organisation::Organisation;
use serde::Deserialize;

/// An address map as a file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    /// The fields, from the top: row, bank, bank_group, rank, column, channel.
    pub order: Vec<String>,
    /// XOR functions of the row bits.
    #[serde(default)]
    pub row: Vec<u64>,
    /// XOR functions of the bank bits.
    #[serde(default)]
    pub bank: Vec<u64>,
    /// XOR functions of the bank group bits.
    #[serde(default)]
    pub bank_group: Vec<u64>,
    /// XOR functions of the rank bits.
    #[serde(default)]
    pub rank: Vec<u64>,
    /// XOR functions of the column bits.
    #[serde(default)]
    pub column: Vec<u64>,
    /// XOR functions of the channel bits.
    #[serde(default)]
    pub channel: Vec<u64>,
}

/// Place of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Channel.
    pub channel: u32,
    /// Bank of the channel: rank, then bank group, then bank.
    pub bank: u32,
    /// Row of the bank.
    pub row: u32,
    /// Line of the row.
    pub column: u32,
}

/// A field: a slice of the line address, or parities.
#[derive(Clone, Debug)]
struct Field {
    shift: u32,
    mask: u64,
    /// Masks of line address bits, lowest bit of the field first; empty: the slice.
    parities: Vec<u64>,
}

impl Field {
    #[inline]
    fn of(&self, line: u64) -> u32 {
        if self.parities.is_empty() {
            return low_word((line >> self.shift) & self.mask);
        }
        let bit = |(i, mask): (usize, &u64)| ((line & mask).count_ones() & 1) << i;
        self.parities.iter().enumerate().map(bit).sum()
    }

    /// The matrix rows of this field.
    fn rows(&self) -> Vec<u64> {
        if !self.parities.is_empty() {
            return self.parities.clone();
        }
        (0..self.mask.count_ones()).map(|i| 1 << (self.shift + i)).collect()
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "fields have at most 20 bits")]
fn low_word(value: u64) -> u32 {
    value as u32
}

/// A checked address map.
#[derive(Clone, Debug)]
pub struct AddressMap {
    line_shift: u32,
    line_mask: u64,
    channel: Field,
    rank: Field,
    group: Field,
    bank: Field,
    row: Field,
    column: Field,
    group_shift: u32,
    rank_shift: u32,
}

const FIELDS: [&str; 6] = ["row", "bank", "bank_group", "rank", "column", "channel"];

impl AddressMap {
    /// Builds the map and checks that it is a bijection.
    ///
    /// # Errors
    /// The key at fault and the reason.
    pub fn new(o: &Organisation, spec: &MapSpec) -> Result<Self, (&'static str, String)> {
        let width = |name: &str| match name {
            "row" => o.rows.trailing_zeros(),
            "bank" => o.banks.trailing_zeros(),
            "bank_group" => o.bank_groups.trailing_zeros(),
            "rank" => o.ranks.trailing_zeros(),
            "column" => o.lines_per_row().trailing_zeros(),
            _ => o.channels.trailing_zeros(),
        };
        check_order(&spec.order, width)?;
        let bits: u32 = FIELDS.iter().map(|f| width(f)).sum();
        let line_shift = o.line_bytes().trailing_zeros();
        let build = |name: &'static str, masks: &[u64]| -> Result<Field, (&'static str, String)> {
            let below = spec.order.iter().rev().take_while(|f| *f != name);
            let shift = below.map(|f| width(f)).sum();
            let parities = check_masks(name, masks, width(name), line_shift, bits)?;
            Ok(Field { shift, mask: (1 << width(name)) - 1, parities })
        };
        let map = Self {
            line_shift,
            line_mask: (1 << bits) - 1,
            channel: build("channel", &spec.channel)?,
            rank: build("rank", &spec.rank)?,
            group: build("bank_group", &spec.bank_group)?,
            bank: build("bank", &spec.bank)?,
            row: build("row", &spec.row)?,
            column: build("column", &spec.column)?,
            group_shift: o.banks.trailing_zeros(),
            rank_shift: o.rank_banks().trailing_zeros(),
        };
        map.check_bijection(bits, spec)?;
        Ok(map)
    }

    fn check_bijection(&self, bits: u32, spec: &MapSpec) -> Result<(), (&'static str, String)> {
        // An error points at the functions, or at the order where there are none.
        let functions =
            [&spec.row, &spec.bank, &spec.bank_group, &spec.rank, &spec.column, &spec.channel];
        let key = FIELDS
            .iter()
            .zip(functions)
            .find(|(_, f)| !f.is_empty())
            .map_or("order", |(name, _)| *name);
        let fields = [&self.row, &self.bank, &self.group, &self.rank, &self.column, &self.channel];
        let mut basis: Vec<u64> = Vec::new();
        for (name, field) in FIELDS.iter().zip(fields) {
            for (i, row) in field.rows().into_iter().enumerate() {
                let rest = reduce(&basis, row);
                if rest == 0 {
                    return Err((
                        key,
                        format!(
                            "the address map is not a bijection: bit {i} of {name} is the XOR of \
                                other bits, so two addresses share a line ({} of {bits} bits are \
                                independent); change the functions",
                            rank(fields.iter().flat_map(|f| f.rows()))
                        ),
                    ));
                }
                basis.push(rest);
            }
        }
        Ok(())
    }

    /// The place of an address; addresses beyond the capacity wrap round.
    #[inline]
    pub fn place(&self, address: u64) -> Place {
        let line = (address >> self.line_shift) & self.line_mask;
        Place {
            channel: self.channel.of(line),
            bank: self.bank.of(line)
                | self.group.of(line) << self.group_shift
                | self.rank.of(line) << self.rank_shift,
            row: self.row.of(line),
            column: self.column.of(line),
        }
    }
}

/// Clears the leading bits of `basis` from `row`.
fn reduce(basis: &[u64], mut row: u64) -> u64 {
    for b in basis {
        row = row.min(row ^ b);
    }
    row
}

fn rank(rows: impl Iterator<Item = u64>) -> usize {
    let mut basis: Vec<u64> = Vec::new();
    for row in rows {
        let rest = reduce(&basis, row);
        if rest != 0 {
            basis.push(rest);
        }
    }
    basis.len()
}

fn check_order(
    order: &[String],
    width: impl Fn(&str) -> u32,
) -> Result<(), (&'static str, String)> {
    if let Some(name) = order.iter().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(("order", format!("order has `{name}`; the fields are {}", FIELDS.join(", "))));
    }
    for name in FIELDS {
        let times = order.iter().filter(|n| *n == name).count();
        if times > 1 || (times == 0 && width(name) > 0) {
            return Err((
                "order",
                format!(
                    "the address map is not a bijection: order names {name} {times} times; name \
                        each of {} once",
                    FIELDS.join(", ")
                ),
            ));
        }
    }
    Ok(())
}

/// Masks of physical address bits as masks of line address bits.
fn check_masks(
    name: &'static str,
    masks: &[u64],
    width: u32,
    line_shift: u32,
    bits: u32,
) -> Result<Vec<u64>, (&'static str, String)> {
    if masks.is_empty() {
        return Ok(Vec::new());
    }
    if masks.len() != width as usize {
        return Err((
            name,
            format!(
                "{name} has {} masks; the field has {width} bits, so give one mask for each",
                masks.len()
            ),
        ));
    }
    let above = line_shift + bits;
    for mask in masks {
        if mask.trailing_zeros() < line_shift || *mask == 0 || (above < 64 && mask >> above != 0) {
            return Err((
                name,
                format!(
                    "{name} has the mask {mask:#x}; a mask takes at least one of the address bits \
                        {line_shift} to {}",
                    above - 1
                ),
            ));
        }
    }
    Ok(masks.iter().map(|m| m >> line_shift).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use std::collections::HashSet;

    fn small(map: MapSpec) -> Result<AddressMap, (&'static str, String)> {
        let o = Organisation {
            channels: 2,
            ranks: 2,
            bank_groups: 2,
            banks: 4,
            rows: 16,
            columns: 32,
            bus_bits: 64,
            burst: 8,
        };
        AddressMap::new(&o, &map)
    }

    fn order(names: &[&str]) -> MapSpec {
        MapSpec { order: names.iter().map(|n| (*n).to_owned()).collect(), ..MapSpec::default() }
    }

    #[test]
    fn fields_follow_the_order() {
        let map = AddressMap::new(&Spec::find("ddr3-1333").unwrap().organisation, &order(&FIELDS))
            .unwrap();
        assert_eq!(map.place(64), Place { channel: 0, bank: 0, row: 0, column: 1 });
        assert_eq!(map.place(8192), Place { channel: 0, bank: 8, row: 0, column: 0 });
        assert_eq!(map.place(16384), Place { channel: 0, bank: 1, row: 0, column: 0 });
        assert_eq!(
            map.place(131_072 + 8 * (1 << 30)),
            Place { channel: 0, bank: 0, row: 1, column: 0 }
        );
    }

    /// Every line of a small memory has a place of its own, with and without XOR functions.
    #[test]
    fn maps_are_bijections() {
        // Banks hashed with row bits: bits 9 and 10 with 13 and 14.
        let xor = MapSpec { bank: vec![1 << 11 | 1 << 13, 1 << 12 | 1 << 14], ..order(&FIELDS) };
        for map in [
            order(&FIELDS),
            order(&["channel", "column", "row", "rank", "bank", "bank_group"]),
            xor,
        ] {
            let map = small(map).unwrap();
            let places: HashSet<Place> = (0..2048u64).map(|line| map.place(line * 64)).collect();
            assert_eq!(places.len(), 2048);
        }
    }

    #[test]
    fn other_maps_are_refused() {
        let twice = MapSpec { bank: vec![1 << 13, 1 << 14], ..order(&FIELDS) };
        let cases = [
            (order(&["row", "bank"]), "names bank_group 0 times"),
            (
                order(&["row", "row", "bank", "bank_group", "rank", "column", "channel"]),
                "names row 2 times",
            ),
            (order(&["row", "lane"]), "`lane`"),
            (twice, "not a bijection"),
            (MapSpec { bank: vec![1 << 13], ..order(&FIELDS) }, "one mask for each"),
            (MapSpec { bank: vec![1 << 3, 1 << 14], ..order(&FIELDS) }, "address bits 6 to 16"),
        ];
        for (map, expect) in cases {
            let (_, message) = small(map).unwrap_err();
            assert!(message.contains(expect), "{message}");
        }
    }
}
