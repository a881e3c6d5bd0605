//! Page walks: a translation buffer of the board's own, and the reads of page tables that its
//! misses make.
//!
//! Rule: the buffer holds 1536 pages of 4 KiB or 2 MiB, in sets of [`WAYS`], least recently used
//! first out. A miss reads the entry of the last level, and the levels above it with a line that
//! was not among the last [`UPPER`] read by a walk (the paging-structure caches). Entries are read
//! from the guest's memory at their physical addresses, so they compete for the caches like all
//! other data. The buffer is emptied when the guest writes CR3 or invalidates a page.
//! Assumed sizes: a second-level buffer of 1536 entries, as in the cores of about 2015 to 2020; the
//! first level is not modelled.
//! Not covered: global pages that outlive a write of CR3, 1 GiB pages apart (they count as 2 MiB),
//! five levels, nested tables.

use crate::qemu::Regs;
use solocore_cache::translation::{PageKey, TranslationBuffer};

const WAYS: usize = 12;
const SETS: usize = 128;
/// Number of remembered entries of upper levels.
const UPPER: usize = 32;
const NONE: u64 = u64::MAX;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
/// Upper limit of physical memory.
const MEMORY: u64 = 1 << 40;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// A core's buffer.
#[derive(Clone, Debug)]
pub struct Walker {
    /// Pages of 4 KiB, and of 2 MiB as the larger size.
    buffer: TranslationBuffer,
    upper: [u64; UPPER],
    next_upper: usize,
    /// The last page, which is compared first.
    last: u64,
    /// CR3, if it is known.
    root: Option<u64>,
}

impl Default for Walker {
    fn default() -> Self {
        Self {
            buffer: TranslationBuffer::new(SETS, WAYS),
            upper: [NONE; UPPER],
            next_upper: 0,
            last: NONE,
            root: None,
        }
    }
}

impl Walker {
    /// Empties the buffer.
    pub fn forget(&mut self) {
        let root = self.root;
        *self = Self { root, ..Self::default() };
    }

    /// Sets the page tables' root. Without one there are no walks.
    pub fn set_root(&mut self, cr3: u64) {
        self.root = Some(cr3);
    }

    /// Whether the root is unknown.
    pub fn needs_root(&self) -> bool {
        self.root.is_none()
    }

    /// The physical addresses of the entries that a reference must read; `None` if the buffer has
    /// its page.
    #[inline]
    pub fn walk(&mut self, vaddr: u64, regs: &Regs) -> Option<[Option<u64>; 4]> {
        if vaddr >> 12 == self.last {
            return None;
        }
        self.look(vaddr, |at| regs.physical(at, 8))
    }

    fn look(&mut self, vaddr: u64, read: impl Fn(u64) -> u64) -> Option<[Option<u64>; 4]> {
        // Without paging the firmware leaves 0 here.
        let root = self.root.filter(|&r| r & ADDRESS != 0)?;
        self.last = vaddr >> 12;
        let (small, large) = (PageKey::small(vaddr >> 12), PageKey::large(vaddr >> 21));
        if self.buffer.hit(small) || self.buffer.hit(large) {
            return None;
        }
        let mut table = root & ADDRESS;
        let mut entries = [None; 4];
        for level in (0..4).rev() {
            let at = table + (vaddr >> (12 + 9 * level) & 511) * 8;
            let entry = read(at);
            let last = level == 0 || entry & LARGE != 0 && level < 3;
            if last || !self.remembers(at) {
                entries[level] = Some(at);
            }
            if entry & PRESENT == 0 {
                break;
            }
            if last {
                self.buffer.insert(if level == 0 { small } else { large });
                break;
            }
            table = entry & ADDRESS;
            if table >= MEMORY {
                // No memory lies there: these are not page tables.
                return None;
            }
        }
        entries.reverse();
        Some(entries)
    }

    fn remembers(&mut self, at: u64) -> bool {
        if self.upper.contains(&at) {
            return true;
        }
        self.upper[self.next_upper] = at;
        self.next_upper = (self.next_upper + 1) % UPPER;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_page_tables_nothing_is_walked() {
        let mut w = Walker::default();
        w.set_root(0);
        assert_eq!(w.look(0x1000, |_| u64::MAX), None);
        w.set_root(0x1000);
        assert_eq!(w.look(0x2000, |_| 0x000f_ffff_0000_0001), None);
    }

    #[test]
    fn a_walk_reads_what_it_does_not_remember() {
        // Tables at 0x1000, 0x2000, 0x3000, 0x4000; the second entry of the third level is a large
        // page.
        let read = |at: u64| match at {
            0x1000 => 0x2000 | 1,
            0x2000 => 0x3000 | 1,
            0x3000 => 0x4000 | 1,
            0x3008 => 0x20_0000 | LARGE | 1,
            0x4000..0x5000 => 0x10_0000 | 1,
            _ => 0,
        };
        let mut w = Walker::default();
        assert_eq!(w.look(0, read), None);
        w.set_root(0x1000);
        let mut look = |vaddr| w.look(vaddr, read);
        assert_eq!(look(0), Some([Some(0x1000), Some(0x2000), Some(0x3000), Some(0x4000)]));
        assert_eq!(look(8), None);
        assert_eq!(look(0x5000), Some([None, None, None, Some(0x4028)]));
        assert_eq!(look(0x20_1000), Some([None, None, Some(0x3008), None]));
        assert_eq!(look(0x3f_f000), None);
        assert_eq!(look(0), None);
    }
}
