//! Pages of a running process by the names that a profile gives them.
//!
//! Problem: a profile names a page by its region and its offset there, and the kernel places
//! regions at random. Rule: regions of files, the heap and the stack are found in /proc/PID/maps,
//! by the file's name and its rights. The heap begins where /proc/PID/stat says, also before it is
//! mapped. `mmap#N` is the Nth anonymous mapping of the process by the order in which it made them.
//! No file has that order, so the library in the process counts them
//! (crates/space/preload/hooks.c), from the first one behind those of the loader
//! ([`crate::loader`]). Source: single-core-equivalence, section 2.3 (a hot page is an offset from
//! the beginning of its memory region). Does not cover: pages of the stack where the environment
//! has another length than in the profile; several mappings of one file with the same rights and
//! offsets.

use crate::map::PAGE;
use solocore_model::profile::PageName;
use std::fs;

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
    writable: bool,
    file_offset: u64,
    /// Base name of a file, or the kernel's name of the mapping.
    name: String,
}

/// The mappings of a process at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    spans: Vec<Span>,
    heap: Option<u64>,
}

impl Mappings {
    /// Those of a process; `None`: there is no such process, or they are hidden.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Some(Self::parse(&fs::read_to_string(format!("/proc/{pid}/maps")).ok()?, &stat))
    }

    /// Those of these texts: `maps` and `stat` of /proc/PID.
    #[must_use]
    pub fn parse(maps: &str, stat: &str) -> Self {
        let spans: Vec<Span> = maps.lines().filter_map(Span::parse).collect();
        let mapped = spans.iter().find(|s| s.name == "[heap]").map(|s| s.start);
        Self { heap: mapped.or_else(|| start_of_heap(stat)), spans }
    }

    /// The address of a page that is mapped.
    #[must_use]
    pub fn address(&self, page: &PageName) -> Option<u64> {
        let at = self.place(page)?;
        self.spans.iter().any(|s| s.contains(at)).then_some(at)
    }

    /// The address that a page has or will have. `None`: there is no such region, or it is a
    /// numbered mapping.
    #[must_use]
    pub fn place(&self, page: &PageName) -> Option<u64> {
        let at = page.offset.checked_mul(PAGE)?;
        if page.region == "stack" {
            let span = self.spans.iter().find(|s| s.name == "[stack]")?;
            return span.end.checked_sub(at.checked_add(PAGE)?);
        }
        if page.region == "heap" {
            return self.heap?.checked_add(at);
        }
        if let Some(file) = page.region.strip_suffix(":bss") {
            // The anonymous mapping directly behind the file's last one.
            let behind = self.spans.windows(2).rfind(|pair| match pair {
                [before, after] => {
                    before.name == file && after.name.is_empty() && before.end == after.start
                }
                _ => false,
            })?;
            let span = behind.last()?;
            return span.start.checked_add(at).filter(|&at| span.contains(at));
        }
        let (file, writable) = match page.region.strip_suffix(":data") {
            Some(file) => (file, true),
            None => (page.region.as_str(), false),
        };
        let of_file = |s: &&Span| s.name == file && s.writable == writable;
        let within = |s: &Span| {
            s.start.checked_add(at.checked_sub(s.file_offset)?).filter(|&at| s.contains(at))
        };
        // The loader makes the first data read-only (RELRO): the file's last such mapping has it.
        let read_only = || self.spans.iter().rev().filter(|s| s.name == file).find_map(within);
        let found = self.spans.iter().filter(of_file).find_map(within);
        found.or_else(|| read_only().filter(|_| writable))
    }
}

impl Span {
    /// A line of /proc/PID/maps.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let perms = fields.next()?;
        let file_offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let path = fields.nth(2).unwrap_or_default().trim();
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            writable: perms.contains('w'),
            file_offset,
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        })
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The first page of the heap, of the text of /proc/PID/stat (`start_brk`, its field 47). The name
/// of the program is field 2, and may have spaces.
fn start_of_heap(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let start: u64 = rest.split_ascii_whitespace().nth(44)?.parse().ok()?;
    start.checked_next_multiple_of(PAGE).filter(|&start| start > 0)
}

