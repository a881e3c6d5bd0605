//! Finds the function at a place in a program file.
//!
//! Names come from the symbol tables; a stripped program still carries unwind tables, whose entries
//! give the functions' bounds, and the functions are then named by address.

use gimli::{BaseAddresses, CieOrFde, EhFrame, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::path::Path;

/// The functions of one file, by address.
#[derive(Debug, Default)]
pub struct Functions {
    /// Start, end, name.
    ranges: Vec<(u64, u64, String)>,
    /// File offset, size, address of the loaded segments.
    segments: Vec<(u64, u64, u64)>,
}

impl Functions {
    /// Reads a file's tables; an unreadable file has no functions.
    pub fn load(path: &Path) -> Self {
        let Ok(bytes) = std::fs::read(path) else { return Self::default() };
        let Ok(file) = object::File::parse(&*bytes) else { return Self::default() };
        let segments =
            file.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let mut ranges: Vec<(u64, u64, String)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.address() != 0 && s.size() > 0)
            .filter_map(|s| {
                let name = s.name().ok()?;
                Some((
                    s.address(),
                    s.address() + s.size(),
                    format!("{:#}", rustc_demangle::demangle(name)),
                ))
            })
            .collect();
        ranges.sort();
        let named = ranges.len();
        for (start, end) in unwind_ranges(&file) {
            let at = ranges[..named].partition_point(|r| r.0 <= start);
            let known = at > 0 && start < ranges[at - 1].1;
            if !known {
                ranges.push((start, end, format!("fn@{start:#x}")));
            }
        }
        ranges.sort();
        Self { ranges, segments }
    }

    /// Name of the function at a file offset.
    pub fn at(&self, offset: u64) -> Option<&str> {
        let (file_offset, _, address) =
            self.segments.iter().find(|(o, size, _)| (*o..o + size).contains(&offset))?;
        let address = address + (offset - file_offset);
        let at = self.ranges.partition_point(|r| r.0 <= address);
        // Aliases and nested ranges: look a few entries back for one that still covers the address.
        self.ranges[..at].iter().rev().take(4).find(|r| address < r.1).map(|r| r.2.as_str())
    }
}

fn unwind_ranges(file: &object::File) -> Vec<(u64, u64)> {
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
