//! Functions that were inlined at an address, by the debugging information of a program (DWARF).
//!
//! Problem: an inlined function has no symbol, so its misses seem to be those of the function
//! around it. Rule: the functions inlined at an address are those with a
//! `DW_TAG_inlined_subroutine` over it, and nested ones lie within. Only units with a wanted
//! address are read; a damaged unit is left out. Not covered: compressed debugging information, and
//! that in files of its own (`-gsplit-dwarf`, `/usr/lib/debug`).

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, EndianSlice, RunTimeEndian, SectionId,
};
use object::{CompressionFormat, Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of entries from an inlined function to its name.
const HOPS: u32 = 8;

type Slice<'d> = EndianSlice<'d, RunTimeEndian>;
type Unit<'d> = gimli::Unit<Slice<'d>>;

/// The names of functions inlined at addresses.
pub type Inlined = BTreeMap<u64, Vec<String>>;

/// The functions that were inlined at these addresses, innermost first; addresses without any are
/// left out.
pub fn at(file: &object::File<'_>, addresses: &BTreeSet<u64>) -> Inlined {
    let mut found = read(file, addresses).unwrap_or_default();
    found.values_mut().for_each(|names| names.reverse());
    found
}

/// The same, outermost first.
fn read(file: &object::File<'_>, addresses: &BTreeSet<u64>) -> gimli::Result<Inlined> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| -> gimli::Result<Slice<'_>> {
        Ok(EndianSlice::new(data(file, id.name()), endian))
    };
    let dwarf = Dwarf::load(section)?;
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        units.extend(dwarf.unit(header));
    }
    let reader = Reader { dwarf: &dwarf, units: &units };
    let mut found = Inlined::new();
    for unit in units.iter().filter(|unit| reader.covers(unit, addresses)) {
        // What was found before the damage holds.
        let _ = reader.walk(unit, addresses, &mut found);
    }
    Ok(found)
}

fn data<'d>(file: &object::File<'d>, name: &str) -> &'d [u8] {
    let section = file.section_by_name(name);
    let data = section.and_then(|s| s.compressed_data().ok());
    data.filter(|d| d.format == CompressionFormat::None).map(|d| d.data).unwrap_or_default()
}

/// The debugging information of a file; its units in the order of the file.
struct Reader<'a, 'd> {
    dwarf: &'a Dwarf<Slice<'d>>,
    units: &'a [Unit<'d>],
}

impl<'d> Reader<'_, 'd> {
    /// Whether a unit has code at one of the addresses, or does not say where its code is.
    fn covers(&self, unit: &Unit<'d>, addresses: &BTreeSet<u64>) -> bool {
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else { return true };
        let mut none = true;
        while let Ok(Some(range)) = ranges.next() {
            none = false;
            if inside(addresses, range).next().is_some() {
                return true;
            }
        }
        none
    }

    /// Adds the inlined functions of a unit: a function comes before those that it contains.
    fn walk(
        &self,
        unit: &Unit<'d>,
        addresses: &BTreeSet<u64>,
        found: &mut Inlined,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let mut here = BTreeSet::new();
            let mut ranges = self.dwarf.die_ranges(unit, entry)?;
            while let Some(range) = ranges.next()? {
                here.extend(inside(addresses, range));
            }
            if here.is_empty() {
                continue;
            }
            let name = self.name(unit, entry, HOPS).unwrap_or_else(|| "(inlined)".to_owned());
            for address in here {
                found.entry(address).or_default().push(name.clone());
            }
        }
        Ok(())
    }

    /// The name of a function, as the symbol tables would have it: Rust's with its path.
    fn name(
        &self,
        unit: &Unit<'d>,
        entry: &DebuggingInformationEntry<'_, '_, Slice<'d>>,
        hops: u32,
    ) -> Option<String> {
        let text = |at: DwAt| {
            let value = entry.attr_value(at).ok()??;
            let text = self.dwarf.attr_string(unit, value).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let linked = text(gimli::DW_AT_linkage_name);
        let linked =
            linked.and_then(|l| rustc_demangle::try_demangle(&l).ok().map(|d| format!("{d:#}")));
        linked.or_else(|| text(gimli::DW_AT_name)).or_else(|| {
            let hops = hops.checked_sub(1)?;
            let origins = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
            origins.into_iter().find_map(|at| {
                let (unit, offset) = match entry.attr_value(at).ok()?? {
                    AttributeValue::UnitRef(offset) => (unit, offset),
                    AttributeValue::DebugInfoRef(offset) => {
                        let unit = self.unit_at(offset.0)?;
                        (unit, offset.to_unit_offset(&unit.header)?)
                    }
                    _ => return None,
                };
                self.name(unit, &unit.entry(offset).ok()?, hops)
            })
        })
    }

    /// The unit with the entry at this offset of the section.
    fn unit_at(&self, offset: usize) -> Option<&Unit<'d>> {
        let begins = |unit: &Unit<'d>| unit.header.offset().as_debug_info_offset();
        let after = self.units.partition_point(|u| begins(u).is_some_and(|at| at.0 <= offset));
        self.units.get(after.checked_sub(1)?)
    }
}

/// The addresses in a range. A range at 0 is that of a function that the linker dropped.
fn inside(addresses: &BTreeSet<u64>, range: gimli::Range) -> impl Iterator<Item = u64> {
    let end = if range.begin == 0 { 0 } else { range.end.max(range.begin) };
    addresses.range(range.begin..end).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::ObjectSymbol;
    use std::process::Command;

    const TEXT: &str = "volatile int sum;\n\
        static inline __attribute__((always_inline)) void inner(int n) { sum += n; sum ^= n; }\n\
        static inline __attribute__((always_inline)) void outer(int n) { sum *= 3; inner(n); }\n\
        int main(int n, char **v) { sum = 7; outer(n); inner(9); return 0; }\n";

    /// All chains of inlined functions within `main`.
    fn chains(options: &[&str]) -> BTreeSet<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        std::fs::write(&source, TEXT).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o"]).arg(&program).arg(&source).args(options);
        assert!(cc.status().unwrap().success());
        let bytes = std::fs::read(&program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let main = file.symbols().find(|s| s.name() == Ok("main")).unwrap();
        let addresses = (main.address()..main.address() + main.size()).collect();
        at(&file, &addresses).into_values().collect()
    }

    #[test]
    fn inlined_functions_are_found_innermost_first() {
        let chain = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let all = [chain(&["inner"]), chain(&["inner", "outer"]), chain(&["outer"])];
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            assert_eq!(chains(&[version]), BTreeSet::from(all.clone()), "{version}");
        }
        assert!(chains(&[]).is_empty());
    }
}
