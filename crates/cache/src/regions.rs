//! Memory regions of a program by names that survive address-space randomisation (SCE section 2.3:
//! a hot page is "an offset from the beginning of the memory region it belongs to").

use crate::contract::{Region, STACK_BYTES};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
struct Span {
    end: u64,
    region: u32,
    /// Byte offset in the region at the span's start.
    offset: u64,
    /// Whether offsets count from the end downwards (stack).
    downwards: bool,
}

/// A program's address space: the emulator's guest, or a process of this machine.
#[derive(Debug, Default)]
pub struct Regions {
    /// All regions so far.
    pub regions: Vec<Region>,
    spans: BTreeMap<u64, Span>,
    mmaps: u32,
    heap: Option<(u64, u64)>,
}

impl Regions {
    /// Takes over the mappings before the program runs, from the text of `/proc/self/maps`.
    pub fn load_maps(&mut self, maps: &str, guest_base: u64, limit: u64) {
        let mut previous: Option<(u64, u64, Option<PathBuf>, bool)> = None;
        for line in maps.lines() {
            let Some(entry) = MapsLine::parse(line) else { continue };
            let (Some(start), Some(end)) =
                (entry.start.checked_sub(guest_base), entry.end.checked_sub(guest_base))
            else {
                continue;
            };
            if end > limit {
                continue;
            }
            let guard = entry.perms.starts_with("---");
            let writable = entry.perms.contains('w');
            match &entry.path {
                Some(path) if !path.as_os_str().is_empty() && !guard => {
                    let name = file_region(path, writable);
                    self.insert(start, end, name, Some(path.clone()), entry.offset, false);
                }
                None if !guard => {
                    let after_guard = matches!(&previous, Some((_, e, None, true)) if *e == start);
                    if after_guard && end - start >= STACK_BYTES && !self.has("stack") {
                        let top = start + STACK_BYTES;
                        self.insert(start, top, "stack".to_owned(), None, 0, true);
                    } else if let Some((_, e, Some(path), _)) = &previous
                        && *e == start
                    {
                        self.insert(start, end, format!("{}:bss", base_name(path)), None, 0, false);
                    } else {
                        self.insert(
                            start,
                            end,
                            format!("anon#{}", self.regions.len()),
                            None,
                            0,
                            false,
                        );
                    }
                }
                _ => {}
            }
            previous = Some((start, end, entry.path, guard));
        }
    }

    /// The kernel mapped bytes `start` to `end` before the program's first call: `name` is a file,
    /// or what the kernel's records call it (`[stack]`, `//anon`).
    pub fn give(&mut self, start: u64, end: u64, offset: u64, writable: bool, name: &Path) {
        let before = self.spans.range(..start).next_back().filter(|(_, s)| s.end == start);
        let file = before.and_then(|(_, s)| self.regions[s.region as usize].path.clone());
        match (name.to_str(), file) {
            _ if name.is_absolute() && !name.starts_with("//anon") => {
                let region = file_region(name, writable);
                self.insert(start, end, region, Some(name.to_owned()), offset, false);
            }
            (Some("[stack]"), _) => self.insert(start, end, "stack".to_owned(), None, 0, true),
            (_, Some(file)) => {
                self.insert(start, end, format!("{}:bss", base_name(&file)), None, 0, false);
            }
            _ => {
                let region = format!("anon#{}", self.regions.len());
                self.insert(start, end, region, None, 0, false);
            }
        }
    }

    /// A successful `mmap`.
    pub fn map(&mut self, start: u64, len: u64, writable: bool, file: Option<(PathBuf, u64)>) {
        let end = start + len;
        if let Some((path, offset)) = file {
            let name = file_region(&path, writable);
            self.insert(start, end, name, Some(path), offset, false);
            return;
        }
        let before = self.spans.range(..start).next_back().filter(|(_, s)| s.end == start);
        let bss = before.and_then(|(_, s)| {
            let region = &self.regions[s.region as usize];
            region.path.is_some().then(|| region.name.trim_end_matches(":data").to_owned())
        });
        let over = self.spans.range(..end).next_back().is_some_and(|(_, s)| s.end > start);
        let name = match bss {
            Some(name) if over => format!("{name}:bss"),
            _ => {
                self.mmaps += 1;
                format!("mmap#{}", self.mmaps)
            }
        };
        self.insert(start, end, name, None, 0, false);
    }

    /// The program break moved to `brk` (the first call gives the start of the heap).
    pub fn set_break(&mut self, brk: u64) {
        let (start, end) = *self.heap.get_or_insert((brk, brk));
        if brk > end {
            let first = start.next_multiple_of(4096).min(brk);
            self.insert(first, brk.next_multiple_of(4096), "heap".to_owned(), None, 0, false);
            self.heap = Some((start, brk));
        }
    }

    /// Removes a range.
    pub fn unmap(&mut self, start: u64, end: u64) {
        let overlapping: Vec<u64> = self
            .spans
            .range(..end)
            .rev()
            .take_while(|(_, s)| s.end > start)
            .map(|(&at, _)| at)
            .collect();
        for at in overlapping {
            let Some(span) = self.spans.remove(&at) else { continue };
            if at < start {
                let mut left = span.clone();
                left.end = start;
                if span.downwards {
                    left.offset += span.end - start;
                }
                self.spans.insert(at, left);
            }
            if span.end > end {
                let mut right = span.clone();
                if !span.downwards {
                    right.offset += end - at;
                }
                self.spans.insert(end, right);
            }
        }
    }

