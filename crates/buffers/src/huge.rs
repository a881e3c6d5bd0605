//! Memory in huge pages, where the machine gives some.
//!
//! Problem: a walk through many small pages measures translations as well; and only within a page
//! are a program's address bits those of the memory. Rule: pages that were set aside (MAP_HUGETLB)
//! come first. Then ordinary memory is advised to be huge (MADV_HUGEPAGE), and /proc/self/smaps
//! says whether it is. Otherwise the pages are small, and the caller is told. Source: Linux,
//! Documentation/admin-guide/mm/hugetlbpage.rst and transhuge.rst. Does not cover: a hypervisor's
//! pages under a guest's huge page.

use crate::{BufferError, HUGE, Mapping, PAGE};

/// Kind of the pages under a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Huge pages that were reserved.
    Reserved,
    /// Huge pages by advice, all of them.
    Transparent,
    /// Ordinary pages.
    Small,
}

impl Backing {
    /// Bytes of a page.
    #[must_use]
    pub fn page(self) -> usize {
        if self == Self::Small { PAGE } else { HUGE }
    }
}

/// `bytes` bytes, rounded up to whole huge pages, and the kind of the pages.
///
/// # Errors
/// There is not enough memory.
pub fn memory(bytes: usize) -> Result<(Mapping, Backing), BufferError> {
    if let Ok(mapping) = Mapping::huge(bytes) {
        return Ok((mapping, Backing::Reserved));
    }
    let mapping = Mapping::advised(bytes)?;
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let huge = huge_bytes(&smaps, mapping.as_ptr().addr());
    let backing = if huge >= mapping.len() { Backing::Transparent } else { Backing::Small };
    Ok((mapping, backing))
}

/// Bytes in huge pages of the mapping that contains an address, according to smaps.
fn huge_bytes(smaps: &str, address: usize) -> usize {
    let mut inside = false;
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|r| r.split_once('-'));
        let ends = range.and_then(|(a, b)| {
            Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
        });
        if let Some((start, end)) = ends {
            inside = (start..end).contains(&address);
        }
        let kib = line.strip_prefix("AnonHugePages:").filter(|_| inside);
        if let Some(kib) = kib.and_then(|t| t.trim().strip_suffix("kB")?.trim().parse().ok()) {
            let kib: usize = kib;
            return kib.saturating_mul(1024);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_huge_pages_and_says_what_it_is() {
        let (memory, backing) = memory(HUGE + 1).unwrap();
        assert_eq!((memory.len(), memory.as_ptr().addr() % backing.page()), (2 * HUGE, 0));
        assert!(memory.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn smaps_tells_of_the_mapping_that_is_asked_for() {
        let smaps = "1000-3000 rw-p 0 00:00 0\nAnonHugePages:      4096 kB\n\
            4000-9000 rw-p 0 00:00 0\nRss: 9 kB\nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_bytes(smaps, 0x5000), 2 << 20);
        assert_eq!(huge_bytes(smaps, 0x2000), 4 << 20);
        assert_eq!(huge_bytes(smaps, 0x3000), 0);
    }
}