/// The number of a region `mmap#N`.
#[must_use]
pub fn mapping_number(region: &str) -> Option<u32> {
    region.strip_prefix("mmap#")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
400000-401000 r--p 00000000 08:01 5 /opt/job\n\
401000-404000 r-xp 00001000 08:01 5 /opt/job\n\
404000-405000 rw-p 00004000 08:01 5 /opt/job\n\
405000-409000 rw-p 00000000 00:00 0 \n\
a00000-a21000 rw-p 00000000 00:00 0                                  [heap]\n\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7ffffff00000-7ffffff21000 rw-p 00000000 00:00 0                      [stack]\n";

    fn page(region: &str, offset: u64) -> PageName {
        PageName { region: region.to_owned(), offset }
    }

    #[test]
    fn pages_are_found_by_region_and_offset() {
        let mappings = Mappings::parse(MAPS, "");
        let at = |region: &str, offset| mappings.address(&page(region, offset));
        assert_eq!(
            (at("job", 0), at("job", 1), at("job", 3)),
            (Some(0x400000), Some(0x401000), Some(0x403000))
        );
        assert_eq!((at("job:data", 4), at("job", 4)), (Some(0x404000), None));
        assert_eq!(
            (at("job:bss", 0), at("job:bss", 3), at("job:bss", 4)),
            (Some(0x405000), Some(0x408000), None)
        );
        assert_eq!((at("heap", 0), at("heap", 0x21)), (Some(0xa00000), None));
        assert_eq!((at("stack", 0), at("stack", 0x21)), (Some(0x7fff_fff2_0000), None));
        for region in ["mmap#0", "other", "", "other:bss"] {
            assert_eq!(at(region, 0), None, "{region}");
        }
        assert_eq!((at("heap", u64::MAX), at("stack", u64::MAX >> 12)), (None, None));
        assert_eq!(Mappings::parse("noise\n1-\n", "noise"), Mappings::default());
    }

    /// Page 2 of the file is mapped twice: as constants, and as data that the loader has locked.
    #[test]
    fn data_that_the_loader_made_read_only_is_data() {
        let maps = "\
            400000-403000 r--p 00000000 08:01 5 /opt/job\n\
            404000-405000 r--p 00002000 08:01 5 /opt/job\n\
            405000-406000 rw-p 00003000 08:01 5 /opt/job\n";
        let mappings = Mappings::parse(maps, "");
        let at = |region: &str, offset| mappings.address(&page(region, offset));
        assert_eq!((at("job", 2), at("job:data", 2)), (Some(0x402000), Some(0x404000)));
        assert_eq!((at("job:data", 3), at("job:data", 4)), (Some(0x405000), None));
    }

    /// A program in its colours has no heap when its pages are asked for.
    #[test]
    fn the_heap_is_known_before_it_is_mapped() {
        let (field_3_to_46, start) = ("0 ".repeat(44), 0xa0_0010);
        let stat = format!("5 (a b) c) {field_3_to_46}{start} 9 9");
        let mappings = Mappings::parse("", &stat);
        assert_eq!(mappings.place(&page("heap", 2)), Some(0xa0_3000));
        assert_eq!(mappings.address(&page("heap", 2)), None);
        // A heap that is mapped counts more.
        assert_eq!(Mappings::parse(MAPS, &stat).place(&page("heap", 0)), Some(0xa0_0000));
        let me = Mappings::of(std::process::id()).unwrap();
        assert!(me.heap.is_some_and(|start| start.is_multiple_of(PAGE)));
    }

    #[test]
    fn numbered_mappings_have_numbers() {
        assert_eq!(
            ["mmap#3", "mmap#", "anon#3", "heap"].map(mapping_number),
            [Some(3), None, None, None]
        );
    }
}