    /// Region index and byte offset of an address.
    pub fn resolve(&mut self, address: u64) -> (u32, u64) {
        if let Some((&start, span)) = self.spans.range(..=address).next_back()
            && address < span.end
        {
            let within = if span.downwards { span.end - 1 - address } else { address - start };
            return (span.region, span.offset + within);
        }
        (self.intern("unknown".to_owned(), None), address)
    }

    fn insert(
        &mut self,
        start: u64,
        end: u64,
        name: String,
        path: Option<PathBuf>,
        offset: u64,
        downwards: bool,
    ) {
        if end <= start {
            return;
        }
        self.unmap(start, end);
        let region = self.intern(name, path);
        self.spans.insert(start, Span { end, region, offset, downwards });
    }

    fn has(&self, name: &str) -> bool {
        self.regions.iter().any(|r| r.name == name)
    }

    fn intern(&mut self, name: String, path: Option<PathBuf>) -> u32 {
        let wanted = Region { name, path };
        let at = self.regions.iter().position(|r| *r == wanted).unwrap_or_else(|| {
            self.regions.push(wanted);
            self.regions.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }
}

/// Name of a file's region. Text and read-only data have the file's name; a writable mapping has
/// another one.
fn file_region(path: &Path, writable: bool) -> String {
    let name = base_name(path);
    if writable { format!("{name}:data") } else { name }
}

fn base_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "file".to_owned(), |n| n.to_string_lossy().into_owned())
}

struct MapsLine {
    start: u64,
    end: u64,
    perms: String,
    offset: u64,
    path: Option<PathBuf>,
}

impl MapsLine {
    fn parse(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            rest = rest.trim_start();
            let at = rest.find(' ').unwrap_or(rest.len());
            let (head, tail) = rest.split_at(at);
            rest = tail;
            head
        };
        let (range, perms, offset, _, _) = (field(), field(), field(), field(), field());
        let (start, end) = range.split_once('-')?;
        let path = rest.trim();
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            perms: perms.to_owned(),
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: path.starts_with('/').then(|| PathBuf::from(path.trim_end_matches(" (deleted)"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of an address's region, and the page in it.
    fn page(regions: &mut Regions, address: u64) -> (String, u64) {
        let (region, offset) = regions.resolve(address);
        (regions.regions[region as usize].name.clone(), offset / 4096)
    }

    fn is(name: &str, page: u64) -> (String, u64) {
        (name.to_owned(), page)
    }

    #[test]
    fn what_a_kernel_gave_is_named_as_what_the_emulator_loaded() {
        let (program, base) = (Path::new("/opt/job"), 0x40_0000);
        let (anonymous, stack) = (Path::new("//anon"), Path::new("[stack]"));
        let mut given = Regions::default();
        given.give(base, base + 0x3000, 0, false, program);
        given.give(base + 0x3000, base + 0x5000, 0x3000, true, program);
        given.give(base + 0x5000, base + 0x8000, 0, true, anonymous);
        given.give(0x70_0000, 0x80_0000, 0, true, stack);
        given.give(0x90_0000, 0x90_1000, 0, false, Path::new("[vdso]"));
        let maps = "400000-403000 r-xp 00000000 08:01 5 /opt/job\n\
            403000-405000 rw-p 00003000 08:01 5 /opt/job\n405000-408000 rw-p 00000000 00:00 0 \n";
        let mut loaded = Regions::default();
        loaded.load_maps(maps, 0, 1 << 48);
        for at in [base, base + 0x2fff, base + 0x4000, base + 0x5000, base + 0x7fff] {
            assert_eq!(page(&mut given, at), page(&mut loaded, at), "{at:#x}");
        }
        assert_eq!(page(&mut given, base + 0x7000), is("job:bss", 2));
        assert_eq!(page(&mut given, 0x7f_ffff), is("stack", 0));
        // A stack that grew keeps the names of its pages.
        given.give(0x60_0000, 0x80_0000, 0, true, stack);
        assert_eq!(page(&mut given, 0x7f_e000), is("stack", 1));
        assert_eq!(page(&mut given, 0x6f_f000), is("stack", 0x100));
        assert!(page(&mut given, 0x90_0000).0.starts_with("anon#"));
        assert_eq!(page(&mut given, 0x1000).0, "unknown");
    }

    #[test]
    fn a_mapping_in_the_place_of_another_has_a_name_of_its_own() {
        let mut regions = Regions::default();
        regions.map(0x10_0000, 0x4000, true, None);
        regions.unmap(0x10_1000, 0x10_2000);
        assert_eq!(page(&mut regions, 0x10_2000), is("mmap#1", 2));
        assert_eq!(page(&mut regions, 0x10_1000).0, "unknown");
        regions.map(0x10_1000, 0x1000, true, None);
        assert_eq!(page(&mut regions, 0x10_1000), is("mmap#2", 0));
        assert_eq!(page(&mut regions, 0x10_3000), is("mmap#1", 3));
        regions.set_break(0x20_0010);
        regions.set_break(0x20_3000);
        assert_eq!(page(&mut regions, 0x20_1000), is("heap", 0));
    }
}
