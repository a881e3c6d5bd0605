//! Finds the functions at a place in a program file.
//!
//! Names come from the symbol tables; a stripped program still carries unwind tables, whose entries
//! give the functions' bounds, and the functions are then named by address. Debugging information,
//! where the file has it, adds the functions that were inlined (`inlined`).

use crate::inlined::{self, Inlined};
use gimli::{BaseAddresses, CieOrFde, EhFrame, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The functions of one file, by address.
#[derive(Debug, Default)]
pub struct Functions {
    ranges: Vec<Function>,
    /// File offset, size, address of the loaded segments.
    segments: Vec<(u64, u64, u64)>,
    inlined: Inlined,
    /// Number of places that a name for people has, where it is not one.
    several: BTreeMap<String, usize>,
}

/// A function with code of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    start: u64,
    end: u64,
    /// Its name for people.
    pub name: String,
    /// Its name in the symbol table; `None` in a stripped program.
    pub symbol: Option<String>,
}

impl Functions {
    /// Reads a file's tables, for places at these file offsets; an unreadable file has no
    /// functions.
    pub fn load(path: &Path, offsets: &BTreeSet<u64>) -> Self {
        let Ok(bytes) = std::fs::read(path) else { return Self::default() };
        let Ok(file) = object::File::parse(&*bytes) else { return Self::default() };
        let segments =
            file.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let mut functions = Self { segments, several: several(&file), ..Self::default() };
        functions.ranges = ranges(&file);
        let addresses = offsets.iter().filter_map(|&offset| functions.address(offset)).collect();
        functions.inlined = inlined::at(&file, &addresses);
        functions
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let (file_offset, _, address) =
            self.segments.iter().find(|(o, size, _)| (*o..o + size).contains(&offset))?;
        Some(address + (offset - file_offset))
    }

    /// The function with the code at a file offset.
    pub fn at(&self, offset: u64) -> Option<&Function> {
        let address = self.address(offset)?;
        let at = self.ranges.partition_point(|r| r.start <= address);
        // Aliases and nested ranges: look a few entries back for one that still covers the address.
        self.ranges[..at].iter().rev().take(4).find(|r| address < r.end)
    }

    /// The functions that were inlined at a file offset, innermost first.
    pub fn inlined_at(&self, offset: u64) -> &[String] {
        let names = self.address(offset).and_then(|address| self.inlined.get(&address));
        names.map(Vec::as_slice).unwrap_or_default()
    }

    /// The function that begins at a file offset.
    pub fn beginning_at(&self, offset: u64) -> Option<&Function> {
        self.at(offset).filter(|f| Some(f.start) == self.address(offset))
    }

    /// Number of functions with this name for people. Those with other symbols, as Rust's for
    /// several types, count: their misses cannot be distinguished.
    pub fn called(&self, name: &str) -> usize {
        self.several.get(name).copied().unwrap_or(1)
    }
}

fn ranges(file: &object::File<'_>) -> Vec<Function> {
    let mut ranges: Vec<Function> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|s| s.kind() == SymbolKind::Text && s.address() != 0 && s.size() > 0)
        .filter_map(|s| {
            let symbol = s.name().ok()?;
            Some(Function {
                start: s.address(),
                end: s.address() + s.size(),
                name: for_people(symbol),
                symbol: Some(symbol.to_owned()),
            })
        })
        .collect();
    ranges.sort();
    let named = ranges.len();
    for (start, end) in unwind_ranges(file) {
        let at = ranges[..named].partition_point(|r| r.start <= start);
        let known = at > 0 && start < ranges[at - 1].end;
        if !known {
            ranges.push(Function { start, end, name: format!("fn@{start:#x}"), symbol: None });
        }
    }
    ranges.sort();
    ranges
}

/// A symbol without its hash, and without letters that a terminal obeys.
fn for_people(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol)).replace(char::is_control, "?")
}

/// Names of several functions, with their numbers of places.
fn several(file: &object::File<'_>) -> BTreeMap<String, usize> {
    let mut places: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() == SymbolKind::Text
            && symbol.is_definition()
            && let Ok(name) = symbol.name()
        {
            places.entry(for_people(name)).or_default().insert(symbol.address());
        }
    }
    let several = places.into_iter().filter(|(_, at)| at.len() > 1);
    several.map(|(name, at)| (name, at.len())).collect()
}

fn unwind_ranges(file: &object::File<'_>) -> Vec<(u64, u64)> {
    let Some(section) = file.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut frames = EhFrame::new(data, endian);
    frames.set_address_size(if file.is_64() { 8 } else { 4 });
    let text = file.section_by_name(".text").map_or(0, |s| s.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let mut out = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
            && fde.len() > 0
        {
            out.push((fde.initial_address(), fde.initial_address() + fde.len()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Two symbols of Rust with one name for people, as a generic function has for two types.
    const TEXT: &str = "int a(int x) __asm__(\"_ZN1p4step17h0000000000000001E\");\n\
        int b(int x) __asm__(\"_ZN1p4step17h0000000000000002E\");\n\
        int a(int x) { return x + 1; }\n\
        int b(int x) { return x * 3; }\n\
        int main(int n, char **v) { return a(b(n)); }\n";

    #[test]
    fn functions_with_one_name_for_people_are_several() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        std::fs::write(&source, TEXT).unwrap();
        let mut cc = Command::new("cc");
        assert!(cc.arg("-o").arg(&program).arg(&source).status().unwrap().success());
        let functions = Functions::load(&program, &BTreeSet::new());
        assert_eq!((functions.called("p::step"), functions.called("main")), (2, 1));
        assert_eq!(for_people("a\u{1b}[2J"), "a?[2J");
    }
}
