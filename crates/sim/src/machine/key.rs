//! Line keys: a physical line number with how its page is treated above it.
//!
//! Because the kind is part of the key, every cache hands it back with the lines it evicts, and
//! nothing is looked up. The low bits are those of the line number, so sets are chosen as by a
//! physical address.

use crate::program::PageKind;

/// Flag in a page's key: the frame has other users, too, and its accesses are made in the order of
/// time.
pub(super) const ORDERED: u64 = 1 << 63;
/// Flag in a page's key: its accesses take the slow path (ordered, or past the private caches).
/// Keys are below it.
pub(super) const DIRECT_KIND: u64 = 1 << 62;

/// Packs and unpacks keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    shift: u32,
}

impl Kinds {
    /// Line numbers have `line_bits` bits.
    pub fn new(line_bits: u32) -> Self {
        Self { shift: line_bits }
    }

    pub fn key(self, line: u64, kind: PageKind) -> u64 {
        let kind = match kind {
            PageKind::Cached => 0,
            PageKind::Locked => 1,
            PageKind::Bypass => 2,
            PageKind::Uncached => 3,
        };
        kind << self.shift | line
    }

    #[inline]
    pub fn line(self, key: u64) -> u64 {
        key & ((1 << self.shift) - 1)
    }

    #[inline]
    pub fn kind(self, key: u64) -> PageKind {
        match key >> self.shift {
            0 => PageKind::Cached,
            1 => PageKind::Locked,
            2 => PageKind::Bypass,
            _ => PageKind::Uncached,
        }
    }

    #[inline]
    pub fn is_uncached(self, key: u64) -> bool {
        key >> self.shift == 3
    }
}
