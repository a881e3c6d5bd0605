//! Kinds of enemies.

use clap::ValueEnum;
use solocore_buffers::caches;

/// A kind of enemy. Each loads another part of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Enemy {
    /// Read in order; this loads the bandwidth of the memory.
    Read,
    /// Write in order; this causes reads and write-backs.
    #[default]
    Write,
    /// Read as much as the shared cache holds; other programs lose their lines there.
    Cache,
    /// Write at random; this opens other rows in all banks.
    Rows,
    /// Write one line of each page, at random; this loads the TLBs and page tables.
    Tlb,
    /// Write lines of one bank (root, and --map).
    Bank,
}

impl Enemy {
    /// Name of the kind in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Cache => "cache",
            Self::Rows => "rows",
            Self::Tlb => "tlb",
            Self::Bank => "bank",
        }
    }

    /// Access and order, as options of `solocore bench bandwidth`.
    pub const fn way(self) -> (&'static str, &'static str) {
        match self {
            Self::Read | Self::Cache => ("read", "lines"),
            Self::Write => ("write", "lines"),
            Self::Rows => ("write", "random"),
            Self::Tlb => ("write", "pages"),
            Self::Bank => ("write", "bank"),
        }
    }

    /// Memory of an enemy of this kind, in bytes: `bytes`, but for [`Enemy::Cache`] at most the
    /// shared cache.
    pub fn bytes(self, bytes: u64) -> u64 {
        let shared = caches::here().shared_bytes;
        if self == Self::Cache && shared > 0 { shared.min(bytes) } else { bytes }
    }
}
